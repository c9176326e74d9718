"""Decodes framed records into columns, through the protobuf library."""

from __future__ import annotations

import collections
import math
from typing import Optional

import numpy as np
from google.protobuf.message import DecodeError
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2

from tb_mindformers_plugin import metadata
from tb_mindformers_plugin.eventfile.columns import Chunk, Column, HealthRecord
from tb_mindformers_plugin.eventfile.crc32c import Bytes
from tb_mindformers_plugin.eventfile.framing import Frames

# Dtype -> (field that holds elements given one by one, numpy dtype, whether float32 cannot hold all of its values).
_DTYPES: dict[int, tuple[str, str, bool]] = {
    types_pb2.DT_FLOAT: ("float_val", "<f4", False),
    types_pb2.DT_DOUBLE: ("double_val", "<f8", True),
    types_pb2.DT_HALF: ("half_val", "<f2", False),
    types_pb2.DT_BFLOAT16: ("half_val", "<u2", False),
    types_pb2.DT_INT8: ("int_val", "i1", False),
    types_pb2.DT_UINT8: ("int_val", "u1", False),
    types_pb2.DT_INT16: ("int_val", "<i2", False),
    types_pb2.DT_UINT16: ("int_val", "<u2", False),
    types_pb2.DT_INT32: ("int_val", "<i4", True),
    types_pb2.DT_UINT32: ("uint32_val", "<u4", True),
    types_pb2.DT_INT64: ("int64_val", "<i8", True),
    types_pb2.DT_UINT64: ("uint64_val", "<u8", True),
    types_pb2.DT_BOOL: ("bool_val", "?", False),
}


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
    return _only_element(value.tensor)


def _only_element(tensor: tensor_pb2.TensorProto) -> Optional[float]:
    if tensor.dtype not in _DTYPES or any(dim.size != 1 for dim in tensor.tensor_shape.dim):
        return None
    field, dtype, _ = _DTYPES[tensor.dtype]
    elements = getattr(tensor, field)
    if tensor.tensor_content:
        if len(tensor.tensor_content) < np.dtype(dtype).itemsize:
            return None
        element = np.frombuffer(tensor.tensor_content, dtype, count=1)
    elif len(elements) and field == "half_val":
        # Half and bfloat16 come as the bits of a uint16.
        element = np.array(elements[:1], "<u2").view(dtype)
    elif len(elements):
        return float(elements[0])
    else:
        return 0.0  # a proto that leaves all elements out means zeros
    if tensor.dtype == types_pb2.DT_BFLOAT16:
        # bfloat16 is the upper half of a float32.
        element = (element.astype("<u4") << 16).view("<f4")
    return float(element[0])


def _is_wide(value: summary_pb2.Summary.Value) -> bool:
    return value.WhichOneof("value") == "tensor" and _DTYPES[value.tensor.dtype][2]
