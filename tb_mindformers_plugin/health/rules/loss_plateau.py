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
import functools
import math
from typing import Iterator, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import Part
from tb_mindformers_plugin.health.points import highest, lowest
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import medians, pair_means, ratio_loss
from tb_mindformers_plugin.health.series import Floats, Indices, RunSeries, Series
from tb_mindformers_plugin.language import number, percent, share

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


class _Flat(NamedTuple):
    """A flat stretch: its first point, the one behind its last, level and change."""

    first: int
    stop: int
    level: float
    change: float


class _Asked(NamedTuple):
    """What is known of the first points of a loss.

    Attributes:
      size: points of the blocks that are looked at now.
      y: (k,) level of each.
      asked: the last time at which it was asked, in points.
      flat: what was flat then and before.
    """

    size: int = _MEDIAN
    y: Floats = np.empty(0)
    asked: int = 0
    flat: Tuple[_Flat, ...] = ()


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
    known = loss.extended((RULE.id, p), lambda known, _: _asked(loss, known or _Asked(), p))
    asked, flat = known.asked, known.flat
    if not flat:
        return []
    lr = run.finite("lr")
    told: list[Tuple[_Flat, bool]] = []  # a stretch, and whether it was a warning
    for stretch, steady in _standing(loss, lr, flat):
        if told and stretch.first < told[-1][0].stop:
            # What was warned of keeps its beginning.
            last, warned = told.pop()
            told.append((stretch._replace(first=last.first) if warned else stretch, warned or steady))
        else:
            told.append((stretch, steady))
    found = []
    for stretch, warned in told:
        on = stretch.stop == asked
        if on or warned:
            found.append(_finding(loss, stretch, warned and on and _steady(loss, lr, stretch), on))
    return found


def _asked(loss: Series, known: _Asked, p: Parameters) -> _Asked:
    """What there is to know of all points, by what was known of the first of them."""
    size, y, asked, found = known
    before = len(y)
    while True:
        y = np.concatenate([y, _levels(loss.values(len(y) * size, 2 * _FEWEST * size), size)])
        plan = _plan(before, len(y))
        if plan is not None:
            asked = int(plan.stop[-1]) * size
            found += _flats(y, size, plan, p)
        if len(y) < 2 * _FEWEST:
            return _Asked(size, y, asked, found)
        size, y, before = 2 * size, pair_means(y), 0


def _levels(values: Floats, size: int) -> Floats:
    """(k,) level of each whole block of `size` points: the mean of medians of 8."""
    (y,) = medians(values[: len(values) // size * size].reshape(-1, _MEDIAN))
    for _ in range((size // _MEDIAN).bit_length() - 1):
        y = pair_means(y)
    return y


class _Plan(NamedTuple):
    """The windows [start, stop) of blocks that are looked at, (2 w,): w, and then the later half of each.

    Attributes:
      middle: of the blocks' numbers.
      blocks: in a window.
      spread: sum of squares of the blocks' numbers, from their middle.
      part: square of the error of the change, over the variance of a block.
    """

    start: Indices
    stop: Indices
    middle: Floats
    blocks: Floats
    spread: Floats
    part: Floats


@functools.lru_cache(maxsize=256)
def _plan(before: int, now: int) -> Optional[_Plan]:
    """What is asked of `now` blocks and was not yet of `before`; None where that is nothing."""
    counts = [count for count in range(_FEWEST, min(now, 2 * _FEWEST - 1) + 1, 8) if count > before]
    if not counts:
        return None
    stop = np.repeat(counts, len(_STARTS))
    start = (stop * np.tile(_STARTS, len(counts))).astype(np.int64)
    start = np.concatenate([start, start + (stop - start) // 2])
    stop = np.concatenate([stop, stop])
    m = (stop - start).astype(np.float64)
    return _Plan(start, stop, (start + stop - 1) / 2, m, m * (m**2 - 1) / 12, 12 / m / np.maximum(m - 2, 1))


_NUMBERS = np.arange(2.0 * _FEWEST)


def _flats(y: Floats, size: int, plan: _Plan, p: Parameters) -> Tuple[_Flat, ...]:
    """Of each number of blocks the flat window that begins first, where there is one."""
    m, spread, windows = plan.blocks, plan.spread, len(plan.stop) // 2
    # From about their level, so that squares lose nothing.
    centre = float(np.add.reduce(y[:_FEWEST])) / _FEWEST
    sums = np.zeros((3, len(y) + 1))
    rest = np.subtract(y, centre, out=sums[0, 1:])
    np.multiply(rest, rest, out=sums[1, 1:])
    np.multiply(rest, _NUMBERS[: len(y)], out=sums[2, 1:])
    np.add.accumulate(sums, axis=1, out=sums)
    total, square, product = sums.take(plan.stop, axis=1) - sums.take(plan.start, axis=1)
    mean = total / m
    slope = (product - total * plan.middle) / spread
    error = np.sqrt(np.maximum(square - total * mean - slope * slope * spread, 0) * plan.part)
    change = slope * (m - 1)
    level = mean + centre
    flat = (change > -np.maximum(p.errors * error, p.fall * level)) & (change < np.maximum(p.rise * level, 3 * error))
    flat &= (p.errors * error < p.precise * level) & (m >= 8)
    flat = (flat[:windows] & flat[windows:] & (level[:windows] >= 0.03 * y[0])).reshape(-1, len(_STARTS))
    found = np.flatnonzero(flat.any(axis=1)) * len(_STARTS) + flat.argmax(axis=1)[flat.any(axis=1)]
    columns = plan.start[found] * size, plan.stop[found] * size, level[found], change[found]
    return tuple([_Flat(*row) for row in zip(*(column.tolist() for column in columns))])


def _standing(loss: Series, lr: Optional[Series], flat: Sequence[_Flat]) -> Iterator[Tuple[_Flat, bool]]:
    """Yields the stretches in which the loss may well stand still, and whether the learning rate was at its peak then.

    It may where the learning rate had not decayed by the end of the stretch. They end one after the other.
    """
    if lr is None:
        yield from ((stretch, False) for stretch in flat)
        return
    firsts = np.searchsorted(lr.step, loss.step[[stretch.first for stretch in flat]]).tolist()
    stops = np.searchsorted(lr.step, loss.step[[stretch.stop - 1 for stretch in flat]], side="right").tolist()
    peak, before = -math.inf, 0
    for stretch, first, stop in zip(flat, firsts, stops):
        if stop > before:
            peak, before = max(peak, highest(lr, before, stop)), stop
        if not stop or float(lr.stored[stop - 1]) >= 0.1 * peak:
            high = first < stop and float(lr.stored[first]) >= 0.9 * peak
            yield stretch, high and lowest(lr, first, stop) >= 0.9 * peak


def _steady(loss: Series, lr: Optional[Series], stretch: _Flat) -> bool:
    """Whether the learning rate was at its peak throughout."""
    if lr is None:
        return False
    first = lr.at_or_after(int(loss.step[stretch.first]))
    stop = lr.at_or_after(int(loss.step[stretch.stop - 1]) + 1)
    return first < stop and lowest(lr, first, stop) >= 0.9 * highest(lr, 0, stop)


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
            f"Loss has stayed at {number(stretch.level)} since step {step:,} ({share(part)} of the points so far, "
            f"change {change}): converged or stuck, which its curve alone does not tell{ends[0]}.",
            f"损失自第 {step:,} 步起停留在 {number(stretch.level)}（占已有记录点的 {share(part)}，变化 "
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
