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
import functools
import math
from typing import Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.limits import Part
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import WARMUP_POINTS, pair_means, ratio_loss, sigma_iqr
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
# Bins between two medians of the trend, and the longest lag but for `_LONGEST`.
_HOP = 32
_CHUNK = 16 * _HOP
# The shortest lag, which only bins of one point need.
_SHORTEST = 8
# Bins of the first chunk at which it is looked at before it is whole.
_EARLY = (96, 128, 192, 256, 384)
# The longest lag in the first chunk while it has at least so many bins and is not whole: the same period in bins of
# twice the size is short enough, but of those there are too few yet.
_LONGEST = 48
_YOUNG = 4 * _LONGEST
# More lags are more chances: the least height of a long one's peak, and over the valley before, times sqrt(bins).
_LONG_LEAST = 5.0
_LONG_CONTRAST = 10.0
# Chunks that are all looked at; behind them every eighth is.
_ALL = 64
# Parts of a period that are told apart.
_PHASES = 16
# Stretches whose fold is looked at before it is given up.
_TRIES = 12


class _Stretch(NamedTuple):
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
    kept = loss.cut(WARMUP_POINTS).positive
    if len(kept) < _FEWEST_BINS:
        return []
    known = kept.extended((RULE.id, parameters), lambda known, count: _looked(kept, known, count, parameters))
    found = sorted(known.found, key=lambda stretch: (stretch.known, stretch.size))
    for stretch in found[:_TRIES]:
        if stretch not in known.folds:
            known.folds[stretch] = _fold(kept, stretch, parameters)
        fold = known.folds[stretch]
        if fold is not None:
            alike = [s.known for s in found if abs(s.lag * s.size / (stretch.lag * stretch.size) - 1) < 0.2]
            return [_finding(run, kept, stretch, min(max(alike), len(kept)), fold)]
    return []


class _Looked(NamedTuple):
    """What is known of the first points of a loss.

    Attributes:
      chunks: for each size of the bins the autocorrelations of the first 64 chunks, as far as they are whole.
      found: stretches whose autocorrelation has a peak that counts.
      folds: what folding shows, of those that were folded.
    """

    chunks: Mapping[int, Floats]
    found: Tuple[_Stretch, ...]
    folds: Dict[_Stretch, Optional[_Fold]]

    @property
    def nbytes(self) -> int:
        """Bytes of the autocorrelations."""
        return sum(c.nbytes for c in self.chunks.values())


def _looked(kept: Series, known: Optional[_Looked], count: int, p: Parameters) -> _Looked:
    """What there is to know of all points, by what was known of the first `count` of them."""
    known = known or _Looked({}, (), {})
    plan = _plan(count, len(kept))
    if plan is None:
        return known
    c = _autocorrelation(_clipped(_rows(kept, plan), plan))
    found, chunks = _peaks(c, plan.chunks, p), dict(known.chunks)
    for size, whole in plan.whole.items():
        # Of whole chunks in a row the mean of 2, 4, 8, …
        before = chunks.get(size, c[:0, : 2 * _HOP + 2])
        chunks[size] = np.concatenate([before, c[whole, : 2 * _HOP + 2]])[:_ALL]
        found += _means(chunks[size], len(before), size, p)
    return _Looked(chunks, known.found + found, known.folds)


def _means(c: Floats, before: int, size: int, p: Parameters) -> Tuple[_Stretch, ...]:
    """What the means of 2, 4, 8, … of (k, 66) chunks in a row show, that of the first `before` were not there yet."""
    found: Tuple[_Stretch, ...] = ()
    wide = 2
    while wide <= len(c):
        first, stop = before // wide, len(c) // wide
        if stop > first:
            level = c[first * wide : stop * wide]
            for _ in range(wide.bit_length() - 1):
                level = (level[::2] + level[1::2]) / 2
            chunks = np.arange(first, stop)
            found += _peaks(level, _Chunks(0 * chunks + size, chunks * wide * _CHUNK, 0 * chunks + wide * _CHUNK), p)
        wide *= 2
    return found


