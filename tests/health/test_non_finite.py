from __future__ import annotations

import time

import numpy as np
import pytest

from tb_mindformers_plugin.health import Finding, diagnose, verdict
from tb_mindformers_plugin.health.rules.non_finite import non_finite
from tb_mindformers_plugin.health.series import of_arrays, of_run, of_values
from tb_mindformers_plugin.runs import open_logdir
from tb_mindformers_plugin.writer import HealthWriter

NAN, INF = np.nan, np.inf
# Later than anything that the writers say of themselves.
BEGAN = time.time() + 1e6


def find(values, role="loss", skipped=None):
    run = {role: (np.arange(0, 10 * len(values), 10), None, np.array(values, np.float32))}
    if skipped is not None:
        run["overflow"] = (np.arange(0, 10 * len(values), 10), None, np.asarray(skipped, float))
    found = [f for f in non_finite(of_arrays(run)) if f.role == role]
    return found[0] if found else None


@pytest.mark.parametrize(
    ("values", "role", "severity"),
    [
        ([1, NAN, 1, 1], "loss", "warning"),
        ([1, NAN, INF, NAN, 1], "loss", "critical"),
        ([1, 1, NAN], "loss", "critical"),
        ([1, NAN, 1], "grad_norm", "info"),
        ([1, NAN, NAN, NAN, 1], "grad_norm", "critical"),
        ([1, INF], "grad_norm", "critical"),
    ],
)
def test_severity(values, role, severity):
    assert find(values, role).severity == severity


@pytest.mark.parametrize(("role", "mild"), [("loss", "warning"), ("grad_norm", "info")])
def test_the_newest_points_of_a_run_that_goes_on_may_come_back(role, mild):
    def severity(values, silent):
        steps = np.arange(float(len(values)))
        run = of_arrays({role: (steps, 1e9 + steps, np.array(values))}, now=1e9 + len(values) + silent)
        return verdict(non_finite(run))

    for values in ([1, 1, NAN], [1, NAN, INF], [1, NAN, 1, NAN]):
        assert severity(values, 60) == severity(values, 1700) == mild
        assert severity(values, 1900) == "critical"
    assert severity([1, NAN, NAN, NAN], 1) == "critical"
    for values in ([1, NAN, 1], [1, NAN, NAN, 1]):
        assert severity(values, 1) == severity(values, 1e6) == mild


def test_the_newest_point_of_a_log(tmp_path):
    with HealthWriter(tmp_path / "run") as writer:
        for step in range(10):
            writer.log(step, loss=1.0 if step < 9 else NAN, wall_time=BEGAN + step)
        writer.flush()
        (going,) = open_logdir(str(tmp_path)).load(["run"]).values()
        assert [f.severity for f in diagnose(going, now=BEGAN + 20)] == ["warning"]
        assert {f.rule: f.severity for f in diagnose(going, now=BEGAN + 20_000)} == {
            "non_finite": "critical",
            "stalled": "warning",
        }
        assert [f.severity for f in diagnose(going)] == ["critical"]  # a log without a clock is a whole
    (ended,) = open_logdir(str(tmp_path)).load(["run"]).values()
    assert [f.severity for f in diagnose(ended, now=BEGAN + 20)] == ["critical"]


@pytest.mark.parametrize("values", [[], [1], [0, 0, 0], [1e38, -1e38]])
def test_quiet_when_all_is_finite(values):
    assert find(values) is None


def test_it_says_where_and_how_much():
    found = find([1, NAN, 1, INF, INF])
    assert (found.first_step, found.last_step) == (10, 40)
    assert found.message == "Loss was NaN and +Inf at 3 of 5 logged steps from step 10 to 40, and has not come back."
    assert find([1, NAN, 1]).message == "Loss was NaN at step 10."
    assert found.evidence["points"] == 3
    assert found.advice


def test_what_the_loss_scaler_skipped_is_no_fault_of_the_run():
    values = [NAN, NAN, NAN, NAN, 1, 1, NAN, 1]
    skipped = np.isnan(values)
    found = find(values, "grad_norm", skipped)
    assert found.severity == "info"
    assert found.message.endswith("where the loss scaler skipped the update.")
    skipped[0] = False
    assert find(values, "grad_norm", skipped).severity == "critical"
    assert find(values, "loss", np.ones(8, bool)).severity == "critical"


def test_skipped_steps(tmp_path):
    with HealthWriter(tmp_path / "run") as writer:
        for step, (scale, overflow) in enumerate([(8, 0), (4, 0), (4, 1), (8, 0), (8, 0)]):
            writer.log(step, grad_norm=1.0, loss_scale=scale, overflow=overflow)
    with HealthWriter(tmp_path / "plain") as writer:
        writer.log(0, grad_norm=1.0)
    runs = open_logdir(str(tmp_path)).runs
    assert of_run(runs["run"].contents()).skipped(np.arange(5)).tolist() == [False, True, True, False, False]
    assert of_run(runs["plain"].contents()).skipped(np.arange(5)) is None


def test_a_loss_that_is_missing_where_the_grad_norm_is_nan_is_named():
    norm = np.where((np.arange(100) >= 40) & (np.arange(100) < 60), NAN, 1.0)
    logged = np.flatnonzero(np.isfinite(norm))
    run = of_arrays({"loss": (logged, None, np.ones(80)), "grad_norm": (np.arange(100), None, norm)})
    (found,) = non_finite(run)
    assert found.evidence["loss_not_logged"] == 20
    assert "the loss was not logged at 20 of them" in found.message
    assert "没有记录损失" in found.message_zh
    assert non_finite(of_values(loss=[1.0, 1.0])) == []


def test_verdict_is_the_worst():
    def finding(severity):
        return Finding("rule", severity, "loss", "t", 0, 0, 0, "", "", {})

    assert verdict([]) == "ok"
    assert verdict([finding("info"), finding("critical"), finding("warning")]) == "critical"
