"""Event files made by hand, through the protobuf library and TensorBoard's own CRC."""

from __future__ import annotations

import struct

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c


def record(payload: bytes) -> bytes:
    """A TFRecord with `payload`."""
    header = struct.pack("<Q", len(payload))
    return header + struct.pack("<I", masked_crc32c(header)) + payload + struct.pack("<I", masked_crc32c(payload))


def version(wall: float = 0.0) -> bytes:
    return record(event_pb2.Event(wall_time=wall, file_version="brain.Event:2").SerializeToString())


def scalars(step: int, wall: float | None = None, **values: float) -> bytes:
    """One event with simple values by tag (``__`` stands for a slash)."""
    summary = summary_pb2.Summary(
        value=[
            summary_pb2.Summary.Value(tag=tag.replace("__", "/"), simple_value=value) for tag, value in values.items()
        ]
    )
    at = 1000.0 + step if wall is None else wall
    return record(event_pb2.Event(wall_time=at, step=step, summary=summary).SerializeToString())


def value_event(step: int, value: summary_pb2.Summary.Value, wall: float = 1000.0) -> bytes:
    event = event_pb2.Event(wall_time=wall, step=step, summary=summary_pb2.Summary(value=[value]))
    return record(event.SerializeToString())


def write(directory, *chunks: bytes, name: str = "events.out.tfevents.1.host.1.0"):
    """Writes an event file (with its version record) and returns its path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_bytes(version() + b"".join(chunks))
    return path
