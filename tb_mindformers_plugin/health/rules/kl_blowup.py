"""Rule `kl_blowup`: the policy runs away from its reference.

Definition: the median of 5 points of the KL above 10 times the median so far (of at least 50 points, and
above 1e-3), or the KL rising over 20 % of the points so far, in their later half (medians of 8
blocks of 8, 16, 32, … points with Kendall S >= 26 of 28 and at least three-fold). Warning.

Source: measured definition of this project.

Quiet when: no KL is logged; fewer than 50 points.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Optional, Tuple

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import Part, Times, at_least
from tb_mindformers_plugin.health.points import of_blocks
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import agreement, medians, pair_means
from tb_mindformers_plugin.health.series import RunSeries, Series
from tb_mindformers_plugin.language import number, times

_ADVICE = {
    "kl": Text(
        "Raise the KL coefficient or lower the learning rate, and read some samples: the policy may be exploiting "
        "the reward.",
        "提高 KL 系数或降低学习率，并抽查若干样本：策略可能在钻奖励的空子。",
    )
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `kl_blowup`.

    Attributes:
      times: above so many medians.
      least: a KL below this is none.
      points: fewest points before it is judged.
      part: rising over this part of the points so far.
      growth: least growth over that part.
    """

    times: Times = 10.0
    least: float = 1e-3
    points: Annotated[int, at_least(5)] = 50
    part: Part = 0.2
    growth: float = 3.0


def kl_blowup(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns at most one finding.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> (found,) = kl_blowup(of_values(kl=[0.02] * 200 + [0.5] * 20))
    >>> found.severity, found.first_step
    ('warning', 200)
    """
    p = parameters
    kl = run.finite("kl")
    if kl is None or len(kl) < p.points:
        return []
    v = kl.value
    spans = [span for span in (_jump(kl, p), _rise(kl, p)) if span is not None]
    if not spans:
        return []
    # The first that could be seen dates it.
    _, first, _, usual = min(spans)
    last = max(span[2] for span in spans)
    top = first + int(np.argmax(v[first : last + 1]))
    ratio = float(v[top]) / usual if usual > 0 else float("inf")
    step = int(kl.step[first])
    return [
        kl.finding(
            RULE.id,
            "warning",
            (first, last, top),
            Text(
                f"KL went from {number(usual)} to {number(float(v[top]))} ({times(ratio)}) from step {step:,} on.",
                f"从第 {step:,} 步起 KL 由 {number(usual)} 升至 {number(float(v[top]))}（{times(ratio)}）。",
            ),
            _ADVICE["kl"],
            {"before": usual, "peak": float(v[top]), "ratio": ratio},
        )
    ]


def _jump(kl: Series, p: Parameters) -> Optional[Tuple[int, int, int, float]]:
    """Point at which it is seen, first and last point high above the median so far (of blocks of 50 points)."""
    v = kl.value
    (rows,) = of_blocks(kl, p.points, medians)
    # Taken anew each time that there is a tenth more.
    growing = np.unique((1.1 ** np.arange(math.ceil(math.log(len(rows) + 1) / math.log(1.1)))).astype(int))
    marks = growing[growing <= len(rows)]
    taken = np.array([np.median(rows[:mark]) for mark in marks])
    usual = taken[np.maximum(np.searchsorted(marks * p.points, np.arange(len(v)), side="right") - 1, 0)]
    least = np.maximum(p.times * usual, p.least)[4:]
    high = np.zeros(len(v), bool)
    # The median of five lies above where three of them do.
    high[4:] = np.sum([v[i : len(v) - 4 + i] > least for i in range(5)], axis=0) >= 3
    high[: p.points] = False
    at = np.flatnonzero(high)
    if not len(at):
        return None
    seen = first = int(at[0])
    level = float(usual[first])
    while first > 0 and v[first - 1] > max(p.times * level, p.least):
        first -= 1
    return seen, first, int(at[-1]), level


def _rise(kl: Series, p: Parameters) -> Optional[Tuple[int, int, int, float]]:
    """The same of the windows of 8 blocks, of 8, 16, 32, … points each, in which it rises."""
    found: list[Tuple[int, int, float]] = []
    (y,) = of_blocks(kl, 8, medians)
    size = 8
    while len(y) >= 8:
        windows = np.lib.stride_tricks.sliding_window_view(y, 8)
        first = np.arange(len(windows)) * size
        stop = first + 8 * size
        # The KL of a young run rises from 0: what counts goes on from a level.
        counts = (8 * size >= p.part * stop) & (first >= stop / 2) & (windows[:, 0] > p.least / 10)
        counts &= windows[:, -1] > np.maximum(p.growth * windows[:, 0], p.least)
        at = np.flatnonzero(counts)
        at = at[agreement(windows[at]) >= 26]
        found += [(int(stop[i]), int(first[i]), float(y[i])) for i in at]
        size, y = 2 * size, pair_means(y)
    if not found:
        return None
    seen, begin, level = min(found)
    return seen, begin, max(found)[0] - 1, level


RULE = Rule(
    id="kl_blowup",
    title=Text("the policy runs away from its reference", "策略远离参考模型（KL 激增）"),
    function=kl_blowup,
    parameters=Parameters,
    reads=("kl",),
    severities=("warning",),
    advice=_ADVICE,
)
