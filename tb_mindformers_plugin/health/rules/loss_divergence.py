"""Rule `loss_divergence`: the loss left its level and stayed away.

Definition: medians y and sigmas of 32-point blocks; best = running minimum of the medians of three blocks
behind the warm-up. The loss has left when y - best > max(0.2 best, sigma now, sigma at best) for at least
max(96 points, 2 % of the points so far), one block between counting as such. The start is dated back
while y > best + max(3 %, half a sigma). Sigmas are widened where the noise is autocorrelated. Critical:
still on, peak above 1.5 best, not falling (last three blocks below 0.9 of the first three), and the
learning rate had not risen more than 1.5 times since best when it left, or the peak is above 4 best,
which no restart of a schedule explains. Info: the learning rate rose and the peak is below twice best (a
warm restart), or it came back inside the first tenth. Else warning.

Source: measured definition of this project.

Quiet when: the loss fails the ratio gate; in the warm-up.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Iterator, Tuple

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import blocks, lag1, levels, median3, number, percent, ratio_loss, warmup_end
from tb_mindformers_plugin.health.series import Floats, RunSeries, Series

_ADVICE = {
    "on": Text(
        "Stop, and resume from the checkpoint before this step with a lower learning rate or tighter clipping; "
        "look at the grad norm and the data there.",
        "停止训练，从该步之前的检查点以更低学习率或更紧的梯度裁剪恢复；并查看当时的梯度范数和数据。",
    ),
    "over": Text(
        "Look at what happened at the first step (learning rate, grad norm, data); the run came back, but time "
        "was lost.",
        "查看起始步发生了什么（学习率、梯度范数、数据）；训练已恢复，但损失了时间。",
    ),
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `loss_divergence`.

    Attributes:
      rise: least rise over the best level, as a part of it.
      z: least rise, in sigmas.
      points: fewest points.
      part: fewest points, as a part of the points so far.
      critical_rise: a peak this many times best is critical.
      lost_rise: a peak this many times best is critical whatever the learning rate did.
    """

    rise: float = 0.2
    z: float = 1.0
    points: int = 96
    part: float = 0.02
    critical_rise: float = 1.5
    lost_rise: float = 4.0


_BLOCK = 32


