"""The common ground of the rules: robust statistics, the ratio gate, the end of warm-up.

Nothing here depends on how long a run will be: blocks are counted from the left.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import List, Optional, Tuple

import numpy as np

from tb_mindformers_plugin.health.points import of_blocks, places
from tb_mindformers_plugin.health.series import Floats, Indices, Mask, RunSeries, Series

#: The interquartile range of a normal distribution of sigma 1.
IQR_OF_NORMAL = 1.349
#: sigma / median absolute deviation, of a normal distribution.
MAD_TO_SIGMA = 1.4826

# Fewest points that count as warm-up, and most.
WARMUP_POINTS = 64
_MOST_WARMUP_POINTS = 256
# Points at which it is asked whether ratios of a loss mean anything.
_GATE_MARKS = (64, 128, 256)


def quantiles(rows: Floats, at: Tuple[float, ...]) -> List[Floats]:
    """Quantiles along the last axis of (n,) or (k, n) rows that are sorted, interpolated linearly.

    >>> [float(q) for q in quantiles(np.array([0.0, 1.0, 2.0]), (0.5, 0.75))]
    [1.0, 1.5]
    """
    low, high, rest, part = _between(rows.shape[-1], at)
    found = rows.take(low, axis=-1) * rest + rows.take(high, axis=-1) * part
    return list(np.ascontiguousarray(found.T))


@functools.lru_cache(maxsize=1024)
def _between(n: int, at: Tuple[float, ...]) -> Tuple[Indices, Indices, Floats, Floats]:
    """Of n sorted values, between which two quantiles lie, and the parts of these."""
    place = np.array(at) * (n - 1)
    low = np.floor(place).astype(np.int64)
    return low, np.minimum(low + 1, n - 1), 1 - (place - low), place - low


def median(values: Floats) -> float:
    """The median of (n,) finite values (0 for n = 0), in a tenth of the time that numpy's takes for few of them.

    >>> median(np.array([3.0, 1.0, 2.0])), median(np.array([4.0, 1.0]))
    (2.0, 2.5)
    """
    ordered = np.sort(values)
    half = len(ordered) // 2
    return float((ordered[(len(ordered) - 1) // 2] + ordered[half]) / 2) if len(ordered) else 0.0


def sigma_iqr(values: Floats) -> float:
    """Standard deviation of a normal distribution with the interquartile range of (n,) values (0 for n < 2).

    >>> round(sigma_iqr(np.arange(101.0)), 1)
    37.1
    """
    if len(values) < 2:
        return 0.0
    ordered = np.sort(values)
    return (_quartile(ordered, 0.75) - _quartile(ordered, 0.25)) / IQR_OF_NORMAL


def _quartile(ordered: Floats, q: float) -> float:
    """Bit for bit what ``np.percentile`` takes for the quantile of sorted values."""
    at = q * (len(ordered) - 1)
    low, part = float(ordered[int(at)]), at - int(at)
    high = float(ordered[min(int(at) + 1, len(ordered) - 1)])
    return low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part)


def blocks(values: Floats, size: int, start: int = 0) -> Floats:
    """(k, size) whole blocks from `start` on; what is left over at the end waits for its block."""
    count = max(len(values) - start, 0) // size
    return values[start : start + count * size].reshape(count, size)


def pair_means(values: Floats) -> Floats:
    """(n // 2,) the mean of each two."""
    return (values[: len(values) // 2 * 2 : 2] + values[1::2]) / 2


def levels(rows: Floats) -> Tuple[Floats, Floats]:
    """Median and sigma_iqr of each of (k, size) blocks."""
    if not len(rows):
        return np.empty(0), np.empty(0)
    low, middle, high = quantiles(np.sort(rows, axis=1), (0.25, 0.5, 0.75))
    return middle, (high - low) / IQR_OF_NORMAL


#: Points of a block of `block_levels`.
BLOCK = 32


@dataclasses.dataclass(frozen=True)
class BlockLevels:
    """Quantiles of whole blocks of 32 points, counted from the left, each (k,)."""

    low: Floats
    median: Floats
    high: Floats
    top: Floats

    @property
    def sigma(self) -> Floats:
        """(k,) sigma_iqr of each block."""
        return (self.high - self.low) / IQR_OF_NORMAL


def block_levels(series: Series) -> BlockLevels:
    """The quarter, half, three-quarter and whole quantiles of the series' blocks of 32 points, sorted once."""
    return BlockLevels(*of_blocks(series, BLOCK, _block_quantiles))


def _block_quantiles(rows: Floats) -> Tuple[Floats, ...]:
    return tuple(quantiles(np.sort(rows, axis=1), (0.25, 0.5, 0.75, 1.0)))


def medians(rows: Floats) -> Tuple[Floats]:
    """The median of each of (k, size) blocks, for `of_blocks`."""
    ordered, half = np.sort(rows, axis=1), rows.shape[1] // 2
    return ((ordered[:, half - 1 + rows.shape[1] % 2] + ordered[:, half]) / 2,)


def stretches(mask: Mask, bridge: int = 0) -> List[Tuple[int, int]]:
    """First and last index of each stretch of True, those joined that at most `bridge` Falses part.

    >>> stretches(np.array([True, False, True, False, False, True]), bridge=1)
    [(0, 2), (5, 5)]
    """
    return groups(np.flatnonzero(mask), bridge)


def groups(at: Indices, bridge: int = 0) -> List[Tuple[int, int]]:
    """First and last of each group of (k,) ascending indices that no more than `bridge` others part."""
    if not len(at):
        return []
    cut = np.flatnonzero(np.diff(at) > bridge + 1)
    firsts = at[np.concatenate([[0], cut + 1])]
    lasts = at[np.concatenate([cut, [len(at) - 1]])]
    return list(zip(firsts.tolist(), lasts.tolist()))


def median3(values: Floats) -> Floats:
    """(n - 2,) medians of three neighbours."""
    if len(values) < 3:
        return np.empty(0)
    a, b, c = values[:-2], values[1:-1], values[2:]
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


def median4(values: Floats) -> Floats:
    """(n - 3,) medians of four neighbours."""
    low, high = np.minimum(values[:-1], values[1:]), np.maximum(values[:-1], values[1:])
    return (np.maximum(low[:-2], low[2:]) + np.minimum(high[:-2], high[2:])) / 2


def agreement(rows: Floats) -> Floats:
    """Kendall's S of each of (k, m) rows: pairs that rise less pairs that fall, m (m - 1) / 2 at most.

    >>> agreement(np.array([[1.0, 2.0, 3.0], [1.0, 3.0, 2.0]])).tolist()
    [3.0, 1.0]
    """
    found = np.zeros(len(rows))
    for i in range(rows.shape[1] - 1):
        found += np.sign(rows[:, i + 1 :] - rows[:, i : i + 1]).sum(axis=1)
    return found


def lag1(values: Floats) -> float:
    """Autocorrelation of (n,) values at lag 1 (0 where they are constant)."""
    centred = values - values.mean() if len(values) else values
    power = float(centred @ centred)
    return float(centred[1:] @ centred[:-1]) / power if power > 0 else 0.0


def ratio_part(loss: Series) -> int:
    """How many of (n,) finite losses, from the left, ratios mean anything of: up to where they are noise around 0.

    Ratios of a loss that is about 0 (as of policy-gradient methods) mean nothing; those of a DPO loss do. The first
    64, 128 and 256 values must have a median that is above 0 and above 1.05 times the median step between
    neighbours; and of the values so far no more than 0.1 %, or a single one, may be negative.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> [ratio_part(of_values(loss=loss).curves["loss"]) for loss in ([2.0, 1.9, 1.8], [0.01, -0.02, 0.01, -0.03])]
    [3, 0]
    """
    stop = _gate(loss.values(0, _GATE_MARKS[-1]), len(loss))
    negative = places(loss, _is_negative)
    if not len(negative):
        return stop
    often = np.flatnonzero(np.arange(1, len(negative) + 1) > np.maximum(0.001 * (negative + 1), 1))
    return min(stop, int(negative[often[0]])) if len(often) else stop


def _gate(early: Floats, points: int) -> int:
    """How many of so many points pass, of which `early` are the first 256."""
    steps = np.abs(early[1:] - early[:-1])
    if len(early) and np.minimum.reduce(early) > 1.05 * np.maximum.reduce(steps, initial=0.0):
        return points  # then the medians differ as much at each mark
    for mark in _GATE_MARKS:
        if not median(early[:mark]) > max(1.05 * median(steps[: mark - 1]), 0.0):
            # What was judged before this mark stays judged.
            return 0 if mark == _GATE_MARKS[0] else mark // 2
        if points <= mark:
            break
    return points


def _is_negative(value: Floats) -> Mask:
    return value < 0


def ratio_loss(run: RunSeries) -> Optional[Series]:
    """The finite points of the run's loss that ratios mean anything of; None where there are none.

    None too where the KL to a reference policy is logged: such a loss is a surrogate or the KL itself, and rises
    from 0 in a training that goes well.
    """
    known = run.__dict__.get("_ratio_loss", False)
    if known is False:
        loss, known = run.finite("loss"), None
        if loss is not None and "kl" not in run.curves:
            part = ratio_part(loss)
            known = None if not part else loss if part == len(loss) else loss.cut(0, part)
        run.__dict__["_ratio_loss"] = known  # many rules ask
    return known


def warmup_end(run: RunSeries, series: Series) -> int:
    """Index of the first point of `series` behind the warm-up (at most their number).

    Where the learning rate first stops rising, but at least 64 and at most 256 points.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> run = of_values(loss=np.ones(2000), lr=np.minimum(np.arange(2000) / 100, 1))
    >>> warmup_end(run, run.curves["loss"])
    100
    """
    known: Optional[int] = series.__dict__.get("_warmup_end")
    if known is None:
        known = series.__dict__["_warmup_end"] = _warmup_end(run.finite("lr"), series)  # several rules ask
    return known


def _warmup_end(lr: Optional[Series], series: Series) -> int:
    end = WARMUP_POINTS
    if lr is not None and len(series):
        # What stops later than the last point that may count makes no difference.
        last = int(series.step[min(_MOST_WARMUP_POINTS, len(series) - 1)])
        count = _MOST_WARMUP_POINTS if len(lr) >= len(series) else int(np.searchsorted(lr.step, last, side="right"))
        early = lr.values(0, count + 1)
        stops = np.flatnonzero((early[1:] <= early[:-1]) & (early[:-1] > 0))
        end = series.at_or_after(int(lr.step[stops[0]])) if len(stops) else _MOST_WARMUP_POINTS
    return min(max(WARMUP_POINTS, min(end, _MOST_WARMUP_POINTS)), len(series))


def joins(run: RunSeries, series: Series) -> Indices:
    """Indices of the first point of `series` at or behind each restart."""
    return np.searchsorted(series.step, np.asarray(run.restarts, np.int64))


def near_joins(run: RunSeries, series: Series, at: Indices, before: int, after: int) -> Mask:
    """(k,) whether each of (k,) points lies from `before` points before a restart to `after` points behind it."""
    near = np.zeros(len(at), bool)
    for join in joins(run, series).tolist():
        near |= (at >= join - before) & (at <= join + after)
    return near
