from __future__ import annotations

from tb_mindformers_plugin.http_api.events import shown_events
from tb_mindformers_plugin.metadata import HealthEvent


def alert(step, status="new", severity="warning", name="loss_spike/loss@900", **fields):
    words = {"message": "Loss jumped.", "message_zh": "损失突跳。", "rule": "loss_spike"}
    return HealthEvent("alert", step, 0.0, {"id": name, "status": status, "severity": severity, **words, **fields})


def test_the_last_word_of_an_alert_counts_at_the_step_of_the_first():
    (shown,) = shown_events([alert(905), alert(950, "changed", "critical")], "en")
    assert shown == {"kind": "alert", "step": 905, "severity": "critical", "message": "Loss jumped."}
    assert shown_events([alert(905), alert(950, "withdrawn")], "en") == []


def test_actions_say_what_was_done_and_why():
    rate = {"action": "reduce_lr", "rule": "grad_explosion", "factor": 0.5, "old_lr": 3e-3, "new_lr": 1.5e-3}
    events = [HealthEvent("action", 20, 0.0, {"action": "stop", "rule": "loss_divergence", "severity": "critical"})]
    events.append(HealthEvent("action", 10, 0.0, rate))
    first, second = shown_events(events, "en")
    assert first["message"] == "Learning rate reduced (0.003 → 0.0015) because of grad_explosion."
    assert (second["step"], second["severity"]) == (20, "critical")
    assert "loss_divergence" in second["message"]
    assert "学习率" in shown_events(events, "zh")[0]["message"]


def test_fields_may_hold_anything():
    odd = [
        HealthEvent("alert", 1, 0.0, {"message": 7, "severity": "fatal", "id": ["x"]}),
        HealthEvent("alert", 2, 0.0, {}),
        HealthEvent("action", 3, 0.0, {"action": None, "old_lr": True, "new_lr": "x"}),
        HealthEvent("action", 3, 0.0, {"action": "reduce_lr", "old_lr": "fast"}),
        HealthEvent("end", 4, 0.0, {"status": "failed"}),
    ]
    shown = shown_events(odd, "zh")
    assert [event["step"] for event in shown] == [1, 2, 3, 3]
    assert {event["severity"] for event in shown} == {"warning"}
    assert all(isinstance(event["message"], str) for event in shown)


def test_the_newest_of_very_many_are_shown():
    many = [alert(step, name=str(step)) for step in range(500)]
    shown = shown_events(many, "en")
    assert len(shown) == 100
    assert shown[-1]["step"] == 499
