from __future__ import annotations

import math
import struct

import event_bytes
import numpy as np
import pytest
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2

from tb_mindformers_plugin import metadata
from tb_mindformers_plugin.eventfile import EventFile
from tb_mindformers_plugin.eventfile import reader as reader_module
from tb_mindformers_plugin.writer import HealthWriter

Value = summary_pb2.Summary.Value


def tensor_value(dtype, **fields):
    return Value(tag="t", tensor=tensor_pb2.TensorProto(dtype=dtype, tensor_shape={}, **fields))


def one(tmp_path, value):
    """The column that a file with this one value holds."""
    path = event_bytes.write(tmp_path, event_bytes.value_event(5, value))
    return EventFile(str(path)).read().columns.get("t")


@pytest.mark.parametrize(
    ("value", "expected", "dtype"),
    [
        (Value(tag="t", simple_value=2.5), 2.5, np.float32),
        (tensor_value(types_pb2.DT_FLOAT, float_val=[2.5]), 2.5, np.float32),
        (tensor_value(types_pb2.DT_FLOAT, tensor_content=struct.pack("<f", 2.5)), 2.5, np.float32),
        (tensor_value(types_pb2.DT_DOUBLE, double_val=[1 / 3]), 1 / 3, np.float64),
        (tensor_value(types_pb2.DT_DOUBLE, tensor_content=struct.pack("<d", 1 / 3)), 1 / 3, np.float64),
        (tensor_value(types_pb2.DT_HALF, half_val=[0x4100]), 2.5, np.float32),
        (tensor_value(types_pb2.DT_INT64, int64_val=[2**40 + 1]), 2**40 + 1, np.float64),
        (tensor_value(types_pb2.DT_INT32, int_val=[-3]), -3, np.float64),
        (tensor_value(types_pb2.DT_BOOL, bool_val=[True]), 1, np.float32),
    ],
)
def test_every_form_of_a_scalar(tmp_path, value, expected, dtype):
    column = one(tmp_path, value)
    assert column.value.tolist() == [expected]
    assert column.value.dtype == dtype
    assert column.step.tolist() == [5]
    assert column.wall.tolist() == [1000.0]


def test_bfloat16(tmp_path):
    # 2.5 is 0x4020 in bfloat16: the upper half of the float32.
    column = one(tmp_path, tensor_value(types_pb2.DT_BFLOAT16, half_val=[0x4020]))
    assert column.value.tolist() == [2.5]


@pytest.mark.parametrize(
    "value",
    [
        tensor_value(types_pb2.DT_STRING, string_val=[b"text"]),
        Value(
            tag="t",
            tensor=tensor_pb2.TensorProto(
                dtype=types_pb2.DT_FLOAT,
                float_val=[1, 2],
                tensor_shape=tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=2)]),
            ),
        ),
        Value(tag="t", image=summary_pb2.Summary.Image(height=1)),
        Value(tag="t"),
    ],
)
def test_what_is_no_scalar_is_counted_and_passed_over(tmp_path, value):
    path = event_bytes.write(tmp_path, event_bytes.value_event(1, value), event_bytes.scalars(2, loss=1.0))
    chunk = EventFile(str(path)).read()
    assert list(chunk.columns) == ["loss"]
    assert sum(chunk.other_records.values()) == 1


def test_values_that_are_not_finite(tmp_path):
    path = event_bytes.write(
        tmp_path, *(event_bytes.scalars(i, loss=v) for i, v in enumerate([math.nan, math.inf, -math.inf, -0.0, 1e-45]))
    )
    value = EventFile(str(path)).read().columns["loss"].value
    assert np.isnan(value[0])
    assert value[1:3].tolist() == [math.inf, -math.inf]
    assert math.copysign(1, value[3]) == -1
    assert 0 < value[4] < 1e-44


def test_a_growing_file_is_read_from_where_reading_stopped(tmp_path):
    records = [event_bytes.scalars(step, loss=step, lr=0.5) for step in range(10)]
    whole = event_bytes.version() + b"".join(records)
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(b"")
    reader = EventFile(str(path))
    steps = []
    for end in range(0, len(whole) + 1, 7):
        path.write_bytes(whole[:end])
        chunk = reader.read()
        assert chunk.damage == ()
        if "loss" in chunk.columns:
            steps += chunk.columns["loss"].step.tolist()
    path.write_bytes(whole)
    steps += [] if (last := reader.read()).empty else last.columns["loss"].step.tolist()
    assert steps == list(range(10))
    assert reader.read().empty


