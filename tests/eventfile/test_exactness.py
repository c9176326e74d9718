"""The fast reading equals a plain one, record by record, for whatever a writer may write."""

from __future__ import annotations

import math
import random
import struct

import event_bytes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2

from tb_mindformers_plugin.eventfile import EventFile, decode, reader

Value = summary_pb2.Summary.Value
SCALARS_METADATA = summary_pb2.SummaryMetadata(
    plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name="scalars")
)


def simple(tag, number):
    return Value(tag=tag, simple_value=number)


def simple_with_metadata(tag, number):
    return Value(tag=tag, simple_value=number, metadata=SCALARS_METADATA)


def float_tensor(tag, number):
    return Value(tag=tag, tensor=tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT, float_val=[number], tensor_shape={}))


def double_content(tag, number):
    content = struct.pack("<d", number)
    return Value(tag=tag, tensor=tensor_pb2.TensorProto(dtype=types_pb2.DT_DOUBLE, tensor_content=content))


def int_tensor(tag, number):
    whole = int(number) if math.isfinite(number) and abs(number) < 2**60 else 7
    return Value(tag=tag, tensor=tensor_pb2.TensorProto(dtype=types_pb2.DT_INT64, int64_val=[whole]))


def text(tag, number):
    return Value(tag=tag, tensor=tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[b"some text"]))


FORMS = [simple, simple_with_metadata, float_tensor, double_content, int_tensor, text]


def plain(events):
    """What a reading by the protobuf library alone finds: tag -> (step, wall, value) in order."""
    found = {}
    for event in events:
        for value in event.summary.value:
            if value.HasField("simple_value"):
                number = value.simple_value
            elif value.tensor.dtype == types_pb2.DT_FLOAT:
                number = value.tensor.float_val[0]
            elif value.tensor.dtype == types_pb2.DT_DOUBLE:
                (number,) = struct.unpack("<d", value.tensor.tensor_content)
            elif value.tensor.dtype == types_pb2.DT_INT64:
                number = value.tensor.int64_val[0]
            else:
                continue
            found.setdefault(value.tag, []).append((event.step, event.wall_time, number))
    return found


def same(columns, expected):
    assert set(columns) == set(expected)
    for tag, points in expected.items():
        column = columns[tag]
        step, wall, value = (list(part) for part in zip(*points))
        assert column.step.tolist() == step
        assert column.wall.tobytes() == np.array(wall).tobytes()
        np.testing.assert_array_equal(column.value, np.array(value, column.value.dtype))


def read(path, events):
    path.write_bytes(b"".join(event_bytes.record(event.SerializeToString()) for event in events))
    return EventFile(str(path)).read()


numbers = st.floats(width=32) | st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1e-45, 3.4e38])
steps = st.integers(0, 300) | st.integers(-(2**63), 2**63 - 1)


@given(
    st.lists(
        st.tuples(
            steps, st.floats(), st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(FORMS), numbers), max_size=4)
        ),
        max_size=60,
    ),
    st.integers(1, 8),
)
@settings(max_examples=200, deadline=None)
def test_any_mix_of_records(tmp_path_factory, records, fewest):
    decode._FEWEST, before = fewest, decode._FEWEST  # templates also where few records share a length
    try:
        events = [
            event_pb2.Event(
                step=step,
                wall_time=wall,
                summary=summary_pb2.Summary(value=[form(tag * 3, number) for tag, form, number in values]),
            )
            for step, wall, values in records
        ]
        chunk = read(tmp_path_factory.mktemp("mix") / "events.tfevents", events)
    finally:
        decode._FEWEST = before
    assert chunk.damage == ()
    assert chunk.problems == ()
    same(chunk.columns, plain(events))


