"""What a rule gets: the curves of one run as arrays, and what the run says of itself."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, Callable, Mapping, Optional, Sequence, Tuple

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.compare import AlignmentError, Comparison, Tolerance, compare
from tb_mindformers_plugin.health import points
from tb_mindformers_plugin.health.points import Floats, Indices, Mask, Series, goes_down, is_positive, places
from tb_mindformers_plugin.metadata import HealthEvent, RunManifest
from tb_mindformers_plugin.roles import ROLES
from tb_mindformers_plugin.runs.contents import RunContents, Segment
from tb_mindformers_plugin.runs.growing import Kept
from tb_mindformers_plugin.runs.silence import SECONDS, goes_on, usual_interval

__all__ = [
    "Floats",
    "Indices",
    "Mask",
    "RunSeries",
    "Series",
    "leading",
    "lr_changes",
    "of_arrays",
    "of_run",
    "of_values",
]


@dataclasses.dataclass(frozen=True, eq=False)
class RunSeries:
    """The series of one run.

    Attributes:
      curves: role -> its current curve, values that are not finite included; never empty ones.
      manifest: what the run says of itself; an empty one where it says nothing.
      has_manifest: whether it says anything.
      restarts: steps at which the run was taken up again, ascending.
      superseded: role -> what restarts left behind, each ascending in step.
      second_writers: files that another process wrote at the same time.
      lr_changes: (step, factor) of each recorded change of the learning rate: behind the step it, and whatever
        the schedule does later, is multiplied by the factor. Ascending in step.
      ended: whether the run said that it ended.
      running: whether more points are to be expected: it has not ended, and has a record that is recent by `now`.
      last_wall: latest time of any record; None where unknown.
      now: seconds since the Unix epoch, for what is told from a run's age; None: not to be told.
      against: compares its loss with its baseline's, None where they have nothing in common; itself None where
        no baseline is chosen.
    """

    curves: Mapping[str, Series]
    manifest: RunManifest = dataclasses.field(default_factory=RunManifest)
    has_manifest: bool = False
    restarts: Tuple[int, ...] = ()
    superseded: Mapping[str, Tuple[Series, ...]] = dataclasses.field(default_factory=dict)
    second_writers: Tuple[str, ...] = ()
    lr_changes: Tuple[Tuple[int, float], ...] = ()
    ended: bool = False
    running: bool = False
    last_wall: Optional[float] = None
    now: Optional[float] = None
    against: Optional[Callable[[Tolerance], Optional[Comparison]]] = None

    def finite(self, role: str) -> Optional[Series]:
        """The finite points of a role's curve; None where there is none."""
        curve = self.curves.get(role)
        if curve is None:
            return None
        return curve.finite if len(curve.finite) else None

    @functools.cached_property
    def has_reward(self) -> bool:
        """Whether it is a reinforcement-learning run, whose loss may be 0."""
        return "reward" in self.curves

    def skipped(self, step: npt.NDArray[np.int64]) -> Optional[Mask]:
        """Which of the (n,) ascending steps the loss scaler skipped; None where the run has no loss scaler.

        A step is skipped where the overflow series says so, or where the loss scale fell with it.
        """
        found: Optional[Mask] = None
        for role in ("overflow", "loss_scale"):
            curve = self.curves.get(role)
            if curve is not None:
                told = places(curve, is_positive) if role == "overflow" else places(curve, goes_down, before=1)
                steps = curve.step[told]
                here = np.searchsorted(steps, step, side="right") > np.searchsorted(steps, step)
                found = here if found is None else found | here
        return found

    def lr_rise(self, first_step: int, last_step: int) -> float:
        """By which factor the learning rate rose from one step to its highest up to another (1 where unknown)."""
        lr = self.finite("lr")
        if lr is None:
            return 1.0
        first = max(int(np.searchsorted(lr.step, first_step, side="right")) - 1, 0)
        last = int(np.searchsorted(lr.step, last_step, side="right"))
        within = lr.values(first, last)
        if len(within) == 0 or within.max() <= 0:
            return 1.0
        return float(within.max() / within[0]) if within[0] > 0 else float("inf")


