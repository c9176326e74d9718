"""HealthWriter: writes a run's health into TensorBoard event files, from any training loop.

It needs neither a framework nor TensorFlow: the records go through TensorBoard's own event file
writer, which appends on a thread of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import importlib.util
import logging
import math
import numbers
import os
import sys
import threading
import time
import weakref
from types import TracebackType
from typing import Any, Mapping, Optional, Type, Union


def _choose_protobuf() -> None:
    """Has protobuf load as MindSpore needs it, where MindSpore is installed.

    MindSpore's own messages load with the pure Python implementation alone, which it chooses on its
    import. Where TensorBoard's messages came first, `import mindspore` would end the process.
    """
    spec = importlib.util.find_spec("mindspore")
    if spec is not None and spec.origin is not None and "google.protobuf" not in sys.modules:
        os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")


_choose_protobuf()

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from tb_mindformers_plugin import metadata
from tb_mindformers_plugin.metadata import ManifestError, RunManifest
from tb_mindformers_plugin.roles import ROLES
from tb_mindformers_plugin.scalar_record import scalar_record

logger = logging.getLogger("tb_mindformers_plugin")

# After a disk error writing is tried again after this many seconds, then twice as many, up to the
# longest: an NFS server that is away for a minute must not end the logging of a week.
_RETRY_SECONDS = 60.0
_LONGEST_RETRY_SECONDS = 3600.0

# A local disk raises OSError; where TensorFlow is installed, or for a remote path, TensorBoard's
# writer raises whatever that file system does.
_DISK_ERRORS = (Exception,)

_LONGEST_ERROR = 2000

# Records waiting for the disk. A queue this long rides out a disk that hangs for hours at one
# record a second.
_QUEUE_RECORDS = 10_000


class HealthWriter:
    """Writes scalars, the run manifest and health events into one event file of `log_dir`.

    One `log` call is one record: all its values share a step and a wall time. The file is flushed
    every `flush_seconds`, so that is the most that a killed process loses. Used in a ``with`` block it
    writes at the end that the training completed, or failed and by which error.

    A disk that fails while the training runs never raises: the error is logged once, records are
    dropped and counted, and after a while a new event file is tried. A disk that hangs without
    failing is waited for once 10,000 records are queued.

    Args:
      log_dir: the run's directory; made where it is missing.
      manifest: what the run says about itself: a `RunManifest` or its fields. Roles that it does
        not name get the tags of `tb_mindformers_plugin.roles.ROLES`.
      flush_seconds: seconds between flushes to disk.

    Raises:
      TypeError, ValueError: a wrong argument (ManifestError, a ValueError, for the manifest).
      OSError: `log_dir` cannot be made or written.
    """

    def __init__(
        self,
        log_dir: Union[str, os.PathLike[str]],
        manifest: Union[RunManifest, Mapping[str, Any], None] = None,
        *,
        flush_seconds: float = 10.0,
    ) -> None:
        self._log_dir = _checked_log_dir(log_dir)
        self._flush_seconds = _checked_flush_seconds(flush_seconds)
        self._manifest = _checked_manifest(manifest)
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._closed = self._ended = False
        self._last_step = self._manifest.resumed_from or 0
        self._dropped = 0
        self._failed_before = self._recovered = False
        self._retry_seconds = _RETRY_SECONDS
        self._retry_at = 0.0
        self._file: Optional[EventFileWriter] = None
        self._open()

    @property
    def log_dir(self) -> str:
        """The run's directory."""
        return self._log_dir

    @property
    def manifest(self) -> RunManifest:
        """The manifest as it was written."""
        return self._manifest

    def log(self, step: int, *, wall_time: Optional[float] = None, **metrics: Any) -> None:
        """Writes one record with the metrics of one step.

        Args:
          step: optimizer step, a whole number.
          wall_time: seconds since the Unix epoch; now, if not given.
          **metrics: values by role (``loss=2.3, lr=3e-4``), or by tag where the name has a slash
            (``**{"moe/balance": 0.1}``). Anything `float` accepts; NaN and infinities are kept;
            None is left out.

        Raises:
          ValueError: a name that is neither a role nor a tag; a value that is no number.
        """
        scalars = {self._tag(name): _number(name, value) for name, value in metrics.items() if value is not None}
        self.log_scalars(step, scalars, wall_time=wall_time)

    def log_scalars(self, step: int, scalars: Mapping[str, float], *, wall_time: Optional[float] = None) -> None:
        """Writes one record with `scalars` {tag: value}; nothing where it is empty.

        Raises:
          ValueError: `step` is no whole number or does not fit 64 bits, a tag is none, or a value is no number.
        """
        if scalars:
            checked = {_checked_tag(tag): _number(tag, value) for tag, value in scalars.items()}
            step = _checked_step(step)
            self._add(step, scalar_record(step, _checked_wall_time(wall_time), checked))

    def event(self, kind: str, step: int, *, wall_time: Optional[float] = None, **fields: Any) -> None:
        """Writes a health event.

        Args:
          kind: one of `tb_mindformers_plugin.metadata.EVENT_KINDS`.
          step: the step at which it happened.
          wall_time: seconds since the Unix epoch; now, if not given.
          **fields: what else there is to say, as JSON types.

        Raises:
          ManifestError: an unknown kind, or a field with no JSON form.
          ValueError: a bad `step`.
        """
        summary = summary_pb2.Summary(value=[metadata.event_value(kind, fields)])
        event = event_pb2.Event(wall_time=_checked_wall_time(wall_time), step=_checked_step(step), summary=summary)
        self._add(event.step, event.SerializeToString())
        self._ended = self._ended or kind == "end"

    def flush(self) -> None:
        """Puts what was logged so far on disk."""
        if self._is_forked():
            return
        with self._lock:
            if self._file is not None:
                try:
                    self._file.flush()
                except _DISK_ERRORS as error:
                    self._fail(error)

    def close(self) -> None:
        """Flushes and closes the file. More than one call does no harm.

        It does not say how the training ended; leaving a ``with`` block does.
        """
        if self._is_forked():
            return
        with self._lock:
            self._closed = True
            file, self._file = self._file, None
            if file is not None:
                try:
                    file.close()
                except _DISK_ERRORS as error:
                    self._say_failure(error)

    def __enter__(self) -> HealthWriter:
        return self

    def __exit__(
        self,
        exc_type: Optional[Type[BaseException]],
        exc: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        # Without an end a reader takes the run for one that is still going on, or that was killed.
        if not self._closed and not self._ended:
            if exc_type is None:
                self.event("end", self._last_step, status="completed")
            else:
                said = f"{exc_type.__name__}: {exc}" if str(exc) else exc_type.__name__
                self.event("end", self._last_step, status="failed", error=said[:_LONGEST_ERROR])
        self.close()

    def _tag(self, name: str) -> str:
        tag = self._manifest.roles.get(name)
        if tag is not None:
            return tag
        if "/" in name:
            return name
        raise ValueError(
            f"metric {name!r} is neither a role ({', '.join(ROLES)}) nor a tag: "
            f'give a metric of your own a tag with a slash, as in log(step, **{{"train/{name}": value}})'
        )

    def _add(self, step: int, record: bytes) -> None:
        if self._is_forked():
            return
        self._last_step = max(self._last_step, step)
        with self._lock:
            if self._closed:
                raise ValueError(f"this HealthWriter of {self._log_dir!r} is closed")
            if self._file is None and not self._reopened():
                self._dropped += 1
                return
            assert self._file is not None
            try:
                _append(self._file, record)
            except _DISK_ERRORS as error:
                self._dropped += 1
                self._fail(error)

    def _is_forked(self) -> bool:
        """Whether this is a copy in a child process, whose thread and file are its parent's."""
        if self._process == os.getpid():
            return False
        if not self._closed:
            self._closed = True
            logger.warning(
                "The HealthWriter of %s belongs to the parent process; what this one logs with it is lost.",
                self._log_dir,
            )
        return True

    def _open(self) -> None:
        """Opens a new event file and writes the manifest into it. Raises OSError."""
        if "://" not in self._log_dir:
            # An error of os.makedirs names the path that is in the way; TensorBoard's helper does not.
            os.makedirs(self._log_dir, exist_ok=True)
        file = EventFileWriter(self._log_dir, max_queue_size=_QUEUE_RECORDS, flush_secs=self._flush_seconds)
        value = metadata.manifest_value(self._manifest)
        # Step 0 would look like a restart to readers that go by steps alone.
        step = self._manifest.resumed_from or 0
        file.add_event(event_pb2.Event(wall_time=time.time(), step=step, summary=summary_pb2.Summary(value=[value])))
        file.flush()
        self._file = file
        # An interpreter that ends without close() must not take the last records with it.
        weakref.finalize(self, _close_quietly, file, os.getpid())

    def _reopened(self) -> bool:
        if time.monotonic() < self._retry_at:
            return False
        try:
            self._open()
        except _DISK_ERRORS as error:
            self._retry_later()
            logger.debug("%s still cannot be written: %s", self._log_dir, error)
            return False
        # A full disk may take a new file and fail again: the retries grow apart all the same.
        level = logging.DEBUG if self._recovered else logging.WARNING
        logger.log(
            level, "Training Health writes to %s again; %d or more records were lost.", self._log_dir, self._dropped
        )
        self._recovered = True
        self._dropped = 0
        return True

    def _fail(self, error: Exception) -> None:
        """Gives up the current file after a disk error."""
        self._file = None
        self._retry_later()
        self._say_failure(error)

    def _retry_later(self) -> None:
        self._retry_at = time.monotonic() + self._retry_seconds
        self._retry_seconds = min(2 * self._retry_seconds, _LONGEST_RETRY_SECONDS)

    def _say_failure(self, error: Exception) -> None:
        level = logging.DEBUG if self._failed_before else logging.ERROR
        self._failed_before = True
        logger.log(
            level,
            "Training Health cannot write to %s (%s). The training goes on without it; "
            "what is logged until the disk is back is lost.",
            self._log_dir,
            error,
        )


def _append(file: EventFileWriter, record: bytes) -> None:
    queue = getattr(file, "_async_writer", None)
    if queue is not None:
        queue.write(record)  # what add_event does, without a message that has to be made first
    else:
        file.add_event(event_pb2.Event.FromString(record))


def _close_quietly(file: EventFileWriter, process: int) -> None:
    """Puts on disk what a writer that was never closed still holds."""
    if process == os.getpid():
        with contextlib.suppress(Exception):
            file.close()


def _checked_log_dir(log_dir: Union[str, os.PathLike[str]]) -> str:
    if not isinstance(log_dir, (str, os.PathLike)):
        raise TypeError(f"log_dir is a path, got {log_dir!r} ({type(log_dir).__name__})")
    path = os.fspath(log_dir)
    if not isinstance(path, str) or not path.strip():
        raise ValueError(f"log_dir is the path of a directory, got {log_dir!r}")
    return os.path.expanduser(path)


def _checked_flush_seconds(flush_seconds: float) -> float:
    if isinstance(flush_seconds, bool) or not isinstance(flush_seconds, numbers.Real):
        raise TypeError(f"flush_seconds is a number of seconds > 0, got {flush_seconds!r}")
    if not 0 < flush_seconds < math.inf:
        raise ValueError(f"flush_seconds is a number of seconds > 0, got {flush_seconds!r}")
    return float(flush_seconds)


def _checked_manifest(manifest: Union[RunManifest, Mapping[str, Any], None]) -> RunManifest:
    if not isinstance(manifest, RunManifest):
        fields: Mapping[str, Any] = {} if manifest is None else manifest
        if not isinstance(fields, Mapping):
            raise ManifestError(f"manifest is a RunManifest or a dict of its fields, got {manifest!r}")
        manifest = RunManifest.from_dict({"version": metadata.CONTRACT_VERSION, **fields})
    unknown = [role for role in manifest.roles if role not in ROLES]
    if unknown:
        raise ManifestError(f"manifest role {unknown[0]!r} is unknown; known: {', '.join(ROLES)}")
    # The reader learns from the manifest which tag plays which role, so it names all that `log` may write.
    roles = {**{role.name: role.tag for role in ROLES.values()}, **manifest.roles}
    units = {roles[role.name]: role.unit for role in ROLES.values() if role.unit}
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    complete = dataclasses.replace(
        manifest, roles=roles, units={**units, **manifest.units}, started_at=manifest.started_at or now
    )
    complete.to_json()  # raises for what has no JSON form, before a file exists
    return complete


def _checked_step(step: int) -> int:
    if isinstance(step, bool) or not isinstance(step, numbers.Integral):
        raise ValueError(f"step is a whole number, got {step!r} ({type(step).__name__})")
    if not -(2**63) <= step < 2**63:
        raise ValueError(f"step {step} does not fit a 64-bit integer")
    return int(step)


def _checked_tag(tag: str) -> str:
    if not isinstance(tag, str) or not tag or tag in (metadata.RUN_TAG, metadata.EVENTS_TAG):
        raise ValueError(f"a tag must be a string, not empty and none of this package's own, got {tag!r}")
    return tag


def _checked_wall_time(wall_time: Optional[float]) -> float:
    return time.time() if wall_time is None else _number("wall_time", wall_time)


def _number(name: str, value: Any) -> float:
    try:
        # An array of one element is a number to whoever logs a loss.
        return float(value.item()) if getattr(value, "size", None) == 1 and hasattr(value, "item") else float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"metric {name!r} must be a number, got {value!r}") from error
