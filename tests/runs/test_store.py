"""Runs as the store keeps them: lazily, within memory, from several threads, and read right."""

from __future__ import annotations

import concurrent.futures
import os
import sys
import threading

import event_bytes
import numpy as np
import pytest
from tensorboard.compat.proto import summary_pb2, tensor_pb2, types_pb2

from tb_mindformers_plugin.eventfile import EventFile
from tb_mindformers_plugin.health.diagnoses import Diagnoses
from tb_mindformers_plugin.http_api.listing import list_runs
from tb_mindformers_plugin.runs import open_logdir
from tb_mindformers_plugin.runs import store as store_module
from tb_mindformers_plugin.runs.run import Run
from tb_mindformers_plugin.writer import HealthWriter


def write(directory, steps, wall=0.0, name="events.out.tfevents.1", **more):
    return event_bytes.write(
        directory, *(event_bytes.scalars(s, wall=1000.0 + wall + s, loss=float(s), **more) for s in steps), name=name
    )


@pytest.fixture
def opened(monkeypatch):
    """Paths of the event files that were opened for reading as a whole."""
    paths = []
    real = EventFile.read
    monkeypatch.setattr(EventFile, "read", lambda self, *a: paths.append(self.path) or real(self, *a))
    return paths


def listing(store, diagnoses=None):
    store.refresh()
    return {run["run"]: run for run in list_runs(store, diagnoses=diagnoses)["runs"]}


def test_a_large_logdir_is_peeked_into(tmp_path, opened, monkeypatch):
    monkeypatch.setattr(store_module, "_LISTING_BYTES", 0)
    for n in range(3):
        with HealthWriter(tmp_path / f"run_{n}", {"total_steps": 5000}) as writer:
            for step in range(1, 2001):
                writer.log(step, loss=2.0 + n, lr=0.1)
    store = open_logdir(str(tmp_path))
    found = listing(store)
    assert opened == []
    for n in range(3):
        run = found[f"run_{n}"]
        assert run["verdict"] is None
        assert run["total_steps"] == 5000
        assert run["roles"]["loss"] == {
            "tag": "train/loss",
            "unit": "",
            "points": None,
            "first_step": 1,
            "last_step": 2000,
            "last_value": 2.0 + n,
        }
    # Looked at, it is read, and from then on the listing is exact.
    store.load(["run_1"])
    assert {os.path.basename(os.path.dirname(path)) for path in opened} == {"run_1"}
    assert listing(store)["run_1"]["roles"]["loss"]["points"] == 2000
    assert listing(store)["run_1"]["verdict"] == "warning"  # a loss that never moves


def test_a_small_logdir_is_exact_at_once(tmp_path):
    write(tmp_path / "run", range(3000))
    assert listing(open_logdir(str(tmp_path)))["run"]["roles"]["loss"]["points"] == 3000


def test_a_refresh_reads_what_is_new_only(tmp_path, opened):
    for n in range(20):
        write(tmp_path / f"run_{n}", range(10))
    store = open_logdir(str(tmp_path))
    diagnoses = Diagnoses()
    listing(store, diagnoses)
    opened.clear()
    listing(store, diagnoses)
    assert opened == []
    with open(tmp_path / "run_7" / "events.out.tfevents.1", "ab") as file:
        file.write(event_bytes.scalars(10, loss=1.0))
    assert listing(store, diagnoses)["run_7"]["roles"]["loss"]["last_step"] == 10
    assert {os.path.basename(os.path.dirname(path)) for path in opened} == {"run_7"}


def test_memory_is_bounded_and_dropped_runs_come_back(tmp_path):
    for n in range(6):
        write(tmp_path / f"run_{n}", range(1000))
    store = open_logdir(str(tmp_path))
    store.memory = 50_000  # two runs and a half
    for n in (0, 1, 2, 3, 4, 5, 0):
        contents = store.load([f"run_{n}"])[f"run_{n}"]
        assert len(contents.current("loss")) == 1000
        held = [name for name, run in store.runs.items() if run.nbytes]
        assert sum(store.runs[name].nbytes for name in held) <= store.memory
        assert f"run_{n}" in held
    assert held == ["run_0", "run_5"]


def test_loading_runs_one_by_one_does_not_add_up_all_of_them_each_time(tmp_path, monkeypatch):
    runs = 60
    for n in range(runs):
        write(tmp_path / f"run_{n:02d}", range(3))
    store = open_logdir(str(tmp_path))
    asked = []
    sizes = Run.nbytes.fget
    monkeypatch.setattr(Run, "nbytes", property(lambda run: asked.append(run.name) or sizes(run)))
    list_runs(store)
    # Twice in the listing, twice where a run is loaded for its diagnosis.
    assert len(asked) <= 5 * runs


def test_columns_take_24_bytes_a_point_at_most(tmp_path):
    write(tmp_path / "run", range(50_000))
    contents = open_logdir(str(tmp_path)).load(["run"])["run"]
    contents.segments("loss")
    assert contents.nbytes <= 24 * 50_000


