"""Rule `loss_spike`: a one-off jump of the loss.

Definition: with m the median and q95, q99 the quantiles of the 128 points before (at least 64), a point x
is a spike when all hold: x - m > 0.1 |m|; x - m > 6 s with s = max(sigma_iqr, (q95 - m)/1.645, 0.01 |m|);
x - m > 2 (q99 - m); ln(x/m) > 5 s of the logarithms (floor 0.01). Points with at most 16 others between
them are one spike. Below 15 s, and with 1,000 points before, it must also be 1.3 times as many s out as
the second-largest excursion (of 4 s or more) of the run so far: 128 points do not know a heavy tail, the
run does. From 1,000 points on the 6 grows with sqrt(ln n), as the largest of n points does. It has
recovered when a 5-point median falls under m + max(2 s, a quarter of the peak's excess) within max(50
points, 1 % of the points so far). Warning when it recovers, or still may; info ("level shift") when it
does not: `loss_divergence` judges what follows.

Source: measured definition of this project; the tail terms keep heavy-tailed noise quiet.

Quiet when: the loss fails the ratio gate; from 1 point before to 35 points after a restart. Info when
the learning rate rose more than 1.5 times in the window and the peak is below +50 %.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import groups, near_joins, number, percent, ratio_loss
from tb_mindformers_plugin.health.rolling import WINDOW, baseline, may_jump
from tb_mindformers_plugin.health.series import Floats, Indices, RunSeries, Series

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
      z: least rise, in sigmas.
      z_log: least rise of the logarithm, in its sigmas.
      tail: least rise, in distances from the median to the 99 % quantile.
      floor: sigma is at least this part of the median.
      excursion: an excursion of the run's tail, in sigmas.
      beyond: a spike is so many times as far out as the second-largest excursion before it.
      clear: a spike of so many sigmas is one whatever came before.
      known: points before which the run's tail is not known.
      gap: points between two jumps of one spike, at most.
      recovery: points in which it must have come back, at least.
    """

    rise: float = 0.1
    z: float = 6.0
    z_log: float = 5.0
    tail: float = 2.0
    floor: float = 0.01
    excursion: float = 4.0
    beyond: float = 1.3
    clear: float = 15.0
    known: int = 1000
    gap: int = 16
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
    if loss is None:
        return []
    x = loss.value
    at = may_jump(x, p.excursion, relative=p.rise)
    if not len(at):
        return []
    base = baseline(x, at)
    m = base.median
    up = x[at] - m
    s = np.maximum(base.sigma(), p.floor * np.abs(m))
    logs = base.logs()
    s_log = np.maximum(logs.sigma(), p.floor)
    # The largest of n points of noise lies further out the more there are.
    growth = np.sqrt(np.maximum(np.log(at) / math.log(p.known), 1))
    jumped = (up > p.rise * np.abs(m)) & (up > p.z * growth * s) & (up > p.tail * (base.q99 - m))
    jumped &= np.log(np.maximum(x[at], np.finfo(float).tiny)) - logs.median > p.z_log * s_log
    out = up / s
    tail = _tail(at, out, p)
    jumped &= (at < p.known) | (out > p.clear) | (out > p.beyond * tail)
    at, m, s = at[jumped], m[jumped], s[jumped]
    quiet = near_joins(run, loss, 1, 35)
    found = []
    for first, last in groups(at, p.gap):
        if not quiet[first]:
            k = int(np.searchsorted(at, first))
            found.append(_spike(run, loss, first, last, float(m[k]), float(s[k]), p))
    return found


def _tail(at: Indices, out: Floats, p: Parameters) -> Floats:
    """(k,) the second-largest excursion of the run before the one that each candidate belongs to, in sigmas."""
    tail = np.zeros(len(at))
    largest = second = 0.0
    away = np.flatnonzero(out > p.excursion)
    for first, last in groups(at[away], p.gap):
        i, j = np.searchsorted(at, (first, last + 1)).tolist()
        tail[i:j] = second if largest > p.clear else largest
        top = float(out[i:j].max())
        if top > largest:
            largest, second = top, largest
        elif top > second:
            second = top
    return tail


def _spike(run: RunSeries, loss: Series, first: int, last: int, m: float, s: float, p: Parameters) -> Finding:
    x = loss.value
    peak = first + int(np.argmax(x[first : last + 1]))
    excess = float(x[peak]) - m
    horizon = max(p.recovery, (first + 1) // 100)
    after = x[peak + 1 : max(peak, last) + 1 + horizon + 5]
    recovered_at = None
    if len(after) >= 5:
        medians = np.median(np.lib.stride_tricks.sliding_window_view(after, 5), axis=1)
        back = np.flatnonzero(medians < m + max(2 * s, excess / 4))
        recovered_at = peak + 5 + int(back[0]) if len(back) else None
    pending = recovered_at is None and len(after) < horizon
    rose = run.lr_rise(int(loss.step[max(first - WINDOW, 0)]), int(loss.step[first]))
    ratio = float(x[peak]) / m
    severity = "warning" if recovered_at is not None or pending else "info"
    if rose > 1.5 and ratio < 1.5:
        severity = "info"
    lingering = _lingering(loss, recovered_at, m, s)
    step = int(loss.step[peak])
    en = f"Loss jumped from {number(m)} to {number(float(x[peak]))} ({percent(ratio)}) at step {step:,}"
    zh = f"损失在第 {step:,} 步从 {number(m)} 跳到 {number(float(x[peak]))}（{percent(ratio)}）"
    if recovered_at is not None:
        gone = int(loss.step[recovered_at])
        en += f" and was back by step {gone:,}"
        zh += f"，第 {gone:,} 步恢复"
        if lingering > 1:
            en += f", lingering {percent(lingering)}"
            zh += f"，但仍偏高 {percent(lingering)}"
    elif pending:
        en += ", and is not back yet"
        zh += "，尚未恢复"
    else:
        en += " and stayed: a level shift"
        zh += "，之后没有回落：整体水平移动"
    if rose > 1.5:
        en += "; the learning rate rose just before"
        zh += "；此前学习率刚刚升高"
    return loss.finding(
        "loss_spike",
        severity,
        (first, last if recovered_at is None else max(last, recovered_at), peak),
        Text(en + ".", zh + "。"),
        _ADVICE["spike" if recovered_at is not None or pending else "shift"],
        {
            "before": m,
            "peak": float(x[peak]),
            "ratio": ratio,
            "sigmas": excess / s,
            "recovered": recovered_at is not None,
            "lingering": lingering,
            "lr_rose": rose,
        },
    )


def _lingering(loss: Series, recovered_at: object, m: float, s: float) -> float:
    """The level behind the spike over the level before, where it settles higher; else 1."""
    if not isinstance(recovered_at, int):
        return 1.0
    settled = loss.value[recovered_at + 32 : recovered_at + 96]
    if len(settled) < 16:
        return 1.0
    level = float(np.median(settled))
    return level / m if level > m + max(2 * s, 0.03 * m) else 1.0


RULE = Rule(
    id="loss_spike",
    title=Text("a one-off jump of the loss", "损失突然跳升"),
    function=loss_spike,
    parameters=Parameters,
    reads=("loss",),
    severities=("warning", "info"),
    advice=_ADVICE,
)
