"""Reads the wire format of one `Event` record, far enough to tell scalars from everything else.

Fields by number, from TensorBoard's event.proto, summary.proto and tensor.proto.
"""

from __future__ import annotations

import dataclasses
from typing import Iterator, Optional, Protocol, Union, overload

import numpy as np

from tb_mindformers_plugin.eventfile.crc32c import Bytes

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

EVENT_WALL_TIME, EVENT_STEP, EVENT_SUMMARY = 1, 2, 5
SUMMARY_VALUE = 1
VALUE_TAG, VALUE_SIMPLE, VALUE_NODE_NAME, VALUE_TENSOR, VALUE_METADATA = 1, 2, 7, 8, 9
TENSOR_DTYPE, TENSOR_SHAPE, TENSOR_VERSION, TENSOR_CONTENT, TENSOR_FLOAT, TENSOR_DOUBLE = 1, 2, 3, 4, 5, 6
SHAPE_DIM = 2
DIM_SIZE = 1

DT_FLOAT, DT_DOUBLE = 1, 2
# Dtypes whose `tensor_content` is the number itself.
_CONTENT_DTYPES = {
    DT_FLOAT: "<f4",
    DT_DOUBLE: "<f8",
    3: "<i4",
    4: "u1",
    5: "<i2",
    6: "i1",
    9: "<i8",
    10: "?",
    19: "<f2",
}

#: No tensor of one number is larger.
LARGEST_SCALAR = 1024

#: Numpy dtypes of `Slot` whose values float32 cannot all hold.
WIDE = frozenset(("<f8", "<i4", "<i8"))


class Message(Protocol):
    """Bytes that are looked at here and there: `bytes`, a memoryview, or what reads them when they are."""

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, place: int) -> int: ...

    @overload
    def __getitem__(self, place: slice) -> Union[bytes, memoryview]: ...


class WireError(ValueError):
    """Bytes that are no message."""


@dataclasses.dataclass(frozen=True)
class Slot:
    """Where a number lies in a record.

    Attributes:
      offset: of its first byte.
      dtype: numpy dtype, little-endian.
      tag: the series that it belongs to, as bytes; empty for the wall time.
    """

    offset: int
    dtype: str
    tag: bytes = b""


@dataclasses.dataclass(frozen=True)
class Template:
    """The layout of a record of scalars: what is constant, and where its numbers are.

    Records of the same writer and the same tags differ in nothing but these bytes.

    Attributes:
      length: bytes of the payload.
      constant: (length,) uint8: the record, with 0 where a number is.
      mask: (length,) uint8: which bits are constant.
      wall: slot of the wall time, or None where the record has none (0).
      step: (offset, bytes) of the step's varint, or None where the record has none (0).
      values: slots of the scalars, in the order of the record.
    """

    length: int
    constant: Bytes
    mask: Bytes
    wall: Optional[Slot]
    step: Optional[tuple[int, int]]
    values: tuple[Slot, ...]


