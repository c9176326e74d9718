"""Many records of an event file at once, as bytes: what a writer would have written, only faster."""

from __future__ import annotations

from typing import Sequence

import numpy as np
import numpy.typing as npt
from tensorboard.compat.proto import event_pb2, summary_pb2

from tb_mindformers_plugin.eventfile import crc32c

Bytes = npt.NDArray[np.uint8]

# Records encoded at a time: bounds the memory.
_BLOCK = 100_000
# In an Event the wall time comes first (key, double), then the step (key, varint).
_WALL, _STEP = 1, 10
_HEADER, _FOOTER = 12, 4


class Layout:
    """A kind of record: the same tags each time, with other numbers.

    Args:
      tags: one value a tag.
      tensor: write values as TensorFlow 2 does, as tensors that repeat the summary metadata.
    """

    def __init__(self, tags: Sequence[str], tensor: bool = False) -> None:
        self.tags = tuple(tags)
        self._tensor = tensor

    def record(self, step_bytes: int) -> tuple[Bytes, list[int]]:
        """A record whose step takes so many bytes, and the places of the values in its payload."""
        marks = [np.float32(-1.2345678e-20) * (i + 1) for i in range(len(self.tags))]
        event = event_pb2.Event(wall_time=1.5, step=1 << 7 * (step_bytes - 1))
        for tag, mark in zip(self.tags, marks):
            event.summary.value.append(self._value(tag, float(mark)))
        payload = event.SerializeToString()
        places = []
        for mark in marks:
            pattern = np.array(mark, "<f4").tobytes()
            if payload.count(pattern) != 1:
                raise AssertionError("the mark of a value must be found once in the payload")
            places.append(payload.index(pattern))
        return framed(payload), places

    def _value(self, tag: str, number: float) -> summary_pb2.Summary.Value:
        value = summary_pb2.Summary.Value(tag=tag)
        if not self._tensor:
            value.simple_value = number
            return value
        value.metadata.plugin_data.plugin_name = "scalars"
        value.metadata.data_class = summary_pb2.DATA_CLASS_SCALAR
        value.tensor.dtype = 1  # DT_FLOAT
        value.tensor.tensor_shape.SetInParent()
        value.tensor.float_val.append(number)
        return value


def framed(payload: bytes) -> Bytes:
    """One record around `payload`."""
    length = np.array([len(payload)], "<u8").tobytes()
    body = length + b"\0" * (_HEADER - len(length)) + payload + b"\0" * _FOOTER
    record = np.frombuffer(body, np.uint8).copy()
    _put(record[None], 8, _masked_crcs(record[None], 0, 8))
    _put(record[None], _HEADER + len(payload), _masked_crcs(record[None], _HEADER, len(payload)))
    return record


def file_version() -> bytes:
    """The record that every event file begins with."""
    return framed(event_pb2.Event(wall_time=1.7e9, file_version="brain.Event:2").SerializeToString()).tobytes()


def encoded(
    layouts: Sequence[Layout],
    which: npt.NDArray[np.int64],
    step: npt.NDArray[np.int64],
    wall: npt.NDArray[np.float64],
    value: npt.NDArray[np.float32],
) -> list[bytes]:
    """The bytes of n records, in blocks.

    Args:
      layouts: kinds of record.
      which: (n,) kind of each record.
      step: (n,) at least 1.
      wall: (n,) seconds since the Unix epoch.
      value: (n, k) numbers; a record takes the first of its row, one a tag.
    """
    return [
        _block(layouts, which[i : i + _BLOCK], step[i : i + _BLOCK], wall[i : i + _BLOCK], value[i : i + _BLOCK])
        for i in range(0, len(step), _BLOCK)
    ]


def _block(
    layouts: Sequence[Layout],
    which: npt.NDArray[np.int64],
    step: npt.NDArray[np.int64],
    wall: npt.NDArray[np.float64],
    value: npt.NDArray[np.float32],
) -> bytes:
    step_bytes = 1 + sum((step >= 1 << 7 * size).astype(np.int64) for size in range(1, 9))
    groups = []
    lengths = np.zeros(len(step), np.int64)
    for kind in np.unique(which):
        for size in np.unique(step_bytes[which == kind]):
            index = np.flatnonzero((which == kind) & (step_bytes == size))
            record, places = layouts[kind].record(int(size))
            groups.append((index, record, int(size), places))
            lengths[index] = len(record)
    starts = np.cumsum(lengths) - lengths
    out = np.empty(int(lengths.sum()), np.uint8)
    for index, record, size, places in groups:
        rows = np.tile(record, (len(index), 1))
        _put(rows, _HEADER + _WALL, wall[index].astype("<f8"))
        for place in range(size):
            more = 0x80 if place < size - 1 else 0
            rows[:, _HEADER + _STEP + place] = (step[index] >> 7 * place & 0x7F) | more
        for column, place in enumerate(places):
            _put(rows, _HEADER + place, value[index, column].astype("<f4"))
        payload = len(record) - _HEADER - _FOOTER
        _put(rows, _HEADER + payload, _masked_crcs(rows, _HEADER, payload))
        out[starts[index][:, None] + np.arange(len(record))] = rows
    return out.tobytes()


def _put(rows: Bytes, offset: int, numbers: npt.NDArray) -> None:
    """Writes a number into each row."""
    rows[:, offset : offset + numbers.itemsize] = np.ascontiguousarray(numbers)[:, None].view(np.uint8)


def _masked_crcs(rows: Bytes, offset: int, length: int) -> npt.NDArray[np.uint32]:
    starts = np.arange(len(rows)) * rows.shape[1] + offset
    crcs = crc32c.crc32c(np.ascontiguousarray(rows).reshape(-1), starts, np.full(len(rows), length))
    return crc32c.masked(crcs).astype("<u4")
