"""Rule `zero_loss`: the loss is exactly 0 while the grad norm is NaN or 0.

Definition: three or more points in a row whose loss is exactly 0 and whose grad norm, at the same step,
is not finite or exactly 0. Critical: nothing is learnt, and a loss of 0 is no success.

Source: public bug reports of trainings whose loss fell to 0 with a NaN grad norm.

Quiet when: the run logs a reward (its loss may be 0); no grad norm is logged.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.points import places
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import stretches
from tb_mindformers_plugin.health.series import Floats, Mask, RunSeries

_ADVICE = {
    "zero": Text(
        "Stop: the weights or the labels are broken. Look for NaN in the weights, for batches whose labels are all "
        "masked, and at the precision in use; resume from the checkpoint before this step.",
        "停止训练：权重或标签已损坏。检查权重中的 NaN、标签全部被屏蔽的批次以及所用精度；从该步之前的检查点恢复。",
    )
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `zero_loss`.

    Attributes:
      stretch: fewest points in a row.
    """

    stretch: int = 3


def zero_loss(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns one finding from the first stretch to the last.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> nan = float("nan")
    >>> (found,) = zero_loss(of_values(loss=[0.2051, 0, 0, 0], grad_norm=[1.0, nan, nan, nan]))
    >>> found.severity, found.first_step
    ('critical', 1)
    """
    loss, norm = run.curves.get("loss"), run.curves.get("grad_norm")
    if loss is None or norm is None or run.has_reward:
        return []
    if len(places(loss, _is_zero)) < parameters.stretch:
        return []
    at = np.searchsorted(norm.step, loss.step)
    here = norm.step[np.minimum(at, len(norm) - 1)] == loss.step
    beside = norm.value[np.minimum(at, len(norm) - 1)]
    dead = (loss.value == 0) & here & (~np.isfinite(beside) | (beside == 0))
    found = [s for s in stretches(dead) if s[1] - s[0] + 1 >= parameters.stretch]
    if not found:
        return []
    first, last = found[0][0], found[-1][1]
    points = sum(b - a + 1 for a, b in found)
    span = f"{int(loss.step[first]):,}", f"{int(loss.step[last]):,}"
    kind = "0" if beside[first] == 0 else "NaN"
    return [
        loss.finding(
            RULE.id,
            "critical",
            (first, last, first),
            Text(
                f"Loss was exactly 0 at {points:,} logged steps from step {span[0]} to {span[1]} "
                "while the grad norm was "
                f"{kind}: nothing is learnt.",
                f"第 {span[0]} 至 {span[1]} 步有 {points:,} 个记录点的损失恰为 0，同时梯度范数为 "
                f"{kind}：模型没有在学习。",
            ),
            _ADVICE["zero"],
            {"points": points, "recovers": last < len(loss) - 1},
        )
    ]


def _is_zero(value: Floats) -> Mask:
    return value == 0


RULE = Rule(
    id="zero_loss",
    title=Text("loss exactly 0 while the grad norm is NaN or 0", "损失恰为 0，且梯度范数为 NaN 或 0"),
    function=zero_loss,
    parameters=Parameters,
    reads=("loss",),
    severities=("critical",),
    advice=_ADVICE,
)
