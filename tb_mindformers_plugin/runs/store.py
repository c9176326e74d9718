"""The runs of a logdir: kept up to date, and within a bound of memory."""

from __future__ import annotations

import collections
import concurrent.futures
import os
import sys
import threading
import time
from typing import Iterable, Iterator, Mapping, Optional, Protocol

from tb_mindformers_plugin import metadata
from tb_mindformers_plugin.eventfile import storage
from tb_mindformers_plugin.eventfile.peek import peek
from tb_mindformers_plugin.roles import resolve
from tb_mindformers_plugin.runs.contents import RunContents
from tb_mindformers_plugin.runs.discovery import Discovery, Root, discover, roots
from tb_mindformers_plugin.runs.run import Run, State, read_together, size_of
from tb_mindformers_plugin.runs.summary import RunSummary

DEFAULT_MEMORY = 2 * 2**30

# A listing reads runs as a whole while they are no more than this in all, the newest first; into the
# rest it peeks. Small logdirs are exact at once, large ones are listed fast.
_LISTING_BYTES = 16 * 2**20
# What is read for a listing is brought within the bound of memory each time that it is this part of it.
_PARTS = 8


class Store(Protocol):
    """What the routes and the command line ask of runs, wherever those come from."""

    @property
    def searched(self) -> tuple[Root, ...]:
        """Where runs are looked for."""

    @property
    def discovery(self) -> Discovery:
        """What the last look found."""

    @property
    def runs(self) -> Mapping[str, HasFiles]:
        """Run name -> run, as of the last `refresh`."""

    def refresh(self, max_age_seconds: float = 0.0) -> None:
        """Looks for what is new, unless that was done no longer ago than `max_age_seconds`."""

    def summaries(self, read_all: bool = False) -> list[RunSummary]:
        """Returns what a listing says of each run, in the order of their names."""

    def load(self, names: Iterable[str]) -> dict[str, RunContents]:
        """Returns all that is known of the named runs. Raises KeyError for one that is not."""

    def glance(self, name: str) -> tuple[RunContents, bool]:
        """Returns what a listing knows of a run, and whether that is all of it. Raises KeyError for an unknown one."""

    def is_active(self) -> bool:
        """Whether any run has a series with a known role, or a manifest."""


