"""Rule `overfitting`: the eval loss worsens while the train loss improves.

Definition: sigma = 1.4826 median|second difference|/sqrt 6 of the evals (0.5 % under 6 evals); best =
running minimum of the medians of 3 evals. At least 3 evals in a row above best + max(5 %, 1.5 sigma),
their median at or above best + max(5 %, 3.5 sigma sqrt(1/m + 1/3)), m their number, and the median of up
to 32 train points fell by 1 % or more meanwhile. The finding begins at the best eval. Warning if it
reaches the end or for 5 evals or more, else info. Also an eval accuracy that is more than 5 points under
the train accuracy, the gap growing and the eval accuracy not.

Source: early stopping as usual (Prechelt, 1998), with the noise of the evals measured; thresholds by this
project.

Quiet when: under 4 evals; eval and train steps lie on different axes (that is said, as info).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Optional

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import MAD_TO_SIGMA, median3, number, percent, stretches
from tb_mindformers_plugin.health.series import Floats, RunSeries, Series

_ADVICE = {
    "overfitting": Text(
        "Keep the checkpoint of the best eval; train shorter, with more data, or with more regularisation (weight "
        "decay, dropout, augmentation).",
        "保留评估最优处的检查点；缩短训练、增加数据，或加强正则化（权重衰减、dropout、数据增强）。",
    ),
    "axes": Text(
        "Log evals at the training step, so that both losses can be compared.",
        "请按训练步记录评估结果，以便两条损失曲线可以对比。",
    ),
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `overfitting`.

    Attributes:
      rise: least rise over the best, as a part of it.
      evals: fewest evals in a row.
      fall: least fall of the train loss meanwhile, as a part of it.
      long: so many evals are a warning also where they do not reach the end.
      gap: accuracy may be so much lower in evals.
    """

    rise: float = 0.05
    evals: int = 3
    fall: float = 0.01
    long: int = 5
    gap: float = 0.05


_TRAIN_POINTS = 32