def fields(data: Message, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields (number, wire type, start, stop) of the fields of the message in data[start:stop].

    For `BYTES` the range is that of the content.

    Raises:
      WireError: the bytes are no message.
    """
    position = start
    while position < stop:
        key, position = varint(data, position, stop)
        kind = key & 7
        if kind == VARINT:
            begin = position
            _, position = varint(data, position, stop)
        elif kind == BYTES:
            length, begin = varint(data, position, stop)
            position = begin + length
        elif kind in (FIXED32, FIXED64):
            begin, position = position, position + (4 if kind == FIXED32 else 8)
        else:
            raise WireError(f"wire type {kind}")
        if position > stop:
            raise WireError("a field is longer than its message")
        yield key >> 3, kind, begin, position


def varint(data: Message, position: int, stop: int) -> tuple[int, int]:
    """Returns the varint at `position` and the position after it.

    Raises:
      WireError: it does not end.
    """
    value = shift = 0
    while position < stop and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise WireError("a varint does not end")


def template(record: bytes, own_tags: frozenset[bytes]) -> Optional[Template]:
    """Returns the layout of `record`, or None where it is not made of scalars alone.

    Args:
      record: the payload of an event record.
      own_tags: tags that are never scalars (the manifest and health events).
    """
    try:
        return _event(record, own_tags)
    except WireError:
        return None


def _event(record: bytes, own_tags: frozenset[bytes]) -> Optional[Template]:
    wall: Optional[Slot] = None
    step: Optional[tuple[int, int]] = None
    values: list[Slot] = []
    summaries = 0
    for number, kind, start, stop in fields(record, 0, len(record)):
        if number == EVENT_WALL_TIME and kind == FIXED64 and wall is None:
            wall = Slot(start, "<f8")
        elif number == EVENT_STEP and kind == VARINT and step is None:
            step = (start, stop - start)
        elif number == EVENT_SUMMARY and kind == BYTES and not summaries:
            summaries += 1
            for value_number, value_kind, value_start, value_stop in fields(record, start, stop):
                if value_number != SUMMARY_VALUE or value_kind != BYTES:
                    return None
                slot = _value(record, value_start, value_stop)
                if slot is None or slot.tag in own_tags:
                    return None
                values.append(slot)
        else:
            return None
    if not values:
        return None
    mask = np.full(len(record), 0xFF, np.uint8)
    for slot in values if wall is None else [wall, *values]:
        mask[slot.offset : slot.offset + np.dtype(slot.dtype).itemsize] = 0
    if step is not None:
        # That the varint is as long is constant; the rest of it is not.
        mask[step[0] : step[0] + step[1]] = 0x80
    constant = np.frombuffer(record, np.uint8) & mask
    return Template(len(record), constant, mask, wall, step, tuple(values))


def _value(data: bytes, start: int, stop: int) -> Optional[Slot]:
    tag: Optional[bytes] = None
    found: Optional[tuple[int, str]] = None
    for number, kind, begin, end in fields(data, start, stop):
        if number == VALUE_TAG and kind == BYTES and tag is None:
            tag = data[begin:end]
        elif number == VALUE_SIMPLE and kind == FIXED32 and found is None:
            found = (begin, "<f4")
        elif number == VALUE_TENSOR and kind == BYTES and found is None:
            found = _tensor(data, begin, end)
            if found is None:
                return None
        elif number not in (VALUE_METADATA, VALUE_NODE_NAME) or kind != BYTES:
            return None
    return None if tag is None or found is None else Slot(found[0], found[1], tag)


def _tensor(data: bytes, start: int, stop: int) -> Optional[tuple[int, str]]:
    """Offset and dtype of the number of a scalar tensor whose bytes are the number itself."""
    dtype = 0
    element: Optional[tuple[int, int, int]] = None
    for number, kind, begin, end in fields(data, start, stop):
        if number == TENSOR_DTYPE and kind == VARINT:
            dtype, _ = varint(data, begin, end)
        elif number == TENSOR_SHAPE and kind == BYTES:
            if not _is_scalar_shape(data, begin, end):
                return None
        elif number in (TENSOR_CONTENT, TENSOR_FLOAT, TENSOR_DOUBLE) and element is None and end > begin:
            element = (number, begin, end - begin)
        elif number != TENSOR_VERSION or kind != VARINT:
            return None
    if element is None:
        return None
    number, begin, size = element
    expected = {TENSOR_FLOAT: DT_FLOAT, TENSOR_DOUBLE: DT_DOUBLE}.get(number, dtype)
    numpy_dtype = _CONTENT_DTYPES.get(dtype)
    if dtype != expected or numpy_dtype is None or size != np.dtype(numpy_dtype).itemsize:
        return None
    return begin, numpy_dtype


def _is_scalar_shape(data: bytes, start: int, stop: int) -> bool:
    for number, kind, begin, end in fields(data, start, stop):
        if number != SHAPE_DIM or kind != BYTES:
            return False
        for dim_number, _, dim_begin, dim_end in fields(data, begin, end):
            if dim_number == DIM_SIZE and varint(data, dim_begin, dim_end)[0] != 1:
                return False
    return True


def may_hold_scalars(data: Message, own_tags: frozenset[bytes]) -> bool:
    """Whether a record has a value that may be a scalar, or one of `own_tags`.

    It reads no more than what tells the record's fields apart.

    For large records: a graph, an image or a trace of hundreds of MB is passed over by this.
    """
    try:
        for number, kind, start, stop in fields(data, 0, len(data)):
            if number == EVENT_SUMMARY and kind == BYTES and _has_small_value(data, start, stop, own_tags):
                return True
    except WireError:
        return True  # for the decoder to say
    return False


def _has_small_value(data: Message, start: int, stop: int, own_tags: frozenset[bytes]) -> bool:
    for number, kind, value_start, value_stop in fields(data, start, stop):
        if number == SUMMARY_VALUE and kind == BYTES:
            for inner, inner_kind, begin, end in fields(data, value_start, value_stop):
                if inner == VALUE_TAG and bytes(data[begin:end]) in own_tags:
                    return True
                if inner == VALUE_SIMPLE and inner_kind == FIXED32:
                    return True
                if inner == VALUE_TENSOR and inner_kind == BYTES and end - begin < LARGEST_SCALAR:
                    return True
    return False
