"""What is found while a training runs is what is found in its log."""

from __future__ import annotations

import dataclasses
import logging

import healthy
import numpy as np
import pytest
from curves import FAMILIES
from curves import run as draw
from replay import Replay, offline

from tb_mindformers_plugin.health.online import HealthMonitor
from tb_mindformers_plugin.health.online.monitor import WATCHES
from tb_mindformers_plugin.health.registry import registry
from tb_mindformers_plugin.health.rules.loss_spike import Parameters as SpikeParameters
from tb_mindformers_plugin.metadata import RunManifest

# Faults that these rules are to find, and healthy runs; runs of up to so many points.
DRAWN = [
    *WATCHES,
    "grad_explosion_and_loss",
    "grad_explosion_climbing",
    "non_finite_norm",
    "loss_oscillation",
    *FAMILIES,
]
MOST_POINTS = 5000


def identity(findings):
    return sorted((f.rule, f.role, f.first_step, f.severity) for f in findings)


def rules_and_severities(findings):
    return sorted((f.rule, f.role, f.severity) for f in findings)


def drawn(name, count=3):
    """The first runs of a kind that are not too long and were not resumed."""
    found, number = [], 0
    while len(found) < count:
        run = draw(name, number)
        number += 1
        if run.points <= MOST_POINTS and not run.joins:
            found.append(run)
    return found


@pytest.mark.parametrize("name", DRAWN)
def test_online_is_offline_replayed(name):
    found = 0
    for run in drawn(name):
        manifest = RunManifest(**run.manifest)
        replay, whole = Replay(run.series, manifest), offline(run.series, manifest)
        # While it runs: every fault is known; a slow one may be dated a little differently yet.
        assert rules_and_severities(replay.standing()) == rules_and_severities(whole), run.about
        # At its end: to the step.
        standing = replay.standing(replay.monitor.finish())
        assert identity(standing) == identity(whole)
        assert {f.message for f in standing} == {f.message for f in whole}
        found += sum(f.rule == name for f in whole)
    assert found or name not in WATCHES


@pytest.mark.parametrize("rule", ["loss_spike", "grad_explosion", "non_finite"])
def test_a_jump_is_told_at_its_first_point(rule):
    role = "grad_norm" if rule == "grad_explosion" else "loss"
    values = getattr(healthy, role)(2000)
    values[1500:1503] *= np.nan if rule == "non_finite" else 100
    (first, *_) = [
        step for step, alert in Replay(healthy.run(2000, **{role: values})).alerts if alert.finding.rule == rule
    ]
    assert first == 1501  # steps count from 1


def test_a_healthy_run_has_no_alert():
    replay = Replay(healthy.run(6000))
    assert replay.alerts == []
    assert replay.monitor.finish() == []


def test_a_divergence_is_told_long_before_the_end():
    loss = healthy.loss(6000, start=4.0)
    loss[3000:] *= np.linspace(1, 4, 3000)
    run = healthy.run(6000, loss=loss)
    told = next(step for step, alert in Replay(run).alerts if alert.finding.rule == "loss_divergence")
    shortest = next(n for n in range(3100, 6000, 20) if diverges(run, n))
    assert shortest - 20 <= told <= shortest + 100


def diverges(run, points):
    """Whether the rule finds it in the first points alone."""
    part = {role: tuple(column[:points] for column in columns) for role, columns in run.items()}
    return any(f.rule == "loss_divergence" for f in offline(part))


def test_a_spike_is_updated_under_its_identity():
    loss = healthy.loss(3000)
    loss[2000] *= 2
    alerts = [alert for _, alert in Replay(healthy.run(3000, loss=loss)).alerts]
    assert [(alert.id, alert.status, alert.worse) for alert in alerts] == [
        ("loss_spike/loss@2001", "new", True),
        ("loss_spike/loss@2001", "changed", False),
    ]
    assert [alert.finding.evidence["recovered"] for alert in alerts] == [False, True]


def test_a_single_nan_may_yet_pass_and_three_do_not():
    loss = healthy.loss(500)
    loss[300] = np.nan
    single = Replay(healthy.run(500, loss=loss))
    assert single.news() == [(301, "non_finite", "warning")]
    loss[300:303] = np.nan
    assert Replay(healthy.run(500, loss=loss)).news() == [
        (301, "non_finite", "warning"),
        (303, "non_finite", "critical"),
    ]
    # Where it is the last that there is, the rule's word stands.
    loss = healthy.loss(500)
    loss[-1] = np.nan
    last = Replay(healthy.run(500, loss=loss))
    assert last.news() == [(500, "non_finite", "warning")]
    (alert,) = last.monitor.finish()
    assert (alert.finding.severity, alert.worse) == ("critical", True)


