"""What a report says: runs, findings, comparison and charts."""

from __future__ import annotations

import dataclasses
import time
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Tuple

import numpy as np

from tb_mindformers_plugin.compare import AlignmentError, Comparison, Tolerance, compare
from tb_mindformers_plugin.compare.errors import relative_error
from tb_mindformers_plugin.compare.settings import settings_of
from tb_mindformers_plugin.health import Finding, diagnose, verdict
from tb_mindformers_plugin.health.finding import SEVERITIES
from tb_mindformers_plugin.http_api.listing import status
from tb_mindformers_plugin.language import Text
from tb_mindformers_plugin.report.charts import MOST_RUNS, Chart, Line, chart, role_charts, role_line
from tb_mindformers_plugin.runs.contents import RunContents
from tb_mindformers_plugin.runs.store import Store
from tb_mindformers_plugin.runs.summary import RunSummary, summarise
from tb_mindformers_plugin.runs.window import window

#: Most runs of a report that were not named: it is to be read, and mailed.
MOST_CHOSEN = 48

# Nobody looks at them in a report.
_NOT_DRAWN = ("epoch", "tokens", "samples", "loss_ema")
# Relative errors below this part of the tolerance are noise around a crossing.
_FLOOR = 0.1


@dataclasses.dataclass(frozen=True, eq=False)
class ReportedRun:
    """One run of a report.

    Attributes:
      name: TensorBoard's name of it.
      slot: which of the colours is the run's.
      summary: what a listing says of it.
      status: running, ended, stalled or unknown.
      findings: what the rules found, worst first.
      settings: its manifest, by dotted names.
      comparison: with the baseline; None for the baseline itself, or where there is none.
      problem: why it cannot be compared, or None.
    """

    name: str
    slot: int
    summary: RunSummary
    status: str
    findings: Tuple[Finding, ...]
    settings: Mapping[str, Any]
    comparison: Optional[Comparison] = None
    problem: Optional[str] = None

    @property
    def verdict(self) -> str:
        """The worst severity of its findings, or ok."""
        return verdict(self.findings)


@dataclasses.dataclass(frozen=True, eq=False)
class Report:
    """What a report says.

    Attributes:
      logdir: where the runs are, as it was given.
      made: seconds since the Unix epoch.
      runs: worst first.
      baseline: name of the run that the others are compared with, or None.
      charts: of every role, then of the relative error.
      left_out: how many runs there are besides.
    """

    logdir: str
    made: float
    runs: Tuple[ReportedRun, ...]
    baseline: Optional[str]
    charts: Tuple[Chart, ...]
    left_out: int = 0


def collect(
    store: Store,
    names: Sequence[str],
    logdir: str,
    baseline: Optional[str] = None,
    tolerance: Optional[Tolerance] = None,
    now: Optional[float] = None,
    tracked: Callable[[Sequence[str]], Iterable[str]] = iter,
) -> Report:
    """Reads runs, one after the other, and returns what is to be said of them.

    Args:
      store: the runs.
      names: which of them, in any order.
      logdir: where they are, as it was given.
      baseline: the run to compare the others with.
      tolerance: from when on two losses are not the same.
      now: seconds since the Unix epoch.
      tracked: goes through a list of names, and may show how far it is.

    Raises:
      KeyError: there is no such run.
    """
    at = time.time() if now is None else now
    reference = None if baseline is None else store.load([baseline])[baseline]
    runs: list[ReportedRun] = []
    lines: list[Tuple[str, str, Line]] = []
    errors: list[Line] = []
    for name in tracked(names):
        run = store.load([name])[name]
        slot = len(runs) % MOST_RUNS
        other = None if name == baseline else reference
        comparison, problem = _compared(run, other, tolerance)
        found = diagnose(run, now=at)  # how it differs from the baseline has a chapter of its own
        summary = summarise(name, run, exact=True)
        settings = settings_of(run.manifest) if run.has_manifest else {}
        runs.append(ReportedRun(name, slot, summary, status(summary, at), tuple(found), settings, comparison, problem))
        for role, match in run.roles.items():
            line = None if role in _NOT_DRAWN else role_line(name, slot, run, role, found)
            if line is not None:
                lines.append((role, match.unit, line))
        if comparison is not None:
            errors.append(_error_line(name, slot, comparison))
    order = {run.name: (_severity(run), i) for i, run in enumerate(runs)}
    charts = role_charts(sorted(lines, key=lambda entry: order[entry[2].run]))
    for part in range(0, len(errors), MOST_RUNS):
        title = Text("relative error of the loss (dashed: tolerance)", "损失的相对误差（虚线：容差）")
        limit = (tolerance or Tolerance()).relative or None
        charts.append(chart("relative_error", title, "", errors[part : part + MOST_RUNS], "log10", limit))
    return Report(logdir, at, tuple(sorted(runs, key=lambda run: order[run.name])), baseline, tuple(charts))


def _severity(run: ReportedRun) -> int:
    return (*SEVERITIES, "ok").index(run.verdict)


def _compared(
    run: RunContents, baseline: Optional[RunContents], tolerance: Optional[Tolerance]
) -> Tuple[Optional[Comparison], Optional[str]]:
    if baseline is None:
        return None, None
    try:
        return compare(run, baseline, tolerance=tolerance), None
    except AlignmentError as error:
        return None, str(error)


def _error_line(name: str, slot: int, comparison: Comparison) -> Line:
    error = relative_error(comparison.pairs.value, comparison.pairs.baseline)
    floor = comparison.tolerance.relative * _FLOOR
    shown = np.where(np.isfinite(error), np.maximum(error, floor), error)
    return Line(name, slot, window(comparison.pairs.step, shown, None, None, None, 360))
