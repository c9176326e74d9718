from __future__ import annotations

import json

import event_bytes
import numpy as np
import pytest
from checkout import ROOT
from click.testing import CliRunner

from tb_mindformers_plugin.cli.check.sparkline import sparkline
from tb_mindformers_plugin.cli.main import main
from tb_mindformers_plugin.writer import HealthWriter


def check(*arguments):
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


@pytest.fixture
def logs(tmp_path):
    loss = 2 + 0.02 * np.random.default_rng(0).standard_normal(400)
    spiked = loss.copy()
    spiked[200] = 6
    for name, values in (("good", loss), ("spiked [1]", spiked)):
        with HealthWriter(tmp_path / name) as writer:
            for step, value in enumerate(values):
                writer.log(step, loss=value, wall_time=1e9 + step)
    return tmp_path


def test_demo_logs():
    done = check(ROOT / "demo_logs")
    assert done.exit_code == 1, done.output
    for words in (
        "healthy_warmup_cosine  ok",
        "lr_too_high  critical",
        "grad_explosion_kept_lr  critical",
        "grad_explosion_reduced_lr  warning",
        "loss_divergence  steps 461 to 1,100",
        "overfitting",
        "▁▁▁",
        "→ Keep the checkpoint of the best eval",
    ):
        assert words in done.output


def test_report(logs):
    done = check(logs)
    assert done.exit_code == 1
    assert "spiked [1]  warning" in done.output
    assert "good  ok" in done.output
    assert (
        "Loss jumped from 2 to 6 (×3.0)" in done.output.replace("1.99", "2").replace("2.00", "2")
        or "(×3.0)" in done.output
    )


@pytest.mark.parametrize(("lang", "words"), [("en", "3 more, which --json lists"), ("zh", "另有 3 条，见 --json")])
def test_very_many_findings_of_one_rule_are_counted(tmp_path, lang, words):
    loss = 2 + 0.02 * np.random.default_rng(0).standard_normal(2000)
    loss[300:1600:100] = 6
    with HealthWriter(tmp_path) as writer:
        for step, value in enumerate(loss):
            writer.log(step, loss=value, wall_time=1e9 + step)
    told = check(tmp_path, "--lang", lang).output
    assert told.count("loss_spike") == 11
    assert words in told
    (run,) = json.loads(check(tmp_path, "--json").stdout)["runs"]
    assert [f["first_step"] for f in run["findings"] if f["rule"] == "loss_spike"] == list(range(300, 1600, 100))


def test_exit_status(logs):
    assert check(logs / "good").exit_code == 0
    assert check(logs, "--fail-on", "critical").exit_code == 0
    assert check(logs / "nowhere").exit_code == 2
    assert check(logs, "--lang", "fr").exit_code == 2
    event_bytes.write(logs / "empty" / "run", event_bytes.scalars(1, hp_metric=-1))
    done = check(logs / "empty")
    assert done.exit_code == 2
    assert "tb-health doctor" in done.output


def test_json(logs):
    done = check(logs, "--json")
    assert done.exit_code == 1
    runs = {run["run"]: run for run in json.loads(done.stdout)["runs"]}
    assert runs["good"] == {
        "run": "good",
        "verdict": "ok",
        "spike_score": {"loss": 0.0, "grad_norm": None},
        "findings": [],
    }
    (found,) = runs["spiked [1]"]["findings"]
    assert (found["rule"], found["severity"], found["run"], found["first_step"]) == (
        "loss_spike",
        "warning",
        "spiked [1]",
        200,
    )
    assert runs["spiked [1]"]["spike_score"]["loss"] > 0


def test_chinese(logs):
    done = check(logs, "--lang", "zh")
    assert "损失在第 200 步" in done.output
    assert "Loss" not in done.output
    (found,) = json.loads(check(logs, "--lang", "zh", "--json").stdout)["runs"][1]["findings"]
    assert found["advice"].startswith("查看")


def test_sparkline():
    step = np.arange(1000)
    value = np.ones(1000)
    value[500] = 2
    drawn = sparkline(step, value, 0, 999)
    assert (len(drawn), drawn.count("█"), drawn.count("▁")) == (60, 1, 59)
    assert sparkline(step, np.full(1000, np.nan), 5, 5) == "×" * 18
    assert set(sparkline(step, np.full(1000, 3.0), 5, 5)) == {"▁"}
    assert "█" in sparkline(step, 1e308 * np.linspace(-1, 1, 1000), 0, 999)
