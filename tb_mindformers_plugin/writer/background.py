"""Writing on a thread of its own, so that no disk can hold up a training.

The training thread puts an entry into a queue and goes on. The writing thread wakes up every
`flush_seconds`, turns what is there into records and hands them to the operating system in one
write. An entry leaves the queue when it is written, so what a failing disk did not take is
written later, into a new file.
"""

from __future__ import annotations

import collections
import itertools
import logging
import threading
import time
from typing import Callable, Deque, Dict, NamedTuple, Optional, Sequence, Union

from tensorboard.compat.proto import summary_pb2

from tb_mindformers_plugin.writer import records
from tb_mindformers_plugin.writer.files import EventFile, new_event_file

logger = logging.getLogger("tb_mindformers_plugin")

# What waits for the disk: 10,000 records ride out a disk that is away for hours at one record a
# second. Histograms and images count by their bytes as well.
QUEUE_RECORDS = 10_000
QUEUE_BYTES = 64 << 20

# After a disk error writing is tried again after this many seconds, then twice as many, up to the
# longest: an NFS server that is away for a minute must not end the logging of a week.
_RETRY_SECONDS = 60.0
_LONGEST_RETRY_SECONDS = 3600.0

# A loop that is faster than the disk waits for it, but not for one that has not taken anything for so long.
_STALL_SECONDS = 2.0

# The longest that opening, flushing and closing wait for a disk that does not answer.
_PATIENCE_SECONDS = 30.0

# So many entries are written without waiting for the time to flush.
_MANY = 1000
# And so many in one write, so that a disk that is nearly full takes what fits.
_AT_ONCE = 500

# A local disk raises OSError; for a remote path it is whatever that file system's package raises.
_DISK_ERRORS = (Exception,)


class Entry(NamedTuple):
    """One event.

    Attributes:
      wall_time: seconds since the Unix epoch.
      step: its step.
      content: scalars {tag: value}, or summary values of any kind.
      size: bytes that it takes in the queue, about; 0 for scalars.
    """

    wall_time: float
    step: int
    content: Union[Dict[str, float], Sequence[summary_pb2.Summary.Value]]
    size: int = 0

    def record(self) -> bytes:
        """Returns the entry as it is written."""
        if isinstance(self.content, dict):
            return records.scalars_record(self.wall_time, self.step, self.content)
        return records.values_record(self.wall_time, self.step, self.content)


