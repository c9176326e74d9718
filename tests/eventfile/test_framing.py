from __future__ import annotations

import random
import struct

import event_bytes
import numpy as np
import pytest
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

from tb_mindformers_plugin.eventfile import framing
from tb_mindformers_plugin.eventfile.framing import HEADER

PAYLOADS = [random.Random(i).randbytes(n) for i, n in enumerate([24, 0, 30, 31, 30, 300, 30, 5])]
RECORDS = [event_bytes.record(payload) for payload in PAYLOADS]
WHOLE = b"".join(RECORDS)


def scan(data):
    """The payloads that are sound, and the frames."""
    buffer = np.frombuffer(data, np.uint8)
    frames = framing.scan(buffer)
    sound = framing.payloads_sound(buffer, frames.starts, frames.lengths)
    return [data[s : s + n] for s, n, ok in zip(frames.starts, frames.lengths, sound) if ok], frames


def test_sound_records():
    payloads, frames = scan(WHOLE)
    assert payloads == PAYLOADS
    assert frames.end == len(WHOLE)
    assert frames.damage == ()


def test_cut_at_every_byte():
    ends = np.cumsum([len(r) for r in RECORDS])
    for cut in range(len(WHOLE) + 1):
        payloads, frames = scan(WHOLE[:cut])
        whole = int(np.count_nonzero(ends <= cut))
        assert payloads == PAYLOADS[:whole], cut
        assert frames.end == ([0, *ends.tolist()])[whole]
        assert frames.damage == ()


@pytest.mark.parametrize("seed", range(300))
def test_damage_costs_one_record_only(seed):
    rng = random.Random(seed)
    at = rng.randrange(len(RECORDS))
    record = bytearray(RECORDS[at])
    place = rng.randrange(len(record))
    kind = rng.choice(["flip", "insert", "delete"])
    if kind == "flip":
        record[place] ^= 1 << rng.randrange(8)
    elif kind == "insert":
        record[place:place] = rng.randbytes(rng.randint(1, 20))
    else:
        del record[place : place + rng.randint(1, 20)]
    payloads, frames = scan(b"".join([*RECORDS[:at], bytes(record), *RECORDS[at + 1 :]]))
    # Bytes inserted before or after a record, equal to what was cut, may leave it whole.
    assert payloads in (PAYLOADS[:at] + PAYLOADS[at + 1 :], PAYLOADS)
    start = len(b"".join(RECORDS[:at]))
    assert all(damage.start >= start for damage in frames.damage)


@pytest.mark.parametrize("data", [b"", b"x", b"not an event file at all, but long enough to look at", bytes(1000)])
def test_what_is_no_event_file(data):
    payloads, _ = scan(data)
    assert payloads == []


def test_many_damaged_places(monkeypatch):
    monkeypatch.setattr(framing, "_SEARCH", 64)
    rng = random.Random(5)
    kept, data = [], []
    for i in range(500):
        payload = rng.randbytes(rng.choice([20, 21, 60]))
        record = bytearray(event_bytes.record(payload))
        if i % 7 == 3:
            record[rng.randrange(len(record))] ^= 0x10
        else:
            kept.append(payload)
        data.append(bytes(record))
    payloads, _ = scan(b"".join(data))
    assert payloads == kept


def test_a_payload_that_holds_records():
    nested = b"before" + WHOLE + b"after"
    payloads, frames = scan(RECORDS[0] + event_bytes.record(nested) + RECORDS[2])
    assert payloads == [PAYLOADS[0], nested, PAYLOADS[2]]
    assert frames.damage == ()


@pytest.mark.parametrize("size", [65_534, 65_535, 65_536, 70_000, 1_200_000])
def test_long_records(size):
    long = random.Random(size).randbytes(size)
    data = RECORDS[0] + event_bytes.record(long) + RECORDS[2]
    payloads, frames = scan(data)
    assert payloads == [PAYLOADS[0], long, PAYLOADS[2]]
    assert frames.end == len(data)
    # Not complete yet: waited for.
    _, frames = scan(data[: len(RECORDS[0]) + size])
    assert frames.end == len(RECORDS[0])
    assert frames.damage == ()
    # Damage before it does not lose it.
    payloads, _ = scan(b"garbage!" + data[len(RECORDS[0]) :])
    assert payloads == [long, PAYLOADS[2]]


def test_zeros_are_no_records():
    payloads, frames = scan(RECORDS[0] + bytes(100_000) + RECORDS[2])
    assert payloads == [PAYLOADS[0], PAYLOADS[2]]
    assert [(d.start, d.stop) for d in frames.damage] == [(len(RECORDS[0]), len(RECORDS[0]) + 100_000)]


def head(length):
    """What begins a record of this length, with its right checksum."""
    header = struct.pack("<Q", length)
    return header + struct.pack("<I", masked_crc32c(header))


@pytest.mark.parametrize("length", [2**31, 2**32, 2**60, 2**63 - 1, 2**63, 2**64 - 16, 2**64 - 1])
def test_a_length_that_no_event_has(length):
    """Its checksum is right, and protobuf writes no message of 2 GB."""
    claimed = head(length)
    payloads, frames = scan(RECORDS[0] + claimed + RECORDS[2])
    assert payloads == [PAYLOADS[0], PAYLOADS[2]]
    assert [(d.start, d.stop) for d in frames.damage] == [(len(RECORDS[0]), len(RECORDS[0]) + HEADER)]
    # Nothing behind it is waited for, and what is not there yet is found when it comes.
    payloads, frames = scan(RECORDS[0] + claimed)
    assert payloads == [PAYLOADS[0]]
    assert len(RECORDS[0]) < frames.end <= len(RECORDS[0] + claimed)


@pytest.mark.parametrize("length", [2**30, 233_286_277])  # of the latter the masked checksum is 0
def test_a_long_record_behind_zeros_is_waited_for(length):
    begin = bytes(1000) + head(length) + bytes(1000)
    _, frames = scan(RECORDS[0] + begin)
    assert frames.end == len(RECORDS[0]) + 1000
    assert [(d.start, d.stop) for d in frames.damage] == [(len(RECORDS[0]), frames.end)]


def test_zeros_are_not_looked_at_one_by_one(monkeypatch):
    """A file may end in hundreds of MB of them after a power cut."""
    looked_at = []
    real = framing.rows
    monkeypatch.setattr(framing, "rows", lambda b, s, w: looked_at.append(len(s)) or real(b, s, w))
    pages = RECORDS[0] + b"".join(bytes(60_000) + b"?" for _ in range(20)) + bytes(10_000_000) + RECORDS[2]
    assert scan(pages)[0] == [PAYLOADS[0], PAYLOADS[2]]
    assert sum(looked_at) < 2000
