"""A finding: what is wrong with a run, where, and what to try."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping

from tb_mindformers_plugin.language import LANGUAGES, Text
from tb_mindformers_plugin.strict_json import json_value

__all__ = ["LANGUAGES", "SEVERITIES", "VERDICT_NAMES", "Finding", "Text"]

#: From worst to best. A run's verdict is that of its worst finding, or "ok".
SEVERITIES = ("critical", "warning", "info")

#: What people call a verdict: a severity, or "ok".
VERDICT_NAMES: Mapping[str, Text] = {
    "critical": Text("critical", "严重"),
    "warning": Text("warning", "警告"),
    "info": Text("info", "提示"),
    "ok": Text("ok", "正常"),
}


@dataclasses.dataclass(frozen=True)
class Finding:
    """One fault of one run.

    Attributes:
      rule: id of the rule that found it.
      severity: one of `SEVERITIES`.
      role: role of the series in which it shows.
      tag: that series' tag.
      first_step, last_step, peak_step: the steps that it spans and where it is worst.
      message: one sentence: what happened, where, how much.
      advice: what to look at and what to try.
      evidence: the numbers that it rests on.
      message_zh, advice_zh: the same in Simplified Chinese.
    """

    rule: str
    severity: str
    role: str
    tag: str
    first_step: int
    last_step: int
    peak_step: int
    message: str
    advice: str
    evidence: Mapping[str, Any]
    message_zh: str = ""
    advice_zh: str = ""

    def to_dict(self, run: str, language: str = "en") -> dict[str, Any]:
        """Returns the finding as JSON types, its words in one of `LANGUAGES`."""
        chinese = language == "zh"
        return {
            "rule": self.rule,
            "severity": self.severity,
            "run": run,
            "role": self.role,
            "tag": self.tag,
            "first_step": self.first_step,
            "last_step": self.last_step,
            "peak_step": self.peak_step,
            "message": (chinese and self.message_zh) or self.message,
            "advice": (chinese and self.advice_zh) or self.advice,
            "evidence": {name: json_value(value) for name, value in self.evidence.items()},
        }