@dataclasses.dataclass(frozen=True)
class _Chunks:
    """Chunks of bins.

    Attributes:
      size: (r,) points of a bin.
      first: (r,) first bin.
      count: (r,) bins.
    """

    size: Indices
    first: Indices
    count: Indices

    @functools.cached_property
    def contrast(self) -> Floats:
        """(r,) the least height of a peak over the valley before: the first chunk is looked at once.

        Of many chunks one will look as if.
        """
        return np.where(self.first == 0, 7.0, 10.0) / np.sqrt(self.count)

    @functools.cached_property
    def young(self) -> npt.NDArray[np.bool_]:
        """(r,) whether lags of more than 32 bins count."""
        return (self.first == 0) & (self.count >= _YOUNG) & (self.count < _CHUNK)

    @functools.cached_property
    def least(self) -> Floats:
        """(r,) the least height of a peak."""
        return 4 / np.sqrt(self.count)


@dataclasses.dataclass(frozen=True)
class _Plan:
    """Which chunks are looked at, and where their bins are: r of them, of bins of several sizes.

    Attributes:
      begin: the first point that is needed.
      halvings: how often bins are joined in pairs.
      pieces: of which halvings which bins are needed, in order, whole blocks of 32.
      blocks: (r, 16) which of all those blocks, less the first, make each chunk; -1 is none.
      beyond: (r, 16) infinite where there is none, else 0.
      here: (r, 512) 1 where there is a bin, else 0.
      middle: (r,) half as many as there are blocks.
      chunks: which they are.
      whole: size of the bins -> those of the chunks that are whole, and no later than the 64th.
    """

    begin: int
    halvings: int
    pieces: Sequence[Tuple[int, slice]]
    blocks: Indices
    beyond: Floats
    here: Floats
    middle: Indices
    chunks: _Chunks
    whole: Mapping[int, Sequence[int]]


