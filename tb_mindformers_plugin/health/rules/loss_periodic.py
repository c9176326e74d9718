"""Rule `loss_periodic`: the loss repeats with a fixed period.

Definition: the logarithm of the loss behind the first 64 points, in bins of 1, 2, 4, … points while there are
at least 160 of them. The line through medians of 64 bins, 32 apart, is taken out; the rest, clipped at 4
sigma, is cut into chunks of 512 bins. c is the mean autocorrelation of 1, 2, 4, … chunks in a row, m their
bins (of the first chunk also when only 96 and more of its bins are there; behind the 64th chunk only every
eighth is looked at). A local peak of c at a lag p of 12 to 32 bins (8 to 32 of one point) counts when
c > max(0.2, 4/sqrt m), c - min(c[2..p]) > max(0.35, 7/sqrt m, 10/sqrt m behind the first chunk) and
c[2p] > 0.12; so does one at 33 to 48 bins where m is 192 to 384 of the first chunk, with c > 5/sqrt m and
c - min(c[2..p]) > 10/sqrt m (bins of twice the size may be too few yet: a run of about ten periods); a divisor
of p that also peaks is taken instead. The swing, sqrt(8 c variance), must be 3.5 % at least; and folded by the
period, with the trend restored, the rest must climb by at least half of what it swings. Warning; info where the
period is the manifest's epoch and the loss has fallen below 0.08 of its level: samples that are learnt by heart make
such a saw-tooth.

Source: periodicity by autocorrelation; thresholds measured by this project.

Quiet when: the loss fails the ratio gate; within a period it never climbs (the staircase of
fine-tuning for several epochs).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Optional

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import Part
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.repeats import FEWEST_BINS, HOP, Stretch, repeats, trend
from tb_mindformers_plugin.health.robust import WARMUP_POINTS, pair_means, ratio_loss, sigma_iqr
from tb_mindformers_plugin.health.series import Floats, RunSeries, Series
from tb_mindformers_plugin.language import share

_ADVICE = {
    "periodic": Text(
        "Check how the data is ordered: a period of an epoch (or of a file) means that it is not shuffled.",
        "检查数据顺序：以一个 epoch（或一个数据文件）为周期，说明数据没有充分打乱。",
    ),
    "by_heart": Text(
        "Nothing to mend where the data is shuffled: samples that are learnt by heart, one epoch after the other, make "
        "such a saw-tooth.",
        "若数据已打乱则无需处理：逐个 epoch 记住样本时，损失会呈这种锯齿形。",
    ),
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `loss_periodic`.

    Attributes:
      correlation: least autocorrelation at the period.
      contrast: least height of its peak over the valley before.
      again: least autocorrelation at twice the period.
      swing: least swing of the logarithm.
    """

    correlation: Part = 0.2
    contrast: Part = 0.35
    again: Part = 0.12
    swing: float = 0.035


# Parts of a period that are told apart.
_PHASES = 16
# Stretches whose fold is looked at before it is given up.
_TRIES = 12


