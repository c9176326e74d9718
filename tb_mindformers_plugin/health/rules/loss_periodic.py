"""Rule `loss_periodic`: the loss repeats with a fixed period.

Definition: the logarithm of the loss behind the first 64 points, in bins of 1, 2, 4, … points while there are
at least 160 of them. The line through medians of 64 bins, 32 apart, is taken out; the rest, clipped at 4
sigma, is cut into chunks of 512 bins. c is the mean autocorrelation of 1, 2, 4, … chunks in a row, m their
bins (of the first chunk also when only 96 and more of its bins are there; behind the 64th chunk only every
eighth is looked at). A local peak of c at a lag p of 12 to 32 bins (8 to 32 of one point) counts when
c > max(0.2, 4/sqrt m), c - min(c[2..p]) > max(0.35, 7/sqrt m, 10/sqrt m behind the first chunk) and
c[2p] > 0.12; a divisor of p that also peaks is taken instead. The swing, sqrt(8 c variance), must be 3.5 %
at least; and folded by the period, with the trend restored, the rest must climb by at least half of what it
swings. Warning; info where the period
is the manifest's epoch and the loss has fallen below 0.08 of its level: samples that are learnt by heart make
such a saw-tooth.

Source: periodicity by autocorrelation; thresholds measured by this project.

Quiet when: the loss fails the ratio gate; within a period it never climbs (the staircase of
fine-tuning for several epochs).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Optional, Sequence, Tuple

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import Part
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import WARMUP_POINTS, blocks, ratio_loss, sigma_iqr
from tb_mindformers_plugin.health.series import Floats, Indices, RunSeries, Series

_ADVICE = {
    "periodic": Text(
        "Check how the data is ordered: a period of an epoch (or of a file) means that it is not shuffled.",
        "检查数据顺序：以一个 epoch（或一个数据文件）为周期，说明数据没有充分打乱。",
    )
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


_FEWEST_BINS = 160
# Bins between two medians of the trend, and the longest lag.
_HOP = 32
_CHUNK = 16 * _HOP
# The shortest lag, which only bins of one point need.
_SHORTEST = 8
# Bins of the first chunk at which it is looked at before it is whole.
_EARLY = np.array([96, 128, 192, 256, 384])
# Chunks that are all looked at; behind them every eighth is.
_ALL = 64
# Parts of a period that are told apart.
_PHASES = 16
# Stretches whose fold is looked at before it is given up.
_TRIES = 12


@dataclasses.dataclass(frozen=True)
class _Stretch:
    """A stretch of bins that repeats: its first bin, the one behind its last, and the lag; in bins of `size` points."""

    size: int
    first: int
    stop: int
    lag: int

    @property
    def known(self) -> int:
        """Points after which it can be seen."""
        return self.stop * self.size


def loss_periodic(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns at most one finding.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> at = np.arange(3000.0)
    >>> (found,) = loss_periodic(of_values(loss=2 + 0.2 * np.sin(2 * np.pi * at / 50) + 0.02 * np.sin(at ** 2)))
    >>> found.severity, found.evidence["period_steps"]
    ('warning', 50)
    """
    loss = ratio_loss(run)
    if loss is None or len(loss) < WARMUP_POINTS + _FEWEST_BINS:
        return []
    kept = loss.picked(slice(WARMUP_POINTS, None))
    if not kept.value.min() > 0:
        kept = kept.picked(kept.value > 0)
        if len(kept) < _FEWEST_BINS:
            return []
    scales = [np.log(kept.value)]
    while len(scales[-1]) >= 2 * _FEWEST_BINS:
        scales.append(blocks(scales[-1], 2).mean(axis=1))
    found = _stretches(scales, parameters)
    found.sort(key=lambda s: (s.known, s.size))
    for stretch in found[:_TRIES]:
        fold = _fold(scales[stretch.size.bit_length() - 1], stretch, parameters)
        if fold is not None:
            alike = [s.known for s in found if abs(s.lag * s.size / (stretch.lag * stretch.size) - 1) < 0.2]
            return [_finding(run, kept, stretch, min(max(alike), len(kept)), fold)]
    return []


def _stretches(scales: Sequence[Floats], p: Parameters) -> list[_Stretch]:
    """Stretches of bins of 1, 2, 4, … points whose autocorrelation has such a peak."""
    cut = [_chunks(bins) for bins in scales]
    rows, first, count = (np.concatenate(parts) for parts in zip(*cut))
    size = np.repeat(1 << np.arange(len(cut)), [len(chunk[0]) for chunk in cut])
    c = _autocorrelation(_clipped(rows, count))
    found = [(c, size, first, count)]
    for k in range(len(cut)):
        # Of whole chunks in a row the mean of 2, 4, 8, …
        level, wide = c[(size == 1 << k) & (count == _CHUNK)][:_ALL], 1
        while len(level) >= 2:
            pairs = len(level) // 2
            level, wide = (level[: 2 * pairs : 2] + level[1 : 2 * pairs : 2]) / 2, 2 * wide
            begins = np.arange(pairs) * wide * _CHUNK
            found.append((level, np.full(pairs, 1 << k), begins, np.full(pairs, wide * _CHUNK)))
    c, size, first, count = (np.concatenate(parts) for parts in zip(*found))
    at, lag = _peaks(c, size, first, count, p)
    begins = first[at] + _HOP
    return [_Stretch(*values) for values in zip(*(v.tolist() for v in (size[at], begins, begins + count[at], lag)))]


