"""Rule `frequent_overflow`: too many skipped steps.

Definition: behind the initial descent of the loss scale, more than 5 % of the last 500 points (more than
25 of them, also before there are 500) overflowed; where only every k-th step is logged a point stands for
at least one overflow in k steps, so the part of the points is more than 1 - 0.95^k. Without an overflow
series each fall of the loss scale is one at least, its halvings counted, among the steps between: a lower
bound. Warning.

Source: measured definition of this project.

Quiet when: in the initial descent of the loss scale.
"""

from __future__ import annotations

import dataclasses
from typing import Optional

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import Part
from tb_mindformers_plugin.health.points import goes_down, highest, is_positive, lowest, places
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.rules.loss_scale_collapse import settled_at
from tb_mindformers_plugin.health.series import Floats, Indices, RunSeries, Series
from tb_mindformers_plugin.language import share

_ADVICE = {
    "overflow": Text(
        "Give the loss scaler a longer window before it grows, lower the learning rate, or train in bfloat16: every "
        "overflow throws a step away.",
        "增大 loss scale 的增长窗口、降低学习率，或改用 bfloat16：每次溢出都会浪费一步更新。",
    )
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `frequent_overflow`.

    Attributes:
      part: the part of the points that overflow.
      points: so many points are looked at.
    """

    part: Part = 0.05
    points: int = 500


# As `loss_scale_collapse` has them by default: so many unchanged points, or a scale below this, end the descent.
_UNCHANGED, _LOW = 20, 256.0


def frequent_overflow(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns one finding from the first such window to the last.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> (found,) = frequent_overflow(of_values(overflow=np.arange(1000) % 10 == 0))
    >>> found.severity, found.evidence["skipped"]
    ('warning', 100)
    """
    overflows = _overflows(run, parameters)
    start = None if overflows is None else _settled(run, overflows.curve)
    if overflows is None or start is None:
        return []
    return _from(overflows, start, parameters)


@dataclasses.dataclass(frozen=True, eq=False)
class _Overflows:
    """Overflows as far as they are known.

    Attributes:
      curve: the series that tells, overflow or else loss_scale.
      lost: (n,) skipped steps that each point stands for, at least.
      of: (n,) the steps among which.
    """

    curve: Series
    lost: Floats
    of: Floats

    @property
    def lower_bound(self) -> bool:
        """Whether there may have been more."""
        return self.curve.role == "loss_scale"

    def part(self, wanted: float) -> float:
        """The part of `of` that is as much as that part of the steps: a flag says at least one of those since."""
        if self.lower_bound or len(self.curve) < 2:
            return wanted
        return 1 - (1 - wanted) ** max(float(np.median(np.diff(self.curve.step))), 1.0)


def _overflows(run: RunSeries, p: Parameters) -> Optional[_Overflows]:
    """None where there are none, or nothing tells, or they are too few anywhere."""
    curve, scale = run.finite("overflow"), run.finite("loss_scale")
    if curve is not None:
        at = places(curve, is_positive)
        if not len(at) or _too_few(at, np.ones(len(at)), p):
            return None
        return _Overflows(curve, (curve.value > 0).astype(float), np.ones(len(curve)))
    if scale is None or len(scale) < 2 or scale.positive is not scale:
        return None
    at = places(scale, goes_down, before=1)
    if not len(at) or _too_few(at, np.rint(np.log2(scale.values_of(at - 1)) - np.log2(scale.values_of(at))), p):
        return None
    levels = np.log2(scale.value)
    steps = np.diff(scale.step, prepend=scale.step[:1] - 1).astype(float)
    # A scaler may do more than halve the scale, but a step is skipped once.
    lost = np.minimum(np.maximum(np.rint(-np.diff(levels, prepend=levels[0])), 0), steps)
    return _Overflows(scale, lost, steps)


def _too_few(at: Indices, lost: Floats, p: Parameters) -> bool:
    """Whether no so many points in a row have lost enough, whatever else is asked for."""
    total = np.concatenate([[0.0], np.cumsum(lost)])
    here = total[1:] - total[np.searchsorted(at, at - p.points + 1)]
    return float(here.max()) < p.part * p.points * (1 - 1e-9)


def _settled(run: RunSeries, curve: Series) -> Optional[int]:
    """Index of the first point behind the initial descent of the loss scale; None while it goes on."""
    scale = run.finite("loss_scale")
    if scale is None or len(scale) < 2 or lowest(scale, 0, len(scale)) == highest(scale, 0, len(scale)):
        return 0
    settled = settled_at(scale, _UNCHANGED, _LOW)
    return None if settled is None else curve.at_or_after(int(scale.step[settled]))


def _from(overflows: _Overflows, start: int, p: Parameters) -> list[Finding]:
    """What is found from the point `start` on."""
    many, of = (np.concatenate([[0], np.cumsum(v[start:])]) for v in (overflows.lost, overflows.of))
    last = np.arange(1, len(many))
    first = np.maximum(last - p.points, 0)
    here = many[last] - many[first]
    # Where there are not 500 yet, as if the others went well.
    frequent = np.flatnonzero(here > overflows.part(p.part) * np.maximum(of[last] - of[first], p.points))
    if not len(frequent):
        return []
    worst = frequent[int(np.argmax(here[frequent]))]
    window = start + int(first[frequent[0]]), start + int(last[frequent[0]])
    begin = _became_dense(overflows, *window)
    return [_finding(overflows, begin, start + int(last[frequent[-1]]) - 1, start + int(last[worst]) - 1)]


def _became_dense(overflows: _Overflows, first: int, stop: int) -> int:
    """The beginning from which on most overflows of a window stand out of a rare few before."""
    lost, of = overflows.lost[first:stop], overflows.of[first:stop]
    dense = float(lost.sum()) / max(stop - first, 1) / 2
    return first + int(np.argmax(np.cumsum((lost - dense * of)[::-1])[::-1]))


def _finding(overflows: _Overflows, begin: int, end: int, peak: int) -> Finding:
    curve, bound = overflows.curve, overflows.lower_bound
    total, within = int(overflows.lost[begin : end + 1].sum()), float(overflows.of[begin : end + 1].sum())
    first, last = f"{int(curve.step[begin]):,}", f"{int(curve.step[end]):,}"
    return curve.finding(
        RULE.id,
        "warning",
        (begin, end, peak),
        Text(
            f"{'At least ' if bound else ''}{total:,} of {within:,.0f} steps ({share(total / within)}) were skipped "
            f"for overflow from step {first} to {last}.",
            f"第 {first} 至 {last} 步中{'至少' if bound else ''}有 {total:,} 步（共 {within:,.0f} 步，"
            f"{share(total / within)}）因溢出被跳过。",
        ),
        _ADVICE["overflow"],
        {"skipped": total, "of": within, "part": total / within, "lower_bound": bound},
    )


RULE = Rule(
    id="frequent_overflow",
    title=Text("too many skipped steps", "因溢出跳过的步过多"),
    function=frequent_overflow,
    parameters=Parameters,
    reads=("overflow", "loss_scale"),
    severities=("warning",),
    advice=_ADVICE,
)