class BackgroundWriter:
    """Writes entries into an event file of `directory`, and into a new one where that fails.

    Nothing here raises for a disk once the first file is open: the error is logged once. Where the
    queue is full, who puts something in waits while the disk takes what is there; where it takes nothing,
    new entries are dropped and counted.

    Args:
      directory: the run's directory.
      first_entry: returns what each file begins with, after the version.
      flush_seconds: seconds between writes.

    Raises:
      OSError: the directory or the file cannot be made. (A disk that does not answer at all is given
        half a minute, and then the first file is made when it does.)
    """

    def __init__(self, directory: str, first_entry: Callable[[], Entry], flush_seconds: float) -> None:
        self._directory = directory
        self._first_entry = first_entry
        self._flush_seconds = min(flush_seconds, threading.TIMEOUT_MAX)
        self._file: Optional[EventFile] = None

        self._changed = threading.Condition()  # guards what follows
        self._queue: Deque[Entry] = collections.deque()
        self._queued_bytes = 0
        self._dropped = self._said_dropped = 0
        self._asked = self._answered = 0  # flushes
        self._closing = self._finished = False
        self._opened: Union[bool, Exception, None] = None
        self._hangs = False
        self._written = 0  # entries
        self._full = False  # somebody waits for room

        # Of the writing thread alone.
        self._retry_seconds = _RETRY_SECONDS
        self._retry_at = 0.0
        self._failing = False
        self._said: set[str] = set()

        self._thread = threading.Thread(target=self._run, name="training-health-writer", daemon=True)
        self._thread.start()
        self._await(lambda: self._opened is not None, "open a file in")
        if not self._hangs and isinstance(self._opened, Exception):
            raise self._opened

    def put(self, entry: Entry, *, important: bool = False) -> None:
        """Adds `entry`, unless the queue is full and the disk takes nothing.

        Args:
          entry: the event.
          important: may fill the queue to twice its length.
        """
        with self._changed:
            if not self._makes_room(entry, 2 if important else 1):
                self._dropped += 1
                self._say_once(
                    "full",
                    "%d records wait for the disk of %s; until it takes them, further ones are lost.",
                    len(self._queue),
                    self._directory,
                )
                return
            self._queue.append(entry)
            self._queued_bytes += entry.size
            if len(self._queue) == _MANY:
                self._changed.notify_all()

    def _makes_room(self, entry: Entry, room: int) -> bool:
        """Whether the queue has room, after waiting for a disk that is only slower than the loop."""

        def has_room() -> bool:
            return len(self._queue) < room * QUEUE_RECORDS and self._queued_bytes + entry.size <= room * QUEUE_BYTES

        while not has_room():
            written = self._written
            if self._hangs or self._failing or self._finished or entry.size > room * QUEUE_BYTES:
                return False
            self._full = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: has_room() or self._failing or self._finished, _STALL_SECONDS)
            self._full = False
            self._hangs = not has_room() and self._written == written
        return True

    def flush(self) -> None:
        """Waits until what was put is written, or known not to be, or the disk does not answer."""
        with self._changed:
            if self._closing:
                return
            self._asked += 1
            asked = self._asked
            self._changed.notify_all()
        self._await(lambda: self._answered >= asked, "write to", patient=not self._hangs)

    def close(self) -> None:
        """Writes what is left and closes the file, or gives up a disk that does not answer."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify_all()
        self._await(lambda: self._finished, "close its file in")

    def _await(self, done: Callable[[], bool], what: str, *, patient: bool = True) -> None:
        """Waits for the writing thread; not at all where it is known to hang, if not `patient`."""
        deadline = time.monotonic() + (_PATIENCE_SECONDS if patient else 0.0)
        with self._changed:
            self._hangs = not self._changed.wait_for(
                lambda: done() or self._finished, max(0.0, deadline - time.monotonic())
            )
            if self._hangs:
                self._say_once(
                    "hangs",
                    "the disk does not answer: Training Health could not %s %s within %d s. "
                    "The training goes on, up to %d records wait.",
                    what,
                    self._directory,
                    _PATIENCE_SECONDS,
                    QUEUE_RECORDS,
                )

    # The writing thread.

    def _run(self) -> None:
        try:
            if self._first_file_opens():
                self._write_until_closed()
        finally:
            with self._changed:
                self._finished = True
                self._changed.notify_all()

    def _first_file_opens(self) -> bool:
        """Opens the first file; its error belongs to whoever waits for it."""
        opened: Union[bool, Exception] = True
        try:
            self._open()
        except _DISK_ERRORS as error:
            opened = error
        with self._changed:
            nobody_waits = self._hangs
            self._opened = opened
            self._changed.notify_all()
        if isinstance(opened, Exception) and nobody_waits:
            self._fail(opened)
        return nobody_waits or opened is True

    def _write_until_closed(self) -> None:
        closing = False
        while not closing:
            with self._changed:
                self._changed.wait_for(self._has_cause, self._flush_seconds)
                closing, asked = self._closing, self._asked
            self._write_queue(last=closing)
            with self._changed:
                self._answered, self._hangs = asked, False
                self._changed.notify_all()
        self._close_file()

    def _has_cause(self) -> bool:
        many = self._full or len(self._queue) >= _MANY
        return self._closing or self._asked > self._answered or (many and self._can_write())

    def _can_write(self) -> bool:
        return self._file is not None or time.monotonic() >= self._retry_at

    def _write_queue(self, *, last: bool) -> None:
        """Writes what is in the queue, as far as the disk takes it.

        Args:
          last: there is no later: tries even if it is not yet time to try again.
        """
        if not (last or self._can_write()):
            return
        try:
            while self._write_some():
                pass
        except _DISK_ERRORS as error:
            self._fail(error)

    def _write_some(self) -> bool:
        """Writes the oldest entries; returns False where there are none."""
        with self._changed:
            entries = list(itertools.islice(self._queue, _AT_ONCE))
        if not entries:
            return False
        data = b"".join(self._records(entries))
        file = self._file
        if file is not None and not file.is_there():
            self._say_once(
                "deleted",
                "the event file in %s was deleted while it was written; the run goes on in a new one.",
                self._directory,
            )
            file.give_up()
            file = self._file = None
        if file is None:
            file, data = new_event_file(self._directory), self._head() + data
        # Kept also where the write fails: it is given up then.
        self._file = file
        file.write(data)
        with self._changed:
            for _ in entries:
                self._queued_bytes -= self._queue.popleft().size
            self._written += len(entries)
            self._changed.notify_all()
            lost, self._said_dropped = self._dropped - self._said_dropped, self._dropped
        if self._failing or lost:
            self._failing = False
            self._say_once(
                "recovered", "Training Health writes to %s again; %d records were lost.", self._directory, lost
            )
        return True

    def _records(self, entries: Sequence[Entry]) -> list[bytes]:
        found = []
        for entry in entries:
            try:
                found.append(entry.record())
            except Exception as error:  # one that has no bytes must not keep back those behind it
                self._say_once("record", "a record of step %d cannot be written (%s).", entry.step, error)
        return found

    def _open(self) -> None:
        file = new_event_file(self._directory)
        try:
            file.write(self._head())
        except BaseException:
            file.give_up()
            raise
        self._file = file

    def _head(self) -> bytes:
        return records.version_record(time.time()) + self._first_entry().record()

    def _fail(self, error: Exception) -> None:
        """Gives up the current file after a disk error."""
        if self._file is not None:
            self._file.give_up()
            self._file = None
        with self._changed:
            self._failing = True
            self._changed.notify_all()
        self._retry_at = time.monotonic() + self._retry_seconds
        self._retry_seconds = min(2 * self._retry_seconds, _LONGEST_RETRY_SECONDS)
        self._say_once(
            "failed",
            "Training Health cannot write to %s (%s). The training goes on; up to %d records wait until it can.",
            self._directory,
            error,
            QUEUE_RECORDS,
            level=logging.ERROR,
        )

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except _DISK_ERRORS as error:
                self._fail(error)
        with self._changed:
            lost = len(self._queue) + self._dropped
            if lost:
                self._say_once("lost", "%d records could not be written to %s.", lost, self._directory)

    def _say_once(self, topic: str, message: str, *values: object, level: int = logging.WARNING) -> None:
        logger.log(logging.DEBUG if topic in self._said else level, message, *values)
        self._said.add(topic)