def test_a_file_that_shrank_is_read_anew(tmp_path):
    path = event_bytes.write(tmp_path, *(event_bytes.scalars(step, loss=1.0) for step in range(5)))
    reader = EventFile(str(path))
    assert reader.read().anew
    path.write_bytes(event_bytes.version() + event_bytes.scalars(100, loss=2.0))
    chunk = reader.read()
    assert chunk.anew
    assert chunk.columns["loss"].step.tolist() == [100]


def test_a_file_that_was_replaced_is_read_anew(tmp_path):
    path = event_bytes.write(tmp_path, event_bytes.scalars(1, loss=1.0))
    reader = EventFile(str(path))
    reader.read()
    other = event_bytes.write(tmp_path / "other", event_bytes.scalars(2, loss=1.0), event_bytes.scalars(3, loss=1.0))
    other.replace(path)
    chunk = reader.read()
    assert chunk.anew
    assert chunk.columns["loss"].step.tolist() == [2, 3]


def test_damage_is_placed_from_the_files_beginning(tmp_path):
    good = event_bytes.scalars(1, loss=1.0)
    path = event_bytes.write(tmp_path, good)
    reader = EventFile(str(path))
    reader.read()
    size = path.stat().st_size
    bad = bytearray(event_bytes.scalars(2, loss=1.0))
    bad[20] ^= 1
    with path.open("ab") as file:
        file.write(bytes(bad) + event_bytes.scalars(3, loss=1.0))
    chunk = reader.read()
    assert chunk.columns["loss"].step.tolist() == [3]
    assert [(d.start, d.stop) for d in chunk.damage] == [(size, size + len(bad))]


def test_a_record_that_is_no_event_is_a_problem(tmp_path):
    path = event_bytes.write(tmp_path, event_bytes.record(b"\xff\xff\xff"), event_bytes.scalars(1, loss=1.0))
    chunk = EventFile(str(path)).read()
    assert len(chunk.problems) == 1
    assert len(chunk.columns["loss"]) == 1


def test_manifest_and_events(tmp_path):
    with HealthWriter(tmp_path, {"total_steps": 3}) as writer:
        writer.log(1, loss=1.0)
        writer.event("end", 1, status="completed")
    chunk = EventFile(str(next(tmp_path.iterdir()))).read()
    assert [record.tag for record in chunk.health] == [metadata.RUN_TAG, metadata.EVENTS_TAG]
    assert metadata.parse_summary_metadata(chunk.health[0].content).total_steps == 3


def test_metadata_given_once_names_the_plugin_of_later_values(tmp_path):
    first = metadata.event_value("overflow", {})
    later = metadata.event_value("overflow", {"again": True})
    later.ClearField("metadata")
    path = event_bytes.write(tmp_path, event_bytes.value_event(1, first), event_bytes.value_event(2, later))
    assert [r.step for r in EventFile(str(path)).read().health] == [1, 2]


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        EventFile(str(tmp_path / "events.out.tfevents.1")).read()


@pytest.mark.real_logs
def test_a_plain_parse_of_real_logs_is_the_same(real_logs):
    from tensorboard.backend.event_processing import event_file_loader

    paths = [p for p in sorted(real_logs.rglob("*tfevents*")) if p.stat().st_size]
    assert paths
    for path in paths:
        expected = {}
        for raw in event_file_loader.RawEventFileLoader(str(path)).Load():
            event = event_pb2.Event.FromString(raw)
            for value in event.summary.value:
                if value.HasField("simple_value"):
                    expected.setdefault(value.tag, []).append((event.step, event.wall_time, value.simple_value))
        columns = EventFile(str(path)).read().columns
        assert {
            t: list(zip(c.step.tolist(), c.wall.tolist(), c.value.tolist())) for t, c in columns.items()
        } == expected


def test_blocks(tmp_path, monkeypatch):
    """Reading block by block, with records larger than a block, is reading."""
    monkeypatch.setattr(reader_module, "_BLOCK", 128)
    image = Value(tag="i", image={"encoded_image_string": bytes(3000)})
    records = [event_bytes.scalars(step, loss=step, lr=0.5) for step in range(100)]
    records[50:50] = [event_bytes.value_event(50, image)]
    path = event_bytes.write(tmp_path, *records)
    chunk = EventFile(str(path)).read()
    assert chunk.columns["loss"].step.tolist() == list(range(100))
    assert chunk.columns["lr"].value.tolist() == [0.5] * 100
    assert chunk.other_records == {"image": 1}
    assert chunk.damage == ()
    path.write_bytes(path.read_bytes()[:-3])
    reader = EventFile(str(path))
    assert len(reader.read().columns["loss"]) == 99
    with path.open("ab") as file:
        file.write(records[-1][-3:])
    assert reader.read().columns["loss"].step.tolist() == [99]
