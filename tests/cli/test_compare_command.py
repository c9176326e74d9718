"""``tb-health compare`` as people call it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from checkout import ROOT
from click.testing import CliRunner

from tb_mindformers_plugin.cli.main import main
from tb_mindformers_plugin.writer import HealthWriter


def compare(*arguments):
    return CliRunner().invoke(main, ["compare", *map(str, arguments)])


@pytest.fixture
def logs(tmp_path):
    loss = 2 + 2 * np.exp(-np.arange(300) / 80) + 0.02 * np.random.default_rng(0).standard_normal(300)
    later = loss.copy()
    later[120:] *= 1.03
    for name, values in (("base [1]", loss), ("same", loss), ("eight", 8 * loss), ("later", later)):
        with HealthWriter(tmp_path / name, {"hparams": {"name": name}}) as writer:
            for step, value in enumerate(values):
                writer.log(step, loss=value, lr=1e-3, wall_time=1e9 + step)
    with HealthWriter(tmp_path / "elsewhere") as writer:
        writer.log(5000, loss=1.0)
    return tmp_path


def test_verdicts_and_exit_status(logs):
    same = compare(logs, "same", "--baseline", "base [1]")
    assert (same.exit_code, "Same within 1 %" in same.output) == (0, True), same.output
    eight = compare(logs, "eight", "--baseline", "base [1]")
    assert (eight.exit_code, "Constant ratio 8" in eight.output) == (1, True), eight.output
    later = compare(logs, "later", "--baseline", "base [1]")
    assert (later.exit_code, "Differs from step 120" in later.output) == (1, True), later.output
    assert "hparams.name" in later.output
    assert compare(logs, "later", "--baseline", "base [1]", "--tolerance", "5%").exit_code == 0
    assert compare(logs, "later", "--baseline", "base [1]", "--absolute", "0.2").exit_code == 0


def test_all_runs_and_those_that_cannot_be_compared(logs):
    done = compare(logs, "--baseline", "base [1]")
    assert done.exit_code == 1
    for name in ("base [1]  baseline", "same  Same", "eight  Constant", "later  Differs"):
        assert name in done.output
    assert "elsewhere: the two runs have no loss at the same step" in done.output
    assert compare(logs, "elsewhere", "same", "--baseline", "base [1]").exit_code == 2


def test_json(logs):
    done = CliRunner().invoke(main, ["compare", str(logs), "eight", "--baseline", "base [1]", "--json"])
    (found,) = json.loads(done.output)["comparisons"]
    assert found["verdict"] == "ratio"
    assert found["constant"]["whole"] == 8
    assert found["lr"] == {"same": True, "first_step": None, "run": None, "baseline": None, "max_relative": 0.0}


def test_chinese(logs):
    told = compare(logs, "later", "eight", "--baseline", "base [1]", "--lang", "zh").output
    assert "恒定比例 8" in told
    for words in ("平均 ", "首次在第 120 步", "学习率  相同", '"later"，基线 "base [1]"'):
        assert words in told
    for words in ("mean", "first at", "same", "against"):
        assert words not in told


def test_a_loss_that_is_no_number_throughout(logs):
    with HealthWriter(logs / "none") as writer:
        for step in range(300):
            writer.log(step, loss=float("nan"), wall_time=1e9 + step)
    done = compare(logs, "none", "--baseline", "base [1]")
    assert done.exit_code == 1
    assert "Differs from step 0" in done.output
    assert "absolute error  mean n/a, RMS n/a, max n/a" in done.output
    done = compare(logs, "none", "--baseline", "none")
    assert done.exit_code == 2
    assert "NaN or infinite in both runs at all 300 common points" in done.output


def test_a_baseline_alone(tmp_path):
    with HealthWriter(tmp_path / "base") as writer:
        writer.log(1, loss=1.0)
    done = compare(tmp_path, "--baseline", "base")
    assert (done.exit_code, "there is no other run" in done.output) == (2, True)


def test_wrong_usage(logs):
    done = compare(logs, "--baseline", "bse")
    assert done.exit_code == 2
    assert "there is no run 'bse'" in done.output
    assert "eight" in done.output
    assert compare(logs / "nowhere", "--baseline", "a").exit_code == 2
    assert "no tolerance" in compare(logs, "--baseline", "same", "--tolerance", "much").output
    assert "no tolerance" in compare(logs, "--baseline", "same", "--tolerance", "-1%").output
    assert compare(logs, "--baseline", "same", "--absolute", "nan").exit_code == 2
    assert compare(logs).exit_code == 2


def test_demo_logs():
    done = compare(ROOT / "demo_logs", "lr_too_high", "--baseline", "healthy_warmup_cosine")
    assert done.exit_code == 1
    assert "hparams.lr" in done.output
