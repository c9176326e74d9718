"""Rule `loss_rising`: the loss rises slowly.

Definition: medians of 32-point blocks, averaged in pairs again and again, so that 8 neighbours span
256 x 2^k points. Such a window rises when Kendall's S is at least 22 of 28 and the mean of its last
three exceeds that of its first three by more than max(4 %, 5 SE), SE = 2 x 1.25 sqrt(2/3) sigma/sqrt(B),
B the points of a block; the window has at least 5 % of the points so far. Windows that overlap are one rise,
which begins where the first of them to be seen shows it. Warning if the end is still more than 3 % above the
level it started from, else info.

Source: Kendall's rank correlation as a test of trend (Mann, 1945); block sizes measured by this project.

Quiet when: the loss fails the ratio gate; in the warm-up; while the learning rate rises in the window.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Tuple

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import Limits, Part
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import (
    BLOCK,
    agreement,
    block_levels,
    median3,
    pair_means,
    ratio_loss,
    warmup_end,
)
from tb_mindformers_plugin.health.series import Floats, Indices, RunSeries, Series
from tb_mindformers_plugin.language import number, percent

_ADVICE = {
    "rising": Text(
        "Look at the learning rate and the data from this step on: a slow rise often means a learning rate that is "
        "too high for this stage, or a drift in the data.",
        "查看从该步起的学习率和数据：缓慢上升通常意味着当前阶段学习率过高，或数据分布发生漂移。",
    )
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `loss_rising`.

    Attributes:
      rise: least rise in a window, as a part of its first level.
      errors: least rise, in standard errors.
      agreement: least Kendall S of 8 neighbours (28 at most).
      part: a window's fewest points, as a part of the points so far.
      still: an end above the start by this part is a warning.
    """

    rise: float = 0.04
    errors: float = 5.0
    agreement: Annotated[int, Limits(1, 28, whole=True)] = 22
    part: Part = 0.05
    still: float = 0.03


_NEIGHBOURS = 8


def loss_rising(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns one finding for each stretch that rises.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> loss = np.concatenate([np.linspace(4, 2, 500), np.linspace(2, 2.6, 1000)])
    >>> (found,) = loss_rising(of_values(loss=loss))
    >>> found.severity, abs(found.first_step - 500) <= 50
    ('warning', True)
    """
    loss = ratio_loss(run)
    if loss is None:
        return []
    levels = block_levels(loss)
    y = levels.median
    start = -(-warmup_end(run, loss) // BLOCK)
    windows: list[Tuple[int, int]] = []
    size, level = 1, y
    while len(level) >= _NEIGHBOURS:
        for i in _rises(level, levels.sigma, size, parameters).tolist():
            first, stop = i * size, (i + _NEIGHBOURS) * size
            if first >= start and not _lr_rises(run, loss, first, stop):
                windows.append((stop, (i + int(np.argmin(level[i : i + 3]))) * size))
        size *= 2
        level = pair_means(level)
    found: list[Tuple[int, int]] = []
    for stop, first in sorted(windows):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], stop)
        else:
            found.append((_onset(y, first, stop), stop))
    return [_finding(run, loss, y, first, stop, parameters) for first, stop in found]


def _rises(level: Floats, sigma: Floats, size: int, p: Parameters) -> Indices:
    """The first of each 8 neighbours that rise, of the levels of `size` blocks each; sigma is of the blocks."""
    three = level[:-2] + level[1:-1] + level[2:]
    start, end = three[: 3 - _NEIGHBOURS] / 3, three[_NEIGHBOURS - 3 :] / 3
    at = (end - start > p.rise * start).nonzero()[0]
    if not len(at):
        return at
    for _ in range(size.bit_length() - 1):
        sigma = pair_means(sigma)
    windows = np.lib.stride_tricks.sliding_window_view(level, _NEIGHBOURS)
    noise = np.lib.stride_tricks.sliding_window_view(sigma, _NEIGHBOURS)[at].mean(axis=1)
    error = 2 * 1.25 * math.sqrt(2 / 3) * noise / math.sqrt(size * BLOCK)
    so_far = (at + _NEIGHBOURS) * size * BLOCK
    rises = (end[at] - start[at] > p.errors * error) & (_NEIGHBOURS * size * BLOCK >= p.part * so_far)
    at = at[rises]
    return at[agreement(windows[at]) >= p.agreement]


def _lr_rises(run: RunSeries, loss: Series, first: int, stop: int) -> bool:
    last = min(stop * BLOCK, len(loss)) - 1
    return run.lr_rise(int(loss.step[first * BLOCK]), int(loss.step[last])) > 1.01


def _finding(run: RunSeries, loss: Series, y: Floats, first: int, stop: int, p: Parameters) -> Finding:
    begin, end = first * BLOCK, min(stop * BLOCK, len(loss)) - 1
    base = float(np.median(y[max(first - 1, 0) : first + 2]))
    top = first + int(np.argmax(y[first:stop]))
    now = float(np.median(loss.value[-4 * BLOCK :]))
    still = now > (1 + p.still) * base
    ratio = float(y[top]) / base
    step = int(loss.step[begin])
    last = int(loss.step[end])
    en = (
        f"Loss rose slowly from {number(base)} at step {step:,} to {number(float(y[top]))} "
        f"({percent(ratio)}) by step {last:,}"
    )
    zh = (
        f"损失从第 {step:,} 步的 {number(base)} 缓慢上升，到第 {last:,} 步升至 "
        f"{number(float(y[top]))}（{percent(ratio)}）"
    )
    ends = ("; it is still up", "，目前仍偏高") if still else ("; it has come back since", "，之后已回落")
    return loss.finding(
        "loss_rising",
        "warning" if still else "info",
        (begin, end, min(top * BLOCK + BLOCK // 2, len(loss) - 1)),
        Text(en + ends[0] + ".", zh + ends[1] + "。"),
        _ADVICE["rising"],
        {"before": base, "peak": float(y[top]), "ratio": ratio, "now": now, "still_on": still},
    )


def _onset(y: Floats, first: int, stop: int) -> int:
    """The block at which the rise began: where the line through a quarter and three quarters of it starts."""
    smooth = median3(y[first:stop])
    if len(smooth) < 4:
        return first
    low, high = float(smooth[:3].min()), float(smooth.max())
    quarter = int(np.argmax(smooth > low + (high - low) / 4)) + 1
    most = int(np.argmax(smooth > low + (high - low) * 3 / 4)) + 1
    return first + max(quarter - (most - quarter) // 2, 0)


RULE = Rule(
    id="loss_rising",
    title=Text("the loss rises slowly", "损失缓慢上升"),
    function=loss_rising,
    parameters=Parameters,
    reads=("loss",),
    severities=("warning", "info"),
    advice=_ADVICE,
)
