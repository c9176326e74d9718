"""``tb-health report`` as people call it; how it looks is in tests/e2e."""

from __future__ import annotations

import os
import re
import sys
import warnings

import numpy as np
import pytest
from checkout import ROOT
from click.testing import CliRunner

from tb_mindformers_plugin.cli import report as command
from tb_mindformers_plugin.cli.main import main
from tb_mindformers_plugin.report import collect
from tb_mindformers_plugin.report.charts import MOST_RUNS
from tb_mindformers_plugin.runs import open_logdir
from tb_mindformers_plugin.writer import HealthWriter


def report(*arguments):
    return CliRunner().invoke(main, ["report", *map(str, arguments)])


@pytest.fixture
def logs(tmp_path):
    loss = 2 + 2 * np.exp(-np.arange(300) / 80) + 0.02 * np.random.default_rng(0).standard_normal(300)
    for name, values in (("base", loss), ("eight", 8 * loss), ("<script>alert(1)</script>", loss)):
        with HealthWriter(
            tmp_path / "logs" / name.replace("/", "\N{FRACTION SLASH}"), {"hparams": {"seed": name}}
        ) as writer:
            for step, value in enumerate(values):
                writer.log(step, loss=value, lr=1e-3, wall_time=1e9 + step)
    with HealthWriter(tmp_path / "logs" / "elsewhere") as writer:
        writer.log(5000, loss=float("nan"))
    return tmp_path / "logs"


def test_what_a_report_says(logs, tmp_path):
    done = report(logs, "-o", tmp_path / "report.html", "--baseline", "base")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "report.html").read_text("utf-8")
    for words in ("Constant ratio 8", "Same within 1 %", "hparams.seed", "Compared with base", "Manifests"):
        assert words in page
    assert "elsewhere: the two runs have no loss at the same step" in page
    # The name of a run is text, wherever it stands.
    assert "<script>alert" not in page
    assert page.count("<script") == 2
    assert not re.search(r"(src|href)=|url\((?!#)|https?://", page)


def test_what_is_wrong_comes_first(tmp_path):
    assert report(ROOT / "demo_logs", "-o", tmp_path / "x.html").exit_code == 0
    page = (tmp_path / "x.html").read_text("utf-8")
    rows = re.findall(r"<tr><td><i[^>]*></i>([^<]*)</td><td><span class=\"pill (\w+)", page)
    severities = [severity for _, severity in rows]
    assert severities == sorted(severities, key=["critical", "warning", "info", "ok"].index)
    assert dict(rows)["lr_too_high_nan"] == "critical"
    assert dict(rows)["healthy_warmup_cosine"] == "ok"
    assert "Loss was NaN at 25 of 515 logged steps" in page
    assert "Compared with" not in page
    assert len(page) < 1_000_000
    # A training that failed or was stopped did not just end.
    ended = dict(re.findall(r"<tr><td><i[^>]*></i>([^<]*)</td><td><span.*?</span></td><td>(\w+)</td>", page))
    assert ended["lr_too_high_nan"] == "failed"
    assert ended["lr_too_high"] == "stopped"
    assert ended["healthy_warmup_cosine"] == "ended"


def test_chosen_runs_and_chinese(logs, tmp_path):
    done = report(logs, "eight", "-o", tmp_path / "x.html", "--baseline", "base", "--lang", "zh")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "x.html").read_text("utf-8")
    assert "恒定比例 8" in page
    assert 'lang="zh-CN"' in page
    assert "elsewhere" not in page


def test_tolerance(logs, tmp_path):
    done = report(logs, "eight", "-o", tmp_path / "x.html", "--baseline", "base", "--tolerance", "800%")
    assert done.exit_code == 0, done.output
    assert "Same within 800 %" in (tmp_path / "x.html").read_text("utf-8")


def test_too_many_runs_are_said(logs, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "MOST_CHOSEN", 2)
    assert report(logs, "-o", tmp_path / "x.html").exit_code == 0
    assert "2 more runs are not in this report" in (tmp_path / "x.html").read_text("utf-8")


def test_rules_may_be_changed(tmp_path):
    arguments = (ROOT / "demo_logs", "lr_too_high_nan", "-o", tmp_path / "x.html")
    assert report(*arguments, "--set", "non_finite=off").exit_code == 0
    assert "Loss was NaN" not in (tmp_path / "x.html").read_text("utf-8")
    assert report(*arguments, "--set", "no_rule=off").exit_code == 2


def test_values_near_the_end_of_float32_are_drawn_without_a_warning(tmp_path):
    with HealthWriter(tmp_path / "run") as writer:
        for step in range(300):
            writer.log(step, loss=10.0 ** (38.5 * step / 299), wall_time=1e9 + step)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = report(tmp_path, "-o", tmp_path / "x.html")
    assert (done.exit_code, done.output.endswith(" kB, 1 run\n")) == (0, True), done.output


def test_runs_of_one_chart_have_colours_of_their_own(tmp_path):
    for i in range(30):
        with HealthWriter(tmp_path / "logs" / f"run{i}") as writer:
            writer.log(0, loss=float("nan") if i % 3 else 1.0, **({"lr": 0.1} if i % 4 else {}))
    store = open_logdir(str(tmp_path / "logs"))
    found = collect(store, list(store.runs), "logs")
    slots = [[line.slot for line in chart.lines] for chart in found.charts]
    assert all(len(set(some)) == len(some) <= MOST_RUNS for some in slots)
    drawn = sorted(line.run for chart in found.charts if chart.name == "loss" for line in chart.lines)
    assert drawn == sorted(store.runs)
    assert {run.name: run.slot for run in found.runs} == {
        line.run: line.slot for chart in found.charts if chart.name == "loss" for line in chart.lines
    }


def test_plots(logs, tmp_path):
    pytest.importorskip("matplotlib")
    done = report(logs, "--png", tmp_path / "plots", "--baseline", "base")
    assert done.exit_code == 0, done.output
    assert sorted(os.listdir(tmp_path / "plots")) == ["loss.png", "lr.png", "relative_error.png"]
    assert (tmp_path / "plots" / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_plots_without_matplotlib(logs, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = report(logs, "--png", tmp_path / "plots", "-o", tmp_path / "x.html")
    assert (done.exit_code, "pip install 'tb-mindformers-plugin[png]'" in done.output) == (2, True)
    assert os.listdir(tmp_path) == ["logs"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "say what to write"),
        (["-o", "x.html", "--baseline", "bse"], "there is no run 'bse' in"),
        (["nothing", "-o", "x.html"], "there is no run 'nothing' in"),
        (["-o", "nowhere/x.html"], "nowhere/x.html: No such file or directory"),
        (["-o", "x.html", "--tolerance", "much"], "no tolerance"),
    ],
)
def test_wrong_usage(logs, arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = report(logs, *arguments)
    assert (done.exit_code, words in done.output) == (2, True), done.output
    assert os.listdir(tmp_path) == ["logs"]


def test_nothing_to_report(tmp_path):
    assert report(tmp_path / "nowhere", "-o", "x.html").exit_code == 2
    done = report(tmp_path, "-o", tmp_path / "x.html")
    assert (done.exit_code, "there is no run" in done.output) == (2, True)
