"""Real trainings: the demo logs, and logs of other people's."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from checkout import ROOT

from tb_mindformers_plugin.health import diagnose, diagnose_arrays, verdict
from tb_mindformers_plugin.runs import open_logdir

DEMO_LOGS = ROOT / "demo_logs"
SAVED = ("grad_explosion_kept_lr", "grad_explosion_reduced_lr")


def found_in(path, run):
    contents = open_logdir(str(path)).load([run])[run]
    return {finding.rule: finding for finding in diagnose(contents)}


@pytest.mark.parametrize(
    ("run", "rule", "severity", "step", "near"),
    [
        ("lr_too_high", "loss_divergence", "critical", 480, 40),
        ("lr_too_high_nan", "non_finite", "critical", 491, 0),
        ("grad_explosion_recovered", "loss_spike", "warning", 901, 0),
        ("grad_explosion_kept_lr", "loss_divergence", "critical", 354, 40),
        ("grad_explosion_reduced_lr", "loss_spike", "warning", 351, 0),
        ("overfit_with_eval", "overfitting", "warning", 140, 140),
        ("dynamic_loss_scale_overflow", "non_finite", "info", 1, 0),
        ("mindformers_tiny_llama", "non_finite", "info", 1, 0),
    ],
)
def test_the_fault_of_each_demo(run, rule, severity, step, near):
    found = found_in(DEMO_LOGS, run)[rule]
    assert found.severity == severity
    assert abs(found.first_step - step) <= near


@pytest.mark.parametrize(
    "run", ["healthy_warmup_cosine", "killed_and_resumed", "dynamic_loss_scale_overflow", "mindformers_tiny_llama"]
)
def test_no_warning_where_nothing_is_wrong(run):
    assert verdict(list(found_in(DEMO_LOGS, run).values())) in ("ok", "info")


def test_the_explosion_of_the_demo_is_told_with_the_spike():
    found = found_in(DEMO_LOGS, "grad_explosion_recovered")
    assert found["loss_spike"].evidence["grad_norm_ratio"] > 10
    assert "grad_explosion" not in found


def test_reduce_lr_saves_the_run_of_the_demo():
    kept, reduced = (open_logdir(str(DEMO_LOGS)).load([run])[run] for run in SAVED)
    loss = [run.current("loss").value for run in (kept, reduced)]
    assert (loss[0][:355] == loss[1][:355]).all()  # the same training, up to the action
    assert np.median(loss[0][-50:]) > 5 * np.median(loss[0][300:350])
    assert np.median(loss[1][-50:]) < 0.9 * np.median(loss[1][300:350])
    assert not [event for event in kept.events if event.kind == "action"]
    (action,) = [event for event in reduced.events if event.kind == "action"]
    assert (action.step, action.fields["action"], action.fields["new_lr"]) == (355, "reduce_lr", 0.375)
    lr = reduced.current("lr")
    assert set(lr.value[lr.step > 355].tolist()) == {0.375}
    assert "lr_schedule_mismatch" not in found_in(DEMO_LOGS, SAVED[1])


# Logs that lie beside a checkout on some machines.


def history(path, **tags):
    """role -> arrays of a trainer's JSON history."""
    rows = json.loads(path.read_text())["log_history"]
    run = {}
    for role, tag in tags.items():
        points = [(row["step"], row[tag]) for row in rows if isinstance(row.get(tag), (int, float))]
        step, value = np.array(points).T
        run[role] = (step, None, value)
    return run


def text_log(path, first=0, **names):
    """role -> arrays of a text log of a few lines, behind 200 calm points."""
    random = np.random.default_rng(0)
    run = {}
    for role, name in names.items():
        points = []
        for line in path.read_text().splitlines():
            step, value = re.search(r"iteration\s+(\d+)/", line), re.search(name + r": ([-\d.E+]+)", line)
            if step and value and int(step[1]) >= first:
                points.append((int(step[1]), float(value[1])))
        step, value = np.array(points).T
        calm = np.arange(-200, 0) * (step[1] - step[0]) + step[0]
        spread = {"loss": 0.01, "grad_norm": 0.1}.get(role, 0.0)
        run[role] = (
            np.append(calm, step),
            None,
            np.append(value[0] * (1 + spread * random.standard_normal(200)), value),
        )
    return run


@pytest.mark.real_logs
def test_a_recovered_spike_that_the_grad_norm_led(real_logs):
    path = real_logs / "megatron_logs" / "176b_recovered_spike.log"
    (found,) = diagnose_arrays(text_log(path, first=31214, loss="lm loss", grad_norm="grad norm", lr="learning rate"))
    assert (found.rule, found.severity, found.peak_step) == ("loss_spike", "warning", 31219)
    assert found.evidence["recovered"]
    assert found.evidence["grad_norm_led_steps"] == 4


@pytest.mark.real_logs
def test_a_spike_with_a_falling_scale_and_no_grad_norm(real_logs):
    path = real_logs / "megatron_logs" / "13b_spike_scale_drop.log"
    found = {
        f.rule: f
        for f in diagnose_arrays(text_log(path, loss="lm loss", loss_scale="loss scale", grad_norm="grad norm"))
    }
    assert found["loss_spike"].first_step == 29050
    assert found["loss_scale_collapse"].evidence["halvings"] == 4
    assert found["grad_vanishing"].severity == "info"
    assert "not logged" in found["grad_vanishing"].message


@pytest.mark.real_logs
@pytest.mark.parametrize("eval_set", range(6))
def test_overfitting_on_every_eval_set(real_logs, eval_set):
    path = real_logs / "hf_overfit" / "trainer_state.json"
    run = history(path, loss="loss", eval_loss=f"eval_g{eval_set}_loss", lr="learning_rate", grad_norm="grad_norm")
    (found,) = diagnose_arrays(run)
    assert (found.rule, found.severity) == ("overfitting", "warning")
    assert found.evidence["best_step"] in (401, 802)


@pytest.mark.real_logs
def test_grad_norm_outliers_with_a_healthy_loss(real_logs):
    path = real_logs / "hf_grad_norm_outliers" / "trainer_state.json"
    found = diagnose_arrays(history(path, loss="loss", grad_norm="grad_norm", lr="lr"))
    assert [(f.rule, f.severity) for f in found] == [("grad_explosion", "info")]


@pytest.mark.real_logs
@pytest.mark.parametrize("run", ["lightning_char_lm/version_0", "lightning_small/version_1"])
def test_healthy_runs_of_others(real_logs, run):
    assert verdict(list(found_in(real_logs, run).values())) in ("ok", "info")


@pytest.mark.real_logs
def test_overfitting_of_a_small_classifier(real_logs):
    # Eval loss .127 .094 .081 .075 .073 .089 .089 … .106 .097, train loss .048 to .019 from the fifth epoch on.
    found = found_in(real_logs, "keras_mnist")
    assert list(found) == ["overfitting"]
    assert (found["overfitting"].severity, found["overfitting"].first_step) == ("warning", 4)