def loss_divergence(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns one finding each time the loss left its level.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> loss = np.concatenate([np.linspace(4, 2, 1000), np.linspace(2, 8, 400)]) + 0.01 * np.sin(np.arange(1400.0))
    >>> (found,) = loss_divergence(of_values(loss=loss))
    >>> found.severity, abs(found.first_step - 1000) < 64
    ('critical', True)
    """
    loss = ratio_loss(run)
    if loss is None:
        return []
    y, s = levels(blocks(loss.value, _BLOCK))
    start = -(-warmup_end(run, loss) // _BLOCK)
    found: list[Tuple[int, int, int]] = []
    for first, last, at in _stretches(y, s * _correlated(loss.value, y), start, parameters):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], last, found[-1][2]
        else:
            found.append((first, last, at))
    return [_divergence(run, loss, y, s, *stretch, parameters) for stretch in found]


def _correlated(x: Floats, y: Floats) -> float:
    """By how much noise that hangs together widens the sigma that a level is compared with; at least 1.

    The median of a block is known to 1.25 sigma / sqrt(points), times sqrt((1 + rho)/(1 - rho)); three of
    these are below one sigma unless rho, the lag-1 autocorrelation, is large.
    """
    rest = blocks(x, _BLOCK) - y[:, None]
    rho = min(max(lag1(rest.ravel()), 0.0), 0.9)
    return max(1.0, 3 * 1.25 / math.sqrt(_BLOCK) * math.sqrt((1 + rho) / (1 - rho)))


def _stretches(y: Floats, s: Floats, start: int, p: Parameters) -> Iterator[Tuple[int, int, int]]:
    """Yields (first, last, best) blocks of each stretch that counts."""
    if len(y) < start + 4:
        return
    smooth = median3(y[start:])  # of blocks start + k .. start + k + 2
    lowest = np.minimum.accumulate(smooth)
    where = np.maximum.accumulate(np.where(smooth == lowest, np.arange(len(smooth)), 0))
    # What was best before a block does not contain it: its own fall is no rise.
    b = np.arange(start + 3, len(y))
    best = lowest[b - start - 3]
    at = where[b - start - 3] + start + 1
    away = y[b] - best > np.maximum(p.rise * best, p.z * np.maximum(s[b], s[at]))
    left = np.flatnonzero(away)
    k = 0
    while k < len(left):
        first = last = int(left[k])
        counts = False
        while k < len(left) and left[k] - last <= 2:
            last = int(left[k])
            so_far = (b[last] + 1) * _BLOCK
            counts |= (last - first + 1) * _BLOCK >= max(p.points, p.part * so_far)
            k += 1
        if counts:
            level, place = float(best[first]), int(at[first])
            begin = int(b[first])
            while begin - 1 > place and y[begin - 1] > level + max(0.03 * level, 0.5 * s[begin - 1]):
                begin -= 1
            yield begin, int(b[last]), place


def _divergence(
    run: RunSeries, loss: Series, y: Floats, s: Floats, first: int, last: int, at: int, p: Parameters
) -> Finding:
    x = loss.value
    best = float(np.median(y[max(at - 1, 0) : at + 2]))
    on = last >= len(y) - 2
    top = first + int(np.argmax(y[first : last + 1]))
    peak = top * _BLOCK + int(np.argmax(x[top * _BLOCK : (top + 1) * _BLOCK]))
    begin = _onset(x, first * _BLOCK, best + max(0.03 * best, 0.5 * float(s[at])))
    end = len(x) - 1 if on else (last + 1) * _BLOCK - 1
    ratio = float(y[top]) / best
    rose = run.lr_rise(int(loss.step[at * _BLOCK]), int(loss.step[min(begin + _BLOCK, end)]))
    stretch = y[first : last + 1]
    falling = len(stretch) >= 6 and float(np.median(stretch[-3:])) < 0.9 * float(np.median(stretch[:3]))
    if on and not falling and (ratio > p.lost_rise or (ratio > p.critical_rise and rose <= 1.5)):
        severity = "critical"
    elif (rose > 1.5 and ratio < 2) or (not on and end < len(x) / 10):
        severity = "info"
    else:
        severity = "warning"
    step = int(loss.step[begin])
    en = (
        f"Loss left its level of {number(best)} at step {step:,} and rose to {number(float(y[top]))} ({percent(ratio)})"
    )
    zh = f"损失在第 {step:,} 步离开 {number(best)} 的水平，升至 {number(float(y[top]))}（{percent(ratio)}）"
    if on and falling:
        en, zh = en + "; it is falling again", zh + "，目前正在回落"
    elif on:
        en, zh = en + "; it has not come back", zh + "，尚未恢复"
    else:
        back = int(loss.step[end])
        en, zh = en + f"; it was back by step {back:,}", zh + f"，第 {back:,} 步恢复"
    if rose > 1.5:
        en, zh = en + " (the learning rate rose meanwhile)", zh + "（期间学习率升高）"
    return loss.finding(
        "loss_divergence",
        severity,
        (begin, end, peak),
        Text(en + ".", zh + "。"),
        _ADVICE["on" if on else "over"],
        {"best": best, "peak": float(y[top]), "ratio": ratio, "still_on": on, "lr_rose": rose},
    )


def _onset(x: Floats, first: int, threshold: float) -> int:
    """The first point in the block at `first` from which on most points lie above `threshold`."""
    for i in range(first, min(first + _BLOCK, len(x) - 8)):
        if x[i] > threshold and float(np.median(x[i : i + 8])) > threshold:
            return i
    return first


RULE = Rule(
    id="loss_divergence",
    title=Text("the loss left its level and stayed away", "损失偏离原有水平且未回落"),
    function=loss_divergence,
    parameters=Parameters,
    reads=("loss",),
    severities=("critical", "warning", "info"),
    advice=_ADVICE,
)
