"""Rule `lr_schedule_mismatch`: the learning rate is not what a schedule does.

Definition: with a declared schedule (of any kind that the callback declares), a relative error above 1 % for
10 points in a row or more, against the declared values from one step ahead to as many behind as steps were
skipped, since the newest start of the run. Undeclared: a ratio of neighbours above 1.5, either way, that was
not foretold by the line through the two points before (within max(a sixth of the larger, 1 % of the peak))
nor by their ratio. Warning when it goes above the earlier peak, is undone by its inverse within a quarter of
the points, falls between pieces that are not flat, or when the learning rate is 0 outside the warm-up and the
last 5 %. Else info. Changes that the run recorded as an action (`reduce_lr`) are taken out first.

Source: measured definition of this project; schedules as MindSpore and MindSpore Transformers define them.

Quiet when: in the warm-up; falls between flat pieces, or repeated by one factor (a step decay); warm
restarts (it fell smoothly below 60 % of the peak, and lands at 30 % of it or more); at restarts of the run
(`resume_discontinuity` judges those).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Optional, Sequence, Tuple

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import Times
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import near_joins, stretches
from tb_mindformers_plugin.health.series import Floats, RunSeries, Series
from tb_mindformers_plugin.language import number, percent
from tb_mindformers_plugin.schedules import learning_rates

_ADVICE = {
    "declared": Text(
        "Compare the schedule in the configuration with what the optimizer uses: another warm-up length, total "
        "steps, or steps that are counted in other units.",
        "对照配置中的调度与优化器实际使用的调度：可能是预热步数、总步数不同，或步数的计量单位不同。",
    ),
    "jump": Text(
        "Look at what changed the learning rate there: a schedule that started over, a second scheduler, or a "
        "manual change.",
        "查看是什么改变了学习率：调度重新开始、存在第二个调度器，或人工修改。",
    ),
    "zero": Text(
        "Check the schedule's total steps: with a learning rate of 0 nothing is learnt.",
        "检查调度的总步数：学习率为 0 时模型不会学习。",
    ),
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `lr_schedule_mismatch`.

    Attributes:
      error: allowed relative error against a declared schedule.
      points: fewest points in a row that are off.
      ratio: a ratio of neighbours above this is a jump.
      zeros: fewest points in a row that are 0.
    """

    error: float = 0.01
    points: int = 10
    ratio: Times = 1.5
    zeros: int = 10


