"""Rounds are a faster way to the same: whatever they find, framing and decoding record by record finds."""

from __future__ import annotations

import random
import sys

import event_bytes
import numpy as np
import pytest
from test_exactness import assert_same_chunk, damaged

from tb_mindformers_plugin.eventfile import EventFile, reader, rounds


@pytest.fixture
def small(monkeypatch):
    """Rounds are looked for in small files, too."""
    monkeypatch.setattr(rounds, "WORTH", 32)
    monkeypatch.setattr(rounds, "_FEWEST", 2)
    monkeypatch.setattr(rounds, "_KNOWN", rounds.Layouts())


def read_without_rounds(path, monkeypatch):
    with monkeypatch.context() as without:
        without.setattr(rounds, "WORTH", sys.maxsize)
        return EventFile(str(path)).read()


def log(steps, tags=("loss", "lr", "grad"), extra=()):
    """One record a tag at each step, and at the steps in `extra` one of another tag."""
    records = []
    for step in steps:
        records.extend(event_bytes.scalars(step, step * 1.5 + i, **{tag: step + i}) for i, tag in enumerate(tags))
        if step in extra:
            records.append(event_bytes.scalars(step, eval__loss=step))
    return records


def find(data):
    buffer = np.frombuffer(data, np.uint8)
    return rounds.find(buffer, np.array([0]), np.array([len(data)]), frozenset())


@pytest.mark.parametrize("tags", [("loss",), ("loss", "lr", "grad_norm"), ("a", "b", "c"), ("a", "a", "b")])
def test_rounds_are_found_behind_other_records(small, tags):
    before = [event_bytes.version(), event_bytes.scalars(0, first=1.0)]
    data = b"".join(before + log(range(1000, 1100), tags)) + bytes(8)
    found = find(data)
    assert found.lengths.tolist() == [len(record) - 16 for record in before]
    assert found.ends.tolist() == [len(data) - 8]
    assert sum(len(stretch.starts) * len(stretch.records) for stretch in found.stretches) == 100 * len(tags)
    assert all(column.sound.all() for stretch in found.stretches for column in stretch.records)


def test_a_step_that_grows_a_byte_ends_one_layout_and_begins_another(small):
    found = find(b"".join(log(range(1, 400))) + bytes(8))
    assert [len(stretch.starts) for stretch in found.stretches] == [127, 272]


def test_what_comes_in_no_rounds_is_left(small):
    rng = random.Random(0)
    records = [event_bytes.scalars(step, **{"x" * rng.randint(1, 30): 1.0}) for step in range(200)]
    found = find(b"".join(records))
    assert found.stretches == []
    assert found.ends.tolist() == [0]


@pytest.mark.parametrize("extra", [(), (50,), (50, 51, 90), range(0, 400, 10)])
def test_files_with_rounds(tmp_path, small, monkeypatch, extra):
    path = tmp_path / "x.tfevents"
    path.write_bytes(event_bytes.version() + b"".join(log(range(300), extra=extra)))
    chunk = EventFile(str(path)).read()
    assert_same_chunk(chunk, read_without_rounds(path, monkeypatch), extra)
    assert chunk.columns["loss"].step.tolist() == list(range(300))
    assert chunk.damage == ()


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_fuzz(tmp_path, small, monkeypatch, first):
    path = tmp_path / "x.tfevents"
    whole = event_bytes.version() + b"".join(log(range(100, 160), extra=(120,)))
    for seed in range(first, first + 100):
        path.write_bytes(damaged(whole, random.Random(seed)))
        assert_same_chunk(EventFile(str(path)).read(), read_without_rounds(path, monkeypatch), seed)


def test_a_damaged_record_that_holds_the_next_one(tmp_path, small, monkeypatch):
    """The length of a record lies: it reaches beyond the next one, and damage follows."""
    path = tmp_path / "x.tfevents"
    records = log(range(200, 240))
    liar = bytearray(event_bytes.record(records[0] + bytes(30)))
    liar[40] ^= 1
    path.write_bytes(b"".join(records) + bytes(liar) * 5 + b"damage" + b"".join(records))
    assert_same_chunk(EventFile(str(path)).read(), read_without_rounds(path, monkeypatch), "")


def test_every_truncation(tmp_path, small, monkeypatch):
    path = tmp_path / "x.tfevents"
    records = [event_bytes.version(), *log(range(125, 132))]
    data = b"".join(records)
    ends = np.cumsum([len(record) for record in records])
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        follower = EventFile(str(path))
        chunk = follower.read()
        assert_same_chunk(chunk, read_without_rounds(path, monkeypatch), cut)
        assert sum(map(len, chunk.columns.values())) == max(0, np.count_nonzero(ends <= cut) - 1)
        path.write_bytes(data)
        more = follower.read()
        assert sum(map(len, chunk.columns.values())) + sum(map(len, more.columns.values())) == len(records) - 1


@pytest.mark.parametrize("block", [700, 5000])
def test_blocks_that_end_within_a_round(tmp_path, small, monkeypatch, block):
    monkeypatch.setattr(rounds, "WORTH", 150)
    monkeypatch.setattr(reader, "_BLOCK", block)
    path = tmp_path / "x.tfevents"
    path.write_bytes(event_bytes.version() + b"".join(log(range(400), extra=(200, 201, 333))))
    assert_same_chunk(EventFile(str(path)).read(), read_without_rounds(path, monkeypatch), block)


def test_many_files_together(tmp_path, small, monkeypatch):
    rng = random.Random(1)
    paths = []
    for n in range(40):
        records = log(range(100, 100 + rng.choice([0, 5, 40, 90])), ("loss", "lr", "x" * (n % 5 + 1)), extra=(110,))
        data = event_bytes.version() + b"".join(records)
        if n % 4 == 0:
            data = damaged(data, rng)
        elif n % 4 == 1:
            data = data[: rng.randrange(len(data))]
        path = tmp_path / f"{n}.tfevents"
        path.write_bytes(data)
        paths.append(path)
    for path, chunk in zip(paths, reader.read_together([EventFile(str(path)) for path in paths])):
        assert_same_chunk(chunk, read_without_rounds(path, monkeypatch), path)


@pytest.mark.parametrize("seed", range(20))
def test_many_files_that_begin_with_other_records(tmp_path, small, monkeypatch, seed):
    """As those of a training that is evaluated before its first step, and now and then afterwards."""
    rng = random.Random(seed)
    paths = []
    for n in range(12):
        before = [event_bytes.scalars(rng.randrange(100), n + i, eval__loss=n + i) for i in range(rng.randrange(4))]
        extra = range(100, 160, rng.choice([7, 13, 50]))
        records = log(range(100, 100 + rng.choice([0, 10, 60])), rng.choice([("loss",), ("loss", "lr")]), extra)
        path = tmp_path / f"{n}.tfevents"
        path.write_bytes(event_bytes.version() + b"".join(before + records))
        paths.append(path)
    for path, chunk in zip(paths, reader.read_together([EventFile(str(path)) for path in paths])):
        assert_same_chunk(chunk, read_without_rounds(path, monkeypatch), path)