@functools.lru_cache(maxsize=32)
def _plan(before: int, points: int) -> Optional[_Plan]:
    """What is looked at of so many points and was not yet of those before; None where that is nothing."""
    chunks: list[Tuple[int, int, int]] = []  # halvings, first bin, bins
    halvings = 0
    while points >> halvings >= _FEWEST_BINS:
        had, has = ((n >> halvings) - 2 * _HOP for n in (before, points))
        chunks += [(halvings, 0, bins) for bins in _EARLY if had < bins <= has]
        whole = range(max(had, 0) // _CHUNK, has // _CHUNK)
        chunks += [(halvings, k * _CHUNK, _CHUNK) for k in whole if k < _ALL or k % 8 == 0]
        halvings += 1
    if not chunks:
        return None
    deepest = max(chunk[0] for chunk in chunks)
    begin = min(first << k for k, first, _ in chunks) >> deepest << deepest
    pieces, blocks, total = [], [], 0
    for k in sorted({chunk[0] for chunk in chunks}):
        mine = [(first, bins) for depth, first, bins in chunks if depth == k]
        least, most = min(first for first, _ in mine), max(first + bins for first, bins in mine) + 2 * _HOP
        pieces.append((k, slice(least - (begin >> k), most - (begin >> k))))
        for first, bins in mine:
            here = total + (first - least) // _HOP + np.arange(_CHUNK // _HOP)
            blocks.append(np.where(np.arange(_CHUNK // _HOP) < bins // _HOP, here, -1))
        total += (most - least) // _HOP
    size, first, count = np.array([(1 << k, first, bins) for k, first, bins in chunks]).T
    early = [(1 << k, row) for row, (k, at, bins) in enumerate(chunks) if bins == _CHUNK and at < _ALL * _CHUNK]
    index = np.array(blocks)
    return _Plan(
        begin=begin,
        halvings=deepest,
        pieces=pieces,
        blocks=index,
        beyond=np.where(index < 0, np.inf, 0.0),
        here=np.repeat((index >= 0).astype(np.float64), _HOP, axis=1),
        middle=(count // _HOP - 1) // 2,
        chunks=_Chunks(size, first, count),
        whole={size: [row for other, row in early if other == size] for size, _ in early},
    )


def _rows(kept: Series, plan: _Plan) -> Floats:
    """(r, 512) the bins of each chunk, of which the trend is taken out; 0 where there is none."""
    bins = np.log(kept.values(plan.begin))
    pieces = []
    at = 0
    for halvings, piece in plan.pieces:
        for _ in range(halvings - at):
            bins = pair_means(bins)
        at = halvings
        pieces.append(bins[piece])
    bins = np.concatenate(pieces)
    rest = bins[_HOP:-_HOP] - _trend(bins)
    return np.concatenate([rest, np.zeros(_HOP)]).reshape(-1, _HOP)[plan.blocks].reshape(-1, _CHUNK)


def _trend(bins: Floats) -> Floats:
    """(32 (k - 2),) the line through the medians of 64 bins, 32 apart, of (32 k,): but for the first and last 32."""
    parts = bins.reshape(-1, _HOP)
    ordered = np.sort(np.concatenate([parts[:-1], parts[1:]], axis=1), axis=1)
    middle = (ordered[:, _HOP - 1] + ordered[:, _HOP]) / 2
    return (middle[:-1, None] + (middle[1:] - middle[:-1])[:, None] * _PART).ravel()


_PART = (np.arange(_HOP) + 0.5) / _HOP


def _clipped(rows: Floats, plan: _Plan) -> Floats:
    """(r, 512) rows clipped at 4 sigma, their mean taken out."""
    parts = np.add.reduce(np.abs(rows).reshape(len(rows), -1, _HOP), axis=2)
    parts += plan.beyond
    parts.sort(axis=1)
    # Of normal noise the mean absolute value is 0.8 sigma.
    limit = parts[np.arange(len(rows)), plan.middle][:, None] / _HOP * (4 / 0.8)
    clipped = np.minimum(rows, limit, out=rows)
    np.maximum(clipped, -limit, out=clipped)
    clipped -= (np.add.reduce(clipped, axis=1) / plan.chunks.count)[:, None]
    clipped *= plan.here
    return clipped


def _autocorrelation(rows: Floats) -> Floats:
    """(r, 98) autocorrelation of each row at lags from 0 on; beyond 66 only of rows of 384 bins and fewer."""
    # 512 bins, and room for 66 lags behind them.
    spectrum = np.fft.rfft(rows, 600, axis=1)
    full = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, axis=1)[:, : 2 * _LONGEST + 2]
    return full / full[:, :1]


def _peaks(c: Floats, chunks: _Chunks, p: Parameters) -> Tuple[_Stretch, ...]:
    """Of rows of autocorrelations those with a peak that counts, and the lag of the highest in each.

    Of (r, 66) lags up to 32 are looked at, of (r, 98) those up to 48.
    """
    contrast, least = np.maximum(p.contrast, chunks.contrast), np.maximum(p.correlation, chunks.least)
    longest = c.shape[1] // 2 - 1
    highest = np.maximum.reduce(c[:, _SHORTEST : longest + 1], axis=1)
    valley = np.minimum.reduce(c[:, 2:longest], axis=1)
    rows = ((highest > least) & (highest - valley > contrast)).nonzero()[0]
    if not len(rows):
        return ()
    c, size, first, count = c[rows], chunks.size[rows], chunks.first[rows] + _HOP, chunks.count[rows]
    lags = np.arange(_SHORTEST, longest + 1)
    is_long = lags > _HOP
    root = np.sqrt(count)[:, None]
    contrast = np.maximum(contrast[rows, None], is_long * _LONG_CONTRAST / root)
    least = np.maximum(least[rows, None], is_long * _LONG_LEAST / root)
    here = c[:, _SHORTEST : longest + 1]
    valley = np.minimum.accumulate(c[:, 2:longest], axis=1)[:, _SHORTEST - 3 :]
    counts = (here - valley > contrast) & (here > least)
    counts &= c[:, 2 * _SHORTEST : 2 * longest + 1 : 2] > p.again
    counts &= (here >= c[:, _SHORTEST - 1 : longest]) & (here >= c[:, _SHORTEST + 1 : longest + 2])
    # What is shorter was seen in smaller bins.
    counts &= (lags >= 12) | (size == 1)[:, None]
    counts &= ~is_long | chunks.young[rows, None]
    lag = lags[np.argmax(np.where(counts, here, -np.inf), axis=1)]
    found = np.stack([size, first, first + count, lag], axis=1)[counts.any(axis=1)]
    return tuple(_Stretch(*row) for row in found.tolist())


@dataclasses.dataclass(frozen=True)
class _Fold:
    """What folding shows: the period in bins, autocorrelation at it, swing of the logarithm, bin of its top."""

    period: float
    correlation: float
    swing: float
    top: int


def _fold(kept: Series, stretch: _Stretch, p: Parameters) -> Optional[_Fold]:
    """A stretch folded by its period; None where it does not swing, or only falls."""
    bins = np.log(kept.values((stretch.first - _HOP) * stretch.size, (stretch.stop + _HOP) * stretch.size))
    for _ in range(stretch.size.bit_length() - 1):
        bins = pair_means(bins)
    base = _trend(bins)
    rest = bins[_HOP:-_HOP] - base
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