def test_many_threads_see_whole_runs(tmp_path):
    path = write(tmp_path / "run", range(100))
    write(tmp_path / "other", range(100))
    store = open_logdir(str(tmp_path))
    store.memory = 3000  # so that runs are dropped all the time
    stop = threading.Event()

    def grow():
        step = 100
        while not stop.is_set() and step < 3000:
            with path.open("ab") as file:
                file.write(event_bytes.scalars(step, loss=float(step)))
            step += 1

    def look(_):
        for _ in range(30):
            store.refresh()
            for name, contents in store.load(["run", "other"]).items():
                curve = contents.current("loss")
                assert curve.step.tolist() == list(range(len(curve))), name
                assert curve.value.tolist() == curve.step.tolist()
            list_runs(store)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(look, range(4)))
    finally:
        stop.set()
        writer.join()


def test_readers_never_see_a_growing_run_half(tmp_path):
    """Columns of one length, and nothing lost, however the threads are interleaved."""
    tags = [f"tag_{n}" for n in range(12)]
    path = event_bytes.write(tmp_path / "run")
    store = open_logdir(str(tmp_path))
    done = threading.Event()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    def grow():
        for step in range(400):
            with path.open("ab") as file:
                file.write(event_bytes.scalars(step, loss=1.0, **dict.fromkeys(tags[: 1 + step // 30], 1.0)))
        done.set()

    def look(_):
        seen = 0
        while not done.is_set():
            contents = store.load(["run"])["run"]
            for tag in contents.tags:
                for segment in contents.segments(tag):
                    assert len(segment.step) == len(segment.wall) == len(segment.value)
            if "loss" in contents.tags:
                now = len(contents.segments("loss")[0])
                assert now >= seen
                seen = now

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(look, range(4)))
    finally:
        writer.join()
        sys.setswitchinterval(interval)
    assert store.load(["run"])["run"].segments("loss")[0].step.tolist() == list(range(400))


def test_two_processes_in_one_directory_keep_their_curves(tmp_path):
    write(tmp_path / "run", range(0, 200, 2))
    write(tmp_path / "run", range(1, 200, 2), name="events.out.tfevents.2")
    store = open_logdir(str(tmp_path))
    segments = store.load(["run"])["run"].segments("loss")
    assert [s.current for s in segments] == [True, True]
    assert [s.step.tolist() for s in segments] == [list(range(0, 200, 2)), list(range(1, 200, 2))]
    assert any("Several processes" in note for note in listing(store)["run"]["notes"])


def test_two_processes_that_write_the_same_steps(tmp_path):
    write(tmp_path / "run", range(100))
    write(tmp_path / "run", range(100), wall=0.01, name="events.out.tfevents.2")
    segments = open_logdir(str(tmp_path)).load(["run"])["run"].segments("loss")
    assert [(s.current, len(s)) for s in segments] == [(True, 100), (True, 100)]


def test_a_restart_is_not_a_second_process(tmp_path):
    write(tmp_path / "run", range(151))
    write(tmp_path / "run", range(100, 201), wall=500.0, name="events.out.tfevents.2")
    store = open_logdir(str(tmp_path))
    segments = store.load(["run"])["run"].segments("loss")
    assert [(s.current, s.step[0], s.step[-1]) for s in segments] == [(True, 0, 200), (False, 100, 150)]
    assert listing(store)["run"]["restarts"] == [100]


def test_other_tags_at_the_same_time_are_one_run(tmp_path):
    write(tmp_path / "run", range(100))
    event_bytes.write(
        tmp_path / "run", *(event_bytes.scalars(s, lr=0.1) for s in range(100)), name="events.out.tfevents.2"
    )
    contents = open_logdir(str(tmp_path)).load(["run"])["run"]
    assert contents.second_writers == []
    assert len(contents.current("lr")) == len(contents.current("loss")) == 100


def test_ranks_are_one_job(tmp_path):
    for rank in range(8):
        tags = {"loss": 1.0, "lr": 0.1} if rank == 5 else {"lr": 0.1}
        event_bytes.write(tmp_path / "job" / f"rank_{rank}", *(event_bytes.scalars(s, **tags) for s in range(5)))
    write(tmp_path / "other", range(5))
    store = open_logdir(str(tmp_path))
    found = listing(store)
    assert set(found) == {"job/rank_5", "other"}
    assert found["job/rank_5"]["ranks"] == [f"job/rank_{rank}" for rank in range(8)]
    assert found["other"]["ranks"] == []
    # The others are still to be had.
    assert len(store.load(["job/rank_2"])["job/rank_2"].current("lr")) == 5


def test_runs_that_are_read_together_keep_their_points(tmp_path):
    """Each is evaluated before its first step, and every hundred steps."""
    for n in range(40):
        records = []
        for step in range(1000, 2200):
            if step % 100 == 0:
                records.append(event_bytes.scalars(step, wall=1000.0 * n + step, eval__loss=n))
            records.append(event_bytes.scalars(step, wall=1000.0 * n + step, train__loss=n, train__lr=n / 64))
        event_bytes.write(tmp_path / f"run_{n}", *records)
    store = open_logdir(str(tmp_path))
    for name, contents in store.load(store.runs).items():
        n = int(name[4:])
        for role, value, steps in (
            ("loss", n, range(1000, 2200)),
            ("lr", n / 64, range(1000, 2200)),
            ("eval_loss", n, range(1000, 2200, 100)),
        ):
            curve = contents.current(role)
            assert set(curve.value.tolist()) == {value}, (name, role)
            assert curve.step.tolist() == list(steps), (name, role)
            assert curve.wall.tolist() == [1000.0 * n + step for step in steps]


def test_points_in_no_order_of_which_none_is_superseded(tmp_path):
    """A log that was sorted the other way round, or merged from two: more steps backwards than restarts can explain."""
    steps = [step for pair in zip(range(1, 6000, 2), range(0, 6000, 2)) for step in pair]
    write(tmp_path / "run", steps)
    (curve,) = open_logdir(str(tmp_path)).load(["run"])["run"].segments("loss")
    assert curve.step.tolist() == list(range(6000))
    assert curve.value.tolist() == curve.step.tolist()


def test_steps_that_overflowed_32_bits(tmp_path):
    true = np.arange(2_000_000_000, 2_300_000_000, 50_000_000)
    wrapped = true.astype(np.int32).astype(np.int64)
    assert wrapped.min() < 0
    write(tmp_path / "run", wrapped.tolist())
    assert open_logdir(str(tmp_path)).load(["run"])["run"].current("loss").step.tolist() == true.tolist()


def test_negative_and_huge_steps_are_kept(tmp_path):
    steps = [-5, -1, 0, 7, 2**53 + 1, 2**63 - 1]
    write(tmp_path / "run", steps)
    store = open_logdir(str(tmp_path))
    assert store.load(["run"])["run"].current("loss").step.tolist() == steps
    assert any("2^53" in note for note in listing(store)["run"]["notes"])


def test_unreadable_file_is_a_note(tmp_path, monkeypatch):
    write(tmp_path / "run", range(5))
    bad = write(tmp_path / "run", range(5), name="events.out.tfevents.2")
    real = EventFile.read

    def read(self, *args):
        if self.path == str(bad):
            raise PermissionError(13, "Permission denied", self.path)
        return real(self, *args)

    monkeypatch.setattr(EventFile, "read", read)
    run = listing(open_logdir(str(tmp_path)))["run"]
    assert run["roles"]["loss"]["points"] == 5
    assert "events.out.tfevents.2 cannot be read: Permission denied" in run["notes"]


def test_no_such_logdir(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        open_logdir(str(tmp_path / "nowhere"))
    for nothing in ("", " , "):
        with pytest.raises(FileNotFoundError, match="names no directory"):
            open_logdir(nothing)


def test_a_run_that_takes_long_to_read_costs_the_others_nothing(tmp_path, monkeypatch):
    slow = write(tmp_path / "slow", range(50))
    for n in range(3):
        write(tmp_path / f"run_{n}", range(1000))
    store = open_logdir(str(tmp_path))
    store.memory = 30_000  # one run and a half
    begun, on = threading.Event(), threading.Event()
    real = EventFile.read

    def read(self):
        if self.path == str(slow):
            begun.set()
            assert on.wait(60)
        return real(self)

    monkeypatch.setattr(EventFile, "read", read)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        try:
            waiting = pool.submit(store.load, ["slow"])
            assert begun.wait(60)

            def look_at_the_others():
                for n in (0, 1, 2):
                    store.refresh()
                    assert len(store.load([f"run_{n}"])[f"run_{n}"].current("loss")) == 1000

            pool.submit(look_at_the_others).result(60)
            assert store.is_active()
            assert not waiting.done()
        finally:
            on.set()
        assert len(waiting.result(60)["slow"].current("loss")) == 50
    assert sum(run.nbytes for run in store.runs.values()) <= store.memory


def test_a_listing_that_has_to_read_keeps_to_the_bound(tmp_path, monkeypatch):
    """Each run ends in a text that is larger than the look at its end."""
    monkeypatch.setattr(store_module, "_LISTING_BYTES", 0)
    text = summary_pb2.Summary.Value(
        tag="t", tensor=tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[b"x" * 20_000])
    )
    for n in range(12):
        path = write(tmp_path / f"run_{n:02d}", range(1000))
        with path.open("ab") as file:
            file.write(event_bytes.value_event(1000, text))
    store = open_logdir(str(tmp_path))
    store.memory = 60_000  # three runs
    most = []
    real = store_module.Run.summary

    def summary(self, *args):
        found = real(self, *args)
        most.append(sum(run.nbytes for run in store.runs.values()))
        return found

    monkeypatch.setattr(store_module.Run, "summary", summary)
    assert [found.roles["loss"].points for found in store.summaries()] == [1000] * 12
    assert max(most) <= store.memory + 20_000  # and the one that was just read
    assert most[-1] > 20_000
    most.clear()
    monkeypatch.setattr(store_module, "_has_metrics", lambda path: False)
    store = open_logdir(str(tmp_path))
    assert store.is_active()
    assert len(most) == 1
    assert list(store._used) == ["run_00"]
