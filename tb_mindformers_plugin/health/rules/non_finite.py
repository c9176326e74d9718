"""Rule `non_finite`: the loss or the grad norm became NaN or infinite.

Definition: points of the current curve that are NaN, +Inf or -Inf. For the loss: critical if three or
more follow one another or the curve never comes back, else warning. For the grad norm: critical for
stretches of three points and more, or that never come back, unless the loss scaler skipped each of their
steps; the other points are info. The newest one or two points of a run that goes on may yet come back: until
a third follows, or the run ends or falls silent (for 30 minutes and 10 of its own intervals), they count as if
they had. Where the loss was not logged at those steps, the message says so.

Source: measured definition of this project.

Quiet when: every value is finite.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.points import places
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import stretches
from tb_mindformers_plugin.health.series import Floats, Mask, RunSeries, Series
from tb_mindformers_plugin.roles import ROLES

_ADVICE = {
    "loss": Text(
        "Look at the batches just before, and at the grad norm there; lower the learning rate or clip "
        "gradients, and resume from the checkpoint before that step.",
        "查看出现之前的数据批次和梯度范数；降低学习率或加梯度裁剪，并从该步之前的检查点恢复训练。",
    ),
    "grad_norm": Text(
        "Look at the batches of these steps: such an update reaches the weights unless something skips it, as a "
        "dynamic loss scale does; lower the learning rate, or skip updates whose norm is not finite.",
        "查看这些步的数据批次：除非被跳过（如动态 loss scale），这样的更新会写入权重；"
        "请降低学习率，或跳过范数非有限的更新。",
    ),
    "skipped": Text(
        "Single ones are harmless with a dynamic loss scale, as these updates were skipped; more of them ask for a "
        "lower learning rate or clipping.",
        "使用动态 loss scale 时这些更新已被跳过，偶发一次无害；若频繁出现，请降低学习率或加梯度裁剪。",
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
    """Returns at most one finding for the loss, and one critical and one info for the grad norm.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> (found,) = non_finite(of_values(loss=[2.0, np.nan, np.nan, np.nan, 2.0]))
    >>> found.severity, found.first_step, found.last_step
    ('critical', 1, 3)
    """
    found = []
    for role in RULE.reads:
        curve = run.curves.get(role)
        if curve is not None and curve.finite is not curve:
            found += (_of_loss if role == "loss" else _of_norm)(run, curve, parameters)
    return found


def _is_bad(value: Floats) -> Mask:
    return ~np.isfinite(value)


def _bad(curve: Series) -> Mask:
    """(n,) whether a point has no finite value."""
    bad = np.zeros(len(curve), bool)
    bad[places(curve, _is_bad)] = True
    return bad


def _of_loss(run: RunSeries, loss: Series, p: Parameters) -> list[Finding]:
    bad = _bad(loss)
    lasting = any(last - first + 1 >= p.stretch for first, last in stretches(bad))
    over = bool(bad[-1]) and not run.running
    return [_finding(run, loss, bad, "critical" if lasting or over else "warning", False)]


def _of_norm(run: RunSeries, norm: Series, p: Parameters) -> list[Finding]:
    """What is critical, and what is none of that: single points, and those that the loss scaler skipped."""
    bad, skipped = _bad(norm), np.zeros(len(norm), bool)
    told = run.skipped(norm.step[bad])
    if told is not None:
        skipped[bad] = told
    severe = np.zeros(len(norm), bool)
    for first, last in stretches(bad):
        over = last == len(norm) - 1 and not run.running
        lasting = last - first + 1 >= p.stretch or over
        severe[first : last + 1] = lasting and not skipped[first : last + 1].all()
    mild = bad & ~severe
    found = []
    if severe.any():
        found.append(_finding(run, norm, severe, "critical", False))
    if mild.any():
        found.append(_finding(run, norm, mild, "info", bool(skipped[mild].all())))
    return found


def _finding(run: RunSeries, curve: Series, bad: Mask, severity: str, skipped: bool) -> Finding:
    at = np.flatnonzero(bad)
    recovers, unlogged = not bad[-1], _unlogged(run, curve, bad)
    return curve.finding(
        RULE.id,
        severity,
        (at[0], at[-1], at[0]),
        _sentence(curve, bad, skipped, unlogged, run.running),
        _ADVICE["skipped" if skipped else curve.role],
        {
            "points": len(at),
            "longest": max(last - first + 1 for first, last in stretches(bad)),
            "of": len(curve),
            "recovers": recovers,
            "skipped": skipped,
            **({"loss_not_logged": unlogged} if unlogged else {}),
        },
    )


def _sentence(curve: Series, bad: Mask, skipped: bool, unlogged: int, running: bool) -> Text:
    value, step = curve.value[bad], curve.step[bad]
    points, of = len(value), len(curve)
    named = {"NaN": np.isnan(value), "+Inf": value == np.inf, "-Inf": value == -np.inf}
    kinds = [name for name, these in named.items() if these.any()]
    first, last = f"{int(step[0]):,}", f"{int(step[-1]):,}"
    title = ROLES[curve.role].title
    en = f"{title[0].upper()}{title[1:]} was {' and '.join(kinds)}"
    zh = f"{_ZH_TITLE[curve.role]}在第 {first} {'' if first == last else f'至 {last} '}步变为 {'、'.join(kinds)}"
    if points > 1:
        en += f" at {points:,} of {of:,} logged steps"
        zh += f"（{of:,} 个记录点中有 {points:,} 个）"
    en += f" at step {first}" if first == last else f" from step {first} to {last}"
    if skipped:
        en, zh = en + ", where the loss scaler skipped the update", zh + "，这些步已被 loss scaler 跳过"
    elif bad[-1]:
        en, zh = en + f", and has not come back{' yet' if running else ''}", zh + f"，{'尚' if running else '且'}未恢复"
    if unlogged:
        en += f"; the loss was not logged at {unlogged:,} of them"
        zh += f"；其中 {unlogged:,} 步没有记录损失"
    return Text(en + ".", zh + "。")


def _unlogged(run: RunSeries, curve: Series, bad: Mask) -> int:
    """At how many points without a number the loss is missing that is logged at the others."""
    loss = run.curves.get("loss")
    if loss is None or curve.role == "loss" or bad.all():
        return 0
    if len(loss) == len(curve) and (loss.step == curve.step).all():
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
