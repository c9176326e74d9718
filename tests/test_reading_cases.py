"""Inputs that have hurt people, from the file to what ``GET runs`` and ``POST series`` say of them."""

from __future__ import annotations

import math
import random

import event_bytes
import numpy as np
import pytest
from tensorboard.compat.proto import event_pb2

from tb_mindformers_plugin import metadata
from tb_mindformers_plugin.http_api.listing import list_runs
from tb_mindformers_plugin.http_api.request import SeriesRequest
from tb_mindformers_plugin.http_api.series import query
from tb_mindformers_plugin.runs import open_logdir
from tb_mindformers_plugin.writer import HealthWriter


class Logdir:
    """A log directory as the routes answer for it."""

    def __init__(self, path):
        self.path = path
        self.store = open_logdir(str(path))
        self.listing = list_runs(self.store)
        self.runs = {run["run"]: run for run in self.listing["runs"]}

    def segments(self, run, role="loss", **request):
        return query(self.store, SeriesRequest([run], [role], **request)).windows

    def curve(self, run, role="loss", **request):
        first = self.segments(run, role, **request)[0]
        assert first.current
        return first.points


def loss(steps, value=None, wall=None, name="events.out.tfevents.1.h", before=b""):
    """Bytes of an event file with a loss at each step."""
    return before + b"".join(
        event_bytes.scalars(s, loss=float(s) if value is None else value, wall=None if wall is None else wall(s))
        for s in steps
    )


def write(tmp_path, *parts, run="run"):
    for n, part in enumerate(parts):
        event_bytes.write(tmp_path / run, part, name=f"events.out.tfevents.{1000 + n}.h")
    return Logdir(tmp_path)


def test_damage_is_counted_with_its_place(tmp_path):
    records = [event_bytes.scalars(step, loss=float(step)) for step in range(30)]
    bad = bytearray(records[11])
    bad[25] ^= 4
    place = len(event_bytes.version()) + sum(map(len, records[:11]))
    found = write(tmp_path, b"".join([*records[:11], bytes(bad), *records[12:]]))
    assert found.curve("run").x.tolist() == [s for s in range(30) if s != 11]
    assert any(f"{len(bad)} damaged bytes at byte {place}" in note for note in found.runs["run"]["notes"])


def test_files_that_are_no_event_files(tmp_path):
    event_bytes.write(tmp_path / "good", loss(range(5)))
    for name, content in {
        "empty": b"",
        "text": b"these are notes, not events\n" * 20,
        "random": random.Random(0).randbytes(5000),
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "events.out.tfevents.1.h").write_bytes(content)
        # Beside a good file it is a note on the run, and nothing else.
        (tmp_path / "good" / f"events.out.tfevents.0.{name}").write_bytes(content)
    found = Logdir(tmp_path)
    assert list(found.runs) == ["good"]
    assert found.curve("good").x.tolist() == list(range(5))
    assert sum("damaged bytes" in note for note in found.runs["good"]["notes"]) == 2
    assert found.listing["without_metrics"] == ["empty", "random", "text"]
    problems = found.listing["searched"]["problems"]
    assert any(problem.startswith("text: ") for problem in problems)
    assert any(problem.startswith("random: ") for problem in problems)


@pytest.mark.parametrize("session_log", [False, True])
def test_restart(tmp_path, session_log):
    start = event_bytes.record(event_pb2.Event(step=100, wall_time=5000, session_log={"status": 1}).SerializeToString())
    first = loss(range(151), value=1.0)
    second = loss(range(100, 201), value=2.0, wall=lambda s: 5000.0 + s, before=start if session_log else b"")
    found = write(tmp_path, first, second)
    current, old = found.segments("run")
    assert current.points.x.tolist() == list(range(201))
    assert current.points.last.tolist() == [1.0] * 100 + [2.0] * 101
    assert not old.current
    assert old.points.x.tolist() == list(range(100, 151))
    assert found.runs["run"]["restarts"] == [100]
    assert found.runs["run"]["roles"]["loss"]["points"] == 252


def test_repeated_steps(tmp_path):
    steps = sorted([*range(200), *range(5, 105, 10)])
    assert len(steps) == 210
    written = [event_bytes.scalars(s, wall=1000.0 + i, loss=float(i)) for i, s in enumerate(steps)]
    found = write(tmp_path, b"".join(written))
    current, *rest = found.segments("run")
    assert current.points.x.tolist() == list(range(200))
    latest = {s: float(i) for i, s in enumerate(steps)}
    assert current.points.last.tolist() == [latest[s] for s in range(200)]
    assert sum(len(segment.points.x) for segment in rest) == 10
    assert found.runs["run"]["roles"]["loss"]["points"] == 210


def test_a_stray_point(tmp_path):
    found = write(tmp_path, loss([*range(100), 3, 100]))
    current, stray = found.segments("run")
    assert current.points.x.tolist() == list(range(101))
    assert stray.points.x.tolist() == [3]
    assert found.runs["run"]["restarts"] == []
    assert any("a point out of order is shown apart" in note for note in found.runs["run"]["notes"])


def test_values_at_the_limits(tmp_path):
    values = [math.nan, math.inf, -math.inf, -0.0, 1e-45, float(np.finfo(np.float32).max), 1.0]
    found = write(tmp_path, b"".join(event_bytes.scalars(i, loss=v) for i, v in enumerate(values)))
    curve = found.curve("run")
    assert np.isnan(curve.last[:3]).all()
    assert (curve.nan.tolist()[0], curve.posinf.tolist()[1], curve.neginf.tolist()[2]) == (1, 1, 1)
    assert curve.last[3:].tobytes() == np.array(values[3:], np.float32).tobytes()


