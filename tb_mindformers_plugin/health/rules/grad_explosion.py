"""Rule `grad_explosion`: the grad norm jumped, or climbed within some steps.

Definition: the jump test of `loss_spike` on the logarithm of the grad norm: more than ln 10 above the
median of the 128 points before, sigma at least 0.05. Or it climbed: the same test against the 128 points
that end 32 to 63 points before (four whole blocks of 32), which a climb of some steps does not reach into,
passed by the point and, with a rise of half as many times, by the two before it. An explosion that begins with a climb
is told from where the norm left twice that level. Critical: the loss is not finite within 50 points, or its
level rose by more than max(6 sigma, 20 %), which the next 50 points tell. Warning: 60 times the median or
more, or 30 times at two points or more, or the median of the next 10 losses more than 3 sigma up, or a climb
that ends in a norm that is not finite. Else info. More than 5 groups that the loss did not follow, and more
than one per 200 points so far, are one info from then on: the grad norm is heavy-tailed.

Source: measured definition of this project.

Quiet when: less than ten-fold. Info at steps that a dynamic loss scale skipped, and for a climb below 60 times
where the learning rate rose more than 1.5 times from 32 points before it (a restart of its schedule) and the loss
stays finite.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Iterator, Tuple

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import AnyPoints, Times
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import BLOCK, block_levels, groups, median, ratio_loss, sigma_iqr
from tb_mindformers_plugin.health.rolling import WINDOW, Baseline, baseline, may_exceed
from tb_mindformers_plugin.health.series import Floats, Indices, Mask, RunSeries, Series
from tb_mindformers_plugin.language import number, times

_ADVICE = {
    "explosion": Text(
        "Clip gradients (or lower the threshold), and look at the batches of these steps; if the loss does not "
        "come back, resume from the checkpoint before with a lower learning rate.",
        "启用梯度裁剪（或降低阈值），并查看这些步的数据批次；若损失不恢复，请从之前的检查点以更低学习率恢复训练。",
    ),
    "tail": Text(
        "Look at a few of these batches; with clipping on, outliers of this kind are usually harmless.",
        "抽查其中几个批次；已启用梯度裁剪时，这类离群值通常无害。",
    ),
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `grad_explosion`.

    Attributes:
      times: least rise over the median.
      z: least rise of the logarithm, in sigmas.
      tail: least rise of the logarithm, in distances from the median to the 99 % quantile.
      floor: sigma of the logarithm is at least this.
      warning_times: a rise that is a warning at one point.
      warning_times_twice: a rise that is a warning at two points.
      gap: points between two jumps of one explosion, at most.
    """

    times: Times = 10.0
    z: float = 6.0
    tail: float = 2.0
    floor: float = 0.05
    warning_times: Times = 60.0
    warning_times_twice: Times = 30.0
    gap: AnyPoints = 16


# Points in a row that are high where the norm climbs; whole blocks of a window; and how far back a climb began.
_IN_A_ROW = 3
_WINDOW_BLOCKS = WINDOW // BLOCK
_CLIMB_POINTS = 64
# Points of the loss, and of the norm, behind an explosion that are taken for its consequence.
_AHEAD = 50


