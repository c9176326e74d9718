"""The x axes on which a curve can be drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Sequence

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.roles import steps_of

if TYPE_CHECKING:
    from tb_mindformers_plugin.runs.contents import RunContents, Segment

AXES = ("step", "from_start", "wall", "relative", "active", "epoch", "tokens", "samples")
_ALWAYS = frozenset(("step", "from_start", "wall", "relative", "active"))

#: Axis -> the manifest field that says how much of it one step is.
PER_STEP = {"tokens": "tokens_per_step", "samples": "global_batch_size"}


def available(run: RunContents) -> list[str]:
    """Returns the axes of `AXES` that `run` can be drawn on."""
    return [axis for axis in AXES if axis in _ALWAYS or _scale(run, axis) or axis in run.roles]


def positions(run: RunContents, segment: Segment, axis: str) -> Optional[npt.NDArray[np.float64]]:
    """Returns the (n,) positions of a segment's points on `axis`, or None where the run does not know them.

    Units: steps; steps since that at which the run began (from_start); seconds since the Unix epoch
    (wall); seconds since the run's first record (relative), and the same without its pauses (active);
    epochs; tokens; samples. Epochs, tokens and samples come from the run's own series, interpolated
    by step, else from what the manifest says one step is.

    Raises:
      ValueError: an unknown axis.
    """
    if axis == "step":
        return segment.step.astype(np.float64)
    if axis == "from_start":
        return (segment.step - run.first_step).astype(np.float64)
    if axis == "wall":
        return segment.wall
    if axis == "relative":
        return segment.wall - run.first_wall
    if axis == "active":
        return run.pauses.without(segment.wall) - run.first_wall
    if axis not in AXES:
        raise ValueError(f"x axis {axis!r} is unknown; known: {', '.join(AXES)}")
    known = run.current(axis)
    if known is not None:
        finite = np.isfinite(known.value)
        if np.count_nonzero(finite) > 1:
            return _interpolated(segment.step, known.step[finite], known.value[finite])
    scale = _scale(run, axis)
    return None if scale is None else segment.step.astype(np.float64) * scale


def steps_count(run: RunContents) -> str:
    """Returns what the run's steps count: "steps", or "samples" (DeepSpeed's do)."""
    return steps_of(run.framework)


def positions_of_steps(run: RunContents, role: str, steps: Sequence[int], axis: str) -> Optional[list[float]]:
    """Returns where `steps` lie on `axis`, between the points of `role`'s curve; None where that is not known.

    Raises:
      ValueError: an unknown axis.
    """
    curve = run.current(role)
    at = None if curve is None or len(curve) == 0 else positions(run, curve, axis)
    if curve is None or at is None:
        return None
    finite = np.isfinite(at)
    if not finite.any():
        return None
    return [float(x) for x in np.interp(np.asarray(steps, np.float64), curve.step[finite], at[finite])]


def _scale(run: RunContents, axis: str) -> Optional[float]:
    if axis == steps_count(run):
        return 1.0
    if axis == "epoch":
        return 1 / run.manifest.steps_per_epoch if run.manifest.steps_per_epoch else None
    per_step = getattr(run.manifest, PER_STEP[axis]) if axis in PER_STEP else None
    return float(per_step) if per_step else None


def _interpolated(
    step: npt.NDArray[np.int64], known_step: npt.NDArray[np.int64], known: npt.NDArray[Any]
) -> npt.NDArray[np.float64]:
    """`known` at `step`, carried on in a straight line beyond its ends."""
    xs, ys, at = known_step.astype(np.float64), known.astype(np.float64), step.astype(np.float64)
    slope = (ys[-1] - ys[0]) / (xs[-1] - xs[0])
    inside = np.interp(at, xs, ys)
    inside += np.where(at < xs[0], (at - xs[0]) * slope, 0) + np.where(at > xs[-1], (at - xs[-1]) * slope, 0)
    return inside
