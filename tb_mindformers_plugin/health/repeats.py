"""Where a series repeats itself: peaks of the autocorrelation of its chunks, of bins of 1, 2, 4, … points.

The definition stands with the rule that asks, `health/rules/loss_periodic.py`. What was found in chunks of the first
points stays: of a series that grew, the new chunks alone are looked at.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Dict, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.health.robust import pair_means
from tb_mindformers_plugin.health.series import Floats, Indices, Series

#: Bins of a size with which looking begins.
FEWEST_BINS = 160
#: Bins between two medians of the trend, and the longest lag but for `_LONGEST`.
HOP = 32
_CHUNK = 16 * HOP
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


class Thresholds(Protocol):
    """What a peak of the autocorrelation has to reach to count."""

    @property
    def correlation(self) -> float:
        """Its height."""

    @property
    def contrast(self) -> float:
        """Its height over the valley before."""

    @property
    def again(self) -> float:
        """The height at twice its lag."""


class Stretch(NamedTuple):
    """A stretch of bins that repeats: its first bin, the one behind its last, and the lag; in bins of `size` points."""

    size: int
    first: int
    stop: int
    lag: int

    @property
    def known(self) -> int:
        """Points after which it can be seen."""
        return self.stop * self.size


class Repeats(NamedTuple):
    """What is known of the first points of a loss.

    Attributes:
      chunks: for each size of the bins the autocorrelations of the first 64 chunks, as far as they are whole.
      found: stretches whose autocorrelation has a peak that counts.
      folds: what its rule made of stretches, which it need not make again.
    """

    chunks: Mapping[int, Floats]
    found: Tuple[Stretch, ...]
    folds: Dict[Stretch, Any]

    @property
    def nbytes(self) -> int:
        """Bytes of the autocorrelations."""
        return sum(c.nbytes for c in self.chunks.values())


def repeats(kept: Series, known: Optional[Repeats], count: int, p: Thresholds) -> Repeats:
    """What there is to know of all points, by what was known of the first `count` of them."""
    known = known or Repeats({}, (), {})
    plan = _plan(count, len(kept))
    if plan is None:
        return known
    c = _autocorrelation(_clipped(_rows(kept, plan), plan))
    found, chunks = _peaks(c, plan.chunks, p), dict(known.chunks)
    for size, whole in plan.whole.items():
        # Of whole chunks in a row the mean of 2, 4, 8, …
        before = chunks.get(size, c[:0, : 2 * HOP + 2])
        chunks[size] = np.concatenate([before, c[whole, : 2 * HOP + 2]])[:_ALL]
        found += _means(chunks[size], len(before), size, p)
    return Repeats(chunks, known.found + found, known.folds)


def _means(c: Floats, before: int, size: int, p: Thresholds) -> Tuple[Stretch, ...]:
    """What the means of 2, 4, 8, … of (k, 66) chunks in a row show, that of the first `before` were not there yet."""
    found: Tuple[Stretch, ...] = ()
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
    while points >> halvings >= FEWEST_BINS:
        had, has = ((n >> halvings) - 2 * HOP for n in (before, points))
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
        least, most = min(first for first, _ in mine), max(first + bins for first, bins in mine) + 2 * HOP
        pieces.append((k, slice(least - (begin >> k), most - (begin >> k))))
        for first, bins in mine:
            here = total + (first - least) // HOP + np.arange(_CHUNK // HOP)
            blocks.append(np.where(np.arange(_CHUNK // HOP) < bins // HOP, here, -1))
        total += (most - least) // HOP
    size, first, count = np.array([(1 << k, first, bins) for k, first, bins in chunks]).T
    early = [(1 << k, row) for row, (k, at, bins) in enumerate(chunks) if bins == _CHUNK and at < _ALL * _CHUNK]
    index = np.array(blocks)
    return _Plan(
        begin=begin,
        halvings=deepest,
        pieces=pieces,
        blocks=index,
        beyond=np.where(index < 0, np.inf, 0.0),
        here=np.repeat((index >= 0).astype(np.float64), HOP, axis=1),
        middle=(count // HOP - 1) // 2,
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
    rest = bins[HOP:-HOP] - trend(bins)
    return np.concatenate([rest, np.zeros(HOP)]).reshape(-1, HOP)[plan.blocks].reshape(-1, _CHUNK)


def trend(bins: Floats) -> Floats:
    """(32 (k - 2),) the line through the medians of 64 bins, 32 apart, of (32 k,): but for the first and last 32."""
    parts = bins.reshape(-1, HOP)
    ordered = np.sort(np.concatenate([parts[:-1], parts[1:]], axis=1), axis=1)
    middle = (ordered[:, HOP - 1] + ordered[:, HOP]) / 2
    return (middle[:-1, None] + (middle[1:] - middle[:-1])[:, None] * _PART).ravel()


_PART = (np.arange(HOP) + 0.5) / HOP


def _clipped(rows: Floats, plan: _Plan) -> Floats:
    """(r, 512) rows clipped at 4 sigma, their mean taken out."""
    parts = np.add.reduce(np.abs(rows).reshape(len(rows), -1, HOP), axis=2)
    parts += plan.beyond
    parts.sort(axis=1)
    # Of normal noise the mean absolute value is 0.8 sigma.
    limit = parts[np.arange(len(rows)), plan.middle][:, None] / HOP * (4 / 0.8)
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


def _peaks(c: Floats, chunks: _Chunks, p: Thresholds) -> Tuple[Stretch, ...]:
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
    c, size, first, count = c[rows], chunks.size[rows], chunks.first[rows] + HOP, chunks.count[rows]
    lags = np.arange(_SHORTEST, longest + 1)
    is_long = lags > HOP
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
    return tuple(Stretch(*row) for row in found.tolist())
