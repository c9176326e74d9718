"""Large records without scalars are passed over unread, and only those."""

from __future__ import annotations

import random

import event_bytes
import pytest
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2

from tb_mindformers_plugin import metadata
from tb_mindformers_plugin.eventfile import EventFile, large, storage
from tb_mindformers_plugin.eventfile import reader as module

Value = summary_pb2.Summary.Value
RANDOM = random.Random(0)
LARGE = RANDOM.randbytes(200_000)


def event(**fields):
    return event_bytes.record(event_pb2.Event(step=7, wall_time=1e9, **fields).SerializeToString())


def summary(*values):
    return event(summary=summary_pb2.Summary(value=values))


GRAPH = event(graph_def=LARGE)
IMAGE = Value(tag="i", image={"encoded_image_string": LARGE})
TEXT = Value(
    tag="t",
    tensor=tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[LARGE]),
    metadata=summary_pb2.SummaryMetadata(plugin_data={"plugin_name": "text", "content": b"x"}),
)
RECORDS = {
    "graph": GRAPH,
    "trace": event(tagged_run_metadata={"tag": "t", "run_metadata": LARGE}),
    "image": summary(IMAGE),
    "text": summary(TEXT),
    "two images": summary(IMAGE, IMAGE),
    "an image and a scalar": summary(IMAGE, Value(tag="loss", simple_value=3.0)),
    "a scalar and an image": summary(Value(tag="loss", simple_value=3.0), IMAGE),
    "a manifest": summary(IMAGE, metadata.manifest_value(metadata.RunManifest(total_steps=5))),
    "many values": summary(*[Value(tag="i", image={"encoded_image_string": LARGE[:2000]})] * 60),
    "no event": event_bytes.record(LARGE),
    "records within": event(graph_def=b"".join(event_bytes.scalars(s, loss=-1.0) for s in range(3)) + LARGE),
    "damaged inside": GRAPH[:5000] + b"?" + GRAPH[5001:],
    "damaged length": b"?" + GRAPH[1:],
    "cut short": GRAPH[:90_000],
    "a hole": GRAPH[:5000] + GRAPH[6000:],
}


def scalars(first, last):
    return b"".join(event_bytes.scalars(s, wall=1e9 + s, loss=float(s), lr=0.5) for s in range(first, last))


def points(chunk):
    return {tag: list(zip(c.step.tolist(), c.value.tolist())) for tag, c in chunk.columns.items()}


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 1 << 14)


@pytest.fixture
def bytes_read(monkeypatch):
    """How many bytes were read of files."""
    counts = []
    real = storage._LocalFile.read

    def read(self, start, stop):
        found = real(self, start, stop)
        counts.append(len(found))
        return found

    monkeypatch.setattr(storage._LocalFile, "read", read)
    return counts


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("kind", RECORDS)
def test_what_is_passed_over_holds_nothing(tmp_path, monkeypatch, kind, last):
    path = event_bytes.write(tmp_path, scalars(0, 50), RECORDS[kind], b"" if last else scalars(50, 100))
    whole = EventFile(str(path)).read()
    monkeypatch.setattr(module, "_BLOCK", 1 << 14)
    found = EventFile(str(path)).read()
    assert points(found) == points(whole)
    assert found.health == whole.health
    assert found.damage == whole.damage
    assert found.other_records.keys() == whole.other_records.keys()


@pytest.mark.parametrize("kind", ["graph", "trace", "image", "text", "two images"])
def test_it_is_not_read(tmp_path, small_blocks, bytes_read, kind):
    path = event_bytes.write(tmp_path, scalars(0, 50), RECORDS[kind], scalars(50, 100))
    chunk = EventFile(str(path)).read()
    assert chunk.columns["loss"].step.tolist() == list(range(100))
    assert chunk.other_records == {"large record": 1}
    assert sum(bytes_read) < 80_000


def test_a_large_record_that_is_still_being_written(tmp_path, small_blocks, bytes_read):
    path = event_bytes.write(tmp_path, scalars(0, 50), GRAPH[:150_000])
    reader = EventFile(str(path))
    assert len(reader.read().columns["loss"]) == 50
    with path.open("ab") as file:
        file.write(GRAPH[150_000:] + scalars(50, 60))
    bytes_read.clear()
    assert reader.read().columns["loss"].step.tolist() == list(range(50, 60))
    assert sum(bytes_read) < 80_000
    # And goes on from there.
    with path.open("ab") as file:
        file.write(scalars(60, 70))
    chunk = reader.read()
    assert not chunk.anew
    assert chunk.columns["loss"].step.tolist() == list(range(60, 70))


def test_a_file_that_cannot_be_read_further_on_is_read_as_far_as_it_can(tmp_path, small_blocks, monkeypatch):
    path = event_bytes.write(tmp_path, scalars(0, 50), GRAPH, scalars(50, 60))
    reader = EventFile(str(path))

    def fails(*_):
        raise OSError("away")

    with monkeypatch.context() as away:
        away.setattr(large._Payload, "_look", fails)
        assert reader.read().columns["loss"].step.tolist() == list(range(60))
