"""One run checked: the unit of work of `tb-health check`, in this process, in another, or on a cluster."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, List, Mapping, Optional, Sequence

import numpy as np

from tb_mindformers_plugin.cli.check.sparkline import sparkline
from tb_mindformers_plugin.health import Finding, diagnose, verdict
from tb_mindformers_plugin.health.parameters import Parameters
from tb_mindformers_plugin.health.spike_score import spike_score
from tb_mindformers_plugin.runs import RunContents, open_logdir
from tb_mindformers_plugin.runs.store import RunStore

_SCORED = ("loss", "grad_norm")


@dataclasses.dataclass(frozen=True)
class RunReport:
    """What there is to say of one run; small, so that it travels between processes.

    Attributes:
      run: its name.
      verdict: its worst severity, or "ok"; None where it could not be checked.
      spike_score: role -> the published score, None where there are too few points.
      findings: worst first, as `Finding.to_dict` has them.
      sparklines: the stretch of each finding as a line of bars; "" where there is none to draw.
      error: why the run could not be checked, or what of it could not be read.
    """

    run: str
    verdict: Optional[str]
    spike_score: Mapping[str, Optional[float]]
    findings: Sequence[Mapping[str, Any]]
    sparklines: Sequence[str]
    error: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as JSON types (docs/cli.md)."""
        return {
            "run": self.run,
            "verdict": self.verdict,
            "spike_score": dict(self.spike_score),
            "findings": list(self.findings),
        }


def failed(run: str, error: str) -> RunReport:
    """Returns the report of a run that could not be checked."""
    return RunReport(run, None, {}, (), (), error)


def report(run: str, contents: RunContents, findings: Sequence[Finding], lang: str) -> RunReport:
    """Returns what there is to say of a run in which `findings` were found."""
    return RunReport(
        run=run,
        verdict=verdict(findings),
        spike_score={role: _score(contents, role) for role in _SCORED},
        findings=[finding.to_dict(run, lang) for finding in findings],
        sparklines=[drawn(contents, finding) for finding in findings],
        error="; ".join(contents.unreadable),
    )


def drawn(contents: RunContents, finding: Finding) -> str:
    """Returns the stretch of a finding as a line of bars, "" where there is none to draw."""
    if finding.tag not in contents.tags:
        return ""
    curve = contents.segments(finding.tag)[0]
    return sparkline(curve.step, curve.value.astype(np.float64), finding.first_step, finding.last_step)


def check_in(
    store: RunStore, run: str, parameters: Parameters, lang: str, now: float, baseline: Optional[str] = None
) -> RunReport:
    """Checks one run of an open logdir. Never raises: what goes wrong is the report's error."""
    for name in (run, baseline):
        if name is not None and name not in store.runs:
            return failed(run, "the run is gone" if name == run else f"its baseline {name!r} is gone")
    try:
        contents = store.load([run])[run]
        # Of itself there is nothing to compare.
        reference = None if baseline is None or baseline == run else store.load([baseline])[baseline]
        found = report(run, contents, diagnose(contents, parameters, now, reference), lang)
        if run != baseline:
            store.runs[run].drop()  # it is not looked at again
        return found
    except Exception as error:  # one run that nobody foresaw must not cost the others their report
        return failed(run, f"{type(error).__name__}: {error}")


def check_run(
    logdir: str, run: str, parameters: Parameters, lang: str, now: float, baseline: Optional[str] = None
) -> RunReport:
    """Checks one run of a logdir. Never raises: what goes wrong is the report's error.

    Args:
      logdir: as for `open_logdir`, in absolute paths.
      run: its name.
      parameters: rule id -> parameters, where they are not the defaults; None: the rule is off.
      lang: language of the findings.
      now: seconds since the Unix epoch.
      baseline: name of the run of that logdir to compare it with, if any.
    """
    try:
        store = _opened(logdir, now)
    except OSError as error:
        return failed(run, str(error))
    return check_in(store, run, parameters, lang, now, baseline)


@functools.lru_cache(maxsize=1)
def _opened(logdir: str, now: float) -> RunStore:
    """The logdir as it is looked at once a check, whose time is `now`, and process."""
    return open_logdir(logdir)


def absolute(store: RunStore) -> str:
    """Returns the logdir of `store` as a process in another directory must be told it."""
    paths: List[str] = [f"{root.name}:{root.path}" if root.name else root.path for root in store.searched]
    return ",".join(paths)


def _score(contents: RunContents, role: str) -> Optional[float]:
    curve = contents.current(role)
    score = None if curve is None else spike_score(curve.value.astype(np.float64))
    return None if score is None else round(score, 4)
