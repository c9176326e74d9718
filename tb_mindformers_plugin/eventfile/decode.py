"""Decodes framed records into columns, through the protobuf library."""

from __future__ import annotations

import collections
import math
from typing import Any, Optional

import numpy as np
from google.protobuf.message import DecodeError
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2
from tensorboard.util import tensor_util

from tb_mindformers_plugin import metadata
from tb_mindformers_plugin.eventfile.columns import Chunk, Column, HealthRecord
from tb_mindformers_plugin.eventfile.crc32c import Bytes
from tb_mindformers_plugin.eventfile.framing import Frames

# Dtypes whose every value float32 holds exactly.
_NARROW = frozenset(
    (
        types_pb2.DT_FLOAT,
        types_pb2.DT_HALF,
        types_pb2.DT_BFLOAT16,
        types_pb2.DT_INT8,
        types_pb2.DT_UINT8,
        types_pb2.DT_INT16,
        types_pb2.DT_UINT16,
        types_pb2.DT_BOOL,
    )
)
_WIDE = frozenset(
    (types_pb2.DT_DOUBLE, types_pb2.DT_INT32, types_pb2.DT_UINT32, types_pb2.DT_INT64, types_pb2.DT_UINT64)
)


class _Points:
    """The growing lists of one tag."""

    __slots__ = ("step", "value", "wall", "wide")

    def __init__(self) -> None:
        self.step: list[int] = []
        self.wall: list[float] = []
        self.value: list[float] = []
        self.wide = False

    def column(self) -> Column:
        dtype = np.float64 if self.wide else np.float32
        return Column(np.array(self.step, np.int64), np.array(self.wall, np.float64), np.array(self.value, dtype))


class Decoder:
    """Decodes the records of one event file, chunk by chunk.

    It remembers which plugin a tag belongs to, since writers give a tag's metadata once only.
    """

    def __init__(self) -> None:
        self._plugin: dict[str, str] = {}

    def decode(self, buffer: Bytes, frames: Frames) -> Chunk:
        """Returns the columns and health records of `frames`, in file order."""
        points: dict[str, _Points] = collections.defaultdict(_Points)
        health: list[HealthRecord] = []
        other: collections.Counter[str] = collections.Counter()
        problems: collections.Counter[str] = collections.Counter()
        last_wall: Optional[float] = None
        data = buffer.data
        for start, length in zip(frames.starts.tolist(), frames.lengths.tolist()):
            try:
                event = event_pb2.Event.FromString(bytes(data[start : start + length]))
            except DecodeError as error:
                problems[f"a record is no event ({error})"] += 1
                continue
            wall = event.wall_time
            if math.isfinite(wall) and (last_wall is None or wall > last_wall):
                last_wall = wall
            if event.WhichOneof("what") != "summary":
                continue
            for value in event.summary.value:
                record = self._health_record(value, event)
                if record is not None:
                    health.append(record)
                    continue
                number = _scalar(value)
                if number is None:
                    other[value.WhichOneof("value") or "empty"] += 1
                    continue
                column = points[value.tag]
                column.step.append(event.step)
                column.wall.append(wall)
                column.value.append(number)
                column.wide = column.wide or _is_wide(value)
        return Chunk(
            columns={tag: column.column() for tag, column in points.items()},
            health=tuple(health),
            damage=frames.damage,
            problems=tuple(f"{what}: {count} times" if count > 1 else what for what, count in problems.items()),
            other_records=dict(other),
            last_wall=last_wall,
        )

    def _health_record(self, value: summary_pb2.Summary.Value, event: event_pb2.Event) -> Optional[HealthRecord]:
        plugin = value.metadata.plugin_data.plugin_name
        if plugin:
            self._plugin.setdefault(value.tag, plugin)
        elif value.tag in (metadata.RUN_TAG, metadata.EVENTS_TAG):
            plugin = self._plugin.get(value.tag, "")
        if plugin != metadata.PLUGIN_NAME:
            return None
        if value.tag == metadata.RUN_TAG:
            content = value.metadata.plugin_data.content
        elif value.tag == metadata.EVENTS_TAG and value.tensor.string_val:
            content = value.tensor.string_val[0]
        else:
            return None
        return HealthRecord(value.tag, event.step, event.wall_time, content)


def _scalar(value: summary_pb2.Summary.Value) -> Optional[float]:
    """The value's one number, or None where it holds none or many."""
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return float(value.simple_value)
    if kind != "tensor":
        return None
    tensor = value.tensor
    if tensor.dtype not in _NARROW and tensor.dtype not in _WIDE:
        return None
    if any(dim.size != 1 for dim in tensor.tensor_shape.dim):
        return None
    return _only_element(tensor)


def _only_element(tensor: tensor_pb2.TensorProto) -> Optional[float]:
    try:
        array: Any = tensor_util.make_ndarray(tensor)
        return float(np.asarray(array).reshape(-1)[0])
    except (TypeError, ValueError, IndexError):
        return None


def _is_wide(value: summary_pb2.Summary.Value) -> bool:
    return value.WhichOneof("value") == "tensor" and value.tensor.dtype in _WIDE
