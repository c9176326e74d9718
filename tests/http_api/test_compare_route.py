"""``GET compare`` through its route."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from tensorboard.plugins import base_plugin
from werkzeug.test import Client
from werkzeug.wrappers import Response

from tb_mindformers_plugin.health import diagnose
from tb_mindformers_plugin.plugin import TrainingHealthLoader
from tb_mindformers_plugin.runs import open_logdir
from tb_mindformers_plugin.writer import HealthWriter


@pytest.fixture
def logs(tmp_path):
    loss = 2 + 0.02 * np.random.default_rng(0).standard_normal(400)
    other = loss.copy()
    other[200:] *= 1.5
    broken = loss.copy()
    broken[300:] = np.nan
    for name, values in (("base", loss), ("other", other), ("better", loss * (1 - 0.2 * (np.arange(400) > 50)))):
        with HealthWriter(tmp_path / name) as writer:
            for step, value in enumerate(values):
                writer.log(step, loss=value, wall_time=1e9 + step)
    with HealthWriter(tmp_path / "broken") as writer:
        for step, value in enumerate(broken):
            writer.log(step, loss=value, wall_time=1e9 + step)
    with HealthWriter(tmp_path / "far") as writer:
        writer.log(10_000, loss=1.0)
    return tmp_path


@pytest.fixture
def get(logs):
    flags = SimpleNamespace(logdir=str(logs), logdir_spec="")
    apps = TrainingHealthLoader().load(base_plugin.TBContext(logdir=str(logs), flags=flags)).get_plugin_apps()

    def ask(query):
        answer = Client(apps["/compare"], Response).get(f"/data/plugin/training_health/compare{query}")
        return answer.status_code, json.loads(answer.get_data(as_text=True), parse_constant=pytest.fail)

    return ask


def test_a_comparison(get):
    status, said = get("?baseline=base&run=other")
    assert status == 200
    assert (said["verdict"], said["errors"]["parted_step"], said["title"]) == ("differs", 200, "Differs from step 200")
    assert said["relative_error"]["raw"] is True
    assert len(said["relative_error"]["x"]) == 400
    assert said["relative_error"]["last"][300] == pytest.approx(0.5, rel=1e-5)
    assert said["difference"]["last"][100] == 0


def test_its_window_keeps_the_extremes(get):
    _, said = get("?baseline=base&run=other&buckets=8")
    _, whole = get("?baseline=base&run=other")
    assert said["difference"]["raw"] is False
    assert len(said["difference"]["x"]) <= 8
    assert max(said["difference"]["max"]) == max(whole["difference"]["max"])
    _, part = get("?baseline=base&run=other&from=250&to=260")
    assert part["difference"]["x"] == [*range(249, 262)]


def test_smoothed_curves_and_places(get):
    _, said = get("?baseline=base&run=other&smoothing=0.9&x=step")
    assert said["at"] == {"first_beyond": 200, "parted": 200, "worst": said["errors"]["worst_step"]}
    error = said["relative_error"]
    # Bias-corrected: ten points of 0.5 after 200 of 0.
    assert error["smoothed"][209] == pytest.approx(0.5 * (1 - 0.9**10), rel=1e-3)
    assert error["last"][209] == pytest.approx(0.5, rel=1e-5)
    assert get("?baseline=base&run=other")[1]["difference"]["smoothed"] is None
    _, same = get("?baseline=base&run=base")
    assert same["at"]["parted"] is None


def test_a_run_that_became_nan(get):
    status, said = get("?baseline=base&run=broken")
    assert status == 200
    assert said["errors"]["parted_step"] == 300
    assert said["difference"]["last"][350] is None


def test_chinese(get):
    assert "自第 200 步起不同" in get("?baseline=base&run=other&lang=zh")[1]["title"]


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("?baseline=base", 400, "'run' is missing"),
        ("?run=base", 400, "'baseline' is missing"),
        ("?baseline=base&run=no", 404, "no run 'no'"),
        ("?baseline=base&run=far", 400, "no loss at the same step"),
        ("?baseline=base&run=other&role=los", 400, "'role' is 'los'"),
        ("?baseline=base&run=other&x=wall", 400, "'x' is 'wall'"),
        ("?baseline=base&run=other&x=samples", 400, "does not know its samples"),
        ("?baseline=base&run=other&tolerance=-1", 400, "tolerance is -1"),
        ("?baseline=base&run=other&tolerance=nan", 400, "'tolerance' is 'nan'"),
        ("?baseline=base&run=other&points=1.5", 400, "'points' is 1.5"),
        ("?baseline=base&run=other&buckets=1", 400, "'buckets' is 1"),
        ("?baseline=base&run=other&from=2&to=1", 400, "behind"),
        ("?baseline=base&run=other&smoothing=1", 400, "'smoothing' is 1"),
        ("?baseline=base&run=other&lang=fr", 400, "'lang' is 'fr'"),
        ("?baseline=base&run=other&x=samples&colour=red", 400, "'colour' is unknown"),
    ],
)
def test_bad_parameters(get, query, status, words):
    code, said = get(query)
    assert code == status
    assert words in said["error"] + said["hint"]


def test_the_rule_baseline_divergence(logs):
    store = open_logdir(str(logs))
    loaded = store.load(["base", "other", "better", "broken", "far"])

    def found(run):
        return [f for f in diagnose(loaded[run], baseline=loaded["base"]) if f.rule == "baseline_divergence"]

    (other,) = found("other")
    assert (other.severity, other.first_step, other.last_step) == ("warning", 200, 399)
    assert other.evidence["max_relative_error"] == pytest.approx(0.5, rel=1e-4)
    assert [(f.severity, f.first_step) for f in found("better")] == [("info", 51)]
    assert [(f.severity, f.first_step) for f in found("broken")] == [("warning", 300)]
    assert found("base") == found("far") == []
    assert not any(f.rule == "baseline_divergence" for f in diagnose(loaded["other"]))
