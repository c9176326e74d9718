"""A finding: what is wrong with a run, where, and what to try."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, Callable, Dict, Iterable, List, Mapping, Tuple, TypeVar

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

#: Findings of one rule and severity that people are told of a run; further ones are counted.
MOST_ALIKE = 10


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

    def message_in(self, language: str) -> str:
        """Returns the message in one of `LANGUAGES`."""
        return (language == "zh" and self.message_zh) or self.message

    def to_dict(self, run: str, language: str = "en") -> dict[str, Any]:
        """Returns the finding as JSON types, its words in one of `LANGUAGES`."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "run": run,
            "role": self.role,
            "tag": self.tag,
            "first_step": self.first_step,
            "last_step": self.last_step,
            "peak_step": self.peak_step,
            "message": self.message_in(language),
            "advice": (language == "zh" and self.advice_zh) or self.advice,
            "evidence": {name: json_value(value) for name, value in self.evidence.items()},
        }


#: Severity and rule.
_Kind = Tuple[str, str]
_Thing = TypeVar("_Thing")


def few_of_each(
    things: Iterable[_Thing], kind: Callable[[_Thing], _Kind], most: int = MOST_ALIKE
) -> Tuple[List[_Thing], Dict[_Kind, int]]:
    """Returns the first `most` things of each kind, and how many more there are of a kind of which there are more.

    >>> few_of_each(["a1", "b1", "a2", "a3"], lambda thing: (thing[0], ""), most=2)
    (['a1', 'b1', 'a2'], {('a', ''): 1})
    """
    told: List[_Thing] = []
    count: Dict[_Kind, int] = collections.Counter()
    for thing in things:
        count[kind(thing)] += 1
        if count[kind(thing)] <= most:
            told.append(thing)
    return told, {kind: found - most for kind, found in count.items() if found > most}
