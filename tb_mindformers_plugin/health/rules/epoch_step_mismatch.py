"""Rule `epoch_step_mismatch`: the epoch does not fit the step.

Definition: with the manifest's `steps_per_epoch`, an epoch that is more than 1.05 + 1 % away from step /
steps_per_epoch for 10 points or more (an epoch may be counted from 1, or in whole numbers), or, where it
is no whole number, went on by more than 10 % (and 0.05) more or less than the steps did; or an epoch
that goes back inside one segment. Warning.

Source: measured definition of this project.

Quiet when: the epoch goes back at a restart; fewer than 10 points are off.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import Part
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import near_joins
from tb_mindformers_plugin.health.series import RunSeries
from tb_mindformers_plugin.language import number

_ADVICE = {
    "mismatch": Text(
        "Check steps_per_epoch, gradient accumulation and what was restored at the restart: data may be repeated or "
        "left out.",
        "检查 steps_per_epoch、梯度累积以及恢复训练时还原的状态：数据可能被重复或遗漏。",
    )
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `epoch_step_mismatch`.

    Attributes:
      epochs: an epoch may be off by so much.
      part: and by this part of it.
      pace: a fractional epoch may have gone on by this part more or less than the steps, or of half an epoch.
      points: fewest points that are off.
    """

    epochs: float = 1.05
    part: Part = 0.01
    pace: float = 0.1
    points: int = 10


def epoch_step_mismatch(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns at most one finding.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> (found,) = epoch_step_mismatch(of_values(epoch=[0.0, 0.1, 0.2, 0.1, 0.2]))
    >>> found.severity, found.first_step
    ('warning', 3)
    """
    p = parameters
    curve = run.finite("epoch")
    if curve is None or len(curve) < 2:
        return []
    back = np.flatnonzero(np.diff(curve.value) < -1e-6 * np.maximum(np.abs(curve.value[1:]), 1)) + 1
    back = back[~near_joins(run, curve, 0, 1)[back]]
    if len(back):
        i = int(back[0])
        step = int(curve.step[i])
        was, became = number(float(curve.value[i - 1])), number(float(curve.value[i]))
        return [
            curve.finding(
                RULE.id,
                "warning",
                (i, int(back[-1]), i),
                Text(
                    f"Epoch goes back from {was} to {became} at step {step:,}, without a restart.",
                    f"第 {step:,} 步的 epoch 从 {was} 倒退到 {became}，但并没有重启。",
                ),
                _ADVICE["mismatch"],
                {"times": len(back), "before": float(curve.value[i - 1]), "after": float(curve.value[i])},
            )
        ]
    per_epoch = run.manifest.steps_per_epoch
    if not per_epoch or per_epoch <= 0:
        return []
    expected = curve.step / per_epoch
    off = np.abs(curve.value - expected) > p.epochs + p.part * expected
    if np.mean(curve.value != np.rint(curve.value)) > 0.5:  # not counted in whole epochs: its pace can be told
        gone, due = curve.value - curve.value[0], expected - expected[0]
        off |= np.abs(gone - due) > p.pace * (0.5 + due)
    at = np.flatnonzero(off)
    if len(at) < p.points:
        return []
    i, last = int(at[0]), int(at[-1])
    step, end = int(curve.step[i]), int(curve.step[last])
    value, should = number(float(curve.value[last])), number(float(expected[last]))
    return [
        curve.finding(
            RULE.id,
            "warning",
            (i, last, last),
            Text(
                f"Epoch does not fit the step from step {step:,} on: it is {value} at step {end:,}, where "
                f"{per_epoch:,} steps per epoch make {should}.",
                f"从第 {step:,} 步起 epoch 与步数不符：第 {end:,} 步的 epoch 为 {value}，而按每 epoch "
                f"{per_epoch:,} 步应为 {should}。",
            ),
            _ADVICE["mismatch"],
            {"points": len(at), "epoch": float(curve.value[last]), "expected": float(expected[last])},
        )
    ]


RULE = Rule(
    id="epoch_step_mismatch",
    title=Text("the epoch does not fit the step", "epoch 与步数不符"),
    function=epoch_step_mismatch,
    parameters=Parameters,
    reads=("epoch",),
    severities=("warning",),
    advice=_ADVICE,
)
