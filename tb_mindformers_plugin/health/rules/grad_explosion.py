"""Rule `grad_explosion`: the grad norm jumped.

Definition: the jump test of `loss_spike` on the logarithm of the grad norm: more than ln 10 above the
median of the 128 points before, sigma at least 0.05. Critical: the loss is not finite within 50 points,
or its level rose by more than max(6 sigma, 20 %). Warning: 60 times the median or more, or 30 times at
two points or more, or the median of the next 10 losses more than 3 sigma up. Else info. More than 5
groups that the loss did not follow, and more than one per 200 points so far, are one info from then on: the
grad norm is heavy-tailed.

Source: measured definition of this project.

Quiet when: less than ten-fold. Info at steps that a dynamic loss scale skipped.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Tuple

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import AnyPoints, Times
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import BLOCK, groups, ratio_loss, sigma_iqr
from tb_mindformers_plugin.health.rolling import baseline, may_exceed
from tb_mindformers_plugin.health.series import RunSeries, Series
from tb_mindformers_plugin.language import number, times

_ADVICE = {
    "explosion": Text(
        "Clip gradients (or lower the threshold), and look at the batches of these steps; if the loss does not "
        "come back, resume from the checkpoint before with a lower learning rate.",
        "启用梯度裁剪（或降低阈值），并查看这些步的数据批次；若损失不恢复，请从之前的检查点以更低学习率恢复训练。",
    ),
    "tail": Text(
        "Look at a few of these batches; with clipping on, outliers of this kind are usually harmless.",
        "抽查其中几个批次；已启用梯度裁剪时，这类离群值通常无害。",
    ),
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `grad_explosion`.

    Attributes:
      times: least rise over the median.
      z: least rise of the logarithm, in sigmas.
      tail: least rise of the logarithm, in distances from the median to the 99 % quantile.
      floor: sigma of the logarithm is at least this.
      warning_times: a rise that is a warning at one point.
      warning_times_twice: a rise that is a warning at two points.
      gap: points between two jumps of one explosion, at most.
    """

    times: Times = 10.0
    z: float = 6.0
    tail: float = 2.0
    floor: float = 0.05
    warning_times: Times = 60.0
    warning_times_twice: Times = 30.0
    gap: AnyPoints = 16


