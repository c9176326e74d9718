"""Rule `kl_blowup`: the policy runs away from its reference.

Definition: the median of 5 points of the KL above 10 times the median so far (of at least 50 points, and
above 1e-3), or the KL rising over 20 % of the points so far (medians of 8 blocks with Kendall S >= 26 of 28
and at least three-fold). Warning.

Source: measured definition of this project.

Quiet when: no KL is logged; fewer than 50 points.
"""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import blocks, number, times
from tb_mindformers_plugin.health.series import Floats, RunSeries

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

    times: float = 10.0
    least: float = 1e-3
    points: int = 50
    part: float = 0.2
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
    span = _jump(v, p) or _rise(v, p)
    if span is None:
        return []
    first, last, usual = span
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


def _jump(v: Floats, p: Parameters) -> Optional[Tuple[int, int, float]]:
    """First and last point high above the median so far, which is taken anew every 50 points."""
    high = np.zeros(len(v), bool)
    five = np.full(len(v), -np.inf)
    five[4:] = np.median(np.lib.stride_tricks.sliding_window_view(v, 5), axis=1)
    marks = np.unique(np.linspace(p.points, len(v), min(len(v) // p.points, 400) + 1).astype(int))
    medians = np.array([np.median(v[:mark]) for mark in marks])
    usual = medians[np.maximum(np.searchsorted(marks, np.arange(len(v)), side="right") - 1, 0)]
    high = five > np.maximum(p.times * usual, p.least)
    high[: p.points] = False
    at = np.flatnonzero(high)
    if not len(at):
        return None
    first = int(at[0])
    level = float(usual[first])
    while first > 0 and v[first - 1] > max(p.times * level, p.least):
        first -= 1
    return first, int(at[-1]), level


def _rise(v: Floats, p: Parameters) -> Optional[Tuple[int, int, float]]:
    size = int(p.part * len(v)) // 8
    if size < 5:
        return None
    y = np.median(blocks(v, size), axis=1)
    for i in range(len(y) - 8, -1, -1):
        eight = y[i : i + 8]
        agreement = sum(float(np.sign(eight[b] - eight[a])) for a in range(8) for b in range(a + 1, 8))
        if agreement >= 26 and eight[0] > p.least / 10 and eight[-1] > max(p.growth * eight[0], p.least):
            # The KL of a young run rises from 0: what counts goes on from a level.
            if i * size < len(v) / 4:
                continue
            return i * size, min((i + 8) * size, len(v)) - 1, float(eight[0])
    return None


RULE = Rule(
    id="kl_blowup",
    title=Text("the policy runs away from its reference", "策略远离参考模型（KL 激增）"),
    function=kl_blowup,
    parameters=Parameters,
    reads=("kl",),
    severities=("warning",),
    advice=_ADVICE,
)
