"""Rule `throughput_drop`: slower than before.

Definition: without the first 10 points, medians m of 10 points of the throughput (or of 1 / step time);
ref = running maximum of the medians of 4 blocks; slow when m < 0.8 ref and ref - m > 5 s/sqrt 10, s the
sigma of a block, for at least 50 points; and their median is below 0.8 of, and 4 sigmas below, what the
400 blocks before were as a rule (a machine that is now fast, now slow, has no drop). Warning if it is on
at the end or lasts max(200 points, 5 % of those so far), else info. The first step is where 12 blocks
before and 12 behind differ most.

Source: measured definition of this project.

Quiet when: single steps are slow (an eval, a checkpoint); between steps nothing is measured (a pause).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Iterator, Optional, Tuple

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import AnyPoints, Part
from tb_mindformers_plugin.health.points import of_blocks
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import levels, median4, sigma_iqr, stretches
from tb_mindformers_plugin.health.series import Floats, RunSeries, Series
from tb_mindformers_plugin.language import number, share

_ADVICE = {
    "slow": Text(
        "Look at what else began there: data loading, a busy file system or network, a slow or throttled device, a "
        "longer sequence length.",
        "查看当时还发生了什么：数据加载、文件系统或网络繁忙、设备变慢或降频，或序列变长。",
    )
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `throughput_drop`.

    Attributes:
      part: slow is below this part of the best.
      errors: and below it by so many standard errors.
      points: fewest points.
      warning_points: so many points are a warning.
      warning_part: as are so many of the points so far.
      sigmas: and below the blocks before by so many of their sigmas.
      skip: points at the beginning that do not count.
    """

    part: Part = 0.8
    errors: float = 5.0
    points: int = 50
    warning_points: int = 200
    warning_part: Part = 0.05
    sigmas: float = 4.0
    skip: AnyPoints = 10


_BLOCK = 10
# The speed that counts as 1, so that no sum of some overflows: a power of two, by which nothing is rounded.
_UNIT = 2.0**8
_HISTORY = 400
# Blocks that the best speed is the median of.
_BEST = 4


