"""Rule `loss_oscillation`: the loss became a saw-tooth.

Definition: blocks of B = max(25, min(100, n/40), n/400) points, max(20, n/24) under 1,000 points, each
with its line taken out; A = half the interquartile range of the rest. A block oscillates when A > 0.13 of
its level, A > 1.8 times the median of the 12 blocks before and A/level > 2.5 times that of all before (at
least 4; without the first 5 % and the last two), and the lag-1 autocorrelation is below 0.6; it goes on
while 0.7 of that holds; for at least 200 points, or min(200, n/8) where it reaches the end.

Source: measured definition of this project.

Quiet when: the loss fails the ratio gate; it was noisy from the start; the amplitude falls.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import blocks, lag1, number, quantiles, ratio_loss
from tb_mindformers_plugin.health.series import RunSeries

_ADVICE = {
    "oscillation": Text(
        "Lower the learning rate (or raise the momentum's damping, or the batch size): steps overshoot the minimum "
        "from side to side.",
        "降低学习率（或增大批大小、减小动量）：每步更新在极小值两侧来回越过。",
    )
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `loss_oscillation`.

    Attributes:
      amplitude: least amplitude, as a part of the level.
      growth: least growth of the amplitude.
      relative_growth: least growth of the amplitude as a part of the level.
      hold: it goes on while it has this part of the amplitude and of its growth.
      correlation: lag-1 autocorrelation is below this.
      points: fewest points.
    """

    amplitude: float = 0.13
    growth: float = 1.8
    relative_growth: float = 2.5
    hold: float = 0.7
    correlation: float = 0.6
    points: int = 200


_FEWEST_BEFORE = 4
# A level that falls takes its absolute amplitude with it: that is compared with so many blocks before.
_RECENT = 12


def loss_oscillation(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns one finding for each stretch that oscillates.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> loss = 2 + 0.02 * np.sin(np.arange(2000.0) ** 2)
    >>> loss[1200:] += 0.6 * (-1.0) ** np.arange(800)
    >>> (found,) = loss_oscillation(of_values(loss=loss))
    >>> found.severity, abs(found.first_step - 1200) <= 50
    ('warning', True)
    """
    p = parameters
    loss = ratio_loss(run)
    if loss is None:
        return []
    n = len(loss)
    size = int(max(20, n / 24) if n < 1000 else max(25, min(100, n / 40), n / 400))
    rows = blocks(loss.value, size)
    if len(rows) < _FEWEST_BEFORE + 3:
        return []
    x = np.arange(size) - (size - 1) / 2
    level = np.median(rows, axis=1)
    rest = rows - rows.mean(axis=1, keepdims=True) - (rows @ x / (x @ x))[:, None] * x
    low, high = quantiles(np.sort(rest, axis=1), (0.25, 0.75))
    amplitude = (high - low) / 2
    relative = amplitude / level
    skip = int(np.ceil(0.05 * len(rows)))
    found: list[tuple[int, int]] = []
    first = None
    for b in range(skip + _FEWEST_BEFORE, len(rows)):
        # What it is compared with ends before the stretch begins.
        before = slice(skip, (b if first is None else first) - 2)
        if before.stop - skip < _FEWEST_BEFORE - 2:
            continue
        wild = (
            amplitude[b] > p.amplitude * level[b]
            and amplitude[b]
            > p.growth
            * min(np.median(amplitude[max(before.stop - _RECENT, skip) : before.stop]), np.median(amplitude[before]))
            and relative[b] > p.relative_growth * np.median(relative[before])
            and lag1(rest[b]) < p.correlation
        )
        if wild and first is None:
            first = b
        usual = float(np.median(relative[before]))
        holds = wild or (relative[b] > p.hold * p.amplitude and relative[b] > p.hold * p.relative_growth * usual)
        if first is not None and (not holds or b == len(rows) - 1):
            found.append((first, b if holds else b - 1))
            first = None
    result = []
    for begin, last in found:
        to_end = last == len(rows) - 1
        if (last - begin + 1) * size < (min(p.points, n / 8) if to_end else p.points):
            continue
        half = (begin + last + 1) // 2
        if last - begin >= 3 and np.median(relative[half : last + 1]) < 0.7 * np.median(relative[begin:half]):
            continue  # it settles
        top = begin + int(np.argmax(relative[begin : last + 1]))
        base = float(np.median(relative[skip : max(begin - 2, skip + 1)]))
        start, end = begin * size, n - 1 if to_end else (last + 1) * size - 1
        step = int(loss.step[start])
        swing, wide = float(amplitude[top]), float(relative[top])
        still = (
            ("; it goes on", "，仍在持续")
            if to_end
            else (f" until step {int(loss.step[end]):,}", f"，持续到第 {int(loss.step[end]):,} 步")
        )
        result.append(
            loss.finding(
                RULE.id,
                "warning",
                (start, end, top * size + size // 2),
                Text(
                    f"Loss swings by ±{number(swing)} (±{wide:.0%} of its level, ±{base:.0%} before) from step "
                    f"{step:,} on{still[0]}.",
                    f"损失从第 {step:,} 步起以 ±{number(swing)} 的幅度振荡（为其水平的 ±{wide:.0%}，此"
                    f"前为 ±{base:.0%}）{still[1]}。",
                ),
                _ADVICE["oscillation"],
                {"amplitude": swing, "relative": wide, "before": base, "still_on": to_end},
            )
        )
    return result


RULE = Rule(
    id="loss_oscillation",
    title=Text("the loss became a saw-tooth", "损失锯齿状振荡"),
    function=loss_oscillation,
    parameters=Parameters,
    reads=("loss",),
    severities=("warning",),
    advice=_ADVICE,
)
