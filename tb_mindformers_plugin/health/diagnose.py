"""Runs the rules over a run."""

from __future__ import annotations

from typing import Sequence

from tb_mindformers_plugin.health.finding import SEVERITIES, Finding
from tb_mindformers_plugin.health.rules import non_finite
from tb_mindformers_plugin.runs.run import Run


def diagnose(run: Run) -> list[Finding]:
    """Returns what the rules find in the current curves of `run`, worst first."""
    found = []
    for role in non_finite.ROLES_READ:
        curve = run.current(role)
        if curve is not None:
            finding = non_finite.non_finite(curve.step, curve.value, role, run.roles[role].tag)
            if finding is not None:
                found.append(finding)
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))


def verdict(findings: Sequence[Finding]) -> str:
    """Returns the worst severity among `findings`, or "ok" where there are none."""
    return min((finding.severity for finding in findings), key=SEVERITIES.index, default="ok")
