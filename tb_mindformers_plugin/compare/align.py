"""Which point of a run belongs to which point of its baseline."""

from __future__ import annotations

import dataclasses
from typing import Mapping, Optional, Tuple, Union

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.language import Text
from tb_mindformers_plugin.roles import ROLES
from tb_mindformers_plugin.runs import axes
from tb_mindformers_plugin.runs.contents import RunContents, Segment

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

#: Axes on which two runs can be laid side by side.
AXES = ("step", "from_start", "tokens", "samples")

#: Axis -> how it is named in a sentence on what is the same.
IN_WORDS: Mapping[str, Text] = {
    "step": Text("step", "步"),
    "from_start": Text("step from the first", "起点后步数"),
    "tokens": Text("tokens", " token 数"),
    "samples": Text("samples", "样本数"),
}

# Logged tokens and samples are float32: two positions are the same one where they differ by less than this part,
# but never by so much as a quarter of the way to the next point.
_SAME_POSITION = 1e-6
_OF_THE_SPACING = 0.25

# Unit -> (what it is one of, how many).
_TIME_UNITS: Mapping[str, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}


class AlignmentError(ValueError):
    """Two runs that cannot be laid side by side; the message says why and what to do."""


@dataclasses.dataclass(frozen=True, eq=False)
class Pairs:
    """Points of two runs at the same positions, ascending.

    Attributes:
      role: what is compared.
      tag, baseline_tag: the series that play the role in the run and in the baseline.
      unit: unit of both value columns; where the runs log different units of time, the baseline's.
      axis: one of `AXES`.
      step: (n,) int64, the run's own steps.
      position: (n,) float64 on the axis.
      value, baseline: (n,) float64, as logged; not finite ones included.
      only_run, only_baseline: how many points of either have no partner within the common stretch.
    """

    role: str
    tag: str
    baseline_tag: str
    unit: str
    axis: str
    step: Indices
    position: Floats
    value: Floats
    baseline: Floats
    only_run: int
    only_baseline: int

    def __len__(self) -> int:
        return len(self.step)


def align(run: RunContents, baseline: RunContents, role: str = "loss", axis: Optional[str] = None) -> Pairs:
    """Returns the points of one role that two runs have at the same positions.

    Only logged points are paired, never a value between two of them: an interpolated loss is not
    what a precision check may rest on.

    Args:
      run: the run.
      baseline: what it is compared with.
      role: which series; its current curve is taken.
      axis: one of `AXES`; None: as `default_axis` says.

    Raises:
      AlignmentError: a run has no such series or does not know its position on the axis, the units
        cannot be converted, or no position is common.
      ValueError: an unknown role or axis.
    """
    if role not in ROLES:
        raise ValueError(f"role {role!r} is unknown; known: {', '.join(ROLES)}")
    if axis is None:
        axis = default_axis(run, baseline)
    if axis not in AXES:
        raise ValueError(f"axis {axis!r} is unknown; known: {', '.join(AXES)}")
    mine, theirs = _curve(run, role, "the run"), _curve(baseline, role, "the baseline")
    at, baseline_at = _positions(run, mine, axis, "the run"), _positions(baseline, theirs, axis, "the baseline")
    # Steps are whole numbers: the same or not, also where they are too large for a float64.
    if axis == "step":
        first, second = _common(mine.step, theirs.step, 0.0)
    else:
        first, second = _common(at, baseline_at, 0.0 if axis == "from_start" else _SAME_POSITION)
    if not len(first):
        raise AlignmentError(_nothing_common(run, baseline, role, axis, at, baseline_at))
    factor = _unit_factor(run.roles[role].unit, baseline.roles[role].unit, role)
    low, high = max(at[0], baseline_at[0]), min(at[-1], baseline_at[-1])
    return Pairs(
        role=role,
        tag=run.roles[role].tag,
        baseline_tag=baseline.roles[role].tag,
        unit=baseline.roles[role].unit,
        axis=axis,
        step=mine.step[first],
        position=at[first],
        value=mine.value[first].astype(np.float64) * factor,
        baseline=theirs.value[second].astype(np.float64),
        only_run=int(np.count_nonzero((at >= low) & (at <= high))) - len(first),
        only_baseline=int(np.count_nonzero((baseline_at >= low) & (baseline_at <= high))) - len(first),
    )


def default_axis(run: RunContents, baseline: RunContents) -> str:
    """Returns the axis on which two runs did the same work.

    Steps; but samples (else tokens), where both runs know them and a step of one holds other many than
    a step of the other.
    """
    for axis, field in (("samples", "global_batch_size"), ("tokens", "tokens_per_step")):
        known = all(axis in axes.available(r) for r in (run, baseline))
        if known and getattr(run.manifest, field) != getattr(baseline.manifest, field):
            return axis
        if known and axes.steps_count(run) != axes.steps_count(baseline):
            return axis
    return "step"


