"""Events as TFRecords, as they stand in an event file (the frame: `tb_mindformers_plugin.eventfile.framing`)."""

from __future__ import annotations

import struct
from typing import Mapping, Sequence

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

from tb_mindformers_plugin.scalar_record import scalar_record

_LENGTH, _CRC = struct.Struct("<Q"), struct.Struct("<I")


def scalars_record(wall_time: float, step: int, scalars: Mapping[str, float]) -> bytes:
    """Returns the record of one event with `scalars` {tag: value}."""
    return framed(scalar_record(step, wall_time, scalars))


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
