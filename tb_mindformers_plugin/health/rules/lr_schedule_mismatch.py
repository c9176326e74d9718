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
from typing import Callable, NamedTuple, Optional, Tuple

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import Times
from tb_mindformers_plugin.health.points import first_place, highest, is_positive, places
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import groups, near_joins
from tb_mindformers_plugin.health.series import Floats, Indices, Mask, RunSeries, Series
from tb_mindformers_plugin.language import number, percent
from tb_mindformers_plugin.runs.growing import Growing
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
    if lr is None or len(lr) < 3 or (lr.stored[places(lr, _is_none)] < 0).any():
        return []
    started = run.manifest.resumed_from or 0
    newest = lr.cut(lr.at_or_after(started + 1)) if started else lr
    if run.manifest.schedule and len(newest):
        changes = tuple(change for change in run.lr_changes if not started or change[0] > started)
        try:
            return _against(run, newest, changes, parameters)
        except (KeyError, TypeError, ValueError, ZeroDivisionError):
            pass  # what it declares is unknown here, or wrong
    return _undeclared(run, _unchanged(lr, run.lr_changes), parameters)


_Changes = Tuple[Tuple[int, float], ...]


def _unchanged(lr: Series, changes: _Changes) -> Series:
    """The learning rate as it would be without the changes that the training's own log tells of."""
    if not changes:
        return lr
    value = lr.values(0).copy()
    for step, factor in changes:
        value[lr.at_or_after(step + 1) :] /= factor
    return Series(lr.role, lr.tag, lr.step, lr.wall, value)


class _Bounds(NamedTuple):
    """Lowest and highest value that the declared schedule allows at each of (n,) points; and the value, unchanged."""

    low: Floats
    high: Floats
    value: Floats


def _bounds(run: RunSeries, lr: Series, changes: _Changes) -> _Bounds:
    """Raises KeyError, TypeError, ValueError or ZeroDivisionError where the schedule means nothing."""
    schedule = run.manifest.schedule or {}
    skipped = run.curves.get("overflow")
    lag = np.zeros(len(lr))
    if skipped is not None:
        lag += np.searchsorted(skipped.step[places(skipped, is_positive)], lr.step, side="right")
    shifts = (-1, 0, 1, lag, lag + 1, lag + 2, lag / 2)
    choices = np.array([learning_rates(schedule, np.maximum(lr.step - shift, 0)) for shift in shifts])
    return _Bounds(np.fmin.reduce(choices), np.fmax.reduce(choices), _unchanged(lr, changes).value)


def _against(run: RunSeries, lr: Series, changes: _Changes, p: Parameters) -> list[Finding]:
    schedule, skipped = run.manifest.schedule or {}, run.curves.get("overflow")
    # Near 0 a relative error means nothing.
    least = 1e-4 * float(schedule.get("peak") or 0.0)

    def off(first: int, stop: int) -> Indices:
        low, high, v = _bounds(run, lr.picked(slice(first, stop)), changes)
        return first + np.flatnonzero((v < low * (1 - p.error) - least) | (v > high * (1 + p.error) + least))

    # How many steps were skipped before a point is settled only when the overflows are known that far.
    settled = len(lr) if skipped is None else lr.at_or_after(int(skipped.step[-1]) + 1)
    known = lr.extended(
        (RULE.id, p, repr(schedule), changes, None if skipped is None else skipped.kept.origin),
        lambda known, _: _longer(known or _Off(0, Growing((np.empty(0, np.int64),))), settled, off),
    )
    at = np.concatenate([known.at.arrays[0], off(known.points, len(lr))])
    found = [s for s in groups(at) if s[1] - s[0] + 1 >= p.points]
    if not found:
        return []
    first, last = found[0][0], found[-1][1]
    low, high, v = _bounds(run, lr.picked(slice(first, last + 1)), changes)
    worst = int(np.argmax(np.maximum(low - v, v - high) / np.maximum(high, least)))
    should = float(low[worst] if v[worst] < low[worst] else high[worst])
    points = sum(b - a + 1 for a, b in found)
    steps = f"{int(lr.step[first]):,}", f"{int(lr.step[last]):,}", f"{int(lr.step[first + worst]):,}"
    return [
        lr.finding(
            RULE.id,
            "warning",
            (first, last, first + worst),
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


class _Off(NamedTuple):
    """Which of the first `points` are off."""

    points: int
    at: Growing

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return self.at.nbytes


def _longer(known: _Off, settled: int, off: Callable[[int, int], Indices]) -> _Off:
    if settled <= known.points:
        return known
    return _Off(settled, known.at.longer((off(known.points, settled),)))


def _is_none(value: Floats) -> Mask:
    return value <= 0


def _stops(value: Floats) -> Mask:
    return (value[1:] <= value[:-1]) & (value[:-1] > 0)


def _leaps(value: Floats, ratio: float) -> Mask:
    return (value[1:] > ratio * value[:-1]) | (value[:-1] > ratio * value[1:])


def _undeclared(run: RunSeries, lr: Series, p: Parameters) -> list[Finding]:
    warm = first_place(lr, _stops, before=1)
    warm = len(lr) if warm is None else warm
    found = _zeros(lr, warm, p)
    at = _jumps(lr, warm, p)
    if not len(at):
        return found
    at = at[~near_joins(run, lr, at, 0, 1)]
    ratios = lr.values_of(at) / np.maximum(lr.values_of(at - 1), 1e-300)
    for k, i in enumerate(at.tolist()):
        severity = _judge(lr, at, ratios, k)
        if severity is None:
            continue
        before, after = float(lr.value[i - 1]), float(lr.value[i])
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


def _jumps(lr: Series, warm: int, p: Parameters) -> Indices:
    """Indices behind the warm-up of values that the two before do not foretell."""
    i = places(lr, _leaps, p.ratio, before=1)
    i = i[i >= max(warm, 2)]
    if not len(i):
        return i
    v = lr.value
    a, b, c = v[i - 2], v[i - 1], v[i]
    larger = np.maximum(b, c)
    line = b + (b - a) * (lr.step[i] - lr.step[i - 1]) / (lr.step[i - 1] - lr.step[i - 2])
    peak = np.array([highest(lr, 0, place + 1) for place in i.tolist()])
    near_line = np.abs(c - line) <= np.maximum(larger / 6, 0.01 * peak)
    near_ratio = np.abs(c * a - b * b) <= 0.1 * b * b
    near_ratio &= np.abs(a / b - 1) > 0.01
    return i[~near_line & ~near_ratio]


def _judge(lr: Series, at: Indices, ratios: Floats, k: int) -> Optional[str]:
    v, i, ratio = lr.value, int(at[k]), float(ratios[k])
    peak = highest(lr, 0, i)
    # Logarithms, so that a fall to 0 is one like any other.
    logs = np.log(np.maximum(ratios, 1e-12))
    others = np.arange(len(at)) != k
    undone = bool((others & (np.abs(logs + logs[k]) < 0.15) & (np.abs(at - i) <= np.maximum(at, i) / 4)).any())
    same = others & (np.abs(logs - logs[k]) < 0.1)
    if ratio > 1:
        # A cosine with restarts whose warm-up cut the first peak short comes back above it.
        between = at[(at > int(np.argmax(v[:i]))) & (at < i)]
        smooth = not (v[between] < v[between - 1]).any()
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
    """Of a learning rate that is nowhere negative."""
    zero = places(lr, _is_none)
    if len(zero) == len(lr):
        return []
    for first, last in groups(zero[zero >= warm]):
        if last - first + 1 >= p.zeros and first < 0.95 * len(lr):
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