def _chunks(bins: Floats) -> Tuple[Floats, Indices, Indices]:
    """Rows of 512 bins of which the trend is taken out, the first bin of each, and how many are there."""
    knots = (len(bins) - 2 * _HOP) // _HOP + 1
    rest = bins[_HOP : _HOP * knots] - _trend(bins, knots)
    whole = np.arange(len(rest) // _CHUNK)
    whole = whole[(whole < _ALL) | (whole % 8 == 0)]
    early = _EARLY[len(rest) >= _EARLY]
    rows = np.zeros((len(early) + len(whole), _CHUNK))
    for row, count in zip(rows, early.tolist()):
        row[:count] = rest[:count]
    rows[len(early) :] = blocks(rest, _CHUNK)[whole]
    first = np.concatenate([np.zeros(len(early), np.int64), whole * _CHUNK])
    return rows, first, np.concatenate([early, np.full(len(whole), _CHUNK)])


def _trend(bins: Floats, knots: int) -> Floats:
    """(32 (knots - 1),) the line through the medians of 64 bins, 32 apart."""
    windows = np.lib.stride_tricks.sliding_window_view(bins, 2 * _HOP)[::_HOP][:knots]
    middle = np.sort(windows, axis=1)[:, _HOP - 1 : _HOP + 1].mean(axis=1)
    part = (np.arange(_HOP) + 0.5) / _HOP
    return (middle[:-1, None] + np.diff(middle)[:, None] * part).ravel()


def _clipped(rows: Floats, count: Indices) -> Floats:
    """(r, 512) rows clipped at 4 sigma, their mean taken out, of which `count` (r,) bins are there."""
    parts = np.abs(rows).reshape(len(rows), -1, _HOP).mean(axis=2)
    whole = count // _HOP
    parts[np.arange(parts.shape[1]) >= whole[:, None]] = np.inf
    # Of normal noise the mean absolute value is 0.8 sigma.
    limit = np.sort(parts, axis=1)[np.arange(len(rows)), (whole - 1) // 2][:, None] * (4 / 0.8)
    clipped = np.minimum(np.maximum(rows, -limit), limit)
    clipped -= clipped.sum(axis=1, keepdims=True) / count[:, None]
    clipped[np.arange(rows.shape[1]) >= count[:, None]] = 0.0
    return clipped


def _autocorrelation(rows: Floats) -> Floats:
    """(r, 66) autocorrelation of each row at lags from 0 on."""
    # 512 bins, and room for the lags behind them.
    spectrum = np.fft.rfft(rows, 600, axis=1)
    full = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, axis=1)[:, : 2 * _HOP + 2]
    return full / full[:, :1]


def _peaks(c: Floats, size: Indices, first: Indices, count: Indices, p: Parameters) -> Tuple[Indices, Indices]:
    """Rows of autocorrelations with a peak that counts, and the lag of the highest in each."""
    lags = np.arange(_SHORTEST, _HOP + 1)
    here = c[:, _SHORTEST : _HOP + 1]
    valley = np.minimum.accumulate(c[:, 2:_HOP], axis=1)[:, _SHORTEST - 3 :]
    # The first chunk is looked at once; of many chunks one will look as if.
    errors = np.where(first == 0, 7.0, 10.0)
    root = np.sqrt(count)
    counts = here - valley > np.maximum(p.contrast, errors / root)[:, None]
    counts &= here > np.maximum(p.correlation, 4 / root)[:, None]
    counts &= c[:, 2 * _SHORTEST : 2 * _HOP + 1 : 2] > p.again
    counts &= (here >= c[:, _SHORTEST - 1 : _HOP]) & (here >= c[:, _SHORTEST + 1 : _HOP + 2])
    # What is shorter was seen in smaller bins.
    counts &= (lags >= 12) | (size == 1)[:, None]
    rows = np.flatnonzero(counts.any(axis=1))
    return rows, lags[np.argmax(np.where(counts[rows], here[rows], -np.inf), axis=1)]


@dataclasses.dataclass(frozen=True)
class _Fold:
    """What folding shows: the period in bins, autocorrelation at it, swing of the logarithm, bin of its top."""

    period: float
    correlation: float
    swing: float
    top: int


def _fold(bins: Floats, stretch: _Stretch, p: Parameters) -> Optional[_Fold]:
    """A stretch folded by its period; None where it does not swing, or only falls."""
    trend = _trend(bins, (len(bins) - 2 * _HOP) // _HOP + 1)
    within = slice(stretch.first - _HOP, stretch.stop - _HOP)
    base = trend[within]
    rest = bins[stretch.first : stretch.stop] - base
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


def _finding(run: RunSeries, kept: Series, stretch: _Stretch, stop: int, fold: _Fold) -> Finding:
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
            f"Loss repeats every {steps:,} steps{en}: it swings by {np.expm1(fold.swing):.0%} in each period "
            f"(autocorrelation {fold.correlation:.2f}).",
            f"损失每 {steps:,} 步{zh}重复一次：每个周期内波动 {np.expm1(fold.swing):.0%}（自相"
            f"关 {fold.correlation:.2f}）。",
        ),
        _ADVICE["periodic"],
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
