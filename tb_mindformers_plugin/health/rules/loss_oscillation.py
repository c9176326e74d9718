"""Rule `loss_oscillation`: the loss became a saw-tooth.

Definition: A = half the interquartile range of blocks of 32 points, r = A over the block's median. A block
oscillates when A > 0.13 of its level, r > 2.5 times and A > 1.8 times the median of the 64 blocks before (at
least 4, behind the warm-up); for 6 blocks or more, one between counting as such, whose points have a lag-1
autocorrelation below 0.6. It goes on while r has 0.7 of what that asked for. Warning; info where the
amplitude has fallen to 0.7 of what it was in the first half.

Source: measured definition of this project.

Quiet when: the loss fails the ratio gate; it was noisy from the start.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import Part
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import (
    BLOCK,
    BlockLevels,
    block_levels,
    blocks,
    lag1,
    ratio_loss,
    stretches,
    warmup_end,
)
from tb_mindformers_plugin.health.rolling import noise_before
from tb_mindformers_plugin.health.series import RunSeries, Series
from tb_mindformers_plugin.language import number, share

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
      points: fewest points, in whole blocks.
    """

    amplitude: float = 0.13
    growth: float = 1.8
    relative_growth: float = 2.5
    hold: Part = 0.7
    correlation: Part = 0.6
    points: int = 192


_FEWEST_BEFORE = 4


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
    levels = block_levels(loss)
    level, amplitude = levels.median, (levels.high - levels.low) / 2
    start = -(-warmup_end(run, loss) // BLOCK)
    first = start + _FEWEST_BEFORE
    if len(level) <= first or not (amplitude[first:] > p.amplitude * level[first:]).any():
        return []
    relative = amplitude / level
    usual, before = np.full(len(level), np.inf), np.full(len(level), np.inf)
    usual[first:] = noise_before(relative[start:])[_FEWEST_BEFORE:-1]
    before[first:] = noise_before(amplitude[start:])[_FEWEST_BEFORE:-1]
    wild = (relative > np.maximum(p.amplitude, p.relative_growth * usual)) & (amplitude > p.growth * before)
    found: list[Finding] = []
    reached = -1
    for begin, last in stretches(wild, bridge=1):
        if begin <= reached or (last - begin + 1) * BLOCK < p.points:
            continue
        rows = blocks(loss.value[begin * BLOCK :], BLOCK)[: p.points // BLOCK]
        if lag1((rows - level[begin : begin + len(rows), None]).ravel()) >= p.correlation:
            continue
        least = p.hold * max(p.amplitude, p.relative_growth * float(usual[begin]))
        over = np.flatnonzero((relative[last + 1 : -1] < least) & (relative[last + 2 :] < least))
        reached = last + int(over[0]) if len(over) else len(level) - 1
        found.append(_finding(loss, levels, begin, reached, float(usual[begin])))
    return found


def _finding(loss: Series, levels: BlockLevels, begin: int, last: int, base: float) -> Finding:
    amplitude = (levels.high - levels.low) / 2
    relative = amplitude / levels.median
    to_end = last == len(relative) - 1
    half = (begin + last + 1) // 2
    settles = last - begin >= 3 and np.median(relative[half : last + 1]) < 0.7 * np.median(relative[begin:half])
    top = begin + int(np.argmax(relative[begin : last + 1]))
    start, end = begin * BLOCK, len(loss) - 1 if to_end else (last + 1) * BLOCK - 1
    step = int(loss.step[start])
    swing, wide = float(amplitude[top]), float(relative[top])
    until = f"{int(loss.step[end]):,}"
    if settles:
        still = "; it settles", "，正在平息"
    elif to_end:
        still = "; it goes on", "，仍在持续"
    else:
        still = f" until step {until}", f"，持续到第 {until} 步"
    return loss.finding(
        RULE.id,
        "info" if settles else "warning",
        (start, end, top * BLOCK + BLOCK // 2),
        Text(
            f"Loss swings by ±{number(swing)} (±{share(wide)} of its level, ±{share(base)} before) from step "
            f"{step:,} on{still[0]}.",
            f"损失从第 {step:,} 步起以 ±{number(swing)} 的幅度振荡（为其水平的 ±{share(wide)}，此"
            f"前为 ±{share(base)}）{still[1]}。",
        ),
        _ADVICE["oscillation"],
        {"amplitude": swing, "relative": wide, "before": base, "still_on": to_end, "settles": bool(settles)},
    )


RULE = Rule(
    id="loss_oscillation",
    title=Text("the loss became a saw-tooth", "损失锯齿状振荡"),
    function=loss_oscillation,
    parameters=Parameters,
    reads=("loss",),
    severities=("warning", "info"),
    advice=_ADVICE,
)