def axis_note(run: RunContents, baseline: RunContents, axis: str) -> Optional[Text]:
    """Returns what a reader must know of the axis: chosen because the steps differ, or doubtful; else None."""
    counts, baseline_counts = axes.steps_count(run), axes.steps_count(baseline)
    if axis == "from_start":
        return Text(
            f"Aligned at the first step: {run.first_step:,} here, {baseline.first_step:,} in the baseline.",
            f"按首个步对齐：本运行第 {run.first_step:,} 步，基线第 {baseline.first_step:,} 步。",
        )
    if axis != "step":
        return Text(
            f"Aligned by {axis}: a step of one run is not a step of the other.",
            f"按{_ZH[axis]}对齐：两个运行的步不等价。",
        )
    if counts != baseline_counts:
        return Text(
            f"The run counts {counts} as its steps, the baseline counts {baseline_counts}, and the two cannot be "
            "converted: give global_batch_size in the manifest of the one that counts steps.",
            f"该运行以{_ZH[counts]}计步，基线以{_ZH[baseline_counts]}计步，且无法换算："
            "请在以步计数的一方的清单中给出 global_batch_size。",
        )
    sizes = run.manifest.global_batch_size, baseline.manifest.global_batch_size
    if None not in sizes and sizes[0] != sizes[1]:
        return Text(
            f"Aligned by step, although a step is {sizes[0]:,} samples here and {sizes[1]:,} in the baseline.",
            f"按步对齐，但每步样本数不同：本运行 {sizes[0]:,}，基线 {sizes[1]:,}。",
        )
    return None


_ZH = {"step": "步数", "steps": "步数", "samples": "样本数", "tokens": "token 数"}


def _curve(run: RunContents, role: str, which: str) -> Segment:
    curve = run.current(role)
    if curve is None or not len(curve):
        raise AlignmentError(
            f"{which} logs no {ROLES[role].title}; it logs: {', '.join(run.roles) or 'nothing that is known'}"
        )
    return curve


def _positions(run: RunContents, segment: Segment, axis: str, which: str) -> Floats:
    found = axes.positions(run, segment, axis)
    if found is None:
        raise AlignmentError(
            f"{which} does not know its {axis}: log them, or give {axes.PER_STEP[axis]} in its manifest; "
            "or compare by step"
        )
    if (np.diff(found) < 0).any():
        raise AlignmentError(f"{which} logs {axis} that go back: compare by step")
    return found


def _common(first: Union[Floats, Indices], second: Union[Floats, Indices], tolerance: float) -> Tuple[Indices, Indices]:
    """Indices of the positions that both ascending columns have, within a part of them; each used once.

    A position is reached once by a curve, but a batch of 0 samples or a damaged value can repeat it.
    """
    place = np.clip(np.searchsorted(second, first), 0, len(second) - 1)
    before = np.maximum(place - 1, 0)
    nearest = np.where(np.abs(second[before] - first) < np.abs(second[place] - first), before, place)
    spacing = min((float(np.median(np.diff(column))) for column in (first, second) if len(column) > 1), default=0.0)
    allowed = np.minimum(tolerance * np.abs(first), _OF_THE_SPACING * spacing)
    near = np.flatnonzero(np.abs(second[nearest] - first) <= allowed)
    _, once = np.unique(nearest[near], return_index=True)
    return near[once], nearest[near[once]]


def _nothing_common(
    run: RunContents, baseline: RunContents, role: str, axis: str, at: Floats, baseline_at: Floats
) -> str:
    unit = {"step": "steps", "from_start": "steps from the first:"}.get(axis, axis)
    said = (
        f"the two runs have no {ROLES[role].title} at the same {IN_WORDS[axis].en}: "
        f"the run logs {len(at):,} points at {unit} {at[0]:,.0f} to {at[-1]:,.0f}, "
        f"the baseline {len(baseline_at):,} at {unit} {baseline_at[0]:,.0f} to {baseline_at[-1]:,.0f}"
    )
    others = [a for a in AXES if a != axis and all(a in axes.available(r) for r in (run, baseline))]
    others = [a for a in others if a != "from_start" or run.first_step != baseline.first_step]
    if others:
        said = f"{said}; try the axis {' or '.join(others)}"
    return f"{said}; log both at the same steps, or give global_batch_size in both manifests and compare by samples"


def _unit_factor(unit: str, baseline_unit: str, role: str) -> float:
    """What a value in `unit` is to be multiplied with to be in `baseline_unit`."""
    if unit == baseline_unit:
        return 1.0
    if unit in _TIME_UNITS and baseline_unit in _TIME_UNITS:
        return _TIME_UNITS[unit] / _TIME_UNITS[baseline_unit]
    raise AlignmentError(
        f"{ROLES[role].title} is in {unit or 'no unit'} in the run and in {baseline_unit or 'no unit'} in the "
        "baseline, which cannot be converted; name the units in the manifests (`units`)"
    )
