"""A finding: what is wrong with a run, where, and what to try."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping

#: From worst to best. A run's verdict is that of its worst finding, or "ok".
SEVERITIES = ("critical", "warning", "info")


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
