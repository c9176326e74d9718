"""Rule `clip_saturation`: the grad norm is above the clip threshold nearly always.

Definition: behind the warm-up, more than 95 % of the last 500 points lie above the manifest's `grad_clip`.
Warning when it was not so from the beginning (128 points), or when it still is and their median is
more than twice the threshold; else info: updates that are always shortened a little are a common choice, and
the norms of a young run are high.

Source: measured definition of this project.

Quiet when: the threshold is unknown; fewer than 500 points.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import Part, Times
from tb_mindformers_plugin.health.points import places
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import groups, warmup_end
from tb_mindformers_plugin.health.series import Floats, Mask, RunSeries, Series
from tb_mindformers_plugin.language import number, share

_ADVICE = {
    "saturated": Text(
        "Check the threshold: when every update is clipped, its length is set by the threshold and the learning "
        "rate alone. Raise it, or lower the learning rate.",
        "检查裁剪阈值：若每次更新都被裁剪，其大小就只由阈值和学习率决定。请提高阈值，或降低学习率。",
    )
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `clip_saturation`.

    Attributes:
      part: the part of the points that lie above.
      points: so many points are looked at.
      warning_times: a median of so many thresholds is a warning.
    """

    part: Part = 0.95
    points: int = 500
    warning_times: Times = 2.0


# Points behind the warm-up that still are its beginning.
_YOUNG = 128


def clip_saturation(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns one finding for each saturated stretch.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> from tb_mindformers_plugin.metadata import RunManifest
    >>> run = dataclasses.replace(of_values(grad_norm=[5.0] * 800), manifest=RunManifest(grad_clip=1.0))
    >>> [found.severity for found in clip_saturation(run)]
    ['warning']
    """
    p = parameters
    norm, threshold = run.finite("grad_norm"), run.manifest.grad_clip
    if norm is None or threshold is None or not threshold > 0 or len(norm) < p.points:
        return []
    start = warmup_end(run, norm)
    full = places(norm, _saturated, p, threshold, before=p.points - 1) - (p.points - 1)
    found = groups(full[full >= start], bridge=p.points)
    return [_finding(norm, threshold, first, last + p.points - 1, first <= start + _YOUNG, p) for first, last in found]


def _saturated(value: Floats, p: Parameters, threshold: float) -> Mask:
    above = np.concatenate([[0], np.cumsum(value > threshold)])
    return above[p.points :] - above[: -p.points] > p.part * p.points


def _finding(norm: Series, threshold: float, first: int, last: int, always: bool, p: Parameters) -> Finding:
    within = norm.value[first : last + 1]
    middle = float(np.median(within))
    # The norms of a young run are high.
    on = last == len(norm) - 1
    part = float(np.mean(within > threshold))
    steps = f"{int(norm.step[first]):,}", f"{int(norm.step[last]):,}"
    return norm.finding(
        RULE.id,
        "warning" if (on and middle > p.warning_times * threshold) or not always else "info",
        (first, last, first + int(np.argmax(within))),
        Text(
            f"Grad norm was above the clip threshold of {number(threshold)} at {share(part)} of the points from step "
            f"{steps[0]} to {steps[1]} (median {number(middle)}).",
            f"第 {steps[0]} 至 {steps[1]} 步有 {share(part)} 的记录点梯度范数高于裁剪阈值 {number(threshold)}"
            f"（中位数 {number(middle)}）。",
        ),
        _ADVICE["saturated"],
        {"threshold": threshold, "median": middle, "part": part, "from_the_beginning": always},
    )


RULE = Rule(
    id="clip_saturation",
    title=Text("above the clip threshold nearly always", "几乎总在裁剪阈值之上"),
    function=clip_saturation,
    parameters=Parameters,
    reads=("grad_norm",),
    severities=("warning", "info"),
    advice=_ADVICE,
)
