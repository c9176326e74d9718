"""One run of a logdir: read when it is looked at, peeked into for a listing."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from typing import Optional, Sequence, Tuple, Union

from tb_mindformers_plugin import eventfile
from tb_mindformers_plugin.eventfile import Chunk, EventFile, storage
from tb_mindformers_plugin.eventfile.peek import peek
from tb_mindformers_plugin.metadata import HealthEvent, RunManifest
from tb_mindformers_plugin.roles import RoleMatch
from tb_mindformers_plugin.runs.contents import RunContents, Segment
from tb_mindformers_plugin.runs.discovery import RunFiles
from tb_mindformers_plugin.runs.files import FileContents
from tb_mindformers_plugin.runs.summary import RunSummary, summarise, unreadable

logger = logging.getLogger("tb_mindformers_plugin")

#: Each file of a run and what is known of it, None where it is out of reach: what a summary is made of.
State = Tuple[Tuple[str, Optional[storage.Stat]], ...]


class _File:
    """An event file that is followed, and what it holds."""

    def __init__(self, path: str) -> None:
        self.source = EventFile(path)
        self.contents = FileContents(os.path.basename(path))
        self._problem: Optional[str] = None

    def read(self) -> bool:
        """Takes in what the file gained; returns whether there was anything."""
        try:
            return self.take(self.source.read())
        except OSError as error:
            return self.take(error)

    def take(self, chunk: Union[Chunk, OSError]) -> bool:
        """Takes in what a look at the file found; returns whether there was anything."""
        if isinstance(chunk, OSError):
            before, self._problem = self._problem, _unreadable(self.contents.name, chunk)
            return before != self._problem
        recovered, self._problem = self._problem is not None, None
        if chunk.empty:
            return recovered
        if chunk.anew:
            self.contents = FileContents(self.contents.name)
        self.contents.add(chunk)
        return True

    def snapshot(self) -> FileContents:
        """What the file holds by now, and whether it can be read at this moment."""
        taken = self.contents.snapshot()
        taken.unreadable = self._problem
        return taken


class Run:
    """A run of a logdir. Its methods may be called from several threads.

    Attributes:
      name: TensorBoard's name of the run.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.RLock()
        self._files = RunFiles((), ())
        self._read: Optional[dict[str, _File]] = None
        self._contents: Optional[RunContents] = None
        self._summary: Optional[RunSummary] = None
        self._summary_of: State = ()

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the event files, in reading order."""
        return self._files.files

    def update(self, files: RunFiles) -> None:
        """Takes note of the run's files; what they gained is read when it is asked for.

        It does not wait for a look at the run that is under way, which goes on with the files it began with.
        """
        self._files = files

    def contents(self) -> RunContents:
        """Returns all that the run's files hold by now; reads what is new."""
        with self._lock:
            read = self._read or {}
            self._read = {path: read.get(path) or _File(path) for path in self.files}
            changed = list(read) != list(self._read)
            for file in self._read.values():
                changed = file.read() or changed
            if self._contents is None or changed:
                files = [file.snapshot() for file in self._read.values()]
                self._contents = RunContents(files, self._contents)
            return self._contents

    def state(self) -> State:
        """Returns the files as they are at this moment."""
        return tuple((path, _stat(path)) for path in self.files)

    @property
    def size(self) -> int:
        """Bytes of the run's files by now, of those that can be looked at."""
        return size_of(self.state())

    def summary(self, read: bool = False, state: Optional[State] = None) -> RunSummary:
        """Returns what a listing says of the run.

        Of a run that is in memory it is exact. Of another it is what it was when the run was read, or
        else what the beginning and the end of its files say.

        Args:
          read: read the run for it.
          state: of the files, where that has just been asked for.
        """
        with self._lock:
            state = self.state() if state is None else state
            exact = read or self._read is not None
            if self._summary is None or state != self._summary_of or exact > self._summary.exact:
                self._summary, self._summary_of = self._summarised(exact), state
            return self._summary

    def glance(self) -> tuple[RunContents, bool]:
        """Returns what a look finds that reads as little as a listing does, and whether that is all of the run."""
        with self._lock:
            peeked = self._peeked() if self._read is None else None
            return (self.contents(), True) if peeked is None else (peeked, False)

    def _summarised(self, exact: bool) -> RunSummary:
        try:
            contents, exact = (self.contents(), True) if exact else self.glance()
            return summarise(self.name, contents, exact)
        except Exception as error:  # one run that nobody foresaw must not cost the others their listing
            logger.exception("run %s cannot be summarised", self.name)
            return unreadable(self.name, f"The run cannot be read: {type(error).__name__}: {error}")

    def _begin(self) -> list[_File]:
        """The run's files, of a run that was not read yet."""
        self._read = {path: _File(path) for path in self.files}
        return list(self._read.values())

    def drop(self) -> bool:
        """Gives up the columns; the next look reads them again.

        Returns:
          Whether it did: not where the run is being looked at right now, which is not waited for.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._read = self._contents = None
        finally:
            self._lock.release()
        return True

    @property
    def nbytes(self) -> int:
        """Bytes that the run takes in memory."""
        contents = self._contents
        return 0 if contents is None else contents.nbytes

    def _peeked(self) -> Optional[RunContents]:
        """What the ends of the files say: the first for what was logged, the last for how far it came.

        None where they do not say it: a graph or an image there may be larger than a look.
        """
        found = {}
        files = self.files
        for path in (*files[:1], *files[:-4:-1]):
            if path not in found:
                contents = FileContents(os.path.basename(path))
                try:
                    chunk, told = peek(path)
                    contents.add(chunk)
                except OSError as error:
                    told = True
                    contents.unreadable = _unreadable(contents.name, error)
                if not told:
                    return None
                found[path] = contents
            if len(found) > 1 and found[path].columns:
                break  # this is the last file with points
        joined = RunContents([found[path] for path in files if path in found])
        return joined if joined.roles or joined.has_manifest else None

    @property
    def manifest(self) -> RunManifest:
        """The newest manifest that could be read; an empty one where there is none."""
        return self.contents().manifest

    @property
    def events(self) -> list[HealthEvent]:
        """Health events in the order of writing."""
        return self.contents().events

    @property
    def roles(self) -> dict[str, RoleMatch]:
        """Role -> the series that plays it."""
        return self.contents().roles

    @property
    def tags(self) -> list[str]:
        """Scalar tags, sorted."""
        return self.contents().tags

    def current(self, role: str) -> Optional[Segment]:
        """Returns the curve of `role`, or None where the run has none."""
        return self.contents().current(role)

    def segments(self, tag: str) -> list[Segment]:
        """Returns the series of `tag`: first its curve, then what was superseded.

        Raises:
          KeyError: the run has no such series.
        """
        return self.contents().segments(tag)


def read_together(runs: Sequence[Run]) -> None:
    """Reads runs that were not read yet, faster than one by one where they are many and small."""
    with contextlib.ExitStack() as locks:
        fresh = []
        for run in sorted(runs, key=lambda run: run.name):  # in one order, so that two calls never wait for each other
            locks.enter_context(run._lock)
            if run._read is None:
                fresh.extend(run._begin())
        for file, chunk in zip(fresh, eventfile.read_together([file.source for file in fresh])):
            file.take(chunk)


def size_of(state: State) -> int:
    """Returns the bytes of the files that a look at a run found."""
    return sum(stat.size for _, stat in state if stat)


def _stat(path: str) -> Optional[storage.Stat]:
    try:
        return storage.stat(path)
    except OSError:
        return None


def _unreadable(name: str, error: OSError) -> str:
    return f"{name} cannot be read: {error.strerror or error}"
