"""Rule `epoch_step_mismatch`: the epoch does not fit the step.

Definition: with the manifest's `steps_per_epoch`, an epoch that is more than 1.05 + 1 % away from step /
steps_per_epoch for 10 points or more (an epoch may be counted from 1, or in whole numbers), or, where it
is no whole number, went on by more than 10 % (and 0.05) more or less than the steps did; or an epoch
that goes back inside one segment. Warning.

Source: measured definition of this project.

Quiet when: the epoch goes back at a restart; fewer than 10 points are off.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Optional

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import Part
from tb_mindformers_plugin.health.points import places
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import near_joins
from tb_mindformers_plugin.health.series import Floats, Mask, RunSeries, Series
from tb_mindformers_plugin.language import number

_ADVICE = {
    "mismatch": Text(
        "Check steps_per_epoch, gradient accumulation and what was restored at the restart: data may be repeated or "
        "left out.",
        "检查 steps_per_epoch、梯度累积以及恢复训练时还原的状态：数据可能被重复或遗漏。",
    )
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `epoch_step_mismatch`.

    Attributes:
      epochs: an epoch may be off by so much.
      part: and by this part of it.
      pace: a fractional epoch may have gone on by this part more or less than the steps, or of half an epoch.
      points: fewest points that are off.
    """

    epochs: float = 1.05
    part: Part = 0.01
    pace: float = 0.1
    points: int = 10


def epoch_step_mismatch(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns at most one finding.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> (found,) = epoch_step_mismatch(of_values(epoch=[0.0, 0.1, 0.2, 0.1, 0.2]))
    >>> found.severity, found.first_step
    ('warning', 3)
    """
    p = parameters
    curve = run.finite("epoch")
    if curve is None or len(curve) < 2:
        return []
    back = places(curve, _goes_back, before=1)
    back = back[~near_joins(run, curve, back, 0, 1)]
    if len(back):
        i = int(back[0])
        step = int(curve.step[i])
        before, after = (float(value) for value in curve.values(i - 1, i + 1))
        was, became = number(before), number(after)
        return [
            curve.finding(
                RULE.id,
                "warning",
                (i, int(back[-1]), i),
                Text(
                    f"Epoch goes back from {was} to {became} at step {step:,}, without a restart.",
                    f"第 {step:,} 步的 epoch 从 {was} 倒退到 {became}，但并没有重启。",
                ),
                _ADVICE["mismatch"],
                {"times": len(back), "before": before, "after": after},
            )
        ]
    per_epoch = run.manifest.steps_per_epoch
    if not per_epoch or per_epoch <= 0:
        return []
    known = curve.extended((RULE.id, p, per_epoch), lambda known, count: _counted(curve, per_epoch, known, count, p))
    # Where it is not counted in whole epochs its pace can be told.
    at = known.any if known.fractions / len(curve) > 0.5 else known.place
    if at.points < p.points:
        return []
    i, last = at.first, at.last
    step, end = int(curve.step[i]), int(curve.step[last])
    now, due = float(curve.values(last, last + 1)[0]), float(curve.step[last] / per_epoch)
    value, should = number(now), number(due)
    return [
        curve.finding(
            RULE.id,
            "warning",
            (i, last, last),
            Text(
                f"Epoch does not fit the step from step {step:,} on: it is {value} at step {end:,}, where "
                f"{per_epoch:,} steps per epoch make {should}.",
                f"从第 {step:,} 步起 epoch 与步数不符：第 {end:,} 步的 epoch 为 {value}，而按每 epoch "
                f"{per_epoch:,} 步应为 {should}。",
            ),
            _ADVICE["mismatch"],
            {"points": at.points, "epoch": now, "expected": due},
        )
    ]


def _goes_back(value: Floats) -> Mask:
    return np.diff(value) < -1e-6 * np.maximum(np.abs(value[1:]), 1)


class _At(NamedTuple):
    """How many points there are of a kind, and the first and last of them."""

    points: int = 0
    first: int = 0
    last: int = 0

    def and_of(self, mask: Mask, begin: int) -> _At:
        """With those of the points from `begin` on."""
        more = np.flatnonzero(mask)
        if not len(more):
            return self
        first = self.first if self.points else begin + int(more[0])
        return _At(self.points + len(more), first, begin + int(more[-1]))


class _Counted(NamedTuple):
    """Points whose epoch is no whole number, whose epoch is off, and whose epoch or pace is."""

    fractions: int = 0
    place: _At = _At()
    any: _At = _At()


def _counted(curve: Series, per_epoch: int, known: Optional[_Counted], count: int, p: Parameters) -> _Counted:
    """The points from `count` on, with what is known of those before."""
    known = known or _Counted()
    value, expected = curve.values(count), curve.step[count:] / per_epoch
    off = np.abs(value - expected) > p.epochs + p.part * expected
    gone, due = value - float(curve.stored[0]), expected - curve.step[0] / per_epoch
    pace = np.abs(gone - due) > p.pace * (0.5 + due)
    fractions = int(np.count_nonzero(value != np.rint(value)))
    return _Counted(known.fractions + fractions, known.place.and_of(off, count), known.any.and_of(off | pace, count))


RULE = Rule(
    id="epoch_step_mismatch",
    title=Text("the epoch does not fit the step", "epoch 与步数不符"),
    function=epoch_step_mismatch,
    parameters=Parameters,
    reads=("epoch",),
    severities=("warning",),
    advice=_ADVICE,
)
