"""Inputs that broke an earlier version: a regression each."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import textwrap
import threading
import time

import event_bytes
import numpy as np
import pytest
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2

from tb_mindformers_plugin.eventfile import EventFile, crc32c
from tb_mindformers_plugin.eventfile import peek as peek_module
from tb_mindformers_plugin.http_api.listing import list_runs
from tb_mindformers_plugin.runs import open_logdir
from tb_mindformers_plugin.runs import store as store_module
from tb_mindformers_plugin.runs.segments import segment
from tb_mindformers_plugin.runs.window import window
from tb_mindformers_plugin.writer import HealthWriter

Value = summary_pb2.Summary.Value


def loss(first, stop, value=1.0, **more):
    return b"".join(event_bytes.scalars(s, train__loss=value, **more) for s in range(first, stop))


def graph(size):
    return event_bytes.record(event_pb2.Event(graph_def=bytes(size)).SerializeToString())


def image(size):
    return event_bytes.value_event(1, Value(tag="i", image={"encoded_image_string": bytes(size)}))


def listing(path):
    store = open_logdir(str(path))
    return {run["run"]: run for run in list_runs(store)["runs"]}


def test_a_pipe_named_like_an_event_file_is_not_waited_for(tmp_path):
    event_bytes.write(tmp_path / "good", loss(0, 5))
    (tmp_path / "bad").mkdir()
    os.mkfifo(tmp_path / "bad" / "x.tfevents")
    found = []
    thread = threading.Thread(target=lambda: found.append(listing(tmp_path)), daemon=True)
    thread.start()
    thread.join(20)
    assert found
    assert set(found[0]) == {"good"}


@pytest.mark.parametrize("bits", [70_000, -1])
@pytest.mark.parametrize("dtype", [types_pb2.DT_HALF, types_pb2.DT_BFLOAT16])
def test_half_floats_that_are_none(tmp_path, dtype, bits):
    value = Value(tag="loss", tensor=tensor_pb2.TensorProto(dtype=dtype, half_val=[bits]))
    event_bytes.write(tmp_path / "bad", event_bytes.value_event(1, value), loss(0, 3))
    assert listing(tmp_path)["bad"]["roles"]["loss"]["points"] == 3


def test_many_values_a_record_take_no_tables(tmp_path):
    tags = {f"norm__layer{i}": float(i) for i in range(400)}
    path = event_bytes.write(tmp_path / "run", *(event_bytes.scalars(s, loss=1.0, **tags) for s in range(20)))
    crc32c.pair_contribution.cache_clear()
    columns = EventFile(str(path)).read().columns
    assert columns["norm/layer399"].value.tolist() == [399.0] * 20
    assert crc32c.pair_contribution.cache_info().currsize < 10


@pytest.mark.parametrize(
    "content",
    [
        graph(40_000) + loss(0, 1000) + image(30_000),
        event_bytes.value_event(0, Value(tag="t", tensor={"dtype": types_pb2.DT_STRING, "string_val": [b"x" * 20_000]}))
        + loss(0, 1000)
        + image(12_000),
        loss(0, 1000) + image(30_000),
    ],
)
def test_a_listing_that_peeks_finds_what_lies_behind_large_records(tmp_path, monkeypatch, content):
    monkeypatch.setattr(store_module, "_LISTING_BYTES", 0)
    event_bytes.write(tmp_path / "run", content)
    assert listing(tmp_path)["run"]["roles"]["loss"]["last_step"] == 999
    assert open_logdir(str(tmp_path)).is_active()


def test_a_listing_that_peeks_passes_over_empty_files_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "_LISTING_BYTES", 0)
    for n, part in enumerate([b"", loss(0, 1000), loss(1000, 9000), b""]):
        event_bytes.write(tmp_path / "run", part, name=f"events.out.tfevents.{n}")
    assert listing(tmp_path)["run"]["roles"]["loss"]["last_step"] == 8999


def test_peek_says_when_it_does_not_know(tmp_path):
    assert peek_module.peek(str(event_bytes.write(tmp_path / "a", loss(0, 5000))))[1]
    assert not peek_module.peek(str(event_bytes.write(tmp_path / "b", loss(0, 5000), image(20_000))))[1]


def test_steps_that_overflowed_32_bits_go_on_in_the_next_file(tmp_path):
    def wrapped(first, stop):
        return [int(np.int64(s).astype(np.int32)) for s in range(first, stop)]

    first, second = wrapped(2_147_483_600, 2_147_483_700), wrapped(2_147_483_680, 2_147_483_800)
    event_bytes.write(tmp_path / "run", *(event_bytes.scalars(s, wall=1.0 + i, loss=1.0) for i, s in enumerate(first)))
    event_bytes.write(
        tmp_path / "run",
        *(event_bytes.scalars(s, wall=1000.0 + i, loss=2.0) for i, s in enumerate(second)),
        name="events.out.tfevents.2",
    )
    curve, old = open_logdir(str(tmp_path)).load(["run"])["run"].segments("loss")
    assert curve.step.tolist() == list(range(2_147_483_600, 2_147_483_800))
    assert old.step.tolist() == list(range(2_147_483_680, 2_147_483_700))


def test_a_record_that_lost_as_many_bytes_as_the_next_one_has(tmp_path):
    a, b, c = (event_bytes.scalars(s, loss=float(s), **{"pad" * n: 0.0}) for s, n in ((1, 60), (2, 1), (3, 5)))
    path = event_bytes.write(tmp_path / "run")
    with path.open("ab") as file:
        file.write(a[:20] + a[20 + len(b) :] + b + c)
    assert EventFile(str(path)).read().columns["loss"].step.tolist() == [2, 3]


def test_sound_records_behind_a_large_one_that_is_cut_short(tmp_path):
    path = event_bytes.write(tmp_path / "run", loss(0, 10), image(20_000)[:5000], loss(10, 60))
    chunk = EventFile(str(path)).read()
    assert chunk.columns["train/loss"].step.tolist() == list(range(60))
    assert len(chunk.damage) == 1


@pytest.mark.parametrize("length", [100, 200])
def test_a_file_that_is_written_anew_in_place(tmp_path, length):
    path = event_bytes.write(tmp_path / "run", loss(0, 100))
    store = open_logdir(str(tmp_path))
    list_runs(store)
    time.sleep(0.01)
    event_bytes.write(tmp_path / "run", loss(0, length, value=-5.0))
    assert path.exists()
    store.refresh()
    (run,) = list_runs(store)["runs"]
    assert (run["roles"]["loss"]["points"], run["roles"]["loss"]["last_value"]) == (length, -5.0)


@pytest.mark.parametrize("kind", ["strays", "restarts"])
def test_many_steps_backwards_take_no_time_to_speak_of(kind):
    steps = np.arange(200_000)
    if kind == "strays":
        steps[100::100] = 3
    else:
        steps[100:] -= 20 * (np.arange(199_900) // 110)
    began = time.perf_counter()
    found = segment(steps)
    assert time.perf_counter() - began < 20  # it was minutes: not a measurement, but a hang
    every = np.concatenate([found.current, *found.superseded, found.repeated, found.stray])
    assert sorted(every.tolist()) == list(range(len(steps)))


def test_every_second_header_damaged(tmp_path):
    records = []
    for step in range(4000):
        record = bytearray(event_bytes.scalars(step, loss=1.0))
        if step % 2:
            record[random.Random(step).randrange(12)] ^= 1
        records.append(bytes(record))
    path = event_bytes.write(tmp_path / "run", *records)
    chunk = EventFile(str(path)).read()
    assert chunk.columns["loss"].step.tolist() == list(range(0, 4000, 2))
    run = listing(tmp_path)["run"]
    assert len(run["notes"]) < 50
    assert any("more damaged stretches" in note for note in run["notes"])


def test_a_note_is_said_once_however_often_a_run_is_read(tmp_path):
    payload = event_bytes.scalars(1, abcd=2.0)[12:-4].replace(b"abcd", b"ab\xff\xfe")
    path = event_bytes.write(tmp_path / "run", event_bytes.record(payload), loss(0, 1))
    store = open_logdir(str(tmp_path))
    for _ in range(5):
        with path.open("ab") as file:
            file.write(event_bytes.record(payload))
        store.refresh()
        (run,) = list_runs(store)["runs"]
    assert len(run["notes"]) == 1


def test_a_long_health_event_is_read(tmp_path):
    with HealthWriter(tmp_path / "run") as writer:
        writer.log(1, loss=1.0)
        writer.event("end", 1, status="failed", error="x" * 66_000)
    assert listing(tmp_path)["run"]["status"] == "ended"


@pytest.mark.parametrize(("start", "stop"), [(-1e308, 1e308), (-1.7e308, 1.7e308), (5e-324, 1e308)])
def test_windows_as_wide_as_numbers_go(start, stop):
    found = window(np.arange(100.0), np.ones(100, np.float32), None, start, stop, 8)
    assert 1 <= len(found.x) <= 8
    wide = np.array([-1.7e308, *np.linspace(0, 1, 20), 1.7e308])
    assert len(window(wide, np.ones(22, np.float32), None, None, None, 8).x) <= 8


def run_python(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def logged_steps(path):
    return EventFile(str(next(path.iterdir()))).read().columns["train/loss"].step.tolist()


def test_an_interpreter_that_ends_without_close_keeps_all(tmp_path):
    code = """
        import sys
        from tb_mindformers_plugin import HealthWriter
        writer = HealthWriter(sys.argv[1], flush_seconds=1000)
        for step in range(100):
            writer.log(step, loss=1.0)
        if len(sys.argv) > 2:
            raise RuntimeError("no close")
    """
    for name, arguments in (("plain", []), ("error", ["x"])):
        run_python(code, tmp_path / name, *arguments)
        assert logged_steps(tmp_path / name) == list(range(100))


def test_a_forked_child_does_not_hang(tmp_path):
    code = """
        import os, sys
        from tb_mindformers_plugin import HealthWriter
        writer = HealthWriter(sys.argv[1])
        writer.log(1, loss=1.0)
        child = os.fork()
        if child == 0:
            writer.log(2, loss=1.0); writer.flush(); writer.close()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        writer.log(3, loss=1.0); writer.close()
        sys.exit(status)
    """
    done = run_python(code, tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "belongs to the parent" in done.stderr
    assert logged_steps(tmp_path / "run") == [1, 3]


def test_text_that_is_no_utf8_is_written_and_read(tmp_path):
    with HealthWriter(tmp_path / "run", {"hparams": {"path": "/data/f\udcff.txt"}}) as writer:
        writer.log(1, loss=1.0)
        writer.event("end", 1, status="failed", error="bad \udc80 bytes")
    run = listing(tmp_path)["run"]
    assert any("bad \udc80 bytes" in note for note in run["notes"])
    json.dumps(run)


@pytest.mark.parametrize("value", [10**400, "x", None.__class__, [1, 2]])
def test_values_that_are_no_numbers(tmp_path, value):
    with HealthWriter(tmp_path) as writer:
        with pytest.raises(ValueError, match="'loss' must be a number"):
            writer.log(1, loss=value)
        with pytest.raises(ValueError, match="'wall_time' must be a number"):
            writer.log(1, loss=1.0, wall_time=value)


@pytest.mark.parametrize("tag", ["", 5, "training_health/run"])
def test_tags_that_are_none(tmp_path, tag):
    with HealthWriter(tmp_path) as writer, pytest.raises(ValueError, match="a tag must be"):
        writer.log_scalars(1, {tag: 1.0})


def test_an_array_of_one_element_is_a_number(tmp_path):
    with HealthWriter(tmp_path) as writer:
        writer.log(1, loss=np.array([2.5], np.float32), lr=np.float64(0.1), grad_norm=np.array(math.inf))
    assert EventFile(str(next(tmp_path.iterdir()))).read().columns["train/loss"].value.tolist() == [2.5]
