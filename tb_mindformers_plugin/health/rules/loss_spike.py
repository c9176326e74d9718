"""Rule `loss_spike`: a one-off jump of the loss.

Definition: with m the median and q99 a quantile of the 128 points before (at least 64), a point x is a spike
when all hold: x > 1.1 m; ln(x/m) > 6 s; ln(x/m) > 2 ln(q99/m). s is the sigma of the logarithms: the larger
of what the window has (sigma_iqr, or (q95 - m)/1.645) and what the run had for long (the median of the
sigma_iqr of the last 64 blocks of 32 points, which 128 points alone do not know well), at least 0.01. Below
15 s it must also be 1.1 times as many s out as the second-largest excursion of the run so far (of a block's
highest point over the median of the four blocks before): the run has shown its tail. Where the median of the
last whole block is under the window's lower quartile, and 2 s under its median, the loss has just fallen: then
that block is the window. Points with at most 16 others between them are one spike. It has recovered when the
median of 5 points behind the peak, the highest point so far, falls under m + max(2 s m, a quarter of the
peak's excess) within max(50 points, 1 % of the points so far). Warning when it recovers, or still may; info
("level shift") when it does not: `loss_divergence` judges what follows.

Source: measured definition of this project; the tail terms keep heavy-tailed noise quiet.

Quiet when: the loss fails the ratio gate; from 1 point before to 35 points after a restart. Info when
the learning rate rose more than 1.5 times in the window and the peak is below +50 %.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Optional

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import AnyPoints
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import (
    BLOCK,
    IQR_OF_NORMAL,
    BlockLevels,
    block_levels,
    groups,
    medians,
    near_joins,
    ratio_loss,
)
from tb_mindformers_plugin.health.rolling import (
    LEAST,
    WINDOW,
    baseline,
    may_exceed,
    noise_so_far,
    second_largest_before,
)
from tb_mindformers_plugin.health.series import Floats, RunSeries, Series
from tb_mindformers_plugin.language import number, percent

_ADVICE = {
    "spike": Text(
        "Look at the batches of these steps and at the grad norm before them; if spikes come again, lower the "
        "learning rate, clip gradients harder, or skip such batches.",
        "查看这些步的数据批次以及之前的梯度范数；若反复出现，请降低学习率、收紧梯度裁剪，或跳过这些批次。",
    ),
    "shift": Text(
        "Check what changed at this step: the data mix, the learning rate or the loss itself.",
        "检查该步发生了什么变化：数据配比、学习率，或损失的定义。",
    ),
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `loss_spike`.

    Attributes:
      rise: least rise over the median, as a part of it.
      z: least rise of the logarithm, in sigmas.
      tail: least rise of the logarithm, in distances from the median to the 99 % quantile.
      floor: sigma is at least this.
      beyond: a spike is so many times as far out as the second-largest excursion before it.
      clear: a spike of so many sigmas is one whatever came before.
      gap: points between two jumps of one spike, at most.
      recovery: points in which it must have come back, at least.
    """

    rise: float = 0.1
    z: float = 6.0
    tail: float = 2.0
    floor: float = 0.01
    beyond: float = 1.1
    clear: float = 15.0
    gap: AnyPoints = 16
    recovery: int = 50


