"""What ``GET runs`` says of each run."""

from __future__ import annotations

import math
import time
from typing import Any, Optional, Union

import numpy as np

from tb_mindformers_plugin.health import diagnose, verdict
from tb_mindformers_plugin.http_api.hints import missing_hints
from tb_mindformers_plugin.roles import ROLES
from tb_mindformers_plugin.runs import axes
from tb_mindformers_plugin.runs.run import Run
from tb_mindformers_plugin.runs.store import RunStore

# A run that has been silent for longer than this, and than so many of its own intervals, has stalled.
STALLED_SECONDS = 1800.0
STALLED_INTERVALS = 10.0


def list_runs(store: RunStore, now: Optional[float] = None) -> dict[str, Any]:
    """Returns the answer to ``GET runs`` (docs/http-api.md), of the store as last refreshed."""
    at = time.time() if now is None else now
    runs = store.runs
    with_metrics = [run for run in runs.values() if run.roles or run.has_manifest]
    tags = {tag for run in runs.values() for tag in run.tags}
    return {
        "searched": {
            "logdir": ", ".join(f"{root.name}:{root.path}" if root.name else root.path for root in store.searched),
            "directories": store.discovery.directories,
            "event_files": sum(len(run.files) for run in runs.values()),
            "tags": len(tags),
            "problems": list(store.discovery.problems),
        },
        "runs": [_run(run, at) for run in with_metrics],
        "without_metrics": [run.name for run in runs.values() if run not in with_metrics],
    }


def _run(run: Run, now: float) -> dict[str, Any]:
    roles = {role: _series(run, role) for role in run.roles}
    findings = diagnose(run)
    return {
        "run": run.name,
        "source": "manifest" if run.has_manifest else "alias",
        "status": status(run, now),
        "last_wall_time": run.last_wall,
        "verdict": verdict(findings),
        "total_steps": run.manifest.total_steps,
        "notes": [finding.message for finding in findings] + notes(run),
        "missing": missing_hints(roles, run.framework),
        "axes": axes.available(run),
        "restarts": restarts(run),
        "roles": roles,
    }


def _series(run: Run, role: str) -> dict[str, Any]:
    match = run.roles[role]
    column, _ = run.segmentation(match.tag)
    curve = run.segments(match.tag)[0]
    return {
        "tag": match.tag,
        "unit": match.unit,
        "points": len(column),
        "first_step": int(curve.step[0]),
        "last_step": int(curve.step[-1]),
        "last_value": json_number(float(curve.value[-1])),
    }


def status(run: Run, now: float) -> str:
    """Returns running, ended, stalled or unknown.

    Ended: its writer said so. Running: the last record is no older than 30 minutes or ten of the
    run's own logging intervals. Otherwise a run with a manifest, which would have said that it
    ended, has stalled; of another nothing is known.
    """
    if run.ended is not None:
        return "ended"
    if run.last_wall is None:
        return "unknown"
    if now - run.last_wall <= max(STALLED_SECONDS, STALLED_INTERVALS * _interval(run)):
        return "running"
    return "stalled" if run.has_manifest else "unknown"


def _interval(run: Run) -> float:
    """Median time between the points of the run's first role, in seconds."""
    for role in run.roles:
        curve = run.current(role)
        if curve is not None and len(curve) > 2:
            gaps = np.diff(curve.wall)
            gaps = gaps[np.isfinite(gaps)]
            return float(np.median(gaps)) if len(gaps) else 0.0
    return 0.0


def restarts(run: Run) -> list[int]:
    """Steps at which the run was taken up again, of its loss (or else its first role)."""
    for role in run.roles:
        return list(run.segmentation(run.roles[role].tag)[1].restarts)
    return []


def notes(run: Run) -> list[str]:
    """What a reader of the curves should know about how they were read, each a sentence."""
    said = list(run.problems)
    for file, damage in run.damage:
        said.append(
            f"{file}: {damage.stop - damage.start} damaged bytes at byte {damage.start} were skipped: {damage.reason}."
        )
    end = run.ended
    if end is not None and end.fields.get("status") == "failed":
        said.append(f"The training failed at step {end.step}: {end.fields.get('error') or 'no error was given'}.")
    elif end is not None and end.fields.get("status") == "stopped":
        said.append(f"The training was stopped at step {end.step}.")
    for role in run.roles:
        _, found = run.segmentation(run.roles[role].tag)
        if len(found.stray):
            said.append(f"{ROLES[role].title}: {len(found.stray)} points out of order are shown apart from the curve.")
    if not run.roles:
        said.append("The run has begun, but no metric is logged yet.")
    return said


def json_number(value: float) -> Union[float, str]:
    """A number as strict JSON can say it: what is not finite as TensorBoard's words for it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
