"""Runs are diagnosed again only where there is something new."""

from __future__ import annotations

import concurrent.futures
import time

import event_bytes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tb_mindformers_plugin.health import diagnose
from tb_mindformers_plugin.health import diagnoses as module
from tb_mindformers_plugin.health.diagnoses import Diagnoses
from tb_mindformers_plugin.health.parameters import changed, parse_setting
from tb_mindformers_plugin.runs import open_logdir
from tb_mindformers_plugin.writer import HealthWriter

# Later than anything that the writers say of themselves.
BEGAN = time.time() + 1e6


@pytest.fixture
def asked(monkeypatch):
    """How often a run was diagnosed."""
    calls = []
    diagnose = module.diagnose

    def counted(*arguments):
        calls.append(arguments)
        return diagnose(*arguments)

    monkeypatch.setattr(module, "diagnose", counted)
    return calls


def of(diagnoses, store, now=None):
    store.refresh()
    (summary,) = store.summaries(read_all=True)
    return [(f.rule, f.severity) for f in diagnoses.of(store, summary, now)]


def test_a_run_that_did_not_grow_is_not_diagnosed_again(tmp_path, asked):
    path = event_bytes.write(tmp_path / "run", *(event_bytes.scalars(step, loss=2.0) for step in range(10)))
    store, diagnoses = open_logdir(str(tmp_path)), Diagnoses()
    for _ in range(3):
        assert of(diagnoses, store) == []
    assert len(asked) == 1
    with open(path, "ab") as file:
        file.write(event_bytes.scalars(10, loss=float("nan")))
    for _ in range(3):
        assert of(diagnoses, store) == [("non_finite", "critical")]
    assert len(asked) == 2
    # Nor for having been dropped from memory.
    store.runs["run"].drop()
    of(diagnoses, store)
    assert len(asked) == 2
    diagnoses.forget_others([])
    of(diagnoses, store)
    assert len(asked) == 3


def test_a_run_that_falls_silent_is_told_of(tmp_path, asked):
    with HealthWriter(tmp_path) as writer:
        for step in range(100):
            writer.log(step, loss=3.0 - step / 100, wall_time=BEGAN + step)
        store, diagnoses = open_logdir(str(tmp_path)), Diagnoses()
        writer.flush()
        at = BEGAN + 99
        for silent in (1, 600, 1799):
            assert of(diagnoses, store, at + silent) == []
        assert len(asked) == 1
        for silent in (1801, 1900, 2000):
            assert of(diagnoses, store, at + silent) == [("stalled", "warning")]
        assert len(asked) == 2
        for silent in (90_000, 100_000, 10**6):
            assert of(diagnoses, store, at + silent) == [("stalled", "info")]
        assert len(asked) == 3
        assert of(Diagnoses(), store) == []
        off = Diagnoses(changed([parse_setting("stalled=off")]))
        assert of(off, store, at + 10_000) == []
        soon = Diagnoses(changed([parse_setting("stalled.seconds=60"), parse_setting("stalled.intervals=1")]))
        assert of(soon, store, at + 61) == [("stalled", "warning")]


def test_a_last_point_without_a_number_is_judged_anew_when_the_run_is_silent(tmp_path, asked):
    with HealthWriter(tmp_path) as writer:
        for step in range(100):
            writer.log(step, loss=3.0 if step < 99 else float("nan"), wall_time=BEGAN + step)
        store, diagnoses = open_logdir(str(tmp_path)), Diagnoses(changed([parse_setting("stalled=off")]))
        writer.flush()
        for silent, severity in ((1, "warning"), (1700, "warning"), (1900, "critical"), (10**6, "critical")):
            assert of(diagnoses, store, BEGAN + 99 + silent) == [("non_finite", severity)]
        assert len(asked) == 2


def test_several_threads_diagnose_a_run_once(tmp_path, asked):
    event_bytes.write(tmp_path / "run", *(event_bytes.scalars(step, loss=2.0) for step in range(10)))
    store, diagnoses = open_logdir(str(tmp_path)), Diagnoses()
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: of(diagnoses, store), range(32)))
    assert found == [[]] * 32
    assert len(asked) == 1


def test_a_baseline_that_grows_is_compared_anew(tmp_path, asked):
    def points(steps, level):
        return [event_bytes.scalars(step, loss=level) for step in steps]

    base = event_bytes.write(tmp_path / "base", *points(range(10), 2.0))
    event_bytes.write(tmp_path / "run", *points(range(10), 2.0), *points(range(10, 40), 3.0))
    store, diagnoses = open_logdir(str(tmp_path)), Diagnoses()

    def found(run):
        store.refresh()
        summaries = {summary.name: summary for summary in store.summaries(read_all=True)}
        return [f.rule for f in diagnoses.of(store, summaries[run], baseline=summaries["base"])]

    assert found("run") == found("run") == []  # as far as the baseline goes they are the same
    assert found("base") == []
    assert len(asked) == 2
    with open(base, "ab") as file:
        file.write(b"".join(points(range(10, 40), 2.0)))
    assert found("run") == found("run") == ["baseline_divergence"]
    assert len(asked) == 3


@st.composite
def growths(draw):
    """Ways in which a run grows: (what happens, points, seed)."""
    kinds = ("calm", "calm", "calm", "jump", "nan", "rise", "restart", "new file", "dropped")
    return draw(st.lists(st.tuples(st.sampled_from(kinds), st.integers(1, 300), st.integers(0, 9)), max_size=12))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(growths=growths())
def test_findings_of_a_growing_run_are_those_of_a_fresh_look(tmp_path_factory, growths):
    logdir = tmp_path_factory.mktemp("logs")
    path = event_bytes.write(logdir, event_bytes.scalars(0, loss=3.0, grad_norm=1.0, lr=1e-3))
    store, diagnoses = open_logdir(str(logdir)), Diagnoses()
    step, level = 1, 3.0
    for kind, points, seed in growths:
        noise = np.exp(0.02 * np.random.default_rng(seed).standard_normal(points))
        if kind == "dropped":
            store.runs["."].drop()
        if kind in ("restart", "new file"):
            step = max(step - 2 * points, 1)
        if kind == "new file":
            path = path.with_name(f"events.out.tfevents.{2_000_000_000 + step}.{seed}.{points}")
            path.write_bytes(b"")
        if kind == "rise":
            level *= 1.5
        loss = level * noise
        if kind == "jump":
            loss[points // 2] *= 4
        if kind == "nan":
            loss[points // 2 :] = np.nan
        with open(path, "ab") as file:
            for value, norm in zip(loss, noise**5):
                file.write(event_bytes.scalars(step, wall=1e9 + step, loss=value, grad_norm=norm, lr=1e-3))
                step += 1
        store.refresh()
        (summary,) = store.summaries(read_all=True)
        fresh = open_logdir(str(logdir)).load(["."])["."]
        assert diagnoses.of(store, summary) == diagnose(fresh)
        assert store.runs["."].nbytes <= store.memory


def test_unusual_bounds(tmp_path):
    with HealthWriter(tmp_path) as writer:
        for step in range(100):
            writer.log(step, loss=3.0 - step / 100, wall_time=BEGAN)
        writer.flush()
        always = Diagnoses(changed([parse_setting("stalled.seconds=0"), parse_setting("stalled.intervals=0")]))
        store = open_logdir(str(tmp_path))
        assert of(always, store, BEGAN - 10) == []
        assert of(always, store, BEGAN + 10) == [("stalled", "warning")]