def overfitting(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns a finding for the loss, and one for the accuracy where the loss has none.

    >>> from tb_mindformers_plugin.health.series import of_arrays
    >>> evals = np.array([3.0, 2.5, 2.2, 2.1, 2.3, 2.5, 2.8, 3.1])
    >>> run = of_arrays({
    ...     "loss": (np.arange(800), None, np.linspace(3, 0.5, 800)),
    ...     "eval_loss": (np.arange(100, 801, 100), None, evals),
    ... })
    >>> (found,) = overfitting(run)
    >>> found.severity, found.first_step
    ('warning', 400)
    """
    found = _by_loss(run, parameters)
    return found or _by_accuracy(run, parameters)


def _by_loss(run: RunSeries, p: Parameters) -> list[Finding]:
    evals, train = run.finite("eval_loss"), run.finite("loss")
    if evals is None or train is None or len(evals) < 4:
        return []
    v = evals.value
    if _different_axes(evals, train):
        return [
            evals.finding(
                RULE.id,
                "info",
                (0, len(evals) - 1, 0),
                Text(
                    f"Evals (steps {int(evals.step[0]):,} to {int(evals.step[-1]):,}) and training (steps "
                    f"{int(train.step[0]):,} to {int(train.step[-1]):,}) are counted on different axes: overfitting "
                    "cannot be judged.",
                    f"评估（第 {int(evals.step[0]):,} 至 {int(evals.step[-1]):,} 步）与训练（第 "
                    f"{int(train.step[0]):,} 至 "
                    f"{int(train.step[-1]):,} 步）使用不同的步数轴：无法判断是否过拟合。",
                ),
                _ADVICE["axes"],
                {"different_axes": True},
            )
        ]
    if not float(np.median(v)) > 0:
        return []
    if len(v) < 6:
        sigma = 0.005 * float(np.median(v))
    else:
        sigma = MAD_TO_SIGMA * float(np.median(np.abs(np.diff(v, 2)))) / math.sqrt(6)
    smooth = median3(v)
    lowest = np.minimum.accumulate(smooth)
    where = np.maximum.accumulate(np.where(smooth == lowest, np.arange(len(smooth)), 0)) + 1
    i = np.arange(3, len(v))
    best, at = lowest[i - 3], where[i - 3]
    above = v[i] > best + np.maximum(p.rise * best, 1.5 * sigma)
    found: list[Finding] = []
    for a, b in stretches(above):
        first, last = int(i[a]), int(i[b])
        m = last - first + 1
        low, best_at = float(best[a]), int(at[a])
        best_at += int(np.argmin(v[best_at - 1 : best_at + 2])) - 1
        if m < p.evals:
            continue
        level = float(np.median(v[first : last + 1]))
        if level < low + max(p.rise * low, 3.5 * sigma * math.sqrt(1 / m + 1 / 3)):
            continue
        before = _train_level(train, int(evals.step[best_at]))
        now = _train_level(train, int(evals.step[last]))
        if before is None or now is None or not now <= (1 - p.fall) * before:
            continue
        to_end = last == len(v) - 1
        top = first + int(np.argmax(v[first : last + 1]))
        steps = f"{int(evals.step[best_at]):,}", f"{int(evals.step[top]):,}"
        low, high = float(v[best_at]), float(v[top])
        found.append(
            evals.finding(
                RULE.id,
                "warning" if to_end or m >= p.long else "info",
                (best_at, last, top),
                Text(
                    f"Eval loss turned at step {steps[0]}: from {number(low)} to {number(high)} "
                    f"({percent(high / low)}) "
                    f"at step {steps[1]}, while the train loss went from {number(before)} to {number(now)}.",
                    f"评估损失在第 {steps[0]} 步出现拐点：从 {number(low)} 升至第 {steps[1]} 步的 {number(high)}"
                    f"（{percent(high / low)}），同期训练损失从 {number(before)} 变为 {number(now)}。",
                ),
                _ADVICE["overfitting"],
                {
                    "best": low,
                    "best_step": int(evals.step[best_at]),
                    "worst": high,
                    "evals": m,
                    "train_before": before,
                    "train_now": now,
                },
            )
        )
    # A rise that is interrupted by one good eval is one rise.
    return found[:1] if len(found) <= 1 else [_joined(found)]


def _joined(found: list[Finding]) -> Finding:
    worst = max(found, key=lambda f: float(f.evidence["worst"]))
    severity = "warning" if any(f.severity == "warning" for f in found) else "info"
    return dataclasses.replace(worst, severity=severity, first_step=found[0].first_step, last_step=found[-1].last_step)


def _different_axes(evals: Series, train: Series) -> bool:
    reach = max(int(train.step[-1] - train.step[0]) // max(len(train) - 1, 1), 1) * 2
    within = (evals.step >= train.step[0] - reach) & (evals.step <= train.step[-1] + reach)
    # An eval before the first step, and one behind the last, are usual.
    return int(np.count_nonzero(within)) < 0.5 * len(evals)


def _train_level(train: Series, step: int) -> Optional[float]:
    """Median of the up to 32 train points until `step`."""
    stop = int(np.searchsorted(train.step, step, side="right"))
    if stop == 0:
        stop = 1 if len(train) and train.step[0] - step <= max(int(train.step[-1]) // 50, 1) else 0
    return float(np.median(train.value[max(stop - _TRAIN_POINTS, 0) : stop])) if stop else None


def _by_accuracy(run: RunSeries, p: Parameters) -> list[Finding]:
    evals, train = run.finite("eval_accuracy"), run.finite("accuracy")
    if evals is None or train is None or len(evals) < 6 or _different_axes(evals, train):
        return []
    levels = [_train_level(train, int(step)) for step in evals.step]
    beside = np.array([np.nan if level is None else level for level in levels])
    kept = evals.picked(np.isfinite(beside))
    gap: Floats = beside[np.isfinite(beside)] - kept.value
    scale = 100.0 if max(float(np.max(kept.value)), float(np.max(train.value))) > 1.5 else 1.0
    if len(gap) < 6 or gap[-3:].min() < p.gap * scale:
        return []
    third = len(gap) // 3
    grown = float(np.median(gap[-3:]) - np.median(gap[:third]))
    improving = float(np.median(kept.value[-3:])) > float(np.max(median3(kept.value[:-3]), initial=-np.inf))
    if grown < p.gap * scale / 2:
        return []
    wide = np.flatnonzero(gap < p.gap * scale)
    first = int(wide[-1]) + 1 if len(wide) else 0
    early = float(np.median(gap[:third]))
    grew = np.flatnonzero(gap[: first + 1] < early + grown / 4)
    first = int(grew[-1]) if len(grew) else first
    last = len(kept) - 1
    now = float(np.median(gap[-3:])) / scale
    step = int(kept.step[first])
    return [
        kept.finding(
            RULE.id,
            "info" if improving else "warning",
            (first, last, first + int(np.argmax(gap[first:]))),
            Text(
                f"Eval accuracy is {now * 100:.1f} points under the train accuracy, and the gap has grown since step "
                f"{step:,}.",
                f"评估准确率比训练准确率低 {now * 100:.1f} 个百分点，且差距自第 {step:,} 步起不断扩大。",
            ),
            _ADVICE["overfitting"],
            {"gap": now, "grown": grown / scale, "eval_improving": improving},
        )
    ]


RULE = Rule(
    id="overfitting",
    title=Text("eval worsens while train improves", "过拟合：训练在改善而评估在变差"),
    function=overfitting,
    parameters=Parameters,
    reads=("eval_loss", "eval_accuracy"),
    severities=("warning", "info"),
    advice=_ADVICE,
)