@pytest.mark.parametrize("form", FORMS[:5])
@pytest.mark.parametrize("start", [0, 100, 16_300, 2_097_100, 2**31 - 50, 2**63 - 400])
def test_steps_that_grow_a_byte(tmp_path, form, start):
    events = [
        event_pb2.Event(
            step=start + i,
            wall_time=1e9 + i,
            summary=summary_pb2.Summary(value=[form(t, i / 3) for t in ("loss", "lr")]),
        )
        for i in range(300)
    ]
    same(read(tmp_path / "x.tfevents", events).columns, plain(events))


def test_mixed_cadences_and_gaps(tmp_path):
    rng = random.Random(0)
    tags = [f"layer_{i}/{'x' * rng.randrange(9)}" for i in range(40)]
    events = []
    for step in range(600):
        for i, tag in enumerate(tags):
            if step % (1 + i % 5) == 0 and rng.random() > 0.1:
                form = FORMS[i % 5]
                events.append(
                    event_pb2.Event(
                        step=step, wall_time=step + 0.1, summary=summary_pb2.Summary(value=[form(tag, rng.random())])
                    )
                )
    same(read(tmp_path / "x.tfevents", events).columns, plain(events))


def test_more_layouts_than_are_tried(tmp_path, monkeypatch):
    monkeypatch.setattr(decode, "_MOST_LAYOUTS", 5)
    events = [
        event_pb2.Event(step=step, summary=summary_pb2.Summary(value=[simple(f"tag_{i:03d}", step)]))
        for step in range(1, 20)
        for i in range(50)
    ]
    same(read(tmp_path / "x.tfevents", events).columns, plain(events))


def test_tag_that_is_not_utf8(tmp_path):
    payload = event_bytes.scalars(1, abcd=2.0)[12:-4].replace(b"abcd", b"ab\xff\xfe")
    path = tmp_path / "x.tfevents"
    for count in (1, 50):  # one by one, and by template
        path.write_bytes(event_bytes.record(payload) * count)
        chunk = EventFile(str(path)).read()
        assert list(chunk.columns) == ["ab\ufffd\ufffd"]
        assert len(chunk.columns["ab\ufffd\ufffd"]) == count
        assert len(chunk.problems) == 1


@pytest.mark.parametrize("count", [1, 50])
@pytest.mark.parametrize(
    ("varint", "step"),
    [(b"\x81\x80\x00", 1), (b"\xff" * 9 + b"\x01", -1), (b"\xff" * 9 + b"\x7f", -1), (b"\x80" * 9 + b"\x02", 0)],
)
def test_steps_written_in_more_bits_than_there_are(tmp_path, varint, step, count):
    for tag in (b"ab", b"\xff\xfe"):
        value = b"\x0a\x02" + tag + b"\x15" + struct.pack("<f", 2.0)
        payload = b"\x10" + varint + b"\x2a" + bytes([len(value) + 2]) + b"\x0a" + bytes([len(value)]) + value
        path = tmp_path / "x.tfevents"
        path.write_bytes(event_bytes.record(payload) * count)
        (column,) = EventFile(str(path)).read().columns.values()
        assert column.step.tolist() == [step] * count
        if tag == b"ab":
            assert event_pb2.Event.FromString(payload).step == step


def test_large_records_without_scalars_are_passed_over(tmp_path, monkeypatch):
    large = event_pb2.Event(step=1, graph_def=bytes(200_000))
    image = event_pb2.Event(
        step=1, summary=summary_pb2.Summary(value=[Value(tag="i", image={"encoded_image_string": bytes(90_000)})])
    )
    both = event_pb2.Event(
        step=1,
        summary=summary_pb2.Summary(
            value=[Value(tag="i", image={"encoded_image_string": bytes(90_000)}), simple("loss", 3.0)]
        ),
    )
    looked_at = []
    real = decode.payloads_sound
    monkeypatch.setattr(decode, "payloads_sound", lambda b, s, n: looked_at.extend(n.tolist()) or real(b, s, n))
    chunk = read(tmp_path / "x.tfevents", [large, image, both])
    assert chunk.columns["loss"].value.tolist() == [3.0]
    assert chunk.other_records == {"large record": 2, "image": 1}
    assert looked_at == [len(both.SerializeToString())]


