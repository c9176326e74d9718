"""Decodes records one by one, through the protobuf library: those that come alone or have no plain layout."""

from __future__ import annotations

import collections
import dataclasses
import math
from typing import Iterable, Optional

import numpy as np
from google.protobuf.message import DecodeError
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2

from tb_mindformers_plugin import metadata
from tb_mindformers_plugin.eventfile import wire
from tb_mindformers_plugin.eventfile.columns import HealthRecord

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


@dataclasses.dataclass
class SinglesRead:
    """What some records hold.

    Attributes:
      points: tag -> (record, place in the record, step, wall time, value) of each point.
      wide: tags with a value that float32 cannot hold.
      health: manifests and health events.
      other: values that are no scalars, by kind.
      problems: what could not be read, each a sentence.
      last_wall: latest finite wall time, or -inf.
    """

    points: dict[bytes, list[tuple[int, int, int, float, float]]]
    wide: set[bytes] = dataclasses.field(default_factory=set)
    health: list[HealthRecord] = dataclasses.field(default_factory=list)
    other: dict[str, int] = dataclasses.field(default_factory=collections.Counter)
    problems: list[str] = dataclasses.field(default_factory=list)
    last_wall: float = -math.inf


class SingleRecords:
    """Decodes records one by one.

    It remembers which plugin a tag belongs to, since writers give a tag's metadata once only.
    """

    def __init__(self) -> None:
        self._plugin: dict[str, str] = {}

    def read(self, records: Iterable[tuple[int, bytes]]) -> SinglesRead:
        """Decodes (place in the file, payload) pairs, in file order."""
        read = SinglesRead(points=collections.defaultdict(list))
        undecodable: collections.Counter[str] = collections.Counter()
        for index, payload in records:
            try:
                event = event_pb2.Event.FromString(payload)
            except DecodeError as error:
                # The library refuses a tag that is not UTF-8; its numbers are sound all the same.
                if not _read_plain(index, payload, read):
                    undecodable[f"a record is no event ({error})"] += 1
                continue
            if math.isfinite(event.wall_time):
                read.last_wall = max(read.last_wall, event.wall_time)
            what = event.WhichOneof("what")
            if what != "summary":
                if what not in (None, "file_version"):
                    read.other[what] += 1
                continue
            for place, value in enumerate(event.summary.value):
                self._read_value(index, place, value, event, read)
        for what, count in undecodable.items():
            read.problems.append(f"{what}, {count} times" if count > 1 else what)
        return read

    def _read_value(
        self, index: int, place: int, value: summary_pb2.Summary.Value, event: event_pb2.Event, read: SinglesRead
    ) -> None:
        record = self._health_record(value, event)
        if record is not None:
            read.health.append(record)
            return
        number = _scalar(value)
        if number is None:
            read.other[value.WhichOneof("value") or "empty"] += 1
            return
        tag = value.tag.encode("utf-8")
        read.points[tag].append((index, place, event.step, event.wall_time, number))
        if value.WhichOneof("value") == "tensor" and _DTYPES[value.tensor.dtype][2]:
            read.wide.add(tag)

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


def _read_plain(index: int, payload: bytes, read: SinglesRead) -> bool:
    """Reads a record of plain scalars without the protobuf library; returns whether it is one."""
    template = wire.template(payload, frozenset())
    if template is None:
        return False
    wall = 0.0 if template.wall is None else _number_at(payload, template.wall)
    step = 0
    if template.step is not None:
        step, _ = wire.varint(payload, template.step[0], len(payload))
        step &= 2**64 - 1  # what a tenth byte may say beyond is dropped, as protobuf does
        step -= (step >> 63) << 64  # negative steps are two's complement
    if math.isfinite(wall):
        read.last_wall = max(read.last_wall, wall)
    for place, slot in enumerate(template.values):
        read.points[slot.tag].append((index, place, step, wall, _number_at(payload, slot)))
        if slot.dtype in wire.WIDE:
            read.wide.add(slot.tag)
    return True


def _number_at(payload: bytes, slot: wire.Slot) -> float:
    return float(np.frombuffer(payload, slot.dtype, 1, slot.offset)[0])


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
        # Half and bfloat16 come as the bits of a uint16; a writer may have put anything there.
        if not 0 <= elements[0] < 2**16:
            return None
        element = np.array(elements[:1], "<u2").view(dtype)
    elif len(elements):
        return float(elements[0])
    else:
        return 0.0  # a proto that leaves all elements out means zeros
    if tensor.dtype == types_pb2.DT_BFLOAT16:
        # bfloat16 is the upper half of a float32.
        element = (element.astype("<u4") << 16).view("<f4")
    return float(element[0])