def of_run(contents: RunContents, now: Optional[float] = None, baseline: Optional[RunContents] = None) -> RunSeries:
    """Returns what the rules get of a run that was read.

    Args:
      contents: the run.
      now: seconds since the Unix epoch.
      baseline: the run that it is to be compared with.
    """
    curves: dict[str, Series] = {}
    superseded: dict[str, Tuple[Series, ...]] = {}
    for role, match in contents.roles.items():
        segments = contents.segments(match.tag)
        if len(segments[0]):
            kept = contents.kept(match.tag)
            curves[role] = _series(
                role, match.tag, segments[0], kept if len(segments[0]) >= points.LONG else Kept(kept)
            )
        left = tuple(_series(role, match.tag, s, Kept()) for s in segments[1:] if not s.current and len(s))
        if left:
            superseded[role] = left
    first = contents.roles.get("loss") or next(iter(contents.roles.values()), None)
    return RunSeries(
        curves=curves,
        manifest=contents.manifest,
        has_manifest=contents.has_manifest,
        restarts=tuple(sorted(contents.segmentation(first.tag).restarts)) if first else (),
        superseded=superseded,
        second_writers=tuple(contents.second_writers),
        lr_changes=lr_changes(contents.events),
        ended=contents.ended is not None,
        running=contents.ended is None and _running(curves, contents.last_wall, now),
        last_wall=contents.last_wall,
        now=now,
        against=None if baseline is None else functools.partial(_compared, contents, baseline),
    )


def leading(curves: Mapping[str, Series]) -> Series:
    """Returns the curve that a run's age and pace are told from: the loss, else the longest of at least one."""
    return curves.get("loss") or max(curves.values(), key=len)


def _running(curves: Mapping[str, Series], last_wall: Optional[float], now: Optional[float]) -> bool:
    if now is None or last_wall is None or not curves:
        return False
    silent = now - last_wall
    return silent <= SECONDS or goes_on(silent, usual_interval(leading(curves).wall))


def _compared(contents: RunContents, baseline: RunContents, tolerance: Tolerance) -> Optional[Comparison]:
    try:
        return compare(contents, baseline, tolerance=tolerance)
    except AlignmentError:
        return None


def of_arrays(
    series: Mapping[str, Tuple[Any, Any, Any]],
    manifest: Optional[RunManifest] = None,
    restarts: Sequence[int] = (),
    now: Optional[float] = None,
) -> RunSeries:
    """Returns what the rules get of plain arrays.

    Args:
      series: role -> (step, wall or None, value), each (n,); put in the order of the steps, the last
        point of a step counting.
      manifest: what the run says of itself.
      restarts: steps at which it was taken up again.
      now: seconds since the Unix epoch.

    Raises:
      ValueError: an unknown role, or arrays of different lengths.
    """
    curves = {}
    for role, (step, wall, value) in series.items():
        if role not in ROLES:
            raise ValueError(f"there is no role {role!r}; known: {', '.join(ROLES)}")
        steps = np.asarray(step, np.int64).ravel()
        values = np.asarray(value, np.float64).ravel()
        walls = np.full(len(steps), np.nan) if wall is None else np.asarray(wall, np.float64).ravel()
        if not len(steps) == len(values) == len(walls):
            raise ValueError(f"{role}: {len(steps)} steps, {len(walls)} wall times, {len(values)} values")
        if len(steps) > 1 and not (np.diff(steps) > 0).all():
            order = np.argsort(steps, kind="stable")
            order = order[np.append(np.diff(steps[order]) > 0, True)]
            steps, walls, values = steps[order], walls[order], values[order]
        if len(steps):
            curves[role] = Series(role, ROLES[role].tag, steps, walls, values)
    walls_known = [c.wall[np.isfinite(c.wall)].max() for c in curves.values() if np.isfinite(c.wall).any()]
    last_wall = float(max(walls_known)) if walls_known else None
    return RunSeries(
        curves=curves,
        manifest=manifest or RunManifest(),
        has_manifest=manifest is not None,
        restarts=tuple(sorted(int(r) for r in restarts)),
        running=_running(curves, last_wall, now),
        last_wall=last_wall,
        now=now,
    )


def of_values(**values: Any) -> RunSeries:
    """Returns a run that logged every step from 0 on, for examples: role=values.

    >>> len(of_values(loss=[3.0, 2.0]).curves["loss"])
    2
    """
    return of_arrays({role: (np.arange(len(v)), None, v) for role, v in values.items()})


def lr_changes(events: Sequence[HealthEvent]) -> Tuple[Tuple[int, float], ...]:
    """Changes of the learning rate that hold, of health events in the order of writing."""
    changes: list[Tuple[int, float]] = []
    for event in events:
        factor = event.fields.get("factor")
        if event.kind == "resume":
            # What was changed behind the checkpoint is not in it.
            changes = [change for change in changes if change[0] <= event.step]
        elif event.fields.get("action") == "reduce_lr" and isinstance(factor, (int, float)) and 0 < factor < math.inf:
            changes.append((event.step, float(factor)))
    return tuple(sorted(changes))


def _series(role: str, tag: str, segment: Segment, kept: Kept) -> Series:
    return Series(role, tag, segment.step, segment.wall, segment.value, kept)