def throughput_drop(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns one finding for each slow stretch.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> (found,) = throughput_drop(of_values(throughput=[1000.0] * 500 + [600.0] * 300))
    >>> found.severity, found.first_step
    ('warning', 500)
    """
    pace = _pace(run, parameters)
    if pace is None:
        return []
    return [_finding(pace, drop, parameters) for drop in _drops(pace, parameters)]


@dataclasses.dataclass(frozen=True, eq=False)
class _Pace:
    """Speed, in blocks of 10 points.

    Attributes:
      curve: what it is told by, without the beginning.
      timed: whether that is the time of a step.
      median, sigma: (k,) of the blocks.
    """

    curve: Series
    timed: bool
    median: Floats
    sigma: Floats

    def as_logged(self, speed: float) -> float:
        """A speed in the terms of the curve."""
        return 1 / speed / _UNIT if self.timed else speed * _UNIT


def _pace(run: RunSeries, p: Parameters) -> Optional[_Pace]:
    curve = run.finite("throughput")
    timed = curve is None
    if curve is None:
        curve = run.finite("step_time")
    if curve is None:
        return None
    curve = curve.positive.cut(p.skip)
    if len(curve) < 8 * _BLOCK:
        return None
    return _Pace(curve, timed, *of_blocks(curve, _BLOCK, _paces if timed else _speeds))


def _speeds(rows: Floats) -> Tuple[Floats, Floats]:
    return levels(rows / _UNIT)


def _paces(rows: Floats) -> Tuple[Floats, Floats]:
    return levels(1 / rows / _UNIT)


@dataclasses.dataclass(frozen=True)
class _Drop:
    """First and last slow block, and the speed as it was before."""

    first: int
    last: int
    usual: float


def _drops(pace: _Pace, p: Parameters) -> Iterator[_Drop]:
    m = pace.median
    for first, last in _slow(pace, p):
        before = m[max(first - _HISTORY, 0) : first]
        usual = float(np.median(before))
        least = min(p.part * usual, usual - p.sigmas * sigma_iqr(before))
        # Judged when there are enough points, and whenever there are twice as many.
        within, fewest = m[first : last + 1], _fewest_blocks(p)
        lengths = [fewest << k for k in range(len(within).bit_length()) if fewest << k <= len(within)]
        if any(float(np.median(within[:length])) <= least for length in lengths):
            yield _Drop(first, last, usual)


def _slow(pace: _Pace, p: Parameters) -> list[Tuple[int, int]]:
    """First and last block of each long stretch that is slower than the best before it."""
    m = pace.median
    if not (m[1:] < p.part * np.maximum.accumulate(m)[:-1]).any():
        return []
    four, sigma = (median4(each) for each in (m, pace.sigma))
    best = np.maximum.accumulate(four)
    at = np.maximum.accumulate(np.where(four == best, np.arange(len(four)), 0))
    # What was best before each block, and how noisy that was.
    b = np.arange(_BEST, len(m))
    ref, noise = best[b - _BEST], np.maximum(sigma[at[b - _BEST]], sigma[b - _BEST + 1])
    slow = (m[b] < p.part * ref) & (ref - m[b] > p.errors * noise / math.sqrt(_BLOCK))
    return [
        (first + _BEST, last + _BEST)
        for first, last in stretches(slow, bridge=1)
        if (last - first + 1) * _BLOCK >= p.points
    ]


def _fewest_blocks(p: Parameters) -> int:
    return -(-p.points // _BLOCK)


def _finding(pace: _Pace, drop: _Drop, p: Parameters) -> Finding:
    m, first, last = pace.median, drop.first, drop.last
    on = last >= len(m) - 2
    long = (last - first + 1) * _BLOCK >= max(p.warning_points, p.warning_part * (last + 1) * _BLOCK)
    begin = _contrast(m[: first + _fewest_blocks(p)], first) * _BLOCK
    end = len(pace.curve) - 1 if on else min((last + 1) * _BLOCK, len(pace.curve)) - 1
    if begin >= end:
        begin = first * _BLOCK
    now = float(np.median(m[first : last + 1]))
    fall, was, became = 1 - now / drop.usual, pace.as_logged(drop.usual), pace.as_logged(now)
    return pace.curve.finding(
        RULE.id,
        "warning" if on or long else "info",
        (begin, end, (first + int(np.argmin(m[first : last + 1]))) * _BLOCK),
        _sentence(pace, begin, None if on else end, fall, was, became),
        _ADVICE["slow"],
        {"before": was, "now": became, "fall": fall, "still_on": on},
    )


def _sentence(pace: _Pace, begin: int, end: Optional[int], fall: float, was: float, became: float) -> Text:
    step = f"{int(pace.curve.step[begin]):,}"
    en, zh = f"from step {step} on, to the last point", f"从第 {step} 步起变慢 {share(fall)}，到最后一点仍未恢复"
    if end is not None:
        until = f"{int(pace.curve.step[end]):,}"
        en, zh = f"from step {step} to {until}", f"第 {step} 至 {until} 步变慢 {share(fall)}"
    what = Text("Steps take", "每步耗时") if pace.timed else Text("Throughput is", "吞吐量为")
    return Text(
        f"Training is {share(fall)} slower {en}. {what.en} {number(became)}, was {number(was)}.",
        f"训练{zh}。{what.zh} {number(became)}，此前为 {number(was)}。",
    )


def _contrast(m: Floats, first: int) -> int:
    """The block near `first` where the 12 before and the 12 behind differ most."""
    places = range(max(first - 4, 1), min(first + 5, len(m)))
    return max(places, key=lambda i: float(np.mean(m[max(i - 12, 0) : i]) - np.mean(m[i : i + 12])))


RULE = Rule(
    id="throughput_drop",
    title=Text("slower than before", "训练变慢"),
    function=throughput_drop,
    parameters=Parameters,
    reads=("throughput", "step_time"),
    severities=("warning", "info"),
    advice=_ADVICE,
)