@pytest.mark.parametrize(("points", "severities"), [(20, ["warning"]), (1000, ["warning", "critical"])])
def test_an_explosion_is_critical_when_it_is_certain_that_the_loss_stays_up(points, severities):
    loss, norm = healthy.loss(2000), healthy.grad_norm(2000)
    norm[1000:1003] *= 100
    loss[1000 : 1000 + points] *= 1.5
    replay = Replay(healthy.run(2000, loss=loss, grad_norm=norm))
    told = [(step, alert.finding.severity) for step, alert in replay.alerts if alert.finding.rule == "grad_explosion"]
    assert list(dict.fromkeys(severity for _, severity in told)) == severities
    assert told[0] == (1001, "warning")


def test_a_finding_that_later_points_refute_is_withdrawn(monkeypatch):
    def spikes(run, parameters):
        found = registry()["loss_spike"].function(run, parameters)
        return [] if len(run.curves["loss"]) > 350 else found

    monitor = HealthMonitor()
    replace(monkeypatch, monitor, "loss_spike", spikes)
    loss = healthy.loss(2000)
    loss[300] *= 2
    replay = Replay(healthy.run(2000, loss=loss), monitor=monitor)
    assert [(alert.id, alert.status) for _, alert in replay.alerts] == [
        ("loss_spike/loss@301", "new"),
        ("loss_spike/loss@301", "changed"),
        ("loss_spike/loss@301", "withdrawn"),
    ]
    assert replay.standing() == monitor.finish() == []


def replace(monkeypatch, monitor, rule, function):
    """Has a monitor ask another function for what a rule finds."""
    (watched,) = [watched for watched in monitor._rules if watched.id == rule]
    monkeypatch.setattr(watched, "_rule", dataclasses.replace(registry()[rule], function=function))


def test_after_a_restart_it_warms_up_anew():
    loss = np.concatenate([healthy.loss(2000)[1500:], healthy.level(300, 2.5)])
    loss[10], loss[400] = 50, 50
    run = healthy.run(800, loss=loss)
    steps = {step for step, alert in Replay(run).alerts if alert.finding.rule == "loss_spike"}
    assert min(steps) == 401  # with 10 points it cannot know


def test_what_it_keeps_is_bounded_and_old_findings_go_with_it():
    monitor = HealthMonitor(most_points=1000)
    run = healthy.run(20_000, lr=None)
    for i in range(700, 20_000, 700):
        run["loss"][2][i] *= 2
    replay = Replay(run, monitor=monitor)
    assert len([alert for _, alert in replay.alerts if alert.status == "new"]) >= 27
    assert not [alert for _, alert in replay.alerts if alert.status == "withdrawn"]
    assert all(len(steps) <= 1000 for steps, _ in monitor._history._columns.values())
    assert sum(len(watched._told) for watched in monitor._rules) <= 2


def test_odd_values_do_no_harm():
    monitor = HealthMonitor()
    huge = [0.0, -1.0, 1e308, -1e308, 5e-324, np.inf, -np.inf, np.nan, None]
    random = np.random.default_rng(0)
    for step in range(3000):
        monitor.update(
            step * 500,
            {
                role: random.choice(huge)
                for role in (*registry()["loss_spike"].reads, "grad_norm", "lr", "loss_scale", "throughput", "no_role")
            },
        )
    monitor.finish()


def test_no_points_and_one():
    monitor = HealthMonitor()
    assert monitor.finish() == []
    assert monitor.update(1, {}) == monitor.update(2, {"loss": 1.0}) == monitor.finish() == []


def test_a_rule_that_fails_costs_no_other_and_is_said_once(monkeypatch, caplog):
    def broken(run, parameters):
        raise ZeroDivisionError("broken")

    monitor = HealthMonitor()
    replace(monkeypatch, monitor, "loss_rising", broken)
    loss = healthy.loss(2000)
    loss[1500] *= 3
    with caplog.at_level(logging.ERROR):
        replay = Replay(healthy.run(2000, loss=loss), monitor=monitor)
    assert replay.news() == [(1501, "loss_spike", "warning")]
    assert [record.getMessage() for record in caplog.records] == [
        "rule loss_rising failed and is off until the training ends"
    ]


def test_parameters_can_be_changed():
    loss = healthy.loss(2000)
    loss[1500] *= 1.5
    run = healthy.run(2000, loss=loss)
    assert Replay(run).news()
    assert not Replay(run, monitor=HealthMonitor(parameters={"loss_spike": SpikeParameters(rise=0.8)})).news()
    assert not Replay(run, monitor=HealthMonitor(parameters={"loss_spike": None})).news()
    with pytest.raises(ValueError, match=r"no rule 'loss_spikes'; known: .*loss_spike"):
        HealthMonitor(parameters={"loss_spikes": None})


def test_an_alert_is_json():
    loss = healthy.loss(500)
    loss[300:] = np.nan
    (fields, *_) = [alert.to_dict() for _, alert in Replay(healthy.run(500, loss=loss)).alerts]
    assert fields["id"] == "non_finite/loss@301"
    assert fields["message_zh"]
    assert set(fields) == {
        "id",
        "status",
        "rule",
        "severity",
        "role",
        "tag",
        "first_step",
        "last_step",
        "peak_step",
        "message",
        "advice",
        "evidence",
        "message_zh",
        "advice_zh",
    }