def grad_explosion(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns one finding an explosion, or one for all of a heavy tail.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> norm = 1 + 0.1 * np.sin(np.arange(300.0))
    >>> norm[200] = 90
    >>> (found,) = grad_explosion(of_values(grad_norm=norm))
    >>> found.severity, found.peak_step
    ('warning', 200)
    """
    norm = run.finite("grad_norm")
    norm = None if norm is None else norm.positive
    if norm is None or not len(norm) or _is_calm(norm, parameters):
        return []
    found = [_finding(run, norm, explosion, parameters) for explosion in _explosions(norm, parameters)]
    mild = [f for f in found if not f.evidence["loss_followed"]]
    many = [k for k, f in enumerate(mild) if k >= 5 and k + 1 > norm.at_or_after(f.first_step) / 200]
    if not many:
        return found
    # From then on it is the run's tail; a warning that was given before stands.
    tail = [f for k, f in enumerate(mild) if k >= many[0] or f.severity == "info"]
    return [f for f in found if f not in tail] + [_heavy_tail(norm, tail)]


@dataclasses.dataclass(frozen=True)
class _Explosion:
    """Points of the norm that are one explosion.

    Attributes:
      began: where it left twice its level; `first` where it jumped.
      first, last: the points that passed a test.
      level: the norm before.
      climbed: whether it began with a climb.
    """

    began: int
    first: int
    last: int
    level: float
    climbed: bool


def _explosions(norm: Series, p: Parameters) -> Iterator[_Explosion]:
    jumps, before = _jumps(norm, p)
    climbs, before_climb = _climbs(norm, p)
    free = 0  # of earlier explosions
    for first, last in groups(np.union1d(jumps, climbs), p.gap):
        k = int(np.searchsorted(jumps, first))
        if k < len(jumps) and jumps[k] == first:
            yield _Explosion(first, first, last, math.exp(before[k]), False)
        else:
            level = math.exp(before_climb[int(np.searchsorted(climbs, first))])
            began = first
            while began > max(first - _CLIMB_POINTS, free) and norm.value[began - 1] > 2 * level:
                began -= 1
            yield _Explosion(began, first, last, level, True)
        free = last + 1


def _is_calm(norm: Series, p: Parameters) -> bool:
    """Whether no point lies so far above any block's lower quartile that the median of a window could be below it."""
    levels = block_levels(norm)
    if not len(levels.top):
        return True
    rest = norm.values(len(levels.top) * BLOCK).max(initial=0.0)
    return max(float(levels.top.max()), float(rest)) <= p.times * float(levels.low.min())


def _jumps(norm: Series, p: Parameters) -> Tuple[Indices, Floats]:
    """Points far above those just before them, and the median of the logarithms of those."""
    at = may_exceed(norm, np.full(len(norm) // BLOCK + 1, p.times))
    if not len(at):
        return at, np.empty(0)
    base = baseline(norm.stored, at, scale=np.log)
    jumped = _exceeds(np.log(norm.value[at]), base, p.times, p)
    return at[jumped], base.median[jumped]


def _climbs(norm: Series, p: Parameters) -> Tuple[Indices, Floats]:
    """Points that are far above those before their block and the one before it, as the two before them are."""
    levels, lag = block_levels(norm), _WINDOW_BLOCKS + 1
    blocks = len(levels.top)
    nothing = np.empty(0, np.int64), np.empty(0)
    if blocks < lag:
        return nothing
    # The median of a window is at least the least of its blocks' quartiles, so few windows need to be sorted.
    least = np.minimum.reduce([levels.low[i : blocks - lag + 1 + i] for i in range(_WINDOW_BLOCKS)])
    top = np.append(levels.top, norm.values(blocks * BLOCK).max(initial=0.0))[lag:]
    hot = np.flatnonzero(top > p.times * least) + lag
    if not len(hot):
        return nothing
    x = norm.value
    at = (hot[:, None] * BLOCK + np.arange(BLOCK)).ravel()
    at = at[at < len(x)]
    bound = least[at // BLOCK - lag]
    lowest = np.min([x[at - k] for k in range(_IN_A_ROW)], axis=0)
    may = (x[at] > p.times * bound) & (lowest > p.times / 2 * bound)
    at, lowest = at[may], lowest[may]
    if not len(at):
        return nothing
    base = baseline(norm.stored, (at // BLOCK - 1) * BLOCK, scale=np.log)
    climbed = (np.log(x[at]) - base.median > math.log(p.times)) & _exceeds(np.log(lowest), base, p.times / 2, p)
    return at[climbed], base.median[climbed]


def _exceeds(g: Floats, base: Baseline, rise: float, p: Parameters) -> Mask:
    """Whether logarithms lie far above what was before them."""
    up = g - base.median
    s = np.maximum(base.sigma(), p.floor)
    return (up > math.log(rise)) & (up > p.z * s) & (up > p.tail * (base.q99 - base.median))


@dataclasses.dataclass(frozen=True)
class _Consequence:
    """What followed an explosion.

    Attributes:
      broken: the loss was not finite soon.
      risen: its level rose to stay.
      moved: it rose over the next 10 points.
      lost: the norm itself was not finite soon, at a step that no loss scaler skipped.
    """

    broken: bool = False
    risen: bool = False
    moved: bool = False
    lost: bool = False

    @property
    def of_loss(self) -> bool:
        """Whether the loss followed."""
        return self.broken or self.risen or self.moved


def _finding(run: RunSeries, norm: Series, explosion: _Explosion, p: Parameters) -> Finding:
    first, last = explosion.first, explosion.last
    peak = first + int(np.argmax(norm.value[first : last + 1]))
    highest, level = float(norm.value[peak]), explosion.level
    then = _consequence(run, int(norm.step[first]))
    return norm.finding(
        RULE.id,
        _severity(run, norm, explosion, peak, then, p),
        (explosion.began, last, peak),
        _sentence(norm, explosion, peak, then),
        _ADVICE["explosion"],
        {
            "before": level,
            "peak": highest,
            "ratio": highest / level,
            "points": last - explosion.began + 1,
            "loss_followed": then.of_loss,
            **({"climbed_steps": int(norm.step[peak] - norm.step[explosion.began])} if explosion.climbed else {}),
        },
    )


def _severity(run: RunSeries, norm: Series, explosion: _Explosion, peak: int, then: _Consequence, p: Parameters) -> str:
    first, last = explosion.first, explosion.last
    skipped = run.skipped(norm.step[first : last + 1])
    if skipped is not None and skipped[peak - first]:
        return "info"
    if then.broken:
        return "critical"
    ratio = float(norm.value[peak]) / explosion.level
    if explosion.climbed and ratio < p.warning_times:
        before = int(norm.step[max(explosion.began - BLOCK, 0)])
        if run.lr_rise(before, int(norm.step[first])) > 1.5:
            return "info"
    if then.risen:
        return "critical"
    high = np.count_nonzero(norm.value[first : last + 1] > p.warning_times_twice * explosion.level)
    far = ratio >= p.warning_times or high >= 2
    return "warning" if far or then.moved or (explosion.climbed and then.lost) else "info"


def _sentence(norm: Series, explosion: _Explosion, peak: int, then: _Consequence) -> Text:
    level, highest = explosion.level, float(norm.value[peak])
    before, most, ratio = number(level), number(highest), times(highest / level)
    began, step = f"{int(norm.step[explosion.began]):,}", f"{int(norm.step[peak]):,}"
    where = Text(f"at step {step}", f"第 {step} 步")
    if began != step:
        where = Text(f"between steps {began} and {step}", f"第 {began} 至 {step} 步")
    en = f"Grad norm {'climbed' if explosion.climbed else 'jumped'} from {before} to {most} ({ratio}) {where.en}"
    zh = f"梯度范数在{where.zh}从 {before} {'升至' if explosion.climbed else '跳到'} {most}（{ratio}）"
    if then.broken:
        return Text(en + ", and the loss became NaN or infinite.", zh + "，随后损失变为 NaN 或无穷大。")
    if then.of_loss:
        return Text(en + ", and the loss rose after it.", zh + "，随后损失上升。")
    if explosion.climbed and then.lost:
        return Text(en + ", and became NaN or infinite.", zh + "，随后变为 NaN 或无穷大。")
    return Text(en + "; the loss did not follow.", zh + "；损失未受影响。")


def _consequence(run: RunSeries, step: int) -> _Consequence:
    """What followed within some points of `step`."""
    curve, lost = run.curves.get("loss"), _norm_is_lost(run, step)
    if curve is None:
        return _Consequence(lost=lost)
    i = curve.at_or_after(step)
    broken = not bool(np.isfinite(curve.value[i : i + _AHEAD]).all())
    loss = ratio_loss(run)
    i = 0 if loss is None else loss.at_or_after(step)
    if loss is None or i < 16 or i >= len(loss):
        return _Consequence(broken, lost=lost)
    before = loss.value[max(i - 64, 0) : i]
    m = median(before)
    trend = np.linspace(0, 1, len(before)) * (median(before[-16:]) - median(before[:16]))
    s = max(sigma_iqr(before - trend), 0.002 * m)
    # A level is what most of the next points have, not the jump itself.
    later, soon = loss.value[i : i + _AHEAD], loss.value[i : i + 10]
    told = len(later) == _AHEAD or (len(later) >= _AHEAD // 2 and not run.running)
    risen = told and median(later) - m > max(6 * s, 0.2 * m)
    moved = len(soon) >= 5 and median(soon) - m > 3 * s
    return _Consequence(broken, risen, moved, lost)


def _norm_is_lost(run: RunSeries, step: int) -> bool:
    norm = run.curves["grad_norm"]
    i = norm.at_or_after(step)
    bad = ~np.isfinite(norm.value[i : i + _AHEAD])
    skipped = run.skipped(norm.step[i : i + _AHEAD]) if bad.any() else None
    return bool((bad if skipped is None else bad & ~skipped).any())


def _heavy_tail(curve: Series, mild: list[Finding]) -> Finding:
    worst = max(mild, key=lambda f: float(f.evidence["ratio"]))
    first, last, peak = (curve.at_or_after(step) for step in (mild[0].first_step, mild[-1].last_step, worst.peak_step))
    ratio = float(worst.evidence["ratio"])
    return curve.finding(
        "grad_explosion",
        "info",
        (first, last, peak),
        Text(
            f"Grad norm is heavy-tailed: {len(mild):,} outliers of more than ten times its level, up to {times(ratio)} "
            f"at step {worst.peak_step:,}; the loss did not follow.",
            f"梯度范数呈重尾分布：共 {len(mild):,} 次超过平时十倍的离群值，第 {worst.peak_step:,} 步最"
            f"高达 {times(ratio)}；"
            "损失未受影响。",
        ),
        _ADVICE["tail"],
        {"groups": len(mild), "ratio": ratio},
    )


RULE = Rule(
    id="grad_explosion",
    title=Text("the grad norm jumped or climbed", "梯度范数突然爆增"),
    function=grad_explosion,
    parameters=Parameters,
    reads=("grad_norm",),
    severities=("critical", "warning", "info"),
    advice=_ADVICE,
)
