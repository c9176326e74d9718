"""The data contract between whoever writes a run and whoever reads it (docs/data-contract.md).

A run directory holds ordinary scalars, plus two kinds of record of this plugin's own:

* the **run manifest**: tag ``training_health/run``; what the tags mean and how the run is set up,
  as JSON in the summary metadata. Written at every start and restart;
* **health events**: tag ``training_health/events``; things that happen at a step, as JSON in a
  string tensor.
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, Mapping, Optional

from tensorboard.compat.proto import summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2

PLUGIN_NAME = "training_health"
RUN_TAG = "training_health/run"
EVENTS_TAG = "training_health/events"

#: Version of the data contract that this package writes, and the newest that it reads.
CONTRACT_VERSION = 1

EVENT_KINDS = ("overflow", "alert", "action", "resume", "end")


class ManifestError(ValueError):
    """A run manifest (or health event) that cannot be used; the message says why and what to do."""


@dataclasses.dataclass
class RunManifest:
    """What a run says about itself.

    Every field but ``version`` may be absent (``None`` or empty). Fields of a later minor
    revision that this package does not know are kept in ``extra``.

    Attributes:
      version: version of the data contract.
      roles: role -> tag that carries it, e.g. ``{"loss": "train/loss"}``.
      units: tag -> unit, e.g. ``{"train/step_time": "s"}``.
      ema_decay: decay of the ``loss_ema`` series, in [0, 1).
      total_steps: optimizer steps that the whole training will take.
      steps_per_epoch: optimizer steps of one epoch.
      global_batch_size: samples of one optimizer step, over all devices.
      tokens_per_step: tokens of one optimizer step, over all devices.
      schedule: learning-rate schedule: ``kind``, ``peak``, ``warmup_steps`` and what else is known.
      grad_clip: threshold of clipping by global norm.
      loss_scale: ``kind`` (fixed or dynamic), ``initial``, ``window``, ``factor``.
      framework: framework name -> version.
      distributed: ``rank``, ``size``, ``pipeline_stage``.
      started_at: time of this start, ISO 8601 with zone.
      resumed_from: step that this start continues from.
      hparams: hyper-parameters, as the user gave them.
      extra: unknown fields, kept as they were read.
    """

    version: int = CONTRACT_VERSION
    roles: dict[str, str] = dataclasses.field(default_factory=dict)
    units: dict[str, str] = dataclasses.field(default_factory=dict)
    ema_decay: Optional[float] = None
    total_steps: Optional[int] = None
    steps_per_epoch: Optional[int] = None
    global_batch_size: Optional[int] = None
    tokens_per_step: Optional[int] = None
    schedule: Optional[dict[str, Any]] = None
    grad_clip: Optional[float] = None
    loss_scale: Optional[dict[str, Any]] = None
    framework: dict[str, str] = dataclasses.field(default_factory=dict)
    distributed: Optional[dict[str, Any]] = None
    started_at: Optional[str] = None
    resumed_from: Optional[int] = None
    hparams: dict[str, Any] = dataclasses.field(default_factory=dict)
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields that are set, unknown ones included, as JSON types."""
        fields = dataclasses.asdict(self)
        extra = fields.pop("extra")
        known = {k: v for k, v in fields.items() if v is not None and v != {}}
        return {**extra, **known}

    def to_json(self) -> str:
        """Returns the manifest as strict JSON.

        Raises:
          ManifestError: a value has no JSON form (the message names the field).
        """
        fields = [
            f"{_dumps(name, 'manifest')}: {_dumps(value, f'manifest field {name!r}')}"
            for name, value in self.to_dict().items()
        ]
        return "{" + ", ".join(fields) + "}"

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> RunManifest:
        """Builds a manifest from JSON fields; what is unknown goes to ``extra``.

        Raises:
          ManifestError: the version is missing, no whole number or newer than this package reads;
            or a field has the wrong type.
        """
        if not isinstance(fields, Mapping):
            raise ManifestError(f"a run manifest is a JSON object, got {type(fields).__name__}")
        version = fields.get("version")
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise ManifestError(f"run manifest has version {version!r}; expected a whole number >= 1")
        if version > CONTRACT_VERSION:
            raise ManifestError(
                f"run manifest has version {version}, this tb-mindformers-plugin reads up to {CONTRACT_VERSION}: "
                "upgrade it with `pip install -U tb-mindformers-plugin`"
            )
        known: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for name, value in fields.items():
            check = _FIELD_CHECKS.get(name)
            if check is None:
                extra[name] = value
            elif value is not None:
                known[name] = check(name, value)
        return cls(extra=extra, **known)

    @classmethod
    def from_json(cls, text: str) -> RunManifest:
        """Parses a manifest.

        Raises:
          ManifestError: `text` is no JSON object, or as in `from_dict`.
        """
        return cls.from_dict(_loads(text, "run manifest"))


