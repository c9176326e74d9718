"""Rule `loss_plateau`: the loss makes no progress.

Definition: at least 500 points; the medians of 64 blocks; for k from 1/16 to 2/3 of them the Theil-Sen
change D over [k, end] and its error SE = 1.25 x 1.4826 MAD(residuals) sqrt(12/m), m the blocks. Flat:
-max(2.5 SE, 0.1 %) < D < max(3 %, 3 SE), precise (2.5 SE < 5 % of the level), and flat from the middle of
[k, end] on too. The earliest such k is the first step. Warning only if the learning rate is known and at
least 0.9 of its peak throughout, else info. It cannot tell "converged" from "stuck".

Source: Theil-Sen slope (Sen, 1968); thresholds measured by this project.

Quiet when: the loss fails the ratio gate; the learning rate ends below a tenth of its peak (a late
decay); the level is below 3 % of the first.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Optional, Tuple

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import MAD_TO_SIGMA, blocks, levels, number, percent, ratio_loss
from tb_mindformers_plugin.health.series import Floats, RunSeries

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
    fall: float = 0.001
    rise: float = 0.03
    errors: float = 2.5
    precise: float = 0.05


_BLOCKS = 64


def loss_plateau(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns at most one finding, which reaches to the end.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> noise = 0.02 * np.sin(np.arange(2000.0) ** 2)
    >>> loss = np.concatenate([np.linspace(4, 3, 800), np.full(1200, 3)]) + noise
    >>> (found,) = loss_plateau(of_values(loss=loss, lr=np.full(2000, 1e-3)))
    >>> found.severity, abs(found.first_step - 800) < 200
    ('warning', True)
    """
    p = parameters
    loss = ratio_loss(run)
    if loss is None or len(loss) < p.points:
        return []
    size = len(loss) // _BLOCKS
    y, _ = levels(blocks(loss.value, size)[:_BLOCKS])
    lr = run.finite("lr")
    if lr is not None and lr.value[-1] < 0.1 * lr.value.max():
        return []
    for k in range(_BLOCKS // 16, _BLOCKS * 2 // 3 + 1):
        change = _flat(y[k:], p)
        if change is None or _flat(y[k + (_BLOCKS - k) // 2 :], p) is None:
            continue
        level = float(np.median(y[k:]))
        if level < 0.03 * float(y[0]):
            return []
        begin, end = k * size, len(loss) - 1
        steady = False
        if lr is not None:
            within = lr.values_at(loss.step[[begin, end]])
            later = lr.value[lr.at_or_after(int(loss.step[begin])) :]
            steady = min(float(np.nanmin(within)), float(later.min(initial=np.inf))) >= 0.9 * lr.value.max()
        step = int(loss.step[begin])
        part = (end - begin + 1) / len(loss)
        return [
            loss.finding(
                RULE.id,
                "warning" if steady else "info",
                (begin, end, begin),
                Text(
                    f"Loss has stayed at {number(level)} since step {step:,} ({part:.0%} of the points so far, change "
                    f"{percent(1 + change / level)}): converged or stuck, which its curve alone does not tell.",
                    f"损失自第 {step:,} 步起停留在 {number(level)}（占已有记录点的 {part:.0%}，变化 "
                    f"{percent(1 + change / level)}）：可能已收敛，也可能停滞，仅凭曲线无法判断。",
                ),
                _ADVICE["plateau"],
                {"level": level, "change": change, "part": part, "lr_steady": steady},
            )
        ]
    return []


def _flat(y: Floats, p: Parameters) -> Optional[float]:
    """The change over (m,) block medians where it is none, else None."""
    m = len(y)
    if m < 8:
        return None
    change, error = _theil_sen(y)
    level = float(np.median(y))
    precise = p.errors * error < p.precise * level
    flat = -max(p.errors * error, p.fall * level) < change < max(p.rise * level, 3 * error)
    return change if precise and flat else None


def _theil_sen(y: Floats) -> Tuple[float, float]:
    """Change from the first to the last of (m,) values along the Theil-Sen line, and its standard error."""
    m = len(y)
    i, j = np.triu_indices(m, 1)
    slope = float(np.median((y[j] - y[i]) / (j - i)))
    rest = y - slope * np.arange(m)
    spread = MAD_TO_SIGMA * float(np.median(np.abs(rest - np.median(rest))))
    return slope * (m - 1), 1.25 * spread * math.sqrt(12 / m)


RULE = Rule(
    id="loss_plateau",
    title=Text("the loss makes no progress", "损失停滞不前"),
    function=loss_plateau,
    parameters=Parameters,
    reads=("loss",),
    severities=("warning", "info"),
    advice=_ADVICE,
)
