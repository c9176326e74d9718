"""Rule `clip_fraction_high`: too much of the policy's updates is clipped.

Definition: a clip fraction above 0.3 in the median of 5 points, for 50 points or more. Warning.

Source: measured definition of this project.

Quiet when: no clip fraction is logged.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import Part
from tb_mindformers_plugin.health.points import places
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import groups
from tb_mindformers_plugin.health.series import Floats, Mask, RunSeries
from tb_mindformers_plugin.language import number

_ADVICE = {
    "clip": Text(
        "Lower the learning rate or the number of updates per batch: the policy moves too far from the one that "
        "sampled.",
        "降低学习率或每批数据的更新次数：策略偏离采样时的策略过远。",
    )
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `clip_fraction_high`.

    Attributes:
      fraction: above this much is clipped.
      points: fewest points.
    """

    fraction: Part = 0.3
    points: int = 50


def clip_fraction_high(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns one finding for each stretch.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> [(f.severity, f.first_step) for f in clip_fraction_high(of_values(clip_fraction=[0.1] * 100 + [0.4] * 100))]
    [('warning', 100)]
    """
    p = parameters
    curve = run.finite("clip_fraction")
    if curve is None or len(curve) < p.points:
        return []
    high = places(curve, _exceeds, p.fraction)
    if not len(high):
        return []
    # The median of five lies above where three of them do; beyond an end there is what is there.
    before, behind = (2 if high[0] == 0 else 0), (2 if high[-1] == len(curve) - 1 else 0)
    high = np.concatenate([np.arange(-before, 0), high, len(curve) + np.arange(behind)])
    near = np.unique(np.clip(high[:, None] + np.arange(-2, 3), 0, len(curve) - 1))
    three = np.searchsorted(high, near + 3) - np.searchsorted(high, near - 2) >= 3
    found = []
    for first, last in groups(near[three], bridge=5):
        if last - first + 1 < p.points:
            continue
        within = curve.values(first, last + 1)
        steps = f"{int(curve.step[first]):,}", f"{int(curve.step[last]):,}"
        level = float(np.median(within))
        found.append(
            curve.finding(
                RULE.id,
                "warning",
                (first, last, first + int(np.argmax(within))),
                Text(
                    f"Clip fraction is {number(level)} from step {steps[0]} to {steps[1]}.",
                    f"第 {steps[0]} 至 {steps[1]} 步的裁剪比例为 {number(level)}，偏高。",
                ),
                _ADVICE["clip"],
                {"level": level, "points": last - first + 1},
            )
        )
    return found


def _exceeds(value: Floats, fraction: float) -> Mask:
    return value > fraction


RULE = Rule(
    id="clip_fraction_high",
    title=Text("too much of the policy's updates is clipped", "策略更新被裁剪的比例过高"),
    function=clip_fraction_high,
    parameters=Parameters,
    reads=("clip_fraction",),
    severities=("warning",),
    advice=_ADVICE,
)