def test_clocks_that_fail(tmp_path):
    walls = [1000.0, 1001.0, math.nan, 1003.0, 990.0, 1005.0, 1005.0 + 36_000]
    found = write(tmp_path, b"".join(event_bytes.scalars(i, wall=w, loss=float(i)) for i, w in enumerate(walls)))
    assert found.curve("run").x.tolist() == list(range(7))
    relative = found.curve("run", x="relative")
    assert (np.diff(relative.x) >= 0).all()
    assert (relative.x[0], relative.x[-1]) == (0.0, 36_015.0)
    assert len(relative.x) == 6  # the point without a time has no place in time
    assert sorted(relative.last.tolist()) == [0, 1, 3, 4, 5, 6]


@pytest.mark.parametrize("way", ["renamed", "copied and emptied"])
def test_a_log_that_is_rotated_while_it_is_watched(tmp_path, way):
    path = event_bytes.write(tmp_path / "run", loss(range(100)), name="events.out.tfevents.1000.h")
    event_bytes.write(tmp_path / "other", loss(range(5)))
    found = Logdir(tmp_path)
    old = path.with_name(path.name + ".1")
    if way == "renamed":
        path.rename(old)
        path = path.with_name("events.out.tfevents.2000.h")
    else:
        old.write_bytes(path.read_bytes())
    path.write_bytes(event_bytes.version() + loss(range(100, 130)))
    found.store.refresh()
    segments = found.segments("run")
    assert sorted(x for segment in segments for x in segment.points.x.tolist()) == list(range(130))
    if way == "renamed":
        assert len(segments) == 1
        assert {run["run"]: run["restarts"] for run in list_runs(found.store)["runs"]} == {"run": [], "other": []}
    assert found.curve("other").x.tolist() == list(range(5))


@pytest.mark.parametrize(
    "tag", ["a b/c%20d", "\"quotes\" & 'more'", "<script>alert(1)</script>", "🙂/中文", "x" * 4096]
)
def test_tags_are_kept_literally(tmp_path, tag):
    with HealthWriter(tmp_path / "run", {"roles": {"loss": tag}}) as writer:
        writer.log(1, loss=2.0)
    found = Logdir(tmp_path)
    assert found.runs["run"]["roles"]["loss"]["tag"] == tag
    assert found.segments("run")[0].tag == tag


def manifest_record(content):
    value = metadata.manifest_value(metadata.RunManifest())
    value.metadata.plugin_data.content = content
    return event_bytes.value_event(0, value)


def test_a_late_manifest_counts(tmp_path):
    scalar = event_bytes.scalars(1, objective__total=3.0)
    found = write(tmp_path, scalar + manifest_record(b'{"version": 1, "roles": {"loss": "objective/total"}}') + scalar)
    assert found.runs["run"]["source"] == "manifest"
    assert found.runs["run"]["roles"]["loss"]["tag"] == "objective/total"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"version": 2}', "pip install -U"),
        (b"{broken", "not JSON"),
        (b'{"version": 1, "total_steps": "x"}', "total_steps"),
    ],
)
def test_a_manifest_that_cannot_be_read(tmp_path, content, words):
    found = write(tmp_path, manifest_record(content) + event_bytes.scalars(1, train__loss=3.0))
    assert found.runs["run"]["source"] == "alias"
    assert found.runs["run"]["roles"]["loss"]["tag"] == "train/loss"
    assert any(words in note for note in found.runs["run"]["notes"])


def test_a_thousand_runs_half_of_them_empty(tmp_path):
    for n in range(500):
        event_bytes.write(tmp_path / f"run_{n}", loss(range(3)))
        event_bytes.write(tmp_path / f"hparams_{n}", event_bytes.scalars(0, hp_metric=-1))
    found = Logdir(tmp_path)
    assert len(found.runs) == 500
    assert len(found.listing["without_metrics"]) == 500


def test_a_large_graph_beside_three_scalars(tmp_path):
    graph = event_bytes.record(event_pb2.Event(graph_def=bytes(20_000_000)).SerializeToString())
    found = write(tmp_path, loss([0]) + graph + loss([1, 2]))
    assert found.curve("run").x.tolist() == [0, 1, 2]


@pytest.mark.real_logs
def test_real_logs(real_logs):
    found = Logdir(real_logs)
    assert set(found.runs) == {"keras_mnist", "lightning_char_lm/version_0", "lightning_small/version_1"}
    assert "lightning_small/version_0" in found.listing["without_metrics"]
    char_lm = found.runs["lightning_char_lm/version_0"]
    assert char_lm["roles"]["loss"]["points"] == 7691
    assert char_lm["roles"]["loss"]["last_step"] == 384_549
    assert char_lm["roles"]["eval_loss"]["points"] == 29
    assert char_lm["verdict"] in ("ok", "info")  # a plateau of a run that logs no learning rate
    assert found.runs["keras_mnist"]["roles"]["loss"]["points"] == 20
    contents = found.store.load(["reducer_duplicate_steps/run_1"])["reducer_duplicate_steps/run_1"]
    segments = contents.segments("dup_steps/foo")
    assert sum(map(len, segments)) == 210
    assert len(np.unique(np.concatenate([s.step for s in segments]))) == len(segments[0])
