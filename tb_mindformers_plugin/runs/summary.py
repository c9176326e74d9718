"""What a listing says of a run."""

from __future__ import annotations

import dataclasses
from typing import Optional

import numpy as np

from tb_mindformers_plugin.metadata import HealthEvent, RunManifest
from tb_mindformers_plugin.roles import ROLES
from tb_mindformers_plugin.runs import axes
from tb_mindformers_plugin.runs.contents import RunContents

# Sentences of one kind: whoever reads twenty has understood.
_MOST_NOTES = 20

# The largest whole number that a browser, which has float64 alone, tells from the next.
_EXACT_STEPS = 2**53


@dataclasses.dataclass(frozen=True)
class SeriesSummary:
    """One series of a run.

    Attributes:
      tag, unit: as logged.
      points: how many, superseded ones included; None where the run was only peeked into.
      first_step, last_step, last_value: of the curve.
    """

    tag: str
    unit: str
    points: Optional[int]
    first_step: int
    last_step: int
    last_value: float


@dataclasses.dataclass(frozen=True)
class RunSummary:
    """One run.

    Attributes:
      name: TensorBoard's name of the run.
      exact: whether all of the run was read; else its beginning and its end were.
      has_manifest: whether it has a manifest that could be read.
      manifest: the newest one; an empty one where there is none.
      roles: role -> series.
      framework: whose names the tags follow, where that can be told.
      tags: scalar tags.
      ended: the ``end`` event of the newest start.
      last_wall: latest finite wall time of any record.
      interval: median seconds between logged points.
      axes: x axes that it can be drawn on.
      restarts: steps at which it was taken up again.
      notes: what a reader of its curves should know, each a sentence.
    """

    name: str
    exact: bool
    has_manifest: bool
    manifest: RunManifest
    roles: dict[str, SeriesSummary]
    framework: Optional[str]
    tags: tuple[str, ...]
    ended: Optional[HealthEvent]
    last_wall: Optional[float]
    interval: float
    axes: tuple[str, ...]
    restarts: tuple[int, ...]
    notes: tuple[str, ...]


def summarise(name: str, contents: RunContents, exact: bool) -> RunSummary:
    """Returns the summary of a run of which `contents` were read: all (`exact`), or the ends."""
    first_role = next(iter(contents.roles), None)
    restarts = contents.segmentation(contents.roles[first_role].tag).restarts if first_role else ()
    return RunSummary(
        name=name,
        exact=exact,
        has_manifest=contents.has_manifest,
        manifest=contents.manifest,
        roles={role: _series(contents, role, exact) for role in contents.roles},
        framework=contents.framework,
        tags=tuple(contents.tags),
        ended=contents.ended,
        last_wall=contents.last_wall,
        interval=_interval(contents, first_role),
        axes=tuple(axes.available(contents)),
        restarts=restarts,
        notes=tuple(_notes(contents)),
    )


def unreadable(name: str, note: str) -> RunSummary:
    """Returns the summary of a run of which nothing is known but why."""
    contents = RunContents([])
    return dataclasses.replace(summarise(name, contents, exact=False), notes=(note,))


def _series(contents: RunContents, role: str, exact: bool) -> SeriesSummary:
    match = contents.roles[role]
    segments = contents.segments(match.tag)
    curve = segments[0]
    return SeriesSummary(
        tag=match.tag,
        unit=match.unit,
        points=sum(len(segment) for segment in segments) if exact else None,
        first_step=int(curve.step[0]),
        last_step=int(curve.step[-1]),
        last_value=float(curve.value[-1]),
    )


def _interval(contents: RunContents, role: Optional[str]) -> float:
    curve = contents.current(role) if role else None
    if curve is None or len(curve) < 3:
        return 0.0
    # Between the ends of a peeked run lies a gap that is no interval; the median passes over it.
    gaps = np.diff(curve.wall)
    gaps = gaps[np.isfinite(gaps)]
    return float(np.median(gaps)) if len(gaps) else 0.0


def _notes(contents: RunContents) -> list[str]:
    said = list(dict.fromkeys(contents.problems))
    if len(said) > _MOST_NOTES:
        said[_MOST_NOTES:] = [f"{len(said) - _MOST_NOTES:,} more problems of this kind."]
    for file, damage in contents.damage[:_MOST_NOTES]:
        size = damage.stop - damage.start
        said.append(f"{file}: {size} damaged bytes at byte {damage.start} were skipped: {damage.reason}.")
    if len(contents.damage) > _MOST_NOTES:
        said.append(f"{len(contents.damage) - _MOST_NOTES:,} more damaged stretches were skipped.")
    end = contents.ended
    if end is not None and end.fields.get("status") == "failed":
        said.append(f"The training failed at step {end.step:,}: {end.fields.get('error') or 'no error was given'}.")
    elif end is not None and end.fields.get("status") == "stopped":
        said.append(f"The training was stopped at step {end.step:,}.")
    if contents.second_writers:
        said.append(
            f"Several processes wrote this run at the same time ({', '.join(contents.second_writers)} beside the "
            "first): each has a curve of its own. Give every process its own directory."
        )
    first = next(iter(contents.roles.values()), None)
    if first is not None:
        found = contents.segmentation(first.tag)
        points = sum(len(indices) for indices in found.superseded)
        for step in found.restarts:
            said.append(f"The run was taken up again at step {step:,}.")
        if points:
            said.append(f"What restarts left behind is shown faint: {points:,} points.")
    for role, match in contents.roles.items():
        found = contents.segmentation(match.tag)
        if len(found.stray):
            many = f"{len(found.stray)} points out of order are" if len(found.stray) > 1 else "a point out of order is"
            said.append(f"{ROLES[role].title}: {many} shown apart from the curve.")
        if abs(int(contents.segments(match.tag)[0].step[-1])) > _EXACT_STEPS:
            said.append(f"{ROLES[role].title}: steps beyond 2^53 are rounded in the browser.")
    if not contents.roles and contents.has_manifest:
        said.append("The run has begun, but no metric is logged yet.")
    return said
