"""Event files that are written: on a disk, or through TensorBoard's file systems for a URL."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import socket
import time
from typing import Any, Protocol

_count = itertools.count()  # files of this process; `next` of it is atomic


class EventFile(Protocol):
    """A file that grows by whole records."""

    def write(self, data: bytes) -> None:
        """Appends `data` and hands it to the operating system. Raises what the file system raises."""

    def is_there(self) -> bool:
        """Tells whether the file is still where it was made."""

    def give_up(self) -> None:
        """Closes the file after an error, without what the failed write may have left at its end."""

    def close(self) -> None:
        """Closes the file."""


def new_event_file(directory: str) -> EventFile:
    """Makes `directory` where it is missing and a new event file in it. Raises OSError."""
    return _RemoteFile(directory) if "://" in directory else _LocalFile(directory)


def _file_name() -> str:
    host = socket.gethostname().replace("/", "_")
    return f"events.out.tfevents.{int(time.time()):010d}.{host}.{os.getpid()}.{next(_count)}"


class _LocalFile:
    def __init__(self, directory: str) -> None:
        os.makedirs(directory, exist_ok=True)
        while True:
            self._path = os.path.join(directory, _file_name())
            # Two containers may agree in host name, process and second: a file is one writer's alone.
            with contextlib.suppress(FileExistsError):
                self._file = open(self._path, "xb", buffering=0)  # noqa: SIM115
                break
        self._sound = 0

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            # A disk that is nearly full takes a part, and fails the next time.
            rest = rest[self._file.write(rest) or 0 :]
        self._sound += len(data)

    def is_there(self) -> bool:
        # A deleted file takes writes without a word.
        try:
            found, own = os.stat(self._path), os.fstat(self._file.fileno())
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno == errno.ESTALE:
                return False
            raise
        return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)

    def give_up(self) -> None:
        with contextlib.suppress(OSError):
            if self._sound:
                os.ftruncate(self._file.fileno(), self._sound)
            elif self.is_there():
                os.remove(self._path)
        with contextlib.suppress(OSError):
            self._file.close()

    def close(self) -> None:
        self._file.close()


class _RemoteFile:
    def __init__(self, directory: str) -> None:
        from tensorboard.compat import tf  # TensorFlow's, where that is installed

        tf.io.gfile.makedirs(directory)
        self._file: Any = tf.io.gfile.GFile(f"{directory.rstrip('/')}/{_file_name()}", "wb")

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._file.flush()

    def is_there(self) -> bool:
        return True  # asking costs a request, and an object store keeps what it has

    def give_up(self) -> None:
        with contextlib.suppress(Exception):
            self._file.close()

    def close(self) -> None:
        self._file.close()
