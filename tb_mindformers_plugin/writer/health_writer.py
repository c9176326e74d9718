"""HealthWriter: writes a run's health into TensorBoard event files, from any training loop.

It needs neither a framework nor TensorFlow. What is logged is written on a thread of its own.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import importlib.util
import logging
import math
import numbers
import os
import sys
import time
import weakref
from types import TracebackType
from typing import Any, Callable, Mapping, Optional, Sequence, Type, Union


def _choose_protobuf() -> None:
    """Has protobuf load as MindSpore needs it, where MindSpore is installed.

    MindSpore's own messages load with the pure Python implementation alone, which it chooses on its
    import. Where TensorBoard's messages came first, `import mindspore` would end the process.
    """
    spec = importlib.util.find_spec("mindspore")
    if spec is not None and spec.origin is not None and "google.protobuf" not in sys.modules:
        os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")


_choose_protobuf()

from tensorboard.compat.proto import summary_pb2

from tb_mindformers_plugin import metadata
from tb_mindformers_plugin.metadata import ManifestError, RunManifest
from tb_mindformers_plugin.roles import ROLES
from tb_mindformers_plugin.writer import summaries
from tb_mindformers_plugin.writer.background import BackgroundWriter, Entry
from tb_mindformers_plugin.writer.sigterm import at_sigterm

logger = logging.getLogger("tb_mindformers_plugin")

_LONGEST_ERROR = 2000


class HealthWriter:
    """Writes scalars, the run manifest and health events into one event file of `log_dir`.

    One `log` call is one record: all its values share a step and a wall time. It goes into a queue,
    which a thread writes to disk every `flush_seconds`, so that is the most that a killed process
    loses. Used in a ``with`` block it writes at the end that the training completed, or failed and by
    which error.

    A disk that fails or hangs while the training runs neither raises nor holds it up: it is logged
    once, and a new event file is tried after a minute, then after two, four, up to sixty. Until then up
    to 10,000 records (64 MiB of histograms and images) wait; what comes when the queue is full is
    dropped and counted, but health events find room in twice as many. A loop that is only faster than its
    disk waits for it. For a disk that does not answer, `log` waits two seconds once when the queue is full;
    opening, `flush` and `close` half a minute each. A file that is deleted is followed by a new one.

    Args:
      log_dir: the run's directory; made where it is missing.
      manifest: what the run says about itself: a `RunManifest` or its fields. Roles that it does
        not name get the tags of `tb_mindformers_plugin.roles.ROLES`.
      flush_seconds: seconds between flushes to disk.
      handle_sigterm: write on SIGTERM that the training was stopped, with all that was logged, before the
        process ends as it would have. Only from the main thread.

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
        handle_sigterm: bool = False,
    ) -> None:
        self._log_dir = _checked_log_dir(log_dir)
        self._flush_seconds = _checked_flush_seconds(flush_seconds)
        self._manifest = _checked_manifest(manifest)
        self._process = os.getpid()
        self._closed = self._ended = self._has_hparams = False
        self._last_step = self._manifest.resumed_from or 0
        self._background = BackgroundWriter(
            self._log_dir, functools.partial(_manifest_entry, self._manifest), self._flush_seconds
        )
        self._forget_sigterm = at_sigterm(_weak_end(self)) if handle_sigterm else None
        # An interpreter that ends without close() must not take the last records with it.
        weakref.finalize(self, _close_quietly, self._background, os.getpid())

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
        if scalars:
            self._put(Entry(_checked_wall_time(wall_time), _checked_step(step), scalars))

    def log_scalars(self, step: int, scalars: Mapping[str, float], *, wall_time: Optional[float] = None) -> None:
        """Writes one record with `scalars` {tag: value}; nothing where it is empty.

        Raises:
          ValueError: `step` is no whole number or does not fit 64 bits, a tag is none, or a value is no number.
        """
        if scalars:
            checked = {_checked_tag(tag): _number(tag, value) for tag, value in scalars.items()}
            self._put(Entry(_checked_wall_time(wall_time), _checked_step(step), checked))

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
        value = metadata.event_value(kind, fields)
        at, step = _checked_wall_time(wall_time), _checked_step(step)
        self._put(Entry(at, step, [value]), important=True)
        if kind == "end" and self._has_hparams:
            ended = summaries.hparams_end_values(fields.get("status") != "failed", at)
            self._put(Entry(at, step, ended), important=True)
        self._ended = self._ended or kind == "end"

    def add_histogram(
        self, tag: str, values: Any, step: int, *, buckets: int = 30, wall_time: Optional[float] = None
    ) -> None:
        """Writes a histogram, for TensorBoard's Histograms, Distributions and Time Series.

        It is counted at once, by the caller's thread: about 30 ms a million values, and 1 KB in the file.

        Args:
          tag: its tag, e.g. ``weights/layer0.attention.wq``.
          values: numbers of any shape, or a tensor; what is not finite is left out.
          step: optimizer step.
          buckets: buckets of equal width, >= 1.
          wall_time: seconds since the Unix epoch; now, if not given.

        Raises:
          TypeError, ValueError: a wrong argument.
        """
        if isinstance(buckets, bool) or not isinstance(buckets, numbers.Integral) or buckets < 1:
            raise ValueError(f"buckets must be a whole number >= 1, got {buckets!r}")
        self._add(step, summaries.histogram_value(_checked_tag(tag), values, int(buckets)), wall_time)

    def add_text(self, tag: str, text: str, step: int, *, wall_time: Optional[float] = None) -> None:
        """Writes a text, e.g. a sample of what the model says; TensorBoard's Text tab shows it as Markdown.

        Raises:
          TypeError, ValueError: a wrong argument.
        """
        self._add(step, summaries.text_value(_checked_tag(tag), text), wall_time)

    def add_image(
        self, tag: str, image: Any, step: int, *, dataformats: str = "HWC", wall_time: Optional[float] = None
    ) -> None:
        """Writes an image, for TensorBoard's Images; made a PNG at once, by the caller's thread.

        Args:
          tag: its tag.
          image: an array or tensor of uint8, or of floats in [0, 1], with 1, 3 or 4 channels.
          step: optimizer step.
          dataformats: the order of its axes, "HWC", "CHW" or "HW".
          wall_time: seconds since the Unix epoch; now, if not given.

        Raises:
          ValueError: a wrong argument.
          ImportError: Pillow is not installed.
        """
        self._add(step, summaries.image_value(_checked_tag(tag), image, dataformats), wall_time)

    def add_hparams(self, hparams: Mapping[str, Any]) -> None:
        """Writes hyper-parameters for TensorBoard's HParams tab, which lays runs side by side by them.

        The run's scalars are the metrics there. When the run ends, it is told how.

        Args:
          hparams: name -> bool, number, string, list or None; mappings within are flattened.

        Raises:
          TypeError: not a mapping, or a value of another kind.
        """
        if not isinstance(hparams, Mapping):
            raise TypeError(f"hparams is a mapping of names to values, got {hparams!r}")
        now = time.time()
        self._put_values(now, self._manifest.resumed_from or 0, summaries.hparams_values(hparams, now))
        self._has_hparams = True

    def flush(self) -> None:
        """Puts what was logged so far on disk."""
        if not self._closed and not self._is_forked():
            self._background.flush()

    def close(self) -> None:
        """Writes what is left and closes the file. More than one call does no harm.

        It does not say how the training ended; leaving a ``with`` block does.
        """
        if not self._is_forked():
            self._closed = True
            if self._forget_sigterm is not None:
                self._forget_sigterm()
            self._background.close()

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

    def _end_by_sigterm(self) -> None:
        if not self._closed and not self._ended and not self._is_forked():
            self.event("end", self._last_step, status="stopped", reason="SIGTERM")
            self._background.close()

    def _tag(self, name: str) -> str:
        tag = self._manifest.roles.get(name)
        if tag is not None:
            return tag
        if "/" in name:
            return _checked_tag(name)
        raise ValueError(
            f"metric {name!r} is neither a role ({', '.join(ROLES)}) nor a tag: "
            f'give a metric of your own a tag with a slash, as in log(step, **{{"train/{name}": value}})'
        )

    def _add(self, step: int, value: summary_pb2.Summary.Value, wall_time: Optional[float]) -> None:
        self._put_values(_checked_wall_time(wall_time), _checked_step(step), [value])

    def _put_values(self, wall_time: float, step: int, values: Sequence[summary_pb2.Summary.Value]) -> None:
        self._put(Entry(wall_time, step, values, sum(value.ByteSize() for value in values)))

    def _put(self, entry: Entry, *, important: bool = False) -> None:
        if self._is_forked():
            return
        if self._closed:
            raise ValueError(f"this HealthWriter of {self._log_dir!r} is closed")
        self._last_step = max(self._last_step, entry.step)
        self._background.put(entry, important=important)

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


