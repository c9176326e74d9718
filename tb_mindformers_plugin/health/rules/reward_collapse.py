"""Rule `reward_collapse`: the reward fell from its best.

Definition: the bias-corrected EMA (decay 0.95) of the reward, behind the first 50 points, more than 30 % of
what it had gained (or of its best value, whichever is larger) and more than 4 sigma of the EMA under its
best so far, at the end. Warning.

Source: measured definition of this project.

Quiet when: no reward is logged; fewer than 100 points; it came back.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import IQR_OF_NORMAL, number
from tb_mindformers_plugin.health.series import RunSeries
from tb_mindformers_plugin.runs.smoothing import ema

_ADVICE = {
    "reward": Text(
        "Go back to the checkpoint of the best reward; look at the KL, the entropy and some samples from there on.",
        "回到奖励最高处的检查点；从该处起查看 KL、熵以及若干样本。",
    )
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `reward_collapse`.

    Attributes:
      fall: least fall, as a part of the gain or of the best value.
      sigmas: least fall, in sigmas of the EMA.
      decay: of the EMA.
      skip: points before a best counts.
    """

    fall: float = 0.3
    sigmas: float = 4.0
    decay: float = 0.95
    skip: int = 50


def reward_collapse(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns at most one finding.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> reward = np.concatenate([np.linspace(0, 1, 300), np.linspace(1, 0.2, 200)])
    >>> [f.severity for f in reward_collapse(of_values(reward=reward))]
    ['warning']
    """
    p = parameters
    curve = run.finite("reward")
    if curve is None or len(curve) < 2 * p.skip:
        return []
    smooth = np.asarray(ema(curve.value, p.decay), np.float64)
    low, high = np.percentile(np.diff(curve.value), (25, 75))
    # The EMA averages over about (1 + decay)/(1 - decay) points.
    sigma = float(high - low) / IQR_OF_NORMAL / math.sqrt(2) * math.sqrt((1 - p.decay) / (1 + p.decay))
    best_at = p.skip + int(np.argmax(smooth[p.skip :]))
    best, start = float(smooth[best_at]), float(np.median(curve.value[: p.skip]))
    least = max(p.fall * max(abs(best), best - start), p.sigmas * sigma)
    now = float(smooth[-1])
    if not (least > 0 and best - now > least):
        return []
    under = np.flatnonzero(smooth[best_at:] < best - least / 3)
    first = best_at + (int(under[0]) if len(under) else 0)
    last = len(curve) - 1
    steps = f"{int(curve.step[best_at]):,}", f"{int(curve.step[last]):,}"
    return [
        curve.finding(
            RULE.id,
            "warning",
            (first, last, last),
            Text(
                f"Reward fell from {number(best)} at step {steps[0]} to {number(now)} at step {steps[1]} (smoothed).",
                f"奖励（平滑后）从第 {steps[0]} 步的 {number(best)} 降到第 {steps[1]} 步的 {number(now)}。",
            ),
            _ADVICE["reward"],
            {"best": best, "best_step": int(curve.step[best_at]), "now": now},
        )
    ]


RULE = Rule(
    id="reward_collapse",
    title=Text("the reward fell from its best", "奖励从最佳水平大幅回落"),
    function=reward_collapse,
    parameters=Parameters,
    reads=("reward",),
    severities=("warning",),
    advice=_ADVICE,
)
