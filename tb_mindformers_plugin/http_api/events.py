"""What happened while a run trained, as its own callback wrote it: alerts, and what was done about them."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from tb_mindformers_plugin.health.finding import SEVERITIES, Text
from tb_mindformers_plugin.metadata import HealthEvent

#: The kinds that are shown as events; overflows are a series, a restart and an end are told elsewhere.
KINDS = ("alert", "action")

# More than this many pills say nothing; the newest count.
_MOST = 100


def shown_events(events: Iterable[HealthEvent], language: str) -> list[dict[str, Any]]:
    """Returns alerts and actions as JSON types, in the order of their steps.

    Of alerts with one id the last is what counts, at the step of the first; one that was withdrawn is none.

    Args:
      events: a run's health events in the order of writing. Their fields may hold anything.
      language: of the messages, one of `LANGUAGES`.
    """
    alerts: dict[str, dict[str, Any]] = {}
    actions: list[dict[str, Any]] = []
    for event in events:
        if event.kind == "alert":
            name = str(event.fields.get("id", f"{event.fields.get('rule')}@{event.step}"))
            first = alerts.pop(name, None)
            if event.fields.get("status") != "withdrawn":
                shown = _shown(event, _alert_message(event, language), "warning")
                alerts[name] = {**shown, "step": first["step"] if first else event.step}
        elif event.kind == "action":
            severity = "critical" if event.fields.get("action") == "stop" else "warning"
            actions.append(_shown(event, _action_message(event, language), severity))
    return sorted([*alerts.values(), *actions], key=lambda shown: shown["step"])[-_MOST:]


def _shown(event: HealthEvent, message: str, severity: str) -> dict[str, Any]:
    own = event.fields.get("severity")
    return {
        "kind": event.kind,
        "step": event.step,
        "severity": own if own in SEVERITIES else severity,
        "message": message,
    }


def _alert_message(event: HealthEvent, language: str) -> str:
    said = event.fields.get("message_zh") if language == "zh" else None
    return str(said or event.fields.get("message") or event.fields.get("rule") or "?")


def _action_message(event: HealthEvent, language: str) -> str:
    return _action_words(event.fields).in_language(language)


def _action_words(fields: Mapping[str, Any]) -> Text:
    rule = fields.get("rule") or fields.get("cause") or "?"
    action = fields.get("action")
    if action == "stop":
        return Text(f"Training was stopped because of {rule}.", f"因 {rule} 停止了训练。")
    if action == "reduce_lr":
        old, new, factor = fields.get("old_lr"), fields.get("new_lr"), fields.get("factor")
        how = f"{old:.3g} → {new:.3g}" if _is_number(old) and _is_number(new) else f"×{factor}"
        return Text(f"Learning rate reduced ({how}) because of {rule}.", f"因 {rule} 降低了学习率（{how}）。")
    return Text(f"{action} because of {rule}.", f"因 {rule}：{action}。")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