def _manifest_entry(manifest: RunManifest) -> Entry:
    # Step 0 would look like a restart to readers that go by steps alone.
    return Entry(time.time(), manifest.resumed_from or 0, [metadata.manifest_value(manifest)])


def _weak_end(writer: HealthWriter) -> Callable[[], None]:
    # A handler must not keep alive what nobody else has any more.
    reference = weakref.ref(writer)

    def end() -> None:
        found = reference()
        if found is not None:
            found._end_by_sigterm()

    return end


def _close_quietly(background: BackgroundWriter, process: int) -> None:
    """Puts on disk what a writer that was never closed still holds."""
    if process == os.getpid():
        background.close()


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
    if type(step) is int and 0 <= step < 2**63:
        return step
    if isinstance(step, bool) or not isinstance(step, numbers.Integral):
        raise ValueError(f"step is a whole number, got {step!r} ({type(step).__name__})")
    if not -(2**63) <= step < 2**63:
        raise ValueError(f"step {step} does not fit a 64-bit integer")
    return int(step)


def _checked_tag(tag: str) -> str:
    if not isinstance(tag, str) or not _is_tag(tag):
        raise ValueError(f"a tag must be a string, not empty and none of this package's own, got {tag!r}")
    return tag


@functools.lru_cache(maxsize=4096)
def _is_tag(tag: str) -> bool:
    try:
        tag.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return bool(tag) and tag not in (metadata.RUN_TAG, metadata.EVENTS_TAG)


def _checked_wall_time(wall_time: Optional[float]) -> float:
    return time.time() if wall_time is None else _number("wall_time", wall_time)


def _number(name: str, value: Any) -> float:
    if type(value) is float:
        return value
    try:
        # An array of one element is a number to whoever logs a loss.
        return float(value.item()) if getattr(value, "size", None) == 1 and hasattr(value, "item") else float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"metric {name!r} must be a number, got {value!r}") from error