def lr_schedule_mismatch(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns one finding for a declared schedule; else one a jump, five at most.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> lr = np.concatenate([np.linspace(0, 1e-3, 50), np.full(300, 1e-3), np.full(100, 1e-2)])
    >>> [(f.severity, f.first_step) for f in lr_schedule_mismatch(of_values(lr=lr))]
    [('warning', 350)]
    """
    lr = run.finite("lr")
    if lr is None or len(lr) < 3 or (lr.value < 0).any():
        return []
    started = run.manifest.resumed_from or 0
    newest = lr.picked(slice(lr.at_or_after(started + 1), None)) if started else lr
    expected = _declared(run, newest) if len(newest) else None
    if expected is not None:
        changes = [change for change in run.lr_changes if not started or change[0] > started]
        return _against(_unchanged(newest, changes), *expected, parameters)
    return _undeclared(run, _unchanged(lr, run.lr_changes), parameters)


def _unchanged(lr: Series, changes: Sequence[Tuple[int, float]]) -> Series:
    """The learning rate as it would be without the changes that the training's own log tells of."""
    value = lr.value.copy()
    for step, factor in changes:
        value[lr.at_or_after(step + 1) :] /= factor
    return dataclasses.replace(lr, value=value) if changes else lr


def _declared(run: RunSeries, lr: Series) -> Optional[Tuple[Floats, Floats, float]]:
    """Lowest and highest value that the declared schedule allows at each point, and its peak."""
    schedule = run.manifest.schedule
    if not schedule:
        return None
    skipped = run.curves.get("overflow")
    lag = np.zeros(len(lr))
    if skipped is not None:
        lost = np.cumsum(skipped.value > 0)
        place = np.searchsorted(skipped.step, lr.step, side="right") - 1
        lag = np.where(place >= 0, lost[np.maximum(place, 0)], 0)
    shifts = (-1, 0, 1, lag, lag + 1, lag + 2, lag / 2)
    try:
        choices = np.array([learning_rates(schedule, np.maximum(lr.step - shift, 0)) for shift in shifts])
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None  # what it declares is unknown here, or wrong
    peak = schedule.get("peak")
    return np.fmin.reduce(choices), np.fmax.reduce(choices), float(peak or 0.0)


def _against(lr: Series, low: Floats, high: Floats, peak: float, p: Parameters) -> list[Finding]:
    v = lr.value
    # Near 0 a relative error means nothing.
    least = 1e-4 * peak
    off = (v < low * (1 - p.error) - least) | (v > high * (1 + p.error) + least)
    found = [s for s in stretches(off) if s[1] - s[0] + 1 >= p.points]
    if not found:
        return []
    first, last = found[0][0], found[-1][1]
    error = np.maximum(low - v, v - high) / np.maximum(high, least)
    worst = first + int(np.argmax(error[first : last + 1]))
    should = float(low[worst] if v[worst] < low[worst] else high[worst])
    points = sum(b - a + 1 for a, b in found)
    steps = f"{int(lr.step[first]):,}", f"{int(lr.step[last]):,}", f"{int(lr.step[worst]):,}"
    return [
        lr.finding(
            RULE.id,
            "warning",
            (first, last, worst),
            Text(
                f"Learning rate is not the declared schedule's at {points:,} points from step "
                f"{steps[0]} to {steps[1]}: "
                f"{number(float(v[worst]))} instead of {number(should)} at step {steps[2]}.",
                f"第 {steps[0]} 至 {steps[1]} 步有 {points:,} 个记录点的学习率与声明的调度不符：第 {steps[2]} 步为 "
                f"{number(float(v[worst]))}，应为 {number(should)}。",
            ),
            _ADVICE["declared"],
            {"points": points, "value": float(v[worst]), "expected": should},
        )
    ]


def _undeclared(run: RunSeries, lr: Series, p: Parameters) -> list[Finding]:
    v = lr.value
    stops = (v[1:] <= v[:-1]) & (v[:-1] > 0)
    warm = int(np.argmax(stops)) + 1 if stops.any() else len(v)
    found = _zeros(lr, warm, p)
    at = _jumps(lr, warm, p)
    if len(at):
        at = at[~near_joins(run, lr, 0, 1)[at]]
    ratios = v[at] / np.maximum(v[at - 1], 1e-300)
    for k, i in enumerate(at.tolist()):
        severity = _judge(lr, at, ratios, k)
        if severity is None:
            continue
        before, after = float(v[i - 1]), float(v[i])
        step = int(lr.step[i])
        change = percent(after / before) if before > 0 else ""
        found.append(
            lr.finding(
                RULE.id,
                severity,
                (i, i, i),
                Text(
                    f"Learning rate jumped from {number(before)} to "
                    f"{number(after)}{f' ({change})' if change else ''} at "
                    f"step {step:,}, which no schedule foretold.",
                    f"第 {step:,} 步学习率从 {number(before)} 突变为 "
                    f"{number(after)}{f'（{change}）' if change else ''}，"
                    "不符合任何调度规律。",
                ),
                _ADVICE["jump"],
                {"before": before, "after": after, "ratio": after / before if before > 0 else math.inf},
            )
        )
    return sorted(found, key=lambda f: f.severity == "info")[:5]


def _jumps(lr: Series, warm: int, p: Parameters) -> Any:
    """Indices behind the warm-up of values that the two before do not foretell."""
    v = lr.value
    first = max(warm, 2)
    later, before = v[first:], v[first - 1 : -1]
    i = first + np.flatnonzero((later > p.ratio * before) | (before > p.ratio * later))
    if not len(i):
        return i
    step = lr.step.astype(np.float64)
    a, b, c = v[i - 2], v[i - 1], v[i]
    larger = np.maximum(b, c)
    line = b + (b - a) * (step[i] - step[i - 1]) / (step[i - 1] - step[i - 2])
    peak = np.maximum.accumulate(v)[i]
    near_line = np.abs(c - line) <= np.maximum(larger / 6, 0.01 * peak)
    near_ratio = np.abs(c * a - b * b) <= 0.1 * b * b
    near_ratio &= np.abs(a / b - 1) > 0.01
    return i[~near_line & ~near_ratio]


def _judge(lr: Series, at: Any, ratios: Floats, k: int) -> Optional[str]:
    v, i, ratio = lr.value, int(at[k]), float(ratios[k])
    peak = float(v[:i].max())
    # Logarithms, so that a fall to 0 is one like any other.
    logs = np.log(np.maximum(ratios, 1e-12))
    others = np.arange(len(at)) != k
    undone = bool((others & (np.abs(logs + logs[k]) < 0.15) & (np.abs(at - i) <= np.maximum(at, i) / 4)).any())
    same = others & (np.abs(logs - logs[k]) < 0.1)
    if ratio > 1:
        # A cosine with restarts whose warm-up cut the first peak short comes back above it.
        top = int(np.argmax(v[:i]))
        smooth = not any(top < int(j) < i and v[int(j)] < v[int(j) - 1] for j in at)
        if smooth and v[i - 1] < 0.6 * peak and 0.3 * peak <= v[i] <= 1.3 * peak:
            return None
        return "warning" if undone or v[i] > 1.01 * peak else "info"
    if undone:
        return "warning"
    before, after = v[max(i - 4, 0) : i], v[i : i + 4]
    flat = _is_flat(before), _is_flat(after)
    if all(flat) or same[:k].any() or i >= 0.95 * len(v):
        return None
    # The first of several by one factor could not be known for one of them.
    return "info" if any(flat) or same.any() else "warning"


def _is_flat(v: Floats) -> bool:
    return float(v.max() - v.min()) <= 0.01 * float(v.max())


def _zeros(lr: Series, warm: int, p: Parameters) -> list[Finding]:
    v = lr.value
    n = len(v)
    zero = v == 0
    zero[:warm] = False
    if not zero.any() or not v.any():
        return []
    for first, last in stretches(zero):
        if last - first + 1 >= p.zeros and first < 0.95 * n:
            steps = f"{int(lr.step[first]):,}", f"{int(lr.step[last]):,}"
            return [
                lr.finding(
                    RULE.id,
                    "warning",
                    (first, last, first),
                    Text(
                        f"Learning rate is 0 from step {steps[0]} to {steps[1]}: nothing is learnt there.",
                        f"第 {steps[0]} 至 {steps[1]} 步学习率为 0：这段时间模型没有在学习。",
                    ),
                    _ADVICE["zero"],
                    {"points": last - first + 1},
                )
            ]
    return []


RULE = Rule(
    id="lr_schedule_mismatch",
    title=Text("the learning rate is not what a schedule does", "学习率不符合调度"),
    function=lr_schedule_mismatch,
    parameters=Parameters,
    reads=("lr",),
    severities=("warning", "info"),
    advice=_ADVICE,
)
