"""Runs the rules over a run."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.health.finding import SEVERITIES, Finding
from tb_mindformers_plugin.health.rules import non_finite
from tb_mindformers_plugin.runs.contents import RunContents


def diagnose(run: RunContents) -> list[Finding]:
    """Returns what the rules find in the current curves of `run`, worst first."""
    found = []
    for role in non_finite.ROLES_READ:
        curve = run.current(role)
        if curve is not None:
            finding = non_finite.non_finite(
                curve.step, curve.value, role, run.roles[role].tag, skipped_steps(run, curve.step)
            )
            if finding is not None:
                found.append(finding)
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))


def skipped_steps(run: RunContents, step: npt.NDArray[np.int64]) -> Optional[npt.NDArray[np.bool_]]:
    """Returns which of the (n,) ascending steps the loss scaler skipped; None where the run has no loss scaler.

    A step is skipped where the overflow series says so, or where the loss scale fell with it.
    """
    skipped: Optional[npt.NDArray[np.bool_]] = None
    for role, told in (("overflow", _is_positive), ("loss_scale", _falls)):
        curve = run.current(role)
        if curve is not None:
            found = np.isin(step, curve.step[told(curve.value)])
            skipped = found if skipped is None else skipped | found
    return skipped


def _is_positive(overflow: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    return np.greater(overflow, 0)


def _falls(scale: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    return np.diff(scale, prepend=scale[:1]) < 0


def verdict(findings: Sequence[Finding]) -> str:
    """Returns the worst severity among `findings`, or "ok" where there are none."""
    return min((finding.severity for finding in findings), key=SEVERITIES.index, default="ok")