def loss_spike(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns one finding a spike.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> loss = 2 + 0.01 * np.sin(np.arange(300.0))
    >>> loss[200] = 5.1
    >>> (found,) = loss_spike(of_values(loss=loss))
    >>> found.severity, found.peak_step
    ('warning', 200)
    """
    p = parameters
    loss = ratio_loss(run)
    if loss is None or len(loss) <= LEAST:
        return []
    levels = block_levels(loss)
    sigma = (_log(levels.high) - _log(levels.low)) / IQR_OF_NORMAL
    noise = np.maximum(noise_so_far(loss, "logarithm", sigma), p.floor)
    at = may_exceed(loss, np.maximum(1 + p.rise, np.exp(p.z * noise)))
    if not len(at):
        return []
    block = at // BLOCK
    base = baseline(loss.stored, at)
    lately = levels.median[block - 1]
    fell = (lately < base.q25) & (_log(lately) < _log(base.median) - 2 * noise[block])
    base = base.where(fell, baseline(loss.stored, block * BLOCK, BLOCK))
    m, logs = base.median, base.logs()
    up = _log(loss.value[at]) - logs.median
    s = np.maximum(noise[block], logs.sigma())
    tail = second_largest_before(_excursions(levels, noise))[block]
    jumped = (loss.value[at] > (1 + p.rise) * m) & (up > p.z * s) & (up > p.tail * (logs.q99 - logs.median))
    jumped &= (up > p.clear * s) | (up > p.beyond * tail * s)
    at, m, s = at[jumped], m[jumped], s[jumped]
    if not len(at):
        return []
    quiet = near_joins(run, loss, at, 1, 35)
    found = []
    for first, last in groups(at, p.gap):
        k = int(np.searchsorted(at, first))
        if not quiet[k]:
            found.append(_spike(run, loss, first, last, float(m[k]), float(s[k]), p))
    return found


_TINY = np.finfo(np.float64).tiny


def _log(values: Floats) -> Floats:
    return np.log(np.maximum(values, _TINY))


def _excursions(levels: BlockLevels, noise: Floats) -> Floats:
    """(k,) how far the highest point of each block lies above the median of the four blocks before, in sigmas."""
    out = np.zeros(len(levels.top))
    if len(out) > 4:
        m = levels.median
        four = np.stack([m[i : len(m) - 4 + i] for i in range(4)])
        before = (four.sum(axis=0) - four.min(axis=0) - four.max(axis=0)) / 2
        out[4:] = np.maximum((_log(levels.top[4:]) - _log(before)) / noise[4:-1], 0)
    return out


@dataclasses.dataclass(frozen=True)
class _Course:
    """How a spike went on.

    Attributes:
      peak: its highest point.
      back: the point at which it had come back; None where it has not.
      pending: whether it may still come back in time.
    """

    peak: int
    back: Optional[int]
    pending: bool


def _course(x: Floats, first: int, last: int, m: float, s: float, p: Parameters) -> _Course:
    jump = first + int(np.argmax(x[first : last + 1]))
    horizon = max(p.recovery, (first + 1) // 100)
    after = x[jump + 1 : last + 1 + horizon + 5]
    back = None
    if len(after) >= 5:
        windows = np.lib.stride_tricks.sliding_window_view(after, 5)
        highest = np.maximum.accumulate(x[jump : jump + len(windows)])
        under = medians(windows)[0] < m + np.maximum(2 * s * m, (highest - m) / 4)
        under &= windows.max(axis=1) <= highest  # else it is still on its way up
        back = jump + 5 + int(np.argmax(under)) if under.any() else None
    seen = x[jump : (jump + len(after) if back is None else back) + 1]
    return _Course(jump + int(np.argmax(seen)), back, back is None and len(after) < horizon)


def _spike(run: RunSeries, loss: Series, first: int, last: int, m: float, s: float, p: Parameters) -> Finding:
    course = _course(loss.value, first, last, m, s, p)
    highest = float(loss.value[course.peak])
    ratio = highest / m
    rose = run.lr_rise(int(loss.step[max(first - WINDOW, 0)]), int(loss.step[first]))
    severity = "warning" if course.back is not None or course.pending else "info"
    if rose > 1.5 and ratio < 1.5:
        severity = "info"
    lingering = _lingering(loss, course.back, m, s)
    return loss.finding(
        RULE.id,
        severity,
        (first, max(last, course.peak if course.back is None else course.back), course.peak),
        _sentence(loss, course, m, lingering, rose, run.running),
        _ADVICE["shift" if course.back is None and not course.pending else "spike"],
        {
            "before": m,
            "peak": highest,
            "ratio": ratio,
            "sigmas": math.log(ratio) / s,
            "recovered": course.back is not None,
            "lingering": lingering,
            "lr_rose": rose,
        },
    )


def _sentence(loss: Series, course: _Course, m: float, lingering: float, lr_rose: float, running: bool) -> Text:
    highest, step = float(loss.value[course.peak]), f"{int(loss.step[course.peak]):,}"
    en = f"Loss jumped from {number(m)} to {number(highest)} ({percent(highest / m)}) at step {step}"
    zh = f"损失在第 {step} 步从 {number(m)} 跳到 {number(highest)}（{percent(highest / m)}）"
    if course.back is not None:
        gone = f"{int(loss.step[course.back]):,}"
        en, zh = en + f" and was back by step {gone}", zh + f"，第 {gone} 步恢复"
        if lingering > 1:
            en, zh = en + f", lingering {percent(lingering)}", zh + f"，但仍偏高 {percent(lingering)}"
    elif course.pending and running:
        en, zh = en + ", and is not back yet", zh + "，尚未恢复"
    elif course.pending:
        en, zh = en + ", and was not back by the last point", zh + "，到最后一个记录点仍未恢复"
    else:
        en, zh = en + " and stayed: a level shift", zh + "，之后没有回落：整体水平移动"
    if lr_rose > 1.5:
        en, zh = en + "; the learning rate rose just before", zh + "；此前学习率刚刚升高"
    return Text(en + ".", zh + "。")


def _lingering(loss: Series, back: Optional[int], m: float, s: float) -> float:
    """The level behind the spike over the level before, where it settles higher; else 1."""
    if back is None:
        return 1.0
    settled = loss.value[back + 32 : back + 96]
    if len(settled) < 16:
        return 1.0
    level = float(np.median(settled))
    return level / m if level > m + max(2 * s, 0.03) * m else 1.0


RULE = Rule(
    id="loss_spike",
    title=Text("a one-off jump of the loss", "损失突然跳升"),
    function=loss_spike,
    parameters=Parameters,
    reads=("loss",),
    severities=("warning", "info"),
    advice=_ADVICE,
)
