"""Rule `non_finite`: the loss or the grad norm became NaN or infinite.

Definition: points of the current curve that are NaN, +Inf or -Inf. For the loss: critical if three or
more follow one another or the curve never comes back, else warning. For the grad norm alone: info if it
comes back and is shorter than three points, or if every such step was skipped by the loss scaler; else
critical, from the first stretch that is neither. Where the loss was not logged at those steps, the
message says so.

Source: measured definition of this project.

Quiet when: every value is finite.
"""

from __future__ import annotations

import dataclasses
from typing import Optional

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import stretches
from tb_mindformers_plugin.health.series import Mask, RunSeries, Series
from tb_mindformers_plugin.roles import ROLES

_ADVICE = {
    "loss": Text(
        "Look at the batches just before, and at the grad norm there; lower the learning rate or clip "
        "gradients, and resume from the checkpoint before that step.",
        "查看出现之前的数据批次和梯度范数；降低学习率或加梯度裁剪，并从该步之前的检查点恢复训练。",
    ),
    "grad_norm": Text(
        "Check whether updates were skipped: with a dynamic loss scale single ones are harmless; more of them "
        "ask for a lower learning rate or clipping.",
        "确认这些步是否被跳过：使用动态 loss scale 时偶发一次无害；若频繁出现，请降低学习率或加梯度裁剪。",
    ),
}
_ZH_TITLE = {"loss": "损失", "grad_norm": "梯度范数"}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `non_finite`.

    Attributes:
      stretch: so many in a row are no longer one unlucky batch.
    """

    stretch: int = 3


def non_finite(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns at most one finding for the loss and one for the grad norm.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> (found,) = non_finite(of_values(loss=[2.0, np.nan, np.nan, np.nan, 2.0]))
    >>> found.severity, found.first_step, found.last_step
    ('critical', 1, 3)
    """
    found = []
    for role in RULE.reads:
        curve = run.curves.get(role)
        if curve is not None:
            skipped = run.skipped(curve.step) if role == "grad_norm" else None
            finding = _of_curve(curve, skipped, _unlogged(run, curve), parameters)
            if finding is not None:
                found.append(finding)
    return found


def _of_curve(curve: Series, skipped: Optional[Mask], unlogged: int, parameters: Parameters) -> Optional[Finding]:
    value, step = curve.value, curve.step
    bad = ~np.isfinite(value)
    if not bad.any():
        return None
    found = stretches(bad)
    # An overflow is what a loss scaler is for.
    excused = skipped is not None and bool(skipped[bad].all())
    recovers = not bad[-1]
    longest = max(last - first + 1 for first, last in found)
    if curve.role == "grad_norm" and not excused:
        # Single ones, and those that were skipped, are no part of what is critical.
        severe = [
            (first, last)
            for first, last in found
            if (last - first + 1 >= parameters.stretch or last == len(bad) - 1)
            and not (skipped is not None and skipped[first : last + 1].all())
        ]
        for first, last in set(found) - set(severe) if severe else ():
            bad[first : last + 1] = False
        recovers, severity = not bad[-1], "critical" if severe else "info"
    elif excused:
        severity = "info"
    elif longest >= parameters.stretch or not recovers:
        severity = "critical"
    else:
        severity = "warning"
    at = np.flatnonzero(bad)
    kinds = [
        name
        for name, mask in (
            ("NaN", np.isnan(value[bad])),
            ("+Inf", value[bad] == np.inf),
            ("-Inf", value[bad] == -np.inf),
        )
        if mask.any()
    ]
    first, last = int(step[at[0]]), int(step[at[-1]])
    return curve.finding(
        RULE.id,
        severity,
        (at[0], at[-1], at[0]),
        Text(
            _english(curve.role, kinds, len(at), len(value), first, last, excused, recovers, unlogged),
            _chinese(curve.role, kinds, len(at), len(value), first, last, excused, recovers, unlogged),
        ),
        _ADVICE[curve.role],
        {
            "points": len(at),
            "longest": longest,
            "of": len(value),
            "recovers": recovers,
            "skipped": excused,
            **({"loss_not_logged": unlogged} if unlogged else {}),
        },
    )


def _english(
    role: str,
    kinds: list[str],
    points: int,
    of: int,
    first: int,
    last: int,
    excused: bool,
    recovers: bool,
    missing: int,
) -> str:
    title = ROLES[role].title
    share = "" if points == 1 else f" at {points:,} of {of:,} logged steps"
    where = f"at step {first:,}" if first == last else f"from step {first:,} to {last:,}"
    ending = "" if recovers else ", and has not come back"
    if excused:
        ending = ", where the loss scaler skipped the update"
    lost = f"; the loss was not logged at {missing:,} of them" if missing else ""
    return f"{title[0].upper()}{title[1:]} was {' and '.join(kinds)}{share} {where}{ending}{lost}."


def _chinese(
    role: str,
    kinds: list[str],
    points: int,
    of: int,
    first: int,
    last: int,
    excused: bool,
    recovers: bool,
    missing: int,
) -> str:
    where = f"第 {first:,} 步" if first == last else f"第 {first:,} 至 {last:,} 步"
    share = "" if points == 1 else f"（{of:,} 个记录点中有 {points:,} 个）"
    ending = "" if recovers else "，且未恢复"
    if excused:
        ending = "，这些步已被 loss scaler 跳过"
    lost = f"；其中 {missing:,} 步没有记录损失" if missing else ""
    return f"{_ZH_TITLE[role]}在{where}变为 {'、'.join(kinds)}{share}{ending}{lost}。"


def _unlogged(run: RunSeries, curve: Series) -> int:
    """At how many points without a number the loss is missing that is logged at the others."""
    loss = run.curves.get("loss")
    bad = ~np.isfinite(curve.value)
    if loss is None or curve.role == "loss" or not bad.any() or bad.all():
        return 0
    logged = np.isin(curve.step, loss.step)
    return int(np.count_nonzero(~logged[bad])) if logged[~bad].mean() > 0.9 else 0


RULE = Rule(
    id="non_finite",
    title=Text("loss or grad norm became NaN or infinite", "损失或梯度范数变为 NaN 或无穷大"),
    function=non_finite,
    parameters=Parameters,
    reads=("loss", "grad_norm"),
    severities=("critical", "warning", "info"),
    advice=_ADVICE,
)
