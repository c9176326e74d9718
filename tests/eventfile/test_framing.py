from __future__ import annotations

import random

import event_bytes
import numpy as np
import pytest

from tb_mindformers_plugin.eventfile import framing

PAYLOADS = [random.Random(i).randbytes(n) for i, n in enumerate([24, 0, 30, 31, 30, 300, 30, 5])]
RECORDS = [event_bytes.record(payload) for payload in PAYLOADS]
WHOLE = b"".join(RECORDS)


def scan(data):
    frames = framing.scan(np.frombuffer(data, np.uint8))
    return [data[s : s + n] for s, n in zip(frames.starts, frames.lengths)], frames


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
    if frames.damage:
        assert frames.damage[0].start >= start
    elif payloads != PAYLOADS:
        # Only a last record can be taken for one that is still being written.
        assert at == len(RECORDS) - 1


@pytest.mark.parametrize("data", [b"", b"x", b"not an event file at all, but long enough to look at", bytes(1000)])
def test_what_is_no_event_file(data):
    payloads, _ = scan(data)
    assert payloads == []


def test_many_damaged_places(monkeypatch):
    monkeypatch.setattr(framing, "_WALK", 16)
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
    payloads, frames = scan(b"".join(data))
    assert payloads == kept
    assert len(frames.damage) == len(range(3, 500, 7))
