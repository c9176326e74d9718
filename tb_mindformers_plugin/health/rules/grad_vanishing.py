"""Rule `grad_vanishing`: the grad norm is near zero for long.

Definition: medians of 50 points below 1e-7, or below 0.001 of the median of the 64 such blocks before; two
blocks or more. Warning.

Source: measured definition of this project.

Quiet when: it is not. Info where the grad norm is 0 from the beginning on (frameworks write 0 where they do not
compute it: "not logged"), and where the loss is below 5 % of its early level (nothing left to learn).
"""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import Part
from tb_mindformers_plugin.health.points import first_place, of_blocks
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import medians, stretches
from tb_mindformers_plugin.health.rolling import noise_before
from tb_mindformers_plugin.health.series import Floats, Mask, RunSeries, Series
from tb_mindformers_plugin.language import number

_ADVICE = {
    "vanishing": Text(
        "Check for frozen or dead layers, a loss that is masked out, and half precision without a loss scale.",
        "检查是否有冻结或失活的层、损失被全部屏蔽，或使用半精度却没有 loss scale。",
    ),
    "not_logged": Text(
        "Turn on the computation of the grad norm (with MindSpore Transformers: clipping) to see it.",
        "如需查看，请开启梯度范数的计算（在 MindSpore Transformers 中即启用梯度裁剪）。",
    ),
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `grad_vanishing`.

    Attributes:
      least: a median below this is near zero.
      part: so is one below this part of the early median.
      stretch: fewest blocks of 50 points.
    """

    least: float = 1e-7
    part: Part = 0.001
    stretch: int = 2


_BLOCK = 50
_FEWEST_ZEROS = 10


def grad_vanishing(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns one finding from the first stretch to the last.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> (found,) = grad_vanishing(of_values(grad_norm=[1.0] * 500 + [1e-9] * 200))
    >>> found.severity, found.first_step
    ('warning', 500)
    """
    norm = run.finite("grad_norm")
    if norm is None:
        return []
    logged = first_place(norm, _is_logged)
    zeros = len(norm) if logged is None else logged
    found = [_not_logged(norm, zeros)] if zeros >= _FEWEST_ZEROS else []
    vanished = _vanished(norm, zeros, parameters)
    return found if vanished is None else [*found, _finding(run, norm, vanished)]


def _is_logged(g: Floats) -> Mask:
    return g != 0


def _not_logged(norm: Series, zeros: int) -> Finding:
    points = len(norm)
    return norm.finding(
        RULE.id,
        "info",
        (0, zeros - 1, 0),
        Text(
            f"Grad norm is 0 at the first {zeros:,} of {points:,} points: it is not logged, rather than vanishing.",
            f"梯度范数在前 {zeros:,} 个记录点（共 {points:,} 个）上均为 0：应是没有记录，而非梯度消失。",
        ),
        _ADVICE["not_logged"],
        {"points": zeros, "logged": False},
    )


@dataclasses.dataclass(frozen=True)
class _Vanished:
    """First and last point near zero, the least level between, and the level before (0 where unknown)."""

    first: int
    last: int
    least: float
    usual: float


def _vanished(norm: Series, zeros: int, p: Parameters) -> Optional[_Vanished]:
    """Where the norm is near zero, without the `zeros` at the beginning that were not logged; None: nowhere."""
    (y,) = of_blocks(norm, _BLOCK, medians)
    logged = y[-(-zeros // _BLOCK) :]
    if not len(logged) or logged.min() >= max(p.least, p.part * float(logged.max())):
        return None
    y = np.concatenate([np.full(len(y) - len(logged), np.inf), logged])
    before = noise_before(y)[:-1]
    began = _long_enough((y < p.least) | (np.isfinite(before) & (y < p.part * before)), p)
    if not began:
        return None
    start = began[0][0]
    usual = float(before[start]) if np.isfinite(before[start]) else 0.0
    # What it is compared with stays what it was before.
    last = (_long_enough((y < p.least) | (y < p.part * usual), p) or began)[-1][1]
    end = len(norm) - 1 if last == len(y) - 1 else (last + 1) * _BLOCK - 1
    return _Vanished(start * _BLOCK, end, float(y[start : last + 1].min()), usual)


def _long_enough(low: Mask, p: Parameters) -> list[Tuple[int, int]]:
    return [(first, last) for first, last in stretches(low) if last - first + 1 >= p.stretch]


def _finding(run: RunSeries, norm: Series, vanished: _Vanished) -> Finding:
    first, last, least, usual = vanished.first, vanished.last, vanished.least, vanished.usual
    learnt = _learnt(run, int(norm.step[first]))
    steps = f"{int(norm.step[first]):,}", f"{int(norm.step[last]):,}"
    en = f"Grad norm is near zero ({number(least)}, {number(usual)} before) from step {steps[0]} to {steps[1]}"
    zh = f"梯度范数在第 {steps[0]} 至 {steps[1]} 步接近 0（{number(least)}，此前为 {number(usual)}）"
    if learnt:
        en, zh = en + "; the loss is nearly 0 too", zh + "；损失也已接近 0"
    return norm.finding(
        RULE.id,
        "info" if learnt else "warning",
        (first, last, first),
        Text(en + ".", zh + "。"),
        _ADVICE["vanishing"],
        {"level": least, "before": usual, "learnt": learnt},
    )


def _learnt(run: RunSeries, step: int) -> bool:
    """Whether the loss at `step` is below 5 % of its early level."""
    loss = run.finite("loss")
    if loss is None:
        return False
    i = loss.at_or_after(step)
    early, now = loss.value[:_BLOCK], loss.value[i : i + 2 * _BLOCK]
    return len(now) > 0 and float(np.median(now)) < 0.05 * float(np.median(early))


RULE = Rule(
    id="grad_vanishing",
    title=Text("the grad norm is near zero for long", "梯度范数长时间接近 0"),
    function=grad_vanishing,
    parameters=Parameters,
    reads=("grad_norm",),
    severities=("warning", "info"),
    advice=_ADVICE,
)
