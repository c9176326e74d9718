"""Runs are diagnosed again only where there is something new."""

from __future__ import annotations

import time

import event_bytes
import pytest

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


def test_unusual_bounds(tmp_path):
    with HealthWriter(tmp_path) as writer:
        for step in range(100):
            writer.log(step, loss=3.0 - step / 100, wall_time=BEGAN)
        writer.flush()
        always = Diagnoses(changed([parse_setting("stalled.seconds=0"), parse_setting("stalled.intervals=0")]))
        store = open_logdir(str(tmp_path))
        assert of(always, store, BEGAN - 10) == []
        assert of(always, store, BEGAN + 10) == [("stalled", "warning")]
