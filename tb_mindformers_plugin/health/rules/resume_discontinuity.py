"""Rule `resume_discontinuity`: the curves do not join where a run was taken up again.

Definition: of ln loss, the 64 points before a restart in two halves with medians m1 and m2, s their robust
sigma, rho = lag-1 autocorrelation + 0.05, SE = 1.25 s sqrt((1 + rho)/(1 - rho)) sqrt(1/32 + 1/m). Warning:
median(next m) - max(m1, m2) > max(4 SE, 1.5 s, 0.03). A fall by more than max(that, 0.35) is info. Where old
and new overlap in steps, pairs at equal steps are compared in the same way. A learning rate more than 1.5
times what it was: warning. A loss scale of 8 times or more: info.

Source: measured definition of this project.

Quiet when: the curve is continuous; fewer than 16 points before or 8 behind.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Optional

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import Times
from tb_mindformers_plugin.health.points import highest
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import lag1, ratio_loss, sigma_iqr
from tb_mindformers_plugin.health.series import Floats, RunSeries, Series
from tb_mindformers_plugin.language import number, percent

_ADVICE = {
    "loss": Text(
        "Check what was restored: weights, optimizer state, learning rate and data position; a rise right at the "
        "restart usually means that one of them began anew.",
        "检查恢复了哪些状态：权重、优化器状态、学习率和数据位置；重启处的上升通常说明其中某项从头开始了。",
    ),
    "lr": Text(
        "Check that the schedule continues from the checkpoint's step, and is not started over.",
        "确认学习率调度是从检查点的步数继续，而不是重新开始。",
    ),
    "loss_scale": Text(
        "Nothing, if it comes down again within some steps; else restore the loss scale with the checkpoint.",
        "若几步内回落则无需处理；否则请随检查点一并恢复 loss scale。",
    ),
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `resume_discontinuity`.

    Attributes:
      errors: least rise, in standard errors.
      sigmas: least rise, in sigmas of a point.
      rise: least rise of the logarithm.
      fall: least fall of the logarithm that is told.
      lr: a learning rate so many times what it was is a warning.
      scale: a loss scale so many times what it was is told.
    """

    errors: float = 4.0
    sigmas: float = 1.5
    rise: float = 0.03
    fall: float = 0.35
    lr: Times = 1.5
    scale: Times = 8.0


_BEFORE = 64
# Points behind the restart with which it is judged.
_AFTER = (8, 16, 32)