def damaged(data, rng):
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data))
        kind = rng.randrange(3)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at:at] = rng.randbytes(rng.randint(1, 40))
        else:
            del data[at : at + rng.randint(1, 40)]
    return bytes(data)


@pytest.mark.parametrize("first", range(0, 2000, 100))
def test_fuzz(tmp_path, first):
    """Never an exception, never a value that was not written, and every record that is still whole."""
    path = tmp_path / "x.tfevents"
    records = [
        event_bytes.scalars(step, loss=step * 1.5, **{"lr" if step % 2 else "grad": -step}) for step in range(1, 40)
    ]
    written = {"loss": lambda s: s * 1.5, "lr": lambda s: -s, "grad": lambda s: -s}
    for seed in range(first, first + 100):
        data = damaged(b"".join(records), random.Random(seed))
        path.write_bytes(data)
        columns = EventFile(str(path)).read().columns
        for tag, column in columns.items():
            assert column.value.tolist() == [written[tag](step) for step in column.step.tolist()], seed
        loss = set(columns["loss"].step.tolist()) if "loss" in columns else set()
        at = 0
        for step, record in enumerate(records, start=1):
            place = data.find(record, at)
            if place >= 0:
                at = place + len(record)
                assert step in loss, (seed, step)


def test_every_truncation(tmp_path):
    path = tmp_path / "x.tfevents"
    records = [event_bytes.scalars(step, loss=step, lr=0.1) for step in range(1, 20)]
    data = b"".join(records)
    ends = np.cumsum([len(record) for record in records])
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        reader = EventFile(str(path))
        chunk = reader.read()
        whole = int(np.count_nonzero(ends <= cut))
        assert len(chunk.columns.get("loss", [])) == whole
        assert chunk.damage == ()
        path.write_bytes(data)
        rest = reader.read()
        assert len(rest.columns.get("loss", [])) == len(records) - whole


def test_many_files_together_are_each_as_alone(tmp_path, monkeypatch):
    """Sound, damaged, cut short, empty, large and growing files: read in one go, then followed one by one."""
    monkeypatch.setattr(reader, "_BLOCK", 20_000)
    monkeypatch.setattr(reader, "_BATCH", 30_000)
    rng = random.Random(0)
    contents = []
    for n in range(60):
        records = [
            event_bytes.scalars(step, loss=step * n, **({"lr": 0.1, "x" * (n % 7): 2.0} if step % 3 else {}))
            for step in range(rng.choice([0, 3, 40, 120]))
        ]
        data = event_bytes.version() + b"".join(records)
        data = {0: data, 1: data[: rng.randrange(len(data))], 2: damaged(data, rng), 3: b"", 4: data * 4}[n % 5]
        contents.append(data)
    paths = []
    for n, data in enumerate(contents):
        path = tmp_path / f"{n}.tfevents"
        path.write_bytes(data)
        paths.append(path)
    paths.insert(30, tmp_path / "missing.tfevents")
    together = [EventFile(str(path)) for path in paths]
    chunks = reader.read_together(together)
    assert isinstance(chunks.pop(30), FileNotFoundError)
    del paths[30], together[30]
    alone = [EventFile(str(path)) for path in paths]
    for path, chunk, one, other in zip(paths, chunks, together, alone):
        assert_same_chunk(chunk, other.read(), path)
        with path.open("ab") as file:
            file.write(event_bytes.scalars(1000, loss=7.0))
        assert_same_chunk(one.read(), other.read(), path)


def assert_same_chunk(a, b, where):
    assert (a.anew, a.damage, a.problems, a.health, a.last_wall, a.other_records) == (
        (b.anew, b.damage, b.problems, b.health, b.last_wall, b.other_records)
    ), where
    assert list(a.columns) == list(b.columns), where
    for tag, column in a.columns.items():
        for name in ("step", "wall", "value"):
            assert getattr(column, name).tobytes() == getattr(b.columns[tag], name).tobytes(), (where, tag)
