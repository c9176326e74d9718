"""Events as bytes: protobuf messages in TFRecord frames.

Where MindSpore is installed, protobuf runs in pure Python, where a message of eight scalars takes longer
to build than a small training step may last. Scalars, which are nearly all that is written, are
therefore laid out here by hand; everything else goes through the library.

Layout: TensorFlow's event.proto and summary.proto; https://protobuf.dev/programming-guides/encoding for the
wire types; `tb_mindformers_plugin.eventfile.framing` for the frame.
"""

from __future__ import annotations

import functools
import math
import struct
from typing import Mapping, Sequence

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

_WALL_TIME = b"\x09"  # field 1, 64 bits
_STEP = b"\x10"  # field 2, varint
_SUMMARY = b"\x2a"  # field 5, length-delimited
_VALUE = b"\x0a"  # Summary.value: field 1, length-delimited
_TAG = b"\x0a"  # Value.tag: field 1, length-delimited
_SIMPLE_VALUE = b"\x15"  # Value.simple_value: field 2, 32 bits

_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")
_LENGTH, _CRC = struct.Struct("<Q"), struct.Struct("<I")


def scalars_record(wall_time: float, step: int, scalars: Mapping[str, float]) -> bytes:
    """Returns the record of one event with `scalars` {tag: value}.

    A value beyond float32 becomes infinite, as protobuf has it.
    """
    summary = b"".join([_value_head(tag) + _float32(value) for tag, value in scalars.items()])
    # A field that is 0 is not written: proto3 has no other way to say it.
    payload = b"".join(
        (
            _WALL_TIME + _DOUBLE.pack(wall_time) if wall_time else b"",
            _STEP + _varint(step) if step else b"",
            _SUMMARY + _varint(len(summary)) + summary,
        )
    )
    return framed(payload)


def values_record(wall_time: float, step: int, values: Sequence[summary_pb2.Summary.Value]) -> bytes:
    """Returns the record of one event with summary values of any kind."""
    summary = summary_pb2.Summary(value=values)
    return framed(event_pb2.Event(wall_time=wall_time, step=step, summary=summary).SerializeToString())


def version_record(wall_time: float) -> bytes:
    """Returns the record that an event file begins with."""
    source = event_pb2.SourceMetadata(writer="tb_mindformers_plugin.writer")
    event = event_pb2.Event(wall_time=wall_time, file_version="brain.Event:2", source_metadata=source)
    return framed(event.SerializeToString())


def framed(payload: bytes) -> bytes:
    """Returns `payload` as a TFRecord."""
    header = _LENGTH.pack(len(payload))
    return b"".join((header, _CRC.pack(masked_crc32c(header)), payload, _CRC.pack(masked_crc32c(payload))))


@functools.lru_cache(maxsize=4096)
def _value_head(tag: str) -> bytes:
    """Everything of a ``Summary.Value`` before its number: the same in each record of the tag."""
    name = tag.encode("utf-8")
    value = _TAG + _varint(len(name)) + name + _SIMPLE_VALUE
    return _VALUE + _varint(len(value) + _FLOAT.size) + value


def _float32(value: float) -> bytes:
    try:
        return _FLOAT.pack(value)
    except OverflowError:
        return _FLOAT.pack(math.copysign(math.inf, value))


def _varint(number: int) -> bytes:
    number &= 2**64 - 1  # two's complement, ten bytes where negative
    if number < 0x80:
        return bytes((number,))
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
