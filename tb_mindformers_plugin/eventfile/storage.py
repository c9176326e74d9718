"""Where event files lie: on a disk, or behind a URL that fsspec reads.

fsspec is imported when a URL is first looked at, never for a local path.
"""

from __future__ import annotations

import concurrent.futures
import datetime
import errno
import functools
import importlib
import os
import re
import stat as stat_bits
import threading
import time
from types import TracebackType
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Protocol, Set, Tuple, Type, TypeVar

_T = TypeVar("_T")
# Directory -> path of a wanted file -> what a listing says of it (None: not its size).
_Tree = Dict[str, Dict[str, Optional["Stat"]]]

# Chained URLs are those of fsspec: simplecache::s3://bucket/logs.
_URL = re.compile(r"(?:[a-zA-Z][\w.+-]*::)*([a-zA-Z][\w.+-]*)://")
_LOCAL_SCHEMES = ("file", "local")

# A server that has not answered by then is said to be away; what waits for it goes on.
_PATIENCE_SECONDS = 30.0
# While a call is overdue, the next ones are not waited for as long: a listing of a hundred runs, and
# TensorBoard's own page, must not hang on each in turn.
_SHORT_PATIENCE_SECONDS = 2.0
# Calls to one server at a time. Those that never return count, so they cannot pile up.
_MOST_CALLS = 8
# A listing tells the size of each file. For so long no server is asked for a single one again.
_LISTING_SECONDS = 10.0

# What fsspec's file systems call a file's version and the time of its last change.
_VERSION_KEYS = ("ETag", "etag", "generation", "LastModified", "last_modified", "mtime", "updated")
_TIME_KEYS = ("LastModified", "last_modified", "mtime", "updated", "modificationTime", "created")

# The package that gives fsspec a protocol, and whether its version is fsspec's (they pin each other).
_PACKAGES = {
    **dict.fromkeys(("s3", "s3a"), ("s3fs", True)),
    **dict.fromkeys(("gs", "gcs"), ("gcsfs", True)),
    **dict.fromkeys(("abfs", "abfss", "az", "adl"), ("adlfs", False)),
    **dict.fromkeys(("hdfs", "arrow_hdfs"), ("pyarrow", False)),
    **dict.fromkeys(("webhdfs", "webHDFS"), ("requests", False)),
    **dict.fromkeys(("http", "https"), ("aiohttp", False)),
    **dict.fromkeys(("sftp", "ssh"), ("paramiko", False)),
    "oss": ("ossfs", False),
}

# What is asked of s3fs unless fsspec's configuration says otherwise. Others have no such options, or
# hand them on to a client that does not know them.
_S3_OPTIONS: Mapping[str, object] = {
    "use_listings_cache": False,
    "config_kwargs": {"connect_timeout": 5, "read_timeout": 20, "retries": {"max_attempts": 2}},
}


class Stat(NamedTuple):
    """What a storage tells of a file.

    Attributes:
      identity: stays as long as it is the same file, however it grows; empty where the storage has no
        such thing (an object of S3 is a new one with each write).
      size: bytes.
      version: differs after a change, where the storage can tell; else None.
      modified: seconds since the Unix epoch; 0 where that is not known.
    """

    identity: Tuple[int, ...]
    size: int
    version: object
    modified: float


class Directory(NamedTuple):
    """What a listing tells of a directory.

    Attributes:
      identity: the same for the same directory, by whatever path; empty where there are no links.
      directories: paths of directories to look into next, ascending.
      files: paths of the wanted files, ascending.
      problem: what is wrong with the listing though there is one, or empty.
    """

    identity: Tuple[int, ...]
    directories: List[str]
    files: List[str]
    problem: str = ""


class OpenFile(Protocol):
    """A file that is read. A context manager."""

    stat: Stat

    def read(self, start: int, stop: int) -> bytes:
        """Returns the bytes from `start` to before `stop`; fewer where the file ends. Raises OSError."""

    def read_into(self, target: memoryview) -> int:
        """Fills `target` with the file's first bytes; returns how many there were. Raises OSError."""

    def __enter__(self) -> OpenFile: ...

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None: ...


class Storage(Protocol):
    """A place that holds files. What goes wrong there is an OSError, whatever it was before."""

    def listing(self, top: str, wanted: Callable[[str], bool]) -> Callable[[str], Directory]:
        """Returns what lists `top`, and then the directories that it names.

        Args:
          top: a directory.
          wanted: whether a file of this name is.
        """

    def stat(self, path: str) -> Stat:
        """Returns what is known of a file. Raises OSError."""

    def open(self, path: str) -> OpenFile:
        """Opens a file for reading. Raises OSError."""


def locate(path: str) -> Tuple[Storage, str]:
    """Returns the storage of a path or URL, and what the file is called there."""
    url = _URL.match(path)
    if url is None:
        return _LOCAL, path
    if url[1] in _LOCAL_SCHEMES:
        return _LOCAL, path[url.end() :]
    authority, _, _ = path[url.end() :].partition("/")
    return _remote(path[: url.end()] + authority), path


