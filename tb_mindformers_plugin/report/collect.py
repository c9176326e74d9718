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
from tb_mindformers_plugin.health.parameters import Parameters
from tb_mindformers_plugin.http_api.listing import status
from tb_mindformers_plugin.language import Text
from tb_mindformers_plugin.report.charts import MOST_RUNS, Chart, Line, chart, role_chart, role_line
from tb_mindformers_plugin.roles import ROLES
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
    parameters: Optional[Parameters] = None,
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
      parameters: rule -> its parameters, where they are not the defaults.
      now: seconds since the Unix epoch.
      tracked: goes through a list of names, and may show how far it is.

    Raises:
      KeyError: there is no such run.
    """
    at = time.time() if now is None else now
    reference = None if baseline is None else store.load([baseline])[baseline]
    read: list[_Read] = []
    for name in tracked(names):
        other = None if name == baseline else reference
        read.append(_read(name, store.load([name])[name], other, at, tolerance, parameters))
    read.sort(key=lambda entry: (*SEVERITIES, "ok").index(entry.run.verdict))
    read = [
        dataclasses.replace(entry, run=dataclasses.replace(entry.run, slot=place % MOST_RUNS))
        for place, entry in enumerate(read)
    ]
    # A colour tells runs of one chart apart, so a chart is of runs that follow one another.
    charts = [
        chart
        for start in range(0, len(read), MOST_RUNS)
        for chart in _charts(read[start : start + MOST_RUNS], tolerance or Tolerance())
    ]
    return Report(logdir, at, tuple(entry.run for entry in read), baseline, tuple(charts))


@dataclasses.dataclass(frozen=True, eq=False)
class _Read:
    """What was read of a run: its entry, its lines by (role, unit), the line of its relative error."""

    run: ReportedRun
    lines: Mapping[Tuple[str, str], Line]
    error: Optional[Line]


def _read(
    name: str,
    run: RunContents,
    baseline: Optional[RunContents],
    now: float,
    tolerance: Optional[Tolerance],
    parameters: Optional[Parameters],
) -> _Read:
    comparison, problem = _compared(run, baseline, tolerance)
    found = diagnose(run, parameters, now=now)  # how it differs from the baseline has a chapter of its own
    summary = summarise(name, run, exact=True)
    lines = {
        (role, match.unit): line
        for role, match in run.roles.items()
        if role not in _NOT_DRAWN
        for line in [role_line(name, run, role, found)]
        if line is not None
    }
    settings = settings_of(run.manifest) if run.has_manifest else {}
    entry = ReportedRun(name, 0, summary, status(summary, now), tuple(found), settings, comparison, problem)
    return _Read(entry, lines, None if comparison is None else _error_line(name, comparison))


def _charts(read: Sequence[_Read], tolerance: Tolerance) -> list[Chart]:
    """The charts of at most `MOST_RUNS` runs: one a role and unit, and one of the relative errors."""

    def of(line: Optional[Line], entry: _Read) -> list[Line]:
        return [] if line is None else [dataclasses.replace(line, slot=entry.run.slot)]

    kinds = sorted(
        {kind for entry in read for kind in entry.lines}, key=lambda kind: (list(ROLES).index(kind[0]), kind[1])
    )
    found = [
        role_chart(role, unit, [line for entry in read for line in of(entry.lines.get((role, unit)), entry)])
        for role, unit in kinds
    ]
    errors = [line for entry in read for line in of(entry.error, entry)]
    if errors:
        title = Text("relative error of the loss (dashed: tolerance)", "损失的相对误差（虚线：容差）")
        found.append(chart("relative_error", title, "", errors, "log10", tolerance.relative or None))
    return found


def _compared(
    run: RunContents, baseline: Optional[RunContents], tolerance: Optional[Tolerance]
) -> Tuple[Optional[Comparison], Optional[str]]:
    if baseline is None:
        return None, None
    try:
        return compare(run, baseline, tolerance=tolerance), None
    except AlignmentError as error:
        return None, str(error)


def _error_line(name: str, comparison: Comparison) -> Line:
    error = relative_error(comparison.pairs.value, comparison.pairs.baseline)
    floor = comparison.tolerance.relative * _FLOOR
    shown = np.where(np.isfinite(error), np.maximum(error, floor), error)
    return Line(name, window(comparison.pairs.step, shown, None, None, None, 360))
