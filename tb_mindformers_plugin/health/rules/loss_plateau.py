"""Rule `loss_plateau`: the loss makes no progress.

Definition: asked each time when the points have grown by an eighth or less: at 64, 72, … 120 blocks of 8, 16,
32, … points (512 points and more), each block the mean of medians of 8. Over the blocks from k to that time, k
at 1/16, 1/8, … 3/4 of them, the least-squares line changes by D, to an error of SE = sigma(residuals)
sqrt(12/m), m the blocks. Flat: -max(2.5 SE, 0.1 %) < D < max(3 %, 3 SE), precise (2.5 SE < 5 % of the level),
and flat from the middle of [k, end] on too. The earliest such k is the first step. Warning if the learning
rate is known and has been at least 0.9 of its peak throughout, and the loss is still flat now. Info if it is
flat now, or was so when a warning was given. It cannot tell "converged" from "stuck".

Source: measured definition of this project.

Quiet when: the loss fails the ratio gate; the learning rate ends below a tenth of its peak (a late
decay); the level is below 3 % of the first.
"""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import Part
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import blocks, ratio_loss
from tb_mindformers_plugin.health.series import Floats, Indices, Mask, RunSeries, Series
from tb_mindformers_plugin.language import number, percent

_ADVICE = {
    "plateau": Text(
        "Decide whether this is where the model should end: if the loss is higher than comparable runs reach, look "
        "at the learning rate, the data and frozen weights; if not, it has converged and may be decayed or stopped.",
        "判断这是否就是预期终点：若高于同类训练的水平，请检查学习率、数据以及是否有冻结的权重；否则说明已收敛，可衰减学习率或停止。",
    )
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `loss_plateau`.

    Attributes:
      points: fewest points.
      fall: a fall by more than this part of the level is progress.
      rise: a rise by more than this part is no plateau.
      errors: a change by so many standard errors is one.
      precise: the error must be below this part of the level.
    """

    points: int = 500
    fall: Part = 0.001
    rise: float = 0.03
    errors: float = 2.5
    precise: float = 0.05


# Points whose median is taken, and blocks that are looked at: 64, 72, … 120.
_MEDIAN = 8
_FEWEST = 64
_STARTS = np.arange(1, 13) / 16


@dataclasses.dataclass(frozen=True)
class _Flat:
    """A flat stretch: its first point, the one behind its last, level and change."""

    first: int
    stop: int
    level: float
    change: float


def loss_plateau(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns one finding a stretch.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> noise = 0.02 * np.sin(np.arange(2000.0) ** 2)
    >>> loss = np.concatenate([np.linspace(4, 3, 800), np.full(1200, 3)]) + noise
    >>> (found,) = loss_plateau(of_values(loss=loss, lr=np.full(2000, 1e-3)))
    >>> found.severity, abs(found.first_step - 800) < 200
    ('warning', True)
    """
    p = parameters
    loss = ratio_loss(run)
    if loss is None or len(loss) < max(p.points, _FEWEST * _MEDIAN):
        return []
    lr = run.finite("lr")
    asked, flat = _marks(loss, p)
    told: list[Tuple[_Flat, bool]] = []  # a stretch, and whether it was a warning
    for stretch in flat:
        if not _may_stand(loss, lr, stretch):
            continue
        steady = _steady(loss, lr, stretch)
        if told and stretch.first < told[-1][0].stop:
            # What was warned of keeps its beginning.
            last, warned = told.pop()
            told.append((dataclasses.replace(stretch, first=last.first if warned else stretch.first), warned or steady))
        else:
            told.append((stretch, steady))
    found = []
    for stretch, warned in told:
        on = stretch.stop == asked
        if on or warned:
            found.append(_finding(loss, stretch, warned and on and _steady(loss, lr, stretch), on))
    return found


def _marks(loss: Series, p: Parameters) -> Tuple[int, list[_Flat]]:
    """The last time at which it was asked, in points, and what was flat at each."""
    rows = np.sort(blocks(loss.value, _MEDIAN), axis=1)
    y = (rows[:, _MEDIAN // 2 - 1] + rows[:, _MEDIAN // 2]) / 2
    found: list[_Flat] = []
    size, asked = _MEDIAN, 0
    while len(y) >= _FEWEST:
        counts = np.arange(_FEWEST, min(len(y), 2 * _FEWEST - 1) + 1, 8)
        stop = np.repeat(counts, len(_STARTS))
        start = (stop * np.tile(_STARTS, len(counts))).astype(np.int64)
        flat, level, change = _flat(y[:128], start, stop, p)
        flat &= level >= 0.03 * float(y[0])
        if flat.any():
            flat &= _flat(y[:128], start + (stop - start) // 2, stop, p)[0]
        for count in np.unique(stop[flat]).tolist():
            k = int(np.argmax(flat & (stop == count)))
            found.append(_Flat(int(start[k]) * size, count * size, float(level[k]), float(change[k])))
        asked = int(counts[-1]) * size
        size *= 2
        y = blocks(y, 2).mean(axis=1)
    return asked, found


def _flat(y: Floats, start: Indices, stop: Indices, p: Parameters) -> Tuple[Mask, Floats, Floats]:
    """(w,) whether each y[start:stop] is flat, its mean, and its change along the least-squares line."""
    m = (stop - start).astype(np.float64)
    at = np.arange(len(y))
    # From the mean of all, so that squares lose nothing.
    centre = float(y.mean())
    sums = [np.concatenate([[0.0], np.cumsum(v)]) for v in (y - centre, (y - centre) ** 2, (y - centre) * at)]
    total, square, product = (s[stop] - s[start] for s in sums)
    mean = total / m
    spread = m * (m**2 - 1) / 12
    slope = (product - total * (start + stop - 1) / 2) / spread
    rest = np.maximum(square - total * mean - slope**2 * spread, 0)
    error = np.sqrt(rest / np.maximum(m - 2, 1) * 12 / m)
    change = slope * (m - 1)
    level = mean + centre
    flat = (change > -np.maximum(p.errors * error, p.fall * level)) & (change < np.maximum(p.rise * level, 3 * error))
    return flat & (p.errors * error < p.precise * level) & (m >= 8), level, change


def _may_stand(loss: Series, lr: Optional[Series], stretch: _Flat) -> bool:
    """Whether the learning rate had not decayed when it was flat: then it may well stand still."""
    if lr is None:
        return True
    until = lr.value[: lr.at_or_after(int(loss.step[stretch.stop - 1]) + 1)]
    return not len(until) or until[-1] >= 0.1 * until.max()


def _steady(loss: Series, lr: Optional[Series], stretch: _Flat) -> bool:
    """Whether the learning rate was at its peak throughout."""
    if lr is None:
        return False
    first = lr.at_or_after(int(loss.step[stretch.first]))
    until = lr.value[: lr.at_or_after(int(loss.step[stretch.stop - 1]) + 1)]
    return first < len(until) and float(until[first:].min()) >= 0.9 * float(until.max())


def _finding(loss: Series, stretch: _Flat, steady: bool, on: bool) -> Finding:
    begin, end = stretch.first, len(loss) - 1 if on else stretch.stop - 1
    step, part = int(loss.step[begin]), (end - begin + 1) / (end + 1)
    change = percent(1 + stretch.change / stretch.level)
    ends = ("", "") if on else ("; it has moved on since", "；之后已有变化")
    return loss.finding(
        RULE.id,
        "warning" if steady else "info",
        (begin, end, begin),
        Text(
            f"Loss has stayed at {number(stretch.level)} since step {step:,} ({part:.0%} of the points so far, change "
            f"{change}): converged or stuck, which its curve alone does not tell{ends[0]}.",
            f"损失自第 {step:,} 步起停留在 {number(stretch.level)}（占已有记录点的 {part:.0%}，变化 "
            f"{change}）：可能已收敛，也可能停滞，仅凭曲线无法判断{ends[1]}。",
        ),
        _ADVICE["plateau"],
        {"level": stretch.level, "change": stretch.change, "part": part, "lr_steady": steady, "still_on": on},
    )


RULE = Rule(
    id="loss_plateau",
    title=Text("the loss makes no progress", "损失停滞不前"),
    function=loss_plateau,
    parameters=Parameters,
    reads=("loss",),
    severities=("warning", "info"),
    advice=_ADVICE,
)
