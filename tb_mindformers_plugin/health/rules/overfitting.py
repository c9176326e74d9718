"""Rule `overfitting`: the eval loss worsens while the train loss improves.

Definition: best = running minimum of the medians of 3 evals; sigma = 1.4826 median|second difference|/sqrt 6 of
the evals so far (0.5 % of best under 6 evals). At least 3 evals in a row above best by more than 5 %, the last
3 by 1.5 sigma, their median at or above best + max(5 %, 3.5 sigma sqrt(1/m + 1/3)), m their number, and the
median of up to 32 train points fell by 1 % or more meanwhile. The finding begins at the best eval. Warning if
it reaches the end or for 5 evals or more, else info. Also an eval accuracy that is more than 5 points under the
train accuracy in 3 evals in a row, the gap having grown by half of that from its least (medians of 3); info
where the eval accuracy still improves, or the gap has closed.

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
from tb_mindformers_plugin.health.limits import Part
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import MAD_TO_SIGMA, median3, stretches
from tb_mindformers_plugin.health.series import Floats, RunSeries, Series
from tb_mindformers_plugin.language import number, percent

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
    fall: Part = 0.01
    long: int = 5
    gap: Part = 0.05


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
    smooth = median3(v)
    lowest = np.minimum.accumulate(smooth)
    where = np.maximum.accumulate(np.where(smooth == lowest, np.arange(len(smooth)), 0)) + 1
    best, at = lowest[: len(v) - 3], where[: len(v) - 3]  # before evals 3, 4, …
    found: list[Finding] = []
    for a, b in stretches((best > 0) & (v[3:] > (1 + p.rise) * best)):
        first, last = a + 3, b + 3
        low = int(at[a]) - 1 + int(np.argmin(v[at[a] - 1 : at[a] + 2]))
        if any(_turned(evals, train, low, float(best[a]), first, i, p) for i in range(first + p.evals - 1, last + 1)):
            found.append(_worsens(evals, train, low, first, last, p))
    # A rise that is interrupted by one good eval is one rise.
    return found[:1] if len(found) <= 1 else [_joined(found)]


def _turned(evals: Series, train: Series, low: int, best: float, first: int, i: int, p: Parameters) -> bool:
    """Whether evals `first` to `i` are worse than the best, and train is better, as far as is known at `i`."""
    v, m = evals.value, i - first + 1
    sigma = 0.005 * best
    if i >= 5:
        sigma = MAD_TO_SIGMA * float(np.median(np.abs(np.diff(v[: i + 1], 2)))) / math.sqrt(6)
    least = max(p.rise * best, 3.5 * sigma * math.sqrt(1 / m + 1 / 3))
    if float(np.median(v[first : i + 1])) < best + least or v[i - p.evals + 1 : i + 1].min() < best + 1.5 * sigma:
        return False
    before, now = _train_level(train, int(evals.step[low])), _train_level(train, int(evals.step[i]))
    return before is not None and now is not None and now <= (1 - p.fall) * before


def _worsens(evals: Series, train: Series, low: int, first: int, last: int, p: Parameters) -> Finding:
    v, m = evals.value, last - first + 1
    before, now = _train_level(train, int(evals.step[low])), _train_level(train, int(evals.step[last]))
    top = first + int(np.argmax(v[first : last + 1]))
    steps = f"{int(evals.step[low]):,}", f"{int(evals.step[top]):,}"
    best, high = float(v[low]), float(v[top])
    trained = number(before or 0.0), number(now or 0.0)
    return evals.finding(
        RULE.id,
        "warning" if last == len(v) - 1 or m >= p.long else "info",
        (low, last, top),
        Text(
            f"Eval loss turned at step {steps[0]}: from {number(best)} to {number(high)} "
            f"({percent(high / best)}) "
            f"at step {steps[1]}, while the train loss went from {trained[0]} to {trained[1]}.",
            f"评估损失在第 {steps[0]} 步出现拐点：从 {number(best)} 升至第 {steps[1]} 步的 {number(high)}"
            f"（{percent(high / best)}），同期训练损失从 {trained[0]} 变为 {trained[1]}。",
        ),
        _ADVICE["overfitting"],
        {
            "best": best,
            "best_step": int(evals.step[low]),
            "worst": high,
            "evals": m,
            "train_before": before,
            "train_now": now,
        },
    )


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
    scale = 100.0 if max(float(np.max(kept.value, initial=0)), float(np.max(train.value))) > 1.5 else 1.0
    if len(gap) < 6:
        return []
    smooth = median3(gap)  # of evals k .. k + 2
    least = np.minimum.accumulate(smooth)
    k = np.arange(5, len(gap))
    wide = (np.minimum(np.minimum(gap[k], gap[k - 1]), gap[k - 2]) >= p.gap * scale) & (
        smooth[k - 2] - least[k - 5] >= p.gap * scale / 2
    )
    return [
        _gap(kept, gap, scale, float(least[a]), int(k[a]), int(k[b]), int(k[b]) == len(gap) - 1)
        for a, b in stretches(wide, bridge=1)
    ]


def _gap(evals: Series, gap: Floats, scale: float, least: float, seen: int, last: int, on: bool) -> Finding:
    """A gap that was seen at eval `seen`; it began where it left its least, as far as was known then."""
    grew = np.flatnonzero(gap[:seen] < least + (float(np.median(gap[seen - 2 : seen + 1])) - least) / 4)
    first = int(grew[-1]) if len(grew) else 0
    improving = float(np.median(evals.value[-3:])) > float(np.max(median3(evals.value[:-3]), initial=-np.inf))
    now, step = float(np.median(gap[last - 2 : last + 1])) / scale, int(evals.step[first])
    ends = ("", "") if on else (" It has closed since.", "之后差距已缩小。")
    return evals.finding(
        RULE.id,
        "info" if improving or not on else "warning",
        (first, last, first + int(np.argmax(gap[first : last + 1]))),
        Text(
            f"Eval accuracy is {now * 100:.1f} points under the train accuracy, and the gap has grown since step "
            f"{step:,}.{ends[0]}",
            f"评估准确率比训练准确率低 {now * 100:.1f} 个百分点，且差距自第 {step:,} 步起不断扩大。{ends[1]}",
        ),
        _ADVICE["overfitting"],
        {"gap": now, "grown": now - least / scale, "eval_improving": improving, "still_on": on},
    )


RULE = Rule(
    id="overfitting",
    title=Text("eval worsens while train improves", "过拟合：训练在改善而评估在变差"),
    function=overfitting,
    parameters=Parameters,
    reads=("eval_loss", "eval_accuracy"),
    severities=("warning", "info"),
    advice=_ADVICE,
)
