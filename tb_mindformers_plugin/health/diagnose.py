"""Runs the rules over a run."""

from __future__ import annotations

import logging
from typing import Any, Mapping, Optional, Sequence, Tuple

import numpy as np

from tb_mindformers_plugin.health.finding import SEVERITIES, Finding
from tb_mindformers_plugin.health.parameters import Parameters, unknown_rule
from tb_mindformers_plugin.health.registry import registry
from tb_mindformers_plugin.health.series import RunSeries, of_arrays, of_run
from tb_mindformers_plugin.health.subsumption import without_consequences
from tb_mindformers_plugin.metadata import RunManifest
from tb_mindformers_plugin.runs.contents import RunContents

logger = logging.getLogger("tb_mindformers_plugin")


def diagnose(
    run: RunContents,
    parameters: Optional[Parameters] = None,
    now: Optional[float] = None,
    baseline: Optional[RunContents] = None,
) -> list[Finding]:
    """Returns what the rules find in the current curves of `run`, worst first.

    Args:
      run: what was read of a run.
      parameters: rule id -> its parameters dataclass where they are not the defaults, None where it is off.
      now: seconds since the Unix epoch; without it nothing is told from the run's age.
      baseline: the run to compare it with, where one is chosen.

    Raises:
      ValueError: `parameters` names no rule.
    """
    return findings(of_run(run, now, baseline), parameters)


def diagnose_arrays(
    series: Mapping[str, Tuple[Any, Any, Any]],
    manifest: Optional[RunManifest] = None,
    restarts: Sequence[int] = (),
    parameters: Optional[Parameters] = None,
    now: Optional[float] = None,
) -> list[Finding]:
    """Returns what the rules find in plain arrays, worst first.

    Args:
      series: role -> (step, wall or None, value), each (n,).
      manifest: what the run says of itself.
      restarts: steps at which it was taken up again.
      parameters: as for `diagnose`.
      now: as for `diagnose`.

    Raises:
      ValueError: an unknown role or rule, or arrays of different lengths.
    """
    return findings(of_arrays(series, manifest, restarts, now), parameters)


def findings(run: RunSeries, parameters: Optional[Parameters] = None) -> list[Finding]:
    """Returns what the rules find in `run`, worst first, one finding a fault.

    A rule that fails is logged and costs no other rule its findings.
    """
    chosen = parameters or {}
    rules, roles = registry(), run.curves.keys()
    unknown = [name for name in chosen if name not in rules]
    if unknown:
        raise unknown_rule(unknown[0])
    found: list[Finding] = []
    with np.errstate(all="ignore"):
        for rule in rules.values():
            settings = chosen.get(rule.id, rule.defaults)
            if settings is None or (rule.reads and roles.isdisjoint(rule.reads)):
                continue
            try:
                found.extend(rule.function(run, settings))
            except Exception:
                logger.exception("rule %s failed", rule.id)
        found = without_consequences(run, found)
    return sorted(found, key=lambda finding: (SEVERITIES.index(finding.severity), finding.first_step))


def verdict(findings: Sequence[Finding]) -> str:
    """Returns the worst severity among `findings`, or "ok" where there are none."""
    return min((finding.severity for finding in findings), key=SEVERITIES.index, default="ok")
