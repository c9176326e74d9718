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

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import Part
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.rules.loss_scale_collapse import settling
from tb_mindformers_plugin.health.series import RunSeries

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


def frequent_overflow(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns one finding from the first such window to the last.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> (found,) = frequent_overflow(of_values(overflow=np.arange(1000) % 10 == 0))
    >>> found.severity, found.evidence["skipped"]
    ('warning', 100)
    """
    p = parameters
    scale, curve = run.finite("loss_scale"), run.finite("overflow")
    if curve is not None:
        if not (curve.value > 0).any():
            return []
        lost = (curve.value > 0).astype(float)
        steps_apart = np.ones(len(curve))
    elif scale is not None and len(scale) > 1 and (scale.value > 0).all():
        if not (scale.value[1:] < scale.value[:-1]).any():
            return []
        curve = scale
        lost = np.maximum(np.rint(-np.diff(np.log2(scale.value), prepend=np.log2(scale.value[0]))), 0)
        steps_apart = np.diff(scale.step, prepend=scale.step[:1] - 1).astype(float)
    else:
        return []
    start = 0
    if scale is not None and len(scale) > 1 and np.ptp(scale.value) > 0:
        settled = settling(scale.value, 20, 256.0)
        if settled is None:
            return []
        start = curve.at_or_after(int(scale.step[settled]))
    many = np.concatenate([[0], np.cumsum(lost[start:])])
    apart = np.concatenate([[0], np.cumsum(steps_apart[start:])])
    last = np.arange(1, len(many))
    first = np.maximum(last - p.points, 0)
    lost_here = many[last] - many[first]
    # Where there are not 500 yet, as if the others went well.
    of = np.maximum(apart[last] - apart[first], p.points)
    part = p.part
    if curve.role == "overflow":
        part = 1 - (1 - p.part) ** max(float(np.median(np.diff(curve.step))), 1.0) if len(curve) > 1 else p.part
    frequent = np.flatnonzero(lost_here > part * of)
    if not len(frequent):
        return []
    begin, end = start + int(first[frequent[0]]), start + int(last[frequent[-1]]) - 1
    worst = frequent[int(np.argmax(lost_here[frequent]))]
    # Where it became dense: the beginning from which most overflows stand out of a rare few before.
    within_first = np.arange(begin, start + int(last[frequent[0]]))
    dense = float(lost_here[frequent[0]]) / max(len(within_first), 1) / 2
    begin += int(np.argmax(np.cumsum((lost - dense * steps_apart)[within_first][::-1])[::-1]))
    total = int(lost[begin : end + 1].sum())
    within = float(steps_apart[begin : end + 1].sum())
    steps = f"{int(curve.step[begin]):,}", f"{int(curve.step[end]):,}"
    bound = curve.role == "loss_scale"
    return [
        curve.finding(
            RULE.id,
            "warning",
            (begin, end, start + int(last[worst]) - 1),
            Text(
                f"{'At least ' if bound else ''}{total:,} of {within:,.0f} steps "
                f"({total / within:.0%}) were skipped for "
                f"overflow from step {steps[0]} to {steps[1]}.",
                f"第 {steps[0]} 至 {steps[1]} 步中{'至少' if bound else ''}有 {total:,} 步（共 {within:,.0f} 步，"
                f"{total / within:.0%}）因溢出被跳过。",
            ),
            _ADVICE["overflow"],
            {"skipped": total, "of": within, "part": total / within, "lower_bound": bound},
        )
    ]


RULE = Rule(
    id="frequent_overflow",
    title=Text("too many skipped steps", "因溢出跳过的步过多"),
    function=frequent_overflow,
    parameters=Parameters,
    reads=("overflow", "loss_scale"),
    severities=("warning",),
    advice=_ADVICE,
)
