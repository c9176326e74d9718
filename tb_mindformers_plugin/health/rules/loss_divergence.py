"""Rule `loss_divergence`: the loss left its level and stayed away.

Definition: medians y and sigmas of 32-point blocks; best = running minimum of the medians of three blocks
behind the warm-up. The loss has left when y - best > max(0.2 best, 1.25 sigma now or at best, 3 e) for at
least max(96 points, 2 % of the points so far), one block between counting as such; e is the error of a
block's median, taken from the steps between the last 64 of them (noise that hangs together makes it large).
The start is dated back while y > best + max(3 %, half a sigma). Where the learning rate rises more than 1.5
times within 8 blocks (a warm restart), best begins anew 8 blocks later, and until then what was best counts
1.67 times. Critical: still on, peak above 1.5 best, not falling (last three blocks below 0.9 of the first
three), and the learning rate had not risen more than 1.5 times since best when it left, or the peak is above
4 best, which no restart of a schedule explains. Info: the learning rate rose and the peak is below twice best
(a warm restart), or it came back inside the first tenth. Else warning.

Source: measured definition of this project.

Quiet when: the loss fails the ratio gate; in the warm-up.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Iterator, Sequence, Tuple

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import Part, Times
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import (
    BLOCK,
    MAD_TO_SIGMA,
    block_levels,
    median3,
    ratio_loss,
    stretches,
    warmup_end,
)
from tb_mindformers_plugin.health.rolling import noise_before
from tb_mindformers_plugin.health.series import Floats, Indices, RunSeries, Series
from tb_mindformers_plugin.language import number, percent

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
    z: float = 1.25
    points: int = 96
    part: Part = 0.02
    critical_rise: Times = 1.5
    lost_rise: Times = 4.0


# Blocks within which a restart of the schedule raises the learning rate, and in which the loss settles behind it.
_SETTLE = 8
# A restart of the schedule explains a loss of so many times best, less the rise that is asked for.
_RESTART = 1.67


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
    levels = block_levels(loss)
    y, s = levels.median, levels.sigma
    start = -(-warmup_end(run, loss) // BLOCK)
    if len(y) < start + 4:
        return []
    lowest = np.minimum.accumulate(y[start:])[:-1]
    if not (y[start + 1 :] - lowest > parameters.rise * lowest).any():
        return []
    restarts = _restarts(run, loss, start)
    best, at = _best(y, start, restarts)
    error = noise_before(np.abs(np.diff(y, prepend=y[:1])))[:-1] * _STEP_TO_SIGMA
    noise = np.maximum(parameters.z * np.maximum(s, s[at]), 3 * error)
    found = list(_stretches(y, s, best, at, noise, parameters))
    if restarts:
        # What a restart explains is told, too, up to where the loss leaves its level behind the restart.
        best, at = _best(y, start, [])
        own = list(found)
        for begin, end, place in _stretches(y, s, best, at, np.maximum(noise, parameters.z * s[at]), parameters):
            later = [first for first, last, _ in own if last >= begin and first <= end]
            end = min([end, *(first - 2 for first in later)])
            if end >= begin:
                found.append((begin, end, place))
    joined: list[Tuple[int, int, int]] = []
    for first, last, place in sorted(found):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(last, joined[-1][1]), joined[-1][2]
        else:
            joined.append((first, last, place))
    return [_divergence(run, loss, y, s, *stretch, parameters) for stretch in joined]


# sigma / median absolute difference of neighbours, of a normal distribution.
_STEP_TO_SIGMA = MAD_TO_SIGMA / math.sqrt(2)


def _restarts(run: RunSeries, loss: Series, start: int) -> list[int]:
    """First blocks behind the warm-up in which the learning rate rises much within a few."""
    lr = run.finite("lr")
    if lr is None:
        return []
    ends = loss.step[BLOCK - 1 :: BLOCK]
    value = lr.values_at(ends)
    rises = np.append(False, value[1:] > value[:-1])
    found = []
    for first, last in stretches(rises, bridge=1):
        if first > start and last - first < _SETTLE and value[last] > 1.5 * value[first - 1]:
            found.append(first)
    return found


def _best(y: Floats, start: int, restarts: Sequence[int]) -> Tuple[Floats, Indices]:
    """(k,) what was best before each block, and the block at which it was; infinite where nothing is known.

    What was best before a block does not contain it: its own fall is no rise.
    """
    best, at = np.full(len(y), np.inf), np.zeros(len(y), np.int64)
    begins = [start, *(restart + _SETTLE for restart in restarts)]
    changes = [*restarts, len(y)]
    for begin, change in zip(begins, changes):
        smooth = median3(y[begin:change])  # of blocks begin + i .. begin + i + 2
        if len(smooth):
            lowest = np.minimum.accumulate(smooth)
            where = np.maximum.accumulate(np.where(smooth == lowest, np.arange(len(smooth)), 0)) + begin + 1
            known = begin + 3 + np.arange(len(smooth))
            inside = known < len(y)
            own = known[inside & (known <= change)]
            nearer = lowest[: len(own)] < best[own]
            best[own[nearer]], at[own[nearer]] = lowest[: len(own)][nearer], where[: len(own)][nearer]
            # Behind the restart it counts so many times.
            later = best[change:] > _RESTART * lowest[-1]
            best[change:][later], at[change:][later] = _RESTART * lowest[-1], where[-1]
    return best, at


def _stretches(
    y: Floats, s: Floats, best: Floats, at: Indices, noise: Floats, p: Parameters
) -> Iterator[Tuple[int, int, int]]:
    """Yields (first, last, best) blocks of each stretch that counts."""
    for first, last in stretches(y - best > np.maximum(p.rise * best, noise), bridge=1):
        # Enough of the points so far, at some time.
        so_far = (np.arange(first, last + 1) + 1) * BLOCK
        if (np.arange(1, last - first + 2) * BLOCK < np.maximum(p.points, p.part * so_far)).all():
            continue
        level, place = float(best[first]), int(at[first])
        begin = first
        while begin - 1 > place and y[begin - 1] > level + max(0.03 * level, 0.5 * s[begin - 1]):
            begin -= 1
        yield begin, last, place


def _divergence(
    run: RunSeries, loss: Series, y: Floats, s: Floats, first: int, last: int, at: int, p: Parameters
) -> Finding:
    x = loss.value
    best = float(np.median(y[max(at - 1, 0) : at + 2]))
    on = last >= len(y) - 2
    top = first + int(np.argmax(y[first : last + 1]))
    peak = top * BLOCK + int(np.argmax(x[top * BLOCK : (top + 1) * BLOCK]))
    begin = _onset(x, first * BLOCK, best + max(0.03 * best, 0.5 * float(s[at])))
    end = len(x) - 1 if on else (last + 1) * BLOCK - 1
    ratio = float(y[top]) / best
    rose = run.lr_rise(int(loss.step[at * BLOCK]), int(loss.step[min(begin + BLOCK, end)]))
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
    for i in range(first, min(first + BLOCK, len(x) - 8)):
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
