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

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import AnyPoints, Part
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import blocks, levels, sigma_iqr, stretches
from tb_mindformers_plugin.health.series import Floats, RunSeries
from tb_mindformers_plugin.language import number

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
_HISTORY = 400


def throughput_drop(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns one finding for each slow stretch.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> (found,) = throughput_drop(of_values(throughput=[1000.0] * 500 + [600.0] * 300))
    >>> found.severity, found.first_step
    ('warning', 500)
    """
    p = parameters
    curve = run.finite("throughput")
    timed = curve is None
    if curve is None:
        curve = run.finite("step_time")
    if curve is None:
        return []
    curve = curve.picked(curve.value > 0)
    curve = curve.picked(slice(p.skip, None))
    if len(curve) < 8 * _BLOCK:
        return []
    speed = 1 / curve.value if timed else curve.value
    unit = float(speed.max())
    speed = speed / unit  # no sum of two overflows
    m, s = levels(blocks(speed, _BLOCK))
    if not (m[1:] < p.part * np.maximum.accumulate(m)[:-1]).any():
        return []
    four = np.median(np.lib.stride_tricks.sliding_window_view(m, 4), axis=1)
    sigma = np.median(np.lib.stride_tricks.sliding_window_view(s, 4), axis=1)
    best = np.maximum.accumulate(four)
    at = np.maximum.accumulate(np.where(four == best, np.arange(len(four)), 0))
    # ref of block b is what was best before it.
    b = np.arange(4, len(m))
    ref, noise = best[b - 4], np.maximum(sigma[at[b - 4]], sigma[b - 3])
    slow = (m[b] < p.part * ref) & (ref - m[b] > p.errors * noise / math.sqrt(_BLOCK))
    found = []
    for first, last in stretches(slow, bridge=1):
        if (last - first + 1) * _BLOCK < p.points:
            continue
        within = m[b[first] : b[last] + 1]
        before = m[max(int(b[first]) - _HISTORY, 0) : int(b[first])]
        usual = float(np.median(before))
        least = min(p.part * usual, usual - p.sigmas * sigma_iqr(before))
        # Judged when there are enough points, and whenever there are twice as many.
        fewest = -(-p.points // _BLOCK)
        lengths = [fewest << k for k in range(len(within).bit_length()) if fewest << k <= len(within)]
        if all(float(np.median(within[:length])) > least for length in lengths):
            continue
        now = float(np.median(within))
        on = last >= len(slow) - 2
        points = (last - first + 1) * _BLOCK
        long = points >= max(p.warning_points, p.warning_part * (int(b[last]) + 1) * _BLOCK)
        begin = _contrast(m[: int(b[first]) + fewest], int(b[first])) * _BLOCK
        end = len(curve) - 1 if on else min((int(b[last]) + 1) * _BLOCK, len(curve)) - 1
        if begin >= end:
            begin = int(b[first]) * _BLOCK
        step = int(curve.step[begin])
        fall = 1 - now / usual
        ends = (
            ("; it is still slow", "，仍未恢复")
            if on
            else (f" until step {int(curve.step[end]):,}", f"，持续到第 {int(curve.step[end]):,} 步")
        )
        was, became = (1 / usual / unit, 1 / now / unit) if timed else (usual * unit, now * unit)
        what = ("Steps take", "每步耗时") if timed else ("Throughput is", "吞吐量为")
        found.append(
            curve.finding(
                RULE.id,
                "warning" if on or long else "info",
                (begin, end, int(b[first + int(np.argmin(m[b[first] : b[last] + 1]))]) * _BLOCK),
                Text(
                    f"Training is {fall:.0%} slower from step {step:,} on{ends[0]}. {what[0]} {number(became)}, was "
                    f"{number(was)}.",
                    f"训练从第 {step:,} 步起变慢 {fall:.0%}{ends[1]}。{what[1]} {number(became)}，此前"
                    f"为 {number(was)}。",
                ),
                _ADVICE["slow"],
                {"before": was, "now": became, "fall": fall, "still_on": on},
            )
        )
    return found


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
