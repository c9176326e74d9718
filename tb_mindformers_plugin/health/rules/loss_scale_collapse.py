"""Rule `loss_scale_collapse`: the dynamic loss scale keeps falling, or sits at its floor.

Definition: the initial descent ends at the first growth, or after 20 unchanged points, or below 2^8.
Warning: at least 4 halvings within 200 points, and within the scaler's window (1,000 steps), without
growth, down to a quarter or less of the lowest value that the scale had settled at so far, and to 2^15 or
less (from above that it may well look for its level). Critical: at most 1 for 50 points or more after
being higher. One finding from the first halving on.

Source: measured definition of this project; the shape of public reports of fp16 trainings.

Quiet when: in the initial descent; the scale is constant, 1 included (bfloat16, or a fixed scale).
"""

from __future__ import annotations

import dataclasses
from typing import Iterator, Optional

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import Part
from tb_mindformers_plugin.health.points import goes_down, goes_up, lowest, places
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.series import Floats, Indices, RunSeries, Series
from tb_mindformers_plugin.language import number

_ADVICE = {
    "collapse": Text(
        "Look at the grad norm and the activations from the first halving on: gradients overflow at any scale, so "
        "steps are skipped and nothing is learnt. Lower the learning rate, clip, or train in bfloat16.",
        "查看从第一次减半起的梯度范数和激活值：任何缩放下梯度都在溢出，更新被跳过，模型没有在学习。请"
        "降低学习率、启用裁剪，或改用 bfloat16。",
    )
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `loss_scale_collapse`.

    Attributes:
      halvings: fewest halvings in a row.
      within: points in which they happen.
      growth_steps: and steps, where the manifest does not say the scaler's window.
      part: the scale ends at this part of its lowest settled value, or lower.
      high: a scale above this has not collapsed.
      floor: a scale this low is at its floor.
      floor_points: so many points at the floor are critical.
      settled: so many unchanged points end the initial descent.
      low: the initial descent is over below this.
    """

    halvings: int = 4
    within: int = 200
    growth_steps: int = 1000
    part: Part = 0.25
    high: float = 32768.0
    floor: float = 1.0
    floor_points: int = 50
    settled: int = 20
    low: float = 256.0


def loss_scale_collapse(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns one finding a collapse.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> (found,) = loss_scale_collapse(of_values(loss_scale=[64.0] * 5 + [32, 16, 8, 4, 2, 2, 2]))
    >>> found.severity, found.first_step, found.evidence["halvings"]
    ('warning', 5, 5)
    """
    curve = run.finite("loss_scale")
    if curve is None or len(curve) < 3 or curve.positive is not curve:
        return []
    if not len(places(curve, goes_down, before=1)):
        return []
    settled = settled_at(curve, parameters.settled, parameters.low)
    if settled is None:
        return []
    declared = (run.manifest.loss_scale or {}).get("window")
    window = declared if isinstance(declared, int) and declared > parameters.within else parameters.growth_steps
    return [_finding(curve, collapse, parameters) for collapse in _collapses(curve, settled, window, parameters)]


@dataclasses.dataclass(frozen=True)
class _Collapse:
    """First halving, last point before the scale grows again, and the halvings between."""

    first: int
    last: int
    halvings: int


def _collapses(curve: Series, settled: int, window: int, p: Parameters) -> Iterator[_Collapse]:
    """Those of the descents that go too far, each up to where the scale next grows."""
    fell, grew = places(curve, goes_down, before=1), places(curve, goes_up, before=1)
    fell = fell[fell > settled]
    may_sit = lowest(curve, 0, len(curve)) <= p.floor
    if not may_sit:
        # Then only a descent of many halvings can be one.
        halvings = np.rint(np.log2(curve.values_of(fell - 1) / curve.values_of(fell))).astype(int)
        descent = np.searchsorted(grew, fell)
        fell = fell[np.bincount(descent, halvings, len(grew) + 1)[descent] >= p.halvings]
    k = 0
    while k < len(fell):
        growth = grew[np.searchsorted(grew, fell[k]) :]
        stop = int(growth[0]) if len(growth) else len(curve)
        falls = fell[k : int(np.searchsorted(fell, stop))]
        k += len(falls)
        collapse = _descent(curve, falls, stop, lowest(curve, settled, int(falls[0])), window, may_sit, p)
        if collapse is not None:
            yield collapse


def _descent(
    curve: Series, falls: Indices, stop: int, lowest: float, window: int, may_sit: bool, p: Parameters
) -> Optional[_Collapse]:
    """What is a collapse of a descent by `falls`, from a scale that had settled at `lowest` or above."""
    v = curve.values_of(falls)
    total = np.concatenate([[0], np.cumsum(np.rint(np.log2(curve.values_of(falls - 1) / v)).astype(int))])
    # Halvings within so many points, up to each fall.
    begin = np.searchsorted(falls, falls - p.within, side="right")
    # The scale grows once a window, also where it is logged too seldom to see it.
    begin = np.maximum(begin, np.searchsorted(curve.step[falls], curve.step[falls] - window, side="right"))
    low = (total[1:] - total[begin] >= p.halvings) & (v <= min(p.part * lowest, p.high))
    sits = may_sit and _longest_low(curve.values(int(falls[0]), stop), p.floor) >= p.floor_points
    if not low.any() and not sits:
        return None
    start = int(begin[np.argmax(low)]) if low.any() else 0
    return _Collapse(int(falls[start]), stop - 1, int(total[-1] - total[start]))


def _finding(curve: Series, collapse: _Collapse, p: Parameters) -> Finding:
    first, last, halvings = collapse.first, collapse.last, collapse.halvings
    v = curve.values(first, last + 1)
    low = first + int(np.argmin(v))
    before, lowest = float(curve.stored[first - 1]), float(v.min())
    sits = _longest_low(v, p.floor)
    critical = sits >= p.floor_points
    start, end = int(curve.step[first]), int(curve.step[low])
    where = Text(f"between steps {start:,} and {end:,}", f"第 {start:,} 至 {end:,} 步")
    if start == end:
        where = Text(f"at step {start:,}", f"第 {start:,} 步")
    en = f"Loss scale fell from {number(before)} to {number(lowest)} {where.en}: {halvings:,} halvings"
    zh = f"loss scale 在{where.zh}从 {number(before)} 降到 {number(lowest)}：减半 {halvings:,} 次"
    if halvings <= end - int(curve.step[first - 1]):  # a scaler halves once a step
        en, zh = en + ", each a skipped step", zh + "，每次都跳过一步更新"
    if critical:
        en, zh = en + f"; it sits at its floor for {sits:,} points", zh + f"；并在下限停留 {sits:,} 个记录点"
    return curve.finding(
        RULE.id,
        "critical" if critical else "warning",
        (first, last if critical else low, low),
        Text(en + ".", zh + "。"),
        _ADVICE["collapse"],
        {"before": before, "lowest": lowest, "halvings": halvings, "floor_points": sits},
    )


def settled_at(curve: Series, unchanged: int, low: float) -> Optional[int]:
    """What `settling` says of a scale; once said it does not change."""

    def extend(known: Optional[int], count: int) -> Optional[int]:
        return settling(curve.value, unchanged, low) if known is None else known

    return curve.extended(("settled", unchanged, low), extend)


def settling(v: Floats, unchanged: int, low: float) -> Optional[int]:
    """Index of the first point behind the initial descent of a scale; None while it goes on.

    >>> settling(np.array([8.0, 4, 2, 4, 4]) * 256, 20, 256)
    3
    """
    ends = []
    change = np.flatnonzero(np.diff(v)) + 1
    grew = np.flatnonzero(np.diff(v) > 0) + 1
    if len(grew):
        ends.append(int(grew[0]))
    starts = np.concatenate([[0], change])
    still = np.flatnonzero(np.diff(np.append(starts, len(v))) >= unchanged)
    if len(still):
        ends.append(int(starts[still[0]]))
    small = np.flatnonzero(v < low)
    if len(small):
        ends.append(max(int(small[0]) - 1, 0))
    return min(ends) if ends else None


def _longest_low(v: Floats, floor: float) -> int:
    low = np.concatenate([[False], v <= floor, [False]])
    edges = np.flatnonzero(np.diff(low.astype(np.int8)))
    return int((edges[1::2] - edges[::2]).max(initial=0))


RULE = Rule(
    id="loss_scale_collapse",
    title=Text("the dynamic loss scale keeps falling or sits at its floor", "动态 loss scale 持续下降或停在下限"),
    function=loss_scale_collapse,
    parameters=Parameters,
    reads=("loss_scale",),
    severities=("critical", "warning"),
    advice=_ADVICE,
)