class HasFiles(Protocol):
    """What a listing asks of a run beside its summary."""

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of its event files."""


class RunStore:
    """Runs by name, read when asked for. Its methods may be called from several threads.

    Args:
      searched: where to look for runs.
      memory: bytes of columns to keep; past it the runs that were not used for longest are dropped,
        and read again when asked for.
    """

    def __init__(self, searched: tuple[Root, ...], memory: int = DEFAULT_MEMORY) -> None:
        self.searched = searched
        self.memory = memory
        self._lock = threading.Lock()
        self._runs: dict[str, Run] = {}
        self._discovery = Discovery({}, 0, ())
        self._refreshed: Optional[float] = None
        self._active = False
        self._remote = any(storage.is_remote(root.path) for root in searched)
        # Name -> bytes, of the runs in memory, that used last at the end. Adding up what each holds takes a while,
        # and a listing of a thousand runs loads them one by one.
        self._used: collections.OrderedDict[str, int] = collections.OrderedDict()
        # numpy lets go of the interpreter in its loops, so two runs are read in little more than the time of one.
        self._workers = min(4, os.cpu_count() or 1)
        self._readers = concurrent.futures.ThreadPoolExecutor(self._workers, thread_name_prefix="training-health")

    def refresh(self, max_age_seconds: float = 0.0) -> None:
        """Looks for runs and files that are new or gone; reads none of them.

        Args:
          max_age_seconds: do nothing where the last look is no older than this.
        """
        with self._lock:
            if self._refreshed is not None and time.monotonic() - self._refreshed <= max_age_seconds:
                return
            self._discovery = discover(self.searched)
            known = {name: self._runs.get(name) or Run(name) for name in self._discovery.runs}
            for name, run in known.items():
                run.update(self._discovery.runs[name])
            self._runs = known
            self._used = collections.OrderedDict((name, size) for name, size in self._used.items() if name in known)
            self._refreshed = time.monotonic()

    @property
    def discovery(self) -> Discovery:
        """What the last look found."""
        return self._discovery

    @property
    def runs(self) -> dict[str, Run]:
        """Run name -> run, sorted by name, as of the last `refresh`."""
        return self._runs

    def summaries(self, read_all: bool = False) -> list[RunSummary]:
        """Returns what a listing says of each run, in the order of their names.

        Args:
          read_all: read every run for it.
        """
        return list(self._summarised(sys.maxsize if read_all else _LISTING_BYTES))

    def _summarised(self, most: int) -> Iterator[RunSummary]:
        """Yields the summaries; reads of the newest runs so many bytes as a whole, and keeps to the bound of memory."""
        runs = self._runs
        states = {name: run.state() for name, run in runs.items()}
        read = set()
        for name in sorted(runs, key=lambda name: _newest(states[name]), reverse=True):
            size = size_of(states[name])
            if size <= most:
                most -= size
                read.add(name)
        look = self._readers.map if self._remote else map
        used: list[str] = []
        held = 0
        try:
            for name, summary in zip(runs, look(lambda name: runs[name].summary(name in read, states[name]), runs)):
                # One that a look at its ends did not tell enough about was read as well.
                if name in read or (runs[name].nbytes and name not in self._used):
                    used.append(name)
                    held += runs[name].nbytes
                if held > self.memory / _PARTS:
                    self._keep(used)
                    used, held = [], 0
                yield summary
        finally:
            # A look at runs that were read before has read what they gained.
            self._keep(used, grown=runs)

    def load(self, names: Iterable[str]) -> dict[str, RunContents]:
        """Returns all that the named runs hold by now.

        Raises:
          KeyError: a run is unknown.
        """
        runs = {name: self._runs[name] for name in names}
        fresh = [run for run in runs.values() if not run.nbytes]
        if self._remote:
            list(self._readers.map(Run.contents, fresh))  # it is the waiting that is shared
        elif len(fresh) > 1:
            # Side by side in as many parts as there are cores, each large enough for numpy to have much to do at
            # a time: runs one by one would only get in each other's way.
            parts = [fresh[i :: self._workers] for i in range(self._workers)]
            list(self._readers.map(read_together, filter(None, parts)))
        contents = {name: run.contents() for name, run in runs.items()}
        self._keep(runs)
        return contents

    def glance(self, name: str) -> tuple[RunContents, bool]:
        """Returns what a look that reads as little as a listing does finds of a run, and whether that is all of it.

        Raises:
          KeyError: the run is unknown.
        """
        contents, whole = self._runs[name].glance()
        if whole:
            self._keep([name])
        return contents, whole

    def _keep(self, names: Iterable[str], grown: Iterable[str] = ()) -> None:
        """Takes note that runs were used, and drops others while there is too much in memory.

        Args:
          names: of those that were used.
          grown: names of runs that take more than before if they are in memory.
        """
        with self._lock:
            for name in names:
                self._used[name] = self._runs[name].nbytes if name in self._runs else 0
                self._used.move_to_end(name)
            for name in grown:
                if name in self._used and name in self._runs:
                    self._used[name] = self._runs[name].nbytes
            total = sum(self._used.values())
            for name, size in list(self._used.items()):
                if total <= self.memory:
                    break
                # What is shown at this moment goes last, but it goes: the bound holds for one large
                # request as well (an answer that is being made keeps its own columns until it is done).
                if name in self._runs and not self._runs[name].drop():
                    continue  # whoever looks at it right now comes by here as well
                total -= size
                del self._used[name]

    def is_active(self) -> bool:
        """Whether any run has a series with a known role, or a manifest.

        TensorBoard asks at each page load, so this looks at the ends of files first, and only until one
        of them answers. Runs that keep silent there (behind a large graph) are read, once.
        """
        if not self._active:
            self.refresh()
            runs = list(self._runs.values())
            self._active = any(_has_metrics(path) for run in runs for path in run.files) or any(
                summary.roles or summary.has_manifest for summary in self._summarised(0)
            )
        return self._active


def _newest(state: State) -> float:
    return max((stat.modified for _, stat in state if stat), default=0.0)


def _has_metrics(path: str) -> bool:
    try:
        chunk, _ = peek(path)
    except OSError:
        return False
    return bool(resolve(chunk.columns)) or any(record.tag == metadata.RUN_TAG for record in chunk.health)


def open_logdir(logdir: str) -> RunStore:
    """Reads the runs of `logdir`, for scripts and notebooks.

    Args:
      logdir: what ``tensorboard --logdir`` takes, or, with a comma or ``name:path`` entries, what
        ``--logdir_spec`` takes.

    Raises:
      FileNotFoundError: there is no such directory.
    """
    spec = not os.path.exists(os.path.expanduser(logdir)) and (":" in logdir or "," in logdir)
    searched = roots(logdir_spec=logdir) if spec else roots(logdir=logdir)
    if not searched:
        raise FileNotFoundError(f"{logdir!r} names no directory: give the directory that `tensorboard --logdir` takes")
    for root in searched:
        if not storage.is_remote(root.path) and not os.path.isdir(root.path):
            raise FileNotFoundError(
                f"{root.path} is not a directory: give the directory that `tensorboard --logdir` takes"
            )
    store = RunStore(searched)
    store.refresh()
    if store.discovery.problems and not store.runs and any(storage.is_remote(root.path) for root in searched):
        raise FileNotFoundError("; ".join(store.discovery.problems))
    return store