@dataclasses.dataclass(frozen=True)
class HealthEvent:
    """Something that happened in a run at a step.

    Attributes:
      kind: one of `EVENT_KINDS` (readers keep kinds that they do not know).
      step: optimizer step.
      wall_time: seconds since the Unix epoch.
      fields: everything else, e.g. ``{"status": "failed", "error": "..."}`` of an ``end``.
    """

    kind: str
    step: int
    wall_time: float
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def create_summary_metadata(manifest: RunManifest) -> summary_pb2.SummaryMetadata:
    """Returns the summary metadata that carries `manifest`."""
    return _metadata(manifest.to_json().encode("utf-8"))


def parse_summary_metadata(content: bytes) -> RunManifest:
    """Returns the manifest in the `content` of this plugin's summary metadata.

    Raises:
      ManifestError: not UTF-8, no JSON, or as in `RunManifest.from_dict`.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ManifestError(f"run manifest is not UTF-8: {error}") from error
    return RunManifest.from_json(text)


def manifest_value(manifest: RunManifest) -> summary_pb2.Summary.Value:
    """Returns the summary value that marks a directory as a run of this plugin's."""
    # TensorBoard needs a real value beside the metadata; a tensor of length 0 costs nothing.
    empty = tensor_pb2.TensorProto(
        dtype=types_pb2.DT_FLOAT,
        tensor_shape=tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=0)]),
    )
    return summary_pb2.Summary.Value(tag=RUN_TAG, metadata=create_summary_metadata(manifest), tensor=empty)


def event_value(kind: str, fields: Mapping[str, Any]) -> summary_pb2.Summary.Value:
    """Returns the summary value of a health event.

    Raises:
      ManifestError: `kind` is not in `EVENT_KINDS`, or a field has no JSON form.
    """
    if kind not in EVENT_KINDS:
        raise ManifestError(f"health event kind {kind!r} is unknown; known: {', '.join(EVENT_KINDS)}")
    text = _dumps({"kind": kind, **fields}, f"health event {kind!r}")
    tensor = tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[text.encode("utf-8")])
    return summary_pb2.Summary.Value(tag=EVENTS_TAG, metadata=_metadata(b""), tensor=tensor)


def parse_event(text: bytes, step: int, wall_time: float) -> HealthEvent:
    """Returns the health event written as `text`.

    Raises:
      ManifestError: no JSON object with a ``kind``.
    """
    fields = _loads(text.decode("utf-8", "replace"), "health event")
    if not isinstance(fields, dict) or not isinstance(fields.get("kind"), str):
        raise ManifestError(f"a health event is a JSON object with a kind, got {text[:80]!r}")
    kind = fields.pop("kind")
    return HealthEvent(kind=kind, step=step, wall_time=wall_time, fields=fields)


def _metadata(content: bytes) -> summary_pb2.SummaryMetadata:
    return summary_pb2.SummaryMetadata(
        plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name=PLUGIN_NAME, content=content),
        data_class=summary_pb2.DATA_CLASS_TENSOR,
    )


def _dumps(value: Any, what: str) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        if not _is_utf8(text):  # a file name may hold bytes that are none
            text = json.dumps(value, allow_nan=False)
        return text
    except (TypeError, ValueError, RecursionError) as error:
        raise ManifestError(f"{what} has no JSON form ({error}): {value!r}") from error


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _loads(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{what} is not JSON ({error}): {text[:80]!r}") from error


def _whole(name: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        raise ManifestError(f"manifest field {name!r} does not fit 64 bits")
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not math.isfinite(value)
        or value != int(value)
    ):
        raise ManifestError(f"manifest field {name!r} is a whole number, got {value!r}")
    return int(value)


def _real(name: str, value: Any) -> float:
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ManifestError(f"manifest field {name!r} is too large")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ManifestError(f"manifest field {name!r} is a finite number, got {value!r}")
    return float(value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ManifestError(f"manifest field {name!r} is a string, got {value!r}")
    return value


def _object(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ManifestError(f"manifest field {name!r} is a JSON object, got {value!r}")
    return value


def _strings(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise ManifestError(f"manifest field {name!r} is an object of strings, got {value!r}")
    return value


_FIELD_CHECKS = {
    "version": _whole,
    "roles": _strings,
    "units": _strings,
    "ema_decay": _real,
    "total_steps": _whole,
    "steps_per_epoch": _whole,
    "global_batch_size": _whole,
    "tokens_per_step": _whole,
    "schedule": _object,
    "grad_clip": _real,
    "loss_scale": _object,
    "framework": _strings,
    "distributed": _object,
    "started_at": _text,
    "resumed_from": _whole,
    "hparams": _object,
}
