"""``GET findings`` through its route."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import numpy as np
import pytest
from tensorboard.plugins import base_plugin
from werkzeug.test import Client
from werkzeug.wrappers import Response

from tb_mindformers_plugin.health.diagnoses import Diagnoses
from tb_mindformers_plugin.http_api.findings import parse_findings_request, run_findings
from tb_mindformers_plugin.http_api.listing import list_runs
from tb_mindformers_plugin.plugin import TrainingHealthLoader
from tb_mindformers_plugin.runs import open_logdir
from tb_mindformers_plugin.writer import HealthWriter

# Later than anything that the writers say of themselves.
BEGAN = time.time() + 1e6


@pytest.fixture
def get(tmp_path):
    loss = 2 + 0.02 * np.random.default_rng(0).standard_normal(400)
    loss[200] = 6
    with HealthWriter(tmp_path / "run") as writer:
        for step, value in enumerate(loss):
            writer.log(step, loss=value, wall_time=1e9 + step)
        writer.log(400, loss=float("inf"), wall_time=1e9 + 400)
    with HealthWriter(tmp_path / "left") as writer:
        for step, value in enumerate(loss):
            writer.log(step, loss=value * (1.2 if step >= 100 else 1), wall_time=1e9 + step)
    flags = SimpleNamespace(logdir=str(tmp_path), logdir_spec="")
    apps = TrainingHealthLoader().load(base_plugin.TBContext(logdir=str(tmp_path), flags=flags)).get_plugin_apps()

    def ask(query):
        return Client(apps["/findings"], Response).get(f"/data/plugin/training_health/findings{query}")

    return ask


def test_findings_worst_first(get):
    answer = get("?run=run")
    assert answer.status_code == 200
    found = json.loads(answer.get_data(as_text=True))["findings"]
    assert [(f["rule"], f["severity"]) for f in found] == [("non_finite", "critical"), ("loss_spike", "warning")]
    assert set(found[1]) == {
        *("rule", "severity", "run", "role", "tag", "first_step", "last_step", "peak_step"),
        *("message", "advice", "evidence", "at"),
    }
    # Where its first, last and worst step lie on the other axes that the run has.
    assert found[1]["at"]["wall"][::2] == [1e9 + 200, 1e9 + 200]
    assert found[1]["at"]["relative"][0] == 200
    assert set(found[1]["at"]) == {"from_start", "wall", "relative", "active"}
    assert (found[1]["run"], found[1]["tag"], found[1]["first_step"]) == ("run", "train/loss", 200)
    assert found[1]["evidence"]["recovered"] is True


def test_against_a_baseline(get):
    found = json.loads(get("?run=left&baseline=run").get_data(as_text=True))["findings"]
    parted = [f for f in found if f["rule"] == "baseline_divergence"]
    assert [(f["severity"], f["first_step"], f["last_step"]) for f in parted] == [("warning", 100, 399)]
    assert "at step 100" in parted[0]["message"]
    for query in ("?run=left", "?run=left&baseline=left", "?run=run&baseline=run"):
        found = json.loads(get(query).get_data(as_text=True))["findings"]
        assert not any(f["rule"] == "baseline_divergence" for f in found)


def test_chinese(get):
    found = json.loads(get("?run=run&lang=zh").get_data(as_text=True))["findings"]
    assert "损失" in found[0]["message"]
    assert found[0]["advice"].endswith("。")


def test_a_run_that_fell_silent(tmp_path):
    with HealthWriter(tmp_path / "run", {"total_steps": 500}) as writer:
        for step in range(100):
            writer.log(step, loss=3.0 - step / 100, wall_time=BEGAN + step)
        writer.flush()
        store, diagnoses = open_logdir(str(tmp_path)), Diagnoses()
        store.refresh()

        def seen(silent):
            """What the two routes say after so much silence."""
            now = BEGAN + 99 + silent
            (run,) = list_runs(store, now, diagnoses)["runs"]
            found = run_findings(store, diagnoses, parse_findings_request({"run": "run"}), now)["findings"]
            assert run["notes"][: run["notes_of_findings"]] == [f["message"] for f in found]
            return run["status"], run["verdict"], [(f["rule"], f["severity"], f["first_step"]) for f in found]

        assert seen(60) == ("running", "ok", [])
        assert seen(2000) == ("stalled", "warning", [("stalled", "warning", 99)])
        assert seen(50_000) == ("stalled", "warning", [("stalled", "warning", 99)])
        assert seen(100_000) == ("stalled", "info", [("stalled", "info", 99)])
    store.refresh()
    assert seen(2000)[:2] == ("ended", "ok")


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("", 400, "'run' is missing"),
        ("?run=run&lang=fr", 400, "'lang' is 'fr'"),
        ("?run=run&role=loss", 400, "'role' is unknown"),
        ("?run=nowhere", 404, "no run 'nowhere'"),
        ("?run=run&baseline=nowhere", 404, "no run 'nowhere'"),
    ],
)
def test_what_is_wrong_is_said(get, query, status, words):
    answer = get(query)
    assert answer.status_code == status
    said = json.loads(answer.get_data(as_text=True))
    assert words in said["error"]
    assert said["hint"]