def loss_periodic(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns at most one finding.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> at = np.arange(3000.0)
    >>> (found,) = loss_periodic(of_values(loss=2 + 0.2 * np.sin(2 * np.pi * at / 50) + 0.02 * np.sin(at ** 2)))
    >>> found.severity, found.evidence["period_steps"]
    ('warning', 50)
    """
    loss = ratio_loss(run)
    if loss is None or len(loss) < WARMUP_POINTS + FEWEST_BINS:
        return []
    kept = loss.cut(WARMUP_POINTS).positive
    if len(kept) < FEWEST_BINS:
        return []
    known = kept.extended((RULE.id, parameters), lambda known, count: repeats(kept, known, count, parameters))
    found = sorted(known.found, key=lambda stretch: (stretch.known, stretch.size))
    for stretch in found[:_TRIES]:
        if stretch not in known.folds:
            known.folds[stretch] = _fold(kept, stretch, parameters)
        fold = known.folds[stretch]
        if fold is not None:
            alike = [s.known for s in found if abs(s.lag * s.size / (stretch.lag * stretch.size) - 1) < 0.2]
            return [_finding(run, kept, stretch, min(max(alike), len(kept)), fold)]
    return []


@dataclasses.dataclass(frozen=True)
class _Fold:
    """What folding shows: the period in bins, autocorrelation at it, swing of the logarithm, bin of its top."""

    period: float
    correlation: float
    swing: float
    top: int


def _fold(kept: Series, stretch: Stretch, p: Parameters) -> Optional[_Fold]:
    """A stretch folded by its period; None where it does not swing, or only falls."""
    bins = np.log(kept.values((stretch.first - HOP) * stretch.size, (stretch.stop + HOP) * stretch.size))
    for _ in range(stretch.size.bit_length() - 1):
        bins = pair_means(bins)
    base = trend(bins)
    rest = bins[HOP:-HOP] - base
    m = len(rest)
    sigma = sigma_iqr(rest)
    size = 1 << int(np.ceil(np.log2(2 * m)))
    clipped = np.clip(rest, -4 * sigma, 4 * sigma)
    c = np.fft.irfft(np.abs(np.fft.rfft(clipped - clipped.mean(), size)) ** 2)[:m]
    if not c[0] > 0:
        return None
    # What comes again, without the noise; of a sine, and about of others, 2.8 deviations are the swing.
    swing = 2 * math.sqrt(2 * max(float(c[stretch.lag]) / m, 0.0))
    if swing < math.log1p(p.swing):
        return None
    c = c / c[0]
    lag = stretch.lag
    for parts in range(lag // 4, 1, -1):
        near = max((lag // parts, -(-lag // parts)), key=lambda k: float(c[k]))
        if near >= 4 and c[near] > 0.8 * c[lag] and c[near] >= max(c[near - 1], c[near + 1]):
            lag = near
            break
    if lag < 8 and stretch.size == 1:
        return None  # a saw-tooth from point to point
    period = float(lag)
    times = 1
    # The peak at twice as many periods tells the period twice as well.
    while 2 * times * period < m / 2:
        times *= 2
        middle, reach = round(times * period), max(int(period) // 4, 1)
        period = (middle - reach + int(np.argmax(c[middle - reach : middle + reach + 1]))) / times
    phases = min(max(int(period), 4), _PHASES)
    phase = (np.arange(m) / period % 1 * phases).astype(np.int64)
    profile = np.bincount(phase, rest, phases) / np.maximum(np.bincount(phase, minlength=phases), 1)
    turned = np.roll(profile, -int(np.argmin(profile)))
    falls = float(np.median(base[lag:] - base[:-lag])) / phases
    restored = turned + falls * np.arange(phases)
    if float(restored.max() - restored[0]) < float(profile.max() - profile.min()) / 2:
        return None
    return _Fold(period, float(c[stretch.lag]), swing, stretch.first + int(np.argmax(rest)))


def _finding(run: RunSeries, kept: Series, stretch: Stretch, stop: int, fold: _Fold) -> Finding:
    first = stretch.first * stretch.size
    last = len(kept) - 1 if stop > 0.8 * len(kept) else stop - 1
    per_point = (int(kept.step[-1]) - int(kept.step[0])) / (len(kept) - 1)
    steps = max(round(fold.period * stretch.size * per_point), 1)
    epochs = steps / run.manifest.steps_per_epoch if run.manifest.steps_per_epoch else None
    by_heart = epochs is not None and abs(epochs - 1) < 0.02 and _fell(kept.value) < 0.08
    en = f" ({epochs:.2g} epoch{'' if f'{epochs:.2g}' == '1' else 's'})" if epochs else ""
    zh = f"（{epochs:.2g} 个 epoch）" if epochs else ""
    return kept.finding(
        RULE.id,
        "info" if by_heart else "warning",
        (first, last, min(fold.top * stretch.size, last)),
        Text(
            f"Loss repeats every {steps:,} steps{en}: it swings by {share(np.expm1(fold.swing))} in each period "
            f"(autocorrelation {fold.correlation:.2f}).",
            f"损失每 {steps:,} 步{zh}重复一次：每个周期内波动 {share(np.expm1(fold.swing))}（自相"
            f"关 {fold.correlation:.2f}）。",
        ),
        _ADVICE["by_heart" if by_heart else "periodic"],
        {
            "period_steps": steps,
            "swing": float(np.expm1(fold.swing)),
            "autocorrelation": fold.correlation,
            **({"period_epochs": epochs} if epochs else {}),
        },
    )


def _fell(value: Floats) -> float:
    """The last level over that behind the first twentieth."""
    part = max(len(value) // 20, 1)
    return float(np.median(value[-part:]) / np.median(value[part : 2 * part]))


RULE = Rule(
    id="loss_periodic",
    title=Text("the loss repeats with a fixed period", "损失以固定周期重复"),
    function=loss_periodic,
    parameters=Parameters,
    reads=("loss",),
    severities=("warning", "info"),
    advice=_ADVICE,
)
