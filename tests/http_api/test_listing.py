"""What ``GET runs`` says of each run, for a list of them and in two languages."""

from __future__ import annotations

import json
import math
import re
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


@pytest.fixture
def get(tmp_path):
    writer = HealthWriter(tmp_path / "lost", {"total_steps": 400})
    for step in range(1, 201):
        # Slower at first: what counts is how fast it is now.
        seconds = 10.0 * step if step <= 100 else 1000.0 + 2.5 * (step - 100)
        writer.log(step, loss=2.0 if step < 150 else float("nan"), wall_time=1e9 + seconds)
    writer.event("end", 200, status="failed", error="ValueError: bad batch", wall_time=1e9 + 2000)
    writer.close()
    with HealthWriter(tmp_path / "begun") as writer:
        writer.log(1, loss=1.0, wall_time=1e9)
    flags = SimpleNamespace(logdir=str(tmp_path), logdir_spec="")
    apps = TrainingHealthLoader().load(base_plugin.TBContext(logdir=str(tmp_path), flags=flags)).get_plugin_apps()

    def ask(query=""):
        answer = Client(apps["/runs"], Response).get(f"/data/plugin/training_health/runs{query}")
        return answer.status_code, json.loads(answer.get_data(as_text=True))

    return ask


@pytest.mark.parametrize("wall", [1.7e308, -1.7e308, math.inf, math.nan, 5e-324])
def test_a_clock_that_is_as_wrong_as_numbers_go(get, tmp_path, wall):
    """One run's clock must not cost the others their listing."""
    with HealthWriter(tmp_path / "odd") as writer:
        for step in range(1, 100):
            writer.log(step, loss=1.0, wall_time=wall if step % 2 else 0.0)
    status, answer = get()
    assert status == 200
    assert run(answer, "odd")["roles"]["loss"]["points"] == 99
    assert run(answer, "lost")["verdict"] == "critical"


def run(answer, name):
    return next(run for run in answer["runs"] if run["run"] == name)


def test_findings_are_counted_by_severity_and_come_first_in_the_notes(get):
    _, answer = get()
    lost = run(answer, "lost")
    assert lost["findings"]["critical"] >= 1
    assert lost["verdict"] == "critical"
    count = sum(lost["findings"].values())
    assert lost["notes"][0].startswith("Loss was NaN")
    assert lost["notes_of_findings"] == count
    assert lost["notes"][count:] == ["The training failed at step 200: ValueError: bad batch."]


@pytest.mark.parametrize(("language", "words"), [("en", "And 16 more findings."), ("zh", "另有 16 条诊断。")])
def test_many_findings_are_counted_in_the_notes(tmp_path, language, words):
    loss = 2 + 0.02 * np.random.default_rng(0).standard_normal(3000)
    loss[300:2800:100] = 6
    with HealthWriter(tmp_path / "run") as writer:
        for step, value in enumerate(loss):
            writer.log(step, loss=value, wall_time=1e9 + step)
    store, diagnoses = open_logdir(str(tmp_path)), Diagnoses()
    (listed,) = list_runs(store, diagnoses=diagnoses, language=language)["runs"]
    assert listed["findings"]["warning"] == 25
    assert listed["notes_of_findings"] == 11
    assert listed["notes"][10:] == [words]
    asked = parse_findings_request({"run": "run", "lang": language})
    found = run_findings(store, diagnoses, asked)["findings"]
    assert len(found) == 26
    assert [f["message"] for f in found[:10]] == listed["notes"][:10]


def test_seconds_per_step_are_those_of_late(get):
    _, answer = get()
    assert run(answer, "lost")["seconds_per_step"] == pytest.approx(2.5)
    assert run(answer, "begun")["seconds_per_step"] is None


def test_notes_and_hints_in_chinese(get):
    _, english = get("?lang=en")
    status, chinese = get("?lang=zh")
    assert status == 200
    lost = run(chinese, "lost")
    assert "训练在第 200 步失败：ValueError: bad batch。" in lost["notes"]
    assert len(lost["notes"]) == len(run(english, "lost")["notes"])
    assert all(re.search("[\u4e00-\u9fff]", hint["hint"]) for hint in lost["missing"])
    assert [hint["role"] for hint in lost["missing"]] == [hint["role"] for hint in run(english, "lost")["missing"]]


def test_another_language_is_refused(get):
    status, answer = get("?lang=fr")
    assert status == 400
    assert "'fr'" in answer["error"]
    assert "en, zh" in answer["hint"]
