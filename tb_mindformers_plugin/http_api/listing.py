"""What ``GET runs`` says of each run."""

from __future__ import annotations

import dataclasses
import time
from typing import Any, Optional, Sequence

from tb_mindformers_plugin.health import Finding, verdict
from tb_mindformers_plugin.health.diagnoses import Diagnoses
from tb_mindformers_plugin.health.finding import SEVERITIES
from tb_mindformers_plugin.http_api.events import shown_events
from tb_mindformers_plugin.http_api.hints import missing_hints
from tb_mindformers_plugin.language import Text
from tb_mindformers_plugin.roles import on_another_axis
from tb_mindformers_plugin.runs.ranks import fold_ranks
from tb_mindformers_plugin.runs.silence import goes_on
from tb_mindformers_plugin.runs.store import Store
from tb_mindformers_plugin.runs.summary import RunSummary
from tb_mindformers_plugin.strict_json import json_value

# Findings of a run whose messages are among its notes, which a list shows at once; `GET findings` has them all.
_MOST_FINDINGS = 10


def list_runs(
    store: Store,
    now: Optional[float] = None,
    diagnoses: Optional[Diagnoses] = None,
    read_all: bool = False,
    language: str = "en",
) -> dict[str, Any]:
    """Returns the answer to ``GET runs`` (docs/http-api.md), of the store as last refreshed.

    Args:
      store: the runs.
      now: seconds since the Unix epoch, for what is told from a run's age.
      diagnoses: kept from one listing to the next, so that only runs that changed are diagnosed.
      read_all: read every run for it, instead of peeking into the most of a large logdir.
      language: of notes and hints, one of `LANGUAGES`.
    """
    at = time.time() if now is None else now
    diagnoses = diagnoses or Diagnoses()
    summaries = store.summaries(read_all)
    diagnoses.forget_others(summary.name for summary in summaries)
    tags = {tag for summary in summaries for tag in summary.tags}
    playing = {series.tag for summary in summaries for series in summary.roles.values()}
    jobs = fold_ranks([summary for summary in summaries if summary.roles or summary.has_manifest])
    return {
        "searched": {
            "logdir": ", ".join(f"{root.name}:{root.path}" if root.name else root.path for root in store.searched),
            "directories": store.discovery.directories,
            "event_files": sum(len(run.files) for run in store.runs.values()),
            "tags": len(tags),
            "without_role": sum(not on_another_axis(tag) for tag in tags - playing),
            "problems": [*store.discovery.problems, *_problems_elsewhere(summaries, language)],
        },
        "runs": [_run(job.shown, job.ranks, diagnoses.of(store, job.shown, at), at, language) for job in jobs],
        "without_metrics": [s.name for s in summaries if not s.roles and not s.has_manifest],
    }


def _problems_elsewhere(summaries: Sequence[RunSummary], language: str) -> list[str]:
    """What is wrong with runs that are not listed, such as a text file that is named like an event file."""
    return [
        f"{summary.name}: {note.in_language(language)}"
        for summary in summaries
        if not summary.roles and not summary.has_manifest
        for note in summary.notes
    ]


def _run(
    summary: RunSummary, ranks: Sequence[str], findings: Optional[Sequence[Finding]], now: float, language: str
) -> dict[str, Any]:
    noted = _noted(findings or (), language)
    return {
        "run": summary.name,
        "source": "manifest" if summary.has_manifest else "alias",
        "status": status(summary, now),
        "last_wall_time": summary.last_wall,
        "verdict": None if findings is None else verdict(findings),
        "total_steps": summary.manifest.total_steps,
        "findings": None if findings is None else _counts(findings),
        "seconds_per_step": summary.seconds_per_step,
        "notes": [*noted, *(note.in_language(language) for note in summary.notes)],
        "notes_of_findings": len(noted),
        "missing": missing_hints(summary, language),
        "axes": list(summary.axes),
        "restarts": list(summary.restarts),
        "events": shown_events(summary.events, language),
        "ranks": list(ranks),
        "roles": {
            role: {**dataclasses.asdict(series), "last_value": json_value(series.last_value)}
            for role, series in summary.roles.items()
        },
    }


def _noted(findings: Sequence[Finding], language: str) -> list[str]:
    """What the worst findings say, and how many more there are."""
    said = [finding.message_in(language) for finding in findings[:_MOST_FINDINGS]]
    more = len(findings) - len(said)
    if more > 0:
        finding = "finding" if more == 1 else "findings"
        said.append(Text(f"And {more:,} more {finding}.", f"另有 {more:,} 条诊断。").in_language(language))
    return said


def _counts(findings: Sequence[Finding]) -> dict[str, int]:
    return {severity: sum(finding.severity == severity for finding in findings) for severity in SEVERITIES}


def status(summary: RunSummary, now: float) -> str:
    """Returns running, ended, stalled or unknown.

    Ended: its writer said so. Running: the last record is no older than 30 minutes or ten of the
    run's own logging intervals. Otherwise a run with a manifest, which would have said that it
    ended, has stalled; of another nothing is known.
    """
    if summary.ended is not None:
        return "ended"
    if summary.last_wall is None:
        return "unknown"
    if goes_on(now - summary.last_wall, summary.interval):
        return "running"
    return "stalled" if summary.has_manifest else "unknown"