def is_remote(path: str) -> bool:
    """Whether `path` is the URL of something that is not on a disk of this machine."""
    url = _URL.match(path)
    return url is not None and url[1] not in _LOCAL_SCHEMES


def stat(path: str) -> Stat:
    """Returns what is known of a file, wherever it lies. Raises OSError."""
    storage, path = locate(path)
    return storage.stat(path)


class _LocalFile:
    __slots__ = ("_file", "stat")

    def __init__(self, path: str) -> None:
        # Read, not mapped: a mapped file that is cut short by its writer kills the process with SIGBUS.
        # Opening a pipe would wait for its writer, without end.
        self._file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115  # closed by __exit__
        found = os.fstat(self._file.fileno())
        if not stat_bits.S_ISREG(found.st_mode):
            self._file.close()
            raise OSError(errno.EINVAL, "not a regular file", path)
        self.stat = _local_stat(found)

    def read(self, start: int, stop: int) -> bytes:
        self._file.seek(start)
        return self._file.read(stop - start)

    def read_into(self, target: memoryview) -> int:
        return self._file.readinto(target)

    def __enter__(self) -> _LocalFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


class _LocalStorage:
    def listing(self, top: str, wanted: Callable[[str], bool]) -> Callable[[str], Directory]:
        return functools.partial(_local_directory, wanted)

    def stat(self, path: str) -> Stat:
        return _local_stat(os.stat(path))

    def open(self, path: str) -> _LocalFile:
        return _LocalFile(path)


def _local_stat(found: os.stat_result) -> Stat:
    return Stat((found.st_dev, found.st_ino), found.st_size, found.st_mtime_ns, found.st_mtime)


def _local_directory(wanted: Callable[[str], bool], directory: str) -> Directory:
    found = os.stat(directory)
    directories, files = [], []
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        if _is_directory(entry):
            directories.append(entry.path)
        elif wanted(entry.name):
            files.append(entry.path)
    return Directory((found.st_dev, found.st_ino), directories, files)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


class _RemoteFile:
    __slots__ = ("_path", "_storage", "stat")

    def __init__(self, storage: _RemoteStorage, path: str) -> None:
        self._storage = storage
        self._path = path
        self.stat = storage.stat(path)

    def read(self, start: int, stop: int) -> bytes:
        return self._storage.read(self._path, start, stop) if start < stop else b""

    def read_into(self, target: memoryview) -> int:
        data = self.read(0, len(target))
        target[: len(data)] = data
        return len(data)

    def __enter__(self) -> _RemoteFile:
        return self

    def __exit__(self, *_: object) -> None:
        return