def grad_explosion(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns one finding an explosion, or one for all of a heavy tail.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> norm = 1 + 0.1 * np.sin(np.arange(300.0))
    >>> norm[200] = 90
    >>> (found,) = grad_explosion(of_values(grad_norm=norm))
    >>> found.severity, found.peak_step
    ('warning', 200)
    """
    p = parameters
    curve = run.finite("grad_norm")
    if curve is None:
        return []
    curve = curve.picked(curve.value > 0)
    if not len(curve):
        return []
    rise = math.log(p.times)
    at = may_exceed(curve, np.full(len(curve) // BLOCK + 1, p.times))
    if not len(at):
        return []
    g = np.log(curve.value)
    base = baseline(g, at)
    up = g[at] - base.median
    s = np.maximum(base.sigma(), p.floor)
    jumped = (up > rise) & (up > p.z * s) & (up > p.tail * (base.q99 - base.median))
    at, median = at[jumped], base.median[jumped]
    found = [
        _explosion(run, curve, first, last, median[np.searchsorted(at, first)], p) for first, last in groups(at, p.gap)
    ]
    mild = [f for f in found if not f.evidence["loss_followed"]]
    many = [k for k, f in enumerate(mild) if k >= 5 and k + 1 > curve.at_or_after(f.first_step) / 200]
    if not many:
        return found
    # From then on it is the run's tail; a warning that was given before stands.
    tail = [f for k, f in enumerate(mild) if k >= many[0] or f.severity == "info"]
    return [f for f in found if f not in tail] + [_heavy_tail(curve, tail)]


def _explosion(run: RunSeries, curve: Series, first: int, last: int, median: float, p: Parameters) -> Finding:
    peak = first + int(np.argmax(curve.value[first : last + 1]))
    level = math.exp(median)
    ratio = float(curve.value[peak]) / level
    high = int(np.count_nonzero(curve.value[first : last + 1] > p.warning_times_twice * level))
    broken, risen, moved = _consequence(run, int(curve.step[first]))
    skipped = run.skipped(curve.step[first : last + 1])
    if skipped is not None and skipped[peak - first]:
        severity = "info"
    elif broken or risen:
        severity = "critical"
    elif ratio >= p.warning_times or high >= 2 or moved:
        severity = "warning"
    else:
        severity = "info"
    step = int(curve.step[peak])
    en = (
        f"Grad norm jumped from {number(level)} to {number(float(curve.value[peak]))} ({times(ratio)}) at step {step:,}"
    )
    zh = f"梯度范数在第 {step:,} 步从 {number(level)} 跳到 {number(float(curve.value[peak]))}（{times(ratio)}）"
    if broken:
        en, zh = en + ", and the loss became NaN or infinite", zh + "，随后损失变为 NaN 或无穷大"
    elif risen or moved:
        en, zh = en + ", and the loss rose after it", zh + "，随后损失上升"
    else:
        en, zh = en + "; the loss did not follow", zh + "；损失未受影响"
    return curve.finding(
        "grad_explosion",
        severity,
        (first, last, peak),
        Text(en + ".", zh + "。"),
        _ADVICE["explosion"],
        {
            "before": level,
            "peak": float(curve.value[peak]),
            "ratio": ratio,
            "points": last - first + 1,
            "loss_followed": broken or risen or moved,
        },
    )


def _consequence(run: RunSeries, step: int) -> Tuple[bool, bool, bool]:
    """Whether the loss, behind `step`, was not finite within 50 points; rose to stay; rose over 10 points."""
    curve = run.curves.get("loss")
    if curve is None:
        return False, False, False
    i = curve.at_or_after(step)
    broken = not bool(np.isfinite(curve.value[i : i + 50]).all())
    loss = ratio_loss(run)
    if loss is None:
        return broken, False, False
    i = loss.at_or_after(step)
    before = loss.value[max(i - 64, 0) : i]
    if len(before) < 16 or i >= len(loss):
        return broken, False, False
    m = float(np.median(before))
    s = max(
        sigma_iqr(before - np.linspace(0, 1, len(before)) * (np.median(before[-16:]) - np.median(before[:16]))),
        0.002 * m,
    )
    # A level is what most of the next points have, not the jump itself.
    later = loss.value[i : i + 50]
    risen = len(later) >= 25 and float(np.median(later)) - m > max(6 * s, 0.2 * m)
    soon = loss.value[i : i + 10]
    moved = len(soon) >= 5 and float(np.median(soon)) - m > 3 * s
    return broken, bool(risen), bool(moved)


def _heavy_tail(curve: Series, mild: list[Finding]) -> Finding:
    worst = max(mild, key=lambda f: float(f.evidence["ratio"]))
    first, last, peak = (curve.at_or_after(step) for step in (mild[0].first_step, mild[-1].last_step, worst.peak_step))
    ratio = float(worst.evidence["ratio"])
    return curve.finding(
        "grad_explosion",
        "info",
        (first, last, peak),
        Text(
            f"Grad norm is heavy-tailed: {len(mild):,} outliers of more than ten times its level, up to {times(ratio)} "
            f"at step {worst.peak_step:,}; the loss did not follow.",
            f"梯度范数呈重尾分布：共 {len(mild):,} 次超过平时十倍的离群值，第 {worst.peak_step:,} 步最"
            f"高达 {times(ratio)}；"
            "损失未受影响。",
        ),
        _ADVICE["tail"],
        {"groups": len(mild), "ratio": ratio},
    )


RULE = Rule(
    id="grad_explosion",
    title=Text("the grad norm jumped", "梯度范数突然爆增"),
    function=grad_explosion,
    parameters=Parameters,
    reads=("grad_norm",),
    severities=("critical", "warning", "info"),
    advice=_ADVICE,
)