def resume_discontinuity(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns what does not join, for each restart.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> loss = np.where(np.arange(400) < 200, 2.0, 2.6) + 0.01 * np.sin(np.arange(400.0) ** 2)
    >>> run = dataclasses.replace(of_values(loss=loss), restarts=(200,))
    >>> [(f.severity, f.first_step) for f in resume_discontinuity(run)]
    [('warning', 200)]
    """
    found = []
    for restart in run.restarts:
        for finding in (
            _loss(run, restart, parameters),
            _level(run, "lr", restart, parameters.lr, "warning"),
            _level(run, "loss_scale", restart, parameters.scale, "info"),
        ):
            if finding is not None:
                found.append(finding)
    return found


def _loss(run: RunSeries, restart: int, p: Parameters) -> Optional[Finding]:
    loss = ratio_loss(run)
    if loss is None:
        return None
    loss = loss.positive
    join = loss.at_or_after(restart)
    # Nothing further away is looked at.
    first = max(join - _BEFORE, 0)
    loss = loss.picked(slice(first, join + 4 * _AFTER[-1]))
    x, join = np.log(loss.value), join - first
    # What was told of few points stays told.
    for points in _AFTER:
        if join + points <= len(x):
            finding = _at_join(run, loss, x, restart, join, points, p)
            if finding is not None:
                return finding
    return None


def _at_join(
    run: RunSeries, loss: Series, x: Floats, restart: int, join: int, points: int, p: Parameters
) -> Optional[Finding]:
    before, after = x[max(join - _BEFORE, 0) : join], x[join : join + points]
    if len(before) < 16:
        return None
    half = len(before) // 2
    m1, m2 = float(np.median(before[:half])), float(np.median(before[half:]))
    rest = np.concatenate([before[:half] - m1, before[half:] - m2])
    s = sigma_iqr(rest)
    rho = min(max(lag1(rest), 0) + 0.05, 0.95)
    error = 1.25 * s * math.sqrt((1 + rho) / (1 - rho)) * math.sqrt(1 / half + 1 / len(after))
    least = max(p.errors * error, p.sigmas * s, p.rise)
    now = float(np.median(after))
    change = now - max(m1, m2)
    fall = min(m1, m2) - now
    against = max(m1, m2)
    paired = _overlap_change(run, loss, x, restart, points, p)
    if change <= least and paired is not None and (paired > 0 or -paired > p.fall):
        # Pairs at equal steps see less than two stretches of different ones do; they were tested already.
        change, fall, against = paired, -paired, now - paired
        least = 0.0
    if change > least:
        severity, ratio = "warning", math.exp(change)
    elif fall > max(least, p.fall):
        severity, ratio = "info", math.exp(-fall)
    else:
        return None
    step = int(loss.step[join])
    values = number(math.exp(against)), number(math.exp(now))
    en, zh = ("up", "偏高") if ratio > 1 else ("down", "偏低")
    return loss.finding(
        "resume_discontinuity",
        severity,
        (join, join + len(after) - 1, join),
        Text(
            f"Loss does not join at the restart at step {step:,}: {values[0]} before, {values[1]} behind "
            f"({en} {percent(ratio)}).",
            f"第 {step:,} 步重启处损失不连续：之前为 {values[0]}，之后为 {values[1]}（{zh} {percent(ratio)}）。",
        ),
        _ADVICE["loss"],
        {"before": math.exp(against), "after": math.exp(now), "ratio": ratio, "overlap": paired is not None},
    )


def _overlap_change(
    run: RunSeries, loss: Series, x: Floats, restart: int, points: int, p: Parameters
) -> Optional[float]:
    """Median change of ln loss at the steps that both starts logged, where it is one; else None."""
    for old in run.superseded.get("loss", ()):
        old = old.finite
        old = old.picked((old.value > 0) & (old.step >= restart))
        if len(old) < 8 or old.step[0] > restart + 2 * max(int(np.median(np.diff(old.step))), 1):
            continue
        join = loss.at_or_after(restart)
        within = loss.step[join : join + 4 * points]
        _, here, there = np.intersect1d(within, old.step[: 4 * points], return_indices=True)
        here += join
        if len(here) < 8:
            continue
        change = x[here] - np.log(old.value[there])
        s = sigma_iqr(change)
        level = float(np.median(change))
        if abs(level) > max(p.errors * 1.25 * s / math.sqrt(len(here)), p.rise):
            return level
    return None


def _level(run: RunSeries, role: str, restart: int, times: float, severity: str) -> Optional[Finding]:
    curve = run.finite(role)
    if curve is None:
        return None
    join = curve.at_or_after(restart)
    if not 1 <= join < len(curve):
        return None
    before, after = (float(value) for value in curve.values(join - 1, join + 1))
    if role == "lr":
        # What the schedule would have done in one more point.
        trend = before - float(curve.stored[join - 2]) if join >= 2 else 0.0
        before_next = max(before + max(trend, 0.0), before)
        # A restart at the very end of a decay may begin with less than the schedule's own next value.
        if not (before > 0 and after > times * before_next and after > 0.01 * highest(curve, 0, join)):
            return None
        title = "Learning rate", "学习率"
    else:
        if not (before > 0 and after >= times * before):
            return None
        title = "Loss scale", "loss scale"
    step = int(curve.step[join])
    values = number(before), number(after)
    return curve.finding(
        "resume_discontinuity",
        severity,
        (join, min(join + _AFTER[-1], len(curve)) - 1, join),
        Text(
            f"{title[0]} went from {values[0]} to {values[1]} ({percent(after / before)}) at the "
            f"restart at step {step:,}.",
            f"第 {step:,} 步重启时{title[1]}从 {values[0]} 变为 {values[1]}（{percent(after / before)}）。",
        ),
        _ADVICE[role],
        {"before": before, "after": after, "ratio": after / before},
    )


RULE = Rule(
    id="resume_discontinuity",
    title=Text("the curves do not join at a restart", "重启处曲线不连续"),
    function=resume_discontinuity,
    parameters=Parameters,
    reads=("loss", "lr", "loss_scale"),
    severities=("warning", "info"),
    advice=_ADVICE,
)