class _RemoteStorage:
    """What one server (or bucket) holds. A refresh costs one listing and the bytes that are new.

    What a listing says of a file holds for `_LISTING_SECONDS`. Where a listing fails and there was one
    before, that one goes on to hold: a network that is away for a moment must not empty the tab.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls = threading.Semaphore(_MOST_CALLS)
        self._overdue: Set[concurrent.futures.Future[Any]] = set()
        self._trees: Dict[str, _Tree] = {}
        self._known: Dict[str, Tuple[float, Stat]] = {}

    def listing(self, top: str, wanted: Callable[[str], bool]) -> Callable[[str], Directory]:
        tree: _Tree = {}

        def directory(path: str) -> Directory:
            if path != top:
                return Directory((), [], sorted(tree[path]))
            found, problem = self._tree(top, wanted)
            tree.update(found)
            return Directory((), sorted(tree.keys() - {top}), sorted(tree.get(top, ())), problem)

        return directory

    def stat(self, path: str) -> Stat:
        asked = time.monotonic()
        known = self._known.get(path)
        if known is not None and asked - known[0] <= _LISTING_SECONDS:
            return known[1]
        found = _remote_stat(self._ask(functools.partial(_info, path)))
        if found is None:
            raise OSError("its size is not known")
        with self._lock:
            self._learn(path, asked, found)
        return found

    def open(self, path: str) -> _RemoteFile:
        return _RemoteFile(self, path)

    def read(self, path: str, start: int, stop: int) -> bytes:
        return self._ask(functools.partial(_cat, path, start, stop))

    def _learn(self, path: str, asked: float, found: Stat) -> None:
        # An answer to an older question must not make a file shrink.
        known = self._known.get(path)
        if known is None or known[0] <= asked:
            self._known[path] = asked, found

    def _tree(self, top: str, wanted: Callable[[str], bool]) -> Tuple[_Tree, str]:
        """Returns what is below `top`, and what is wrong with that."""
        asked = time.monotonic()
        try:
            tree = self._ask(functools.partial(_find, top, wanted))
        except FileNotFoundError:
            raise
        except OSError as error:
            with self._lock:
                if top not in self._trees:
                    raise
                tree = self._trees[top]
                for path in _paths(tree):
                    if path in self._known:
                        self._known[path] = asked, self._known[path][1]
            return tree, f"cannot be listed now ({error.strerror or error}); this is what it held before"
        with self._lock:
            for path in _paths(self._trees.get(top, {})).keys() - _paths(tree).keys():
                self._known.pop(path, None)
            self._trees[top] = tree
            for path, found in _paths(tree).items():
                if found is not None:
                    self._learn(path, asked, found)
        return tree, ""

    def _ask(self, call: Callable[[], _T]) -> _T:
        """Calls on a thread of its own, for a bounded time: not every client of fsspec has timeouts."""
        patience = min(_PATIENCE_SECONDS, _SHORT_PATIENCE_SECONDS) if self._overdue else _PATIENCE_SECONDS
        late = TimeoutError(errno.ETIMEDOUT, f"no answer within {_PATIENCE_SECONDS:g} seconds")
        if not self._calls.acquire(timeout=patience):
            raise late
        answer: concurrent.futures.Future[_T] = concurrent.futures.Future()

        def run() -> None:
            try:
                result = call()
            except BaseException as error:
                answer.set_exception(error)
            else:
                answer.set_result(result)
            finally:
                with self._lock:
                    self._overdue.discard(answer)
                self._calls.release()

        threading.Thread(target=run, name="training-health-remote", daemon=True).start()
        try:
            return answer.result(patience)
        except concurrent.futures.TimeoutError:
            with self._lock:
                if not answer.done():
                    self._overdue.add(answer)
            raise late from None
        except OSError:
            raise
        except Exception as error:  # each client has exceptions of its own
            raise OSError(str(error) or type(error).__name__) from error


_LOCAL = _LocalStorage()


@functools.cache
def _remote(place: str) -> _RemoteStorage:
    return _RemoteStorage()


def _paths(tree: _Tree) -> Dict[str, Optional[Stat]]:
    return {path: found for files in tree.values() for path, found in files.items()}


def _open_file_system(url: str) -> Tuple[Any, str]:
    """Returns fsspec's file system of `url`, and what the path is called there. Raises OSError."""
    match = _URL.match(url)
    assert match is not None
    protocol = match[1]
    package, same_version = _PACKAGES.get(protocol, ("", False))
    try:
        fsspec = importlib.import_module("fsspec")
    except ImportError:
        wanted = ["fsspec", package] if package else ["fsspec"]
        raise OSError(f"{protocol}:// needs {' and '.join(wanted)}: pip install {' '.join(wanted)}") from None
    options: Dict[str, Any] = {}
    if package == "s3fs":
        configured = {name for key in ("s3", "s3a") for name in fsspec.config.conf.get(key, ())}
        options = {name: value for name, value in _S3_OPTIONS.items() if name not in configured}
        if match.start(1) > 0:
            options = {protocol: options}  # in a chain each protocol has its own
    try:
        found: Tuple[Any, str] = importlib.import_module("fsspec.core").url_to_fs(url, **options)
        return found
    except ImportError as error:
        if not package:
            raise OSError(f"{protocol}:// needs another package: {error}") from error
        # The newest would take a newer fsspec with it, which others may have pinned.
        version = f"=={fsspec.__version__}" if same_version else ""
        raise OSError(f"{protocol}:// needs {package}: pip install {package}{version}") from error
    except ValueError as error:
        raise OSError(f"{protocol}:// is nothing that fsspec {fsspec.__version__} reads: {error}") from error


def _info(path: str) -> Mapping[str, Any]:
    files, name = _open_file_system(path)
    files.invalidate_cache()
    try:
        info: Mapping[str, Any] = files.info(name)
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
    return info


def _cat(path: str, start: int, stop: int) -> bytes:
    files, name = _open_file_system(path)
    data: bytes = files.cat_file(name, start=start, end=stop)
    return data


def _find(top: str, wanted: Callable[[str], bool]) -> _Tree:
    """Lists all that is below `top` at once: an object store has no cheaper way.

    Raises:
      OSError: there is no such directory, or it cannot be listed.
    """
    files, name = _open_file_system(top)
    files.invalidate_cache()
    found: Mapping[str, Mapping[str, Any]] = files.find(name, detail=True)
    above = name.rstrip("/")
    if not found and not files.isdir(name):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), top)
    if list(found) == [above] and found[above].get("type") == "file":
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), top)
    prefix = top if top.endswith("://") else top.rstrip("/") + "/"
    tree: _Tree = {top: {}}
    for path, info in found.items():
        inside = path[len(above) + 1 :]
        # An object store may hold an empty object for a directory.
        directory, _, file = inside.rpartition("/")
        entries = tree.setdefault(prefix + directory if directory else top, {})
        if file and info.get("type") == "file" and wanted(file):
            entries[prefix + inside] = _remote_stat(info)
    return tree


def _remote_stat(info: Mapping[str, Any]) -> Optional[Stat]:
    size = info.get("size")
    if not isinstance(size, int):
        return None
    version = tuple(str(info[key]) for key in _VERSION_KEYS if info.get(key) is not None)
    times = (_seconds(info[key]) for key in _TIME_KEYS if info.get(key) is not None)
    return Stat((), size, version, next((seconds for seconds in times if seconds), 0.0))


def _seconds(at: object) -> float:
    if isinstance(at, datetime.datetime):
        return at.timestamp()
    if isinstance(at, (int, float)):
        return float(at) / 1000 if at > 1e11 else float(at)  # HDFS counts milliseconds
    try:
        return datetime.datetime.fromisoformat(str(at).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0
