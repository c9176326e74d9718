"""Rule `reward_collapse`: the reward fell from its best.

Definition: the bias-corrected EMA (decay 0.95) of the reward, behind the first 50 points, more than 30 % of
what it had gained (or of its best value, whichever is larger) and more than 6 sigma of the EMA under its
best so far. Warning; info once it has come back.

Source: measured definition of this project.

Quiet when: no reward is logged; fewer than 100 points.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import Limits
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import BLOCK, MAD_TO_SIGMA, blocks
from tb_mindformers_plugin.health.rolling import noise_before
from tb_mindformers_plugin.health.series import Floats, RunSeries, Series
from tb_mindformers_plugin.language import number
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
    sigmas: float = 6.0
    decay: Annotated[float, Limits(0, 0.9999)] = 0.95
    skip: int = 50


def reward_collapse(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns one finding a fall.

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
    changes = np.abs(np.diff(curve.value))
    noise = noise_before(np.median(blocks(changes, BLOCK), axis=1)) * MAD_TO_SIGMA / math.sqrt(2)
    # The EMA averages over about (1 + decay)/(1 - decay) points.
    sigma = noise[np.minimum(np.arange(len(curve)) // BLOCK, len(noise) - 1)] * math.sqrt((1 - p.decay) / (1 + p.decay))
    best = np.maximum.accumulate(np.where(np.arange(len(curve)) < p.skip, -np.inf, smooth))
    start = float(np.median(curve.value[: p.skip]))
    least = np.maximum(p.fall * np.maximum(np.abs(best), best - start), p.sigmas * sigma)
    fell = (least > 0) & (best - smooth > least)
    fell[: 2 * p.skip] = False
    found: list[Finding] = []
    stop = 0
    while fell[stop:].any():
        seen = stop + int(np.argmax(fell[stop:]))
        back = best[seen] - least[seen] / 3
        risen = np.flatnonzero(smooth[seen:] > back)
        stop = seen + int(risen[0]) if len(risen) else len(curve)
        best_at = int(np.flatnonzero(smooth[:seen] == best[seen])[-1])
        under = np.flatnonzero(smooth[best_at : seen + 1] < back)
        found.append(_finding(curve, smooth, best_at, best_at + int(under[0]), seen, stop))
    return found


def _finding(curve: Series, smooth: Floats, best_at: int, first: int, seen: int, stop: int) -> Finding:
    on, last = stop == len(curve), stop - 1
    low = seen + int(np.argmin(smooth[seen:stop]))
    best, now = float(smooth[best_at]), float(smooth[last if on else low])
    shown = f"{int(curve.step[best_at]):,}", f"{int(curve.step[last if on else low]):,}"
    ends = ("", "") if on else (" It came back.", "之后已恢复。")
    return curve.finding(
        RULE.id,
        "warning" if on else "info",
        (first, last, low),
        Text(
            f"Reward fell from {number(best)} at step {shown[0]} to {number(now)} at step {shown[1]} "
            f"(smoothed).{ends[0]}",
            f"奖励（平滑后）从第 {shown[0]} 步的 {number(best)} 降到第 {shown[1]} 步的 {number(now)}。{ends[1]}",
        ),
        _ADVICE["reward"],
        {"best": best, "best_step": int(curve.step[best_at]), "now": now, "still_on": on},
    )


RULE = Rule(
    id="reward_collapse",
    title=Text("the reward fell from its best", "奖励从最佳水平大幅回落"),
    function=reward_collapse,
    parameters=Parameters,
    reads=("reward",),
    severities=("warning", "info"),
    advice=_ADVICE,
)
