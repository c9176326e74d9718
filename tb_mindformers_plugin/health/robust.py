"""The common ground of the rules: robust statistics, the ratio gate, the end of warm-up.

Nothing here depends on how long a run will be: blocks are counted from the left.
"""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

import numpy as np

from tb_mindformers_plugin.health.series import Floats, Indices, Mask, RunSeries, Series
from tb_mindformers_plugin.language import number as number
from tb_mindformers_plugin.language import percent as percent
from tb_mindformers_plugin.language import times as times

#: The interquartile range of a normal distribution of sigma 1.
IQR_OF_NORMAL = 1.349
#: sigma / median absolute deviation, of a normal distribution.
MAD_TO_SIGMA = 1.4826

# Fewest points that count as warm-up, and the largest part of the run so far.
WARMUP_POINTS = 64
_WARMUP_PART = 0.1


def quantiles(rows: Floats, at: Sequence[float]) -> List[Floats]:
    """Quantiles along the last axis of rows that are sorted, interpolated linearly.

    >>> [float(q) for q in quantiles(np.array([0.0, 1.0, 2.0]), [0.5, 0.75])]
    [1.0, 1.5]
    """
    last = rows.shape[-1] - 1
    found = []
    for q in at:
        low = int(np.floor(q * last))
        high = min(low + 1, last)
        part = q * last - low
        found.append(rows[..., low] * (1 - part) + rows[..., high] * part)
    return found


def sigma_iqr(values: Floats) -> float:
    """Standard deviation of a normal distribution with the interquartile range of (n,) values (0 for n < 2).

    >>> round(sigma_iqr(np.arange(101.0)), 1)
    37.1
    """
    if len(values) < 2:
        return 0.0
    low, high = np.percentile(values, (25, 75))
    return float(high - low) / IQR_OF_NORMAL


def blocks(values: Floats, size: int, start: int = 0) -> Floats:
    """(k, size) whole blocks from `start` on; what is left over at the end waits for its block."""
    count = max(len(values) - start, 0) // size
    return values[start : start + count * size].reshape(count, size)


def levels(rows: Floats) -> Tuple[Floats, Floats]:
    """Median and sigma_iqr of each of (k, size) blocks."""
    if not len(rows):
        return np.empty(0), np.empty(0)
    low, middle, high = quantiles(np.sort(rows, axis=1), (0.25, 0.5, 0.75))
    return middle, (high - low) / IQR_OF_NORMAL


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


def lag1(values: Floats) -> float:
    """Autocorrelation of (n,) values at lag 1 (0 where they are constant)."""
    centred = values - values.mean() if len(values) else values
    power = float(centred @ centred)
    return float(centred[1:] @ centred[:-1]) / power if power > 0 else 0.0


def is_ratio_loss(loss: Optional[Series]) -> bool:
    """Whether ratios of this loss mean anything: it is positive, and larger than its own noise.

    A GRPO loss, which is noise around zero, is none; a DPO loss is one.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> is_ratio_loss(of_values(loss=[2.0, 1.9, 1.8]).finite("loss"))
    True
    >>> is_ratio_loss(of_values(loss=[0.01, -0.02, 0.01, -0.03]).finite("loss"))
    False
    """
    if loss is None or not len(loss):
        return False
    value = loss.value
    if np.count_nonzero(value < 0) >= 0.001 * len(value) and (value < 0).any():
        return False
    middle = float(np.median(value))
    if not middle > 0:
        return False
    noise = float(np.median(np.abs(np.diff(value)))) if len(value) > 1 else 0.0
    return 1.05 * noise < middle


def ratio_loss(run: RunSeries) -> Optional[Series]:
    """The finite points of the run's loss where `is_ratio_loss`, else None."""
    known = run.__dict__.get("_ratio_loss", False)
    if known is False:
        loss = run.finite("loss")
        known = loss if is_ratio_loss(loss) else None
        run.__dict__["_ratio_loss"] = known  # many rules ask
    return known


def warmup_step(run: RunSeries) -> Optional[int]:
    """The step at which the learning rate first stopped rising; None without a learning rate or while it rises."""
    lr = run.finite("lr")
    if lr is None:
        return None
    stops = np.flatnonzero((np.diff(lr.value) <= 0) & (lr.value[:-1] > 0))
    return int(lr.step[stops[0]]) if len(stops) else None


def warmup_end(run: RunSeries, series: Series) -> int:
    """Index of the first point of `series` behind the warm-up.

    Where the learning rate stops rising, but at least 64 points and at most a tenth of the points so far.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> run = of_values(loss=np.ones(2000), lr=np.minimum(np.arange(2000) / 100, 1))
    >>> warmup_end(run, run.curves["loss"])
    100
    """
    most = max(WARMUP_POINTS, int(_WARMUP_PART * len(series)))
    if "lr" not in run.curves:
        return min(WARMUP_POINTS, len(series))
    step = warmup_step(run)
    at = most if step is None else series.at_or_after(step)
    return min(max(WARMUP_POINTS, min(at, most)), len(series))


def joins(run: RunSeries, series: Series) -> Indices:
    """Indices of the first point of `series` at or behind each restart."""
    return np.searchsorted(series.step, np.asarray(run.restarts, np.int64))


def near_joins(run: RunSeries, series: Series, before: int, after: int) -> Mask:
    """(n,) whether a point lies from `before` points before a restart to `after` points behind it."""
    near = np.zeros(len(series), bool)
    for join in joins(run, series).tolist():
        near[max(join - before, 0) : join + after + 1] = True
    return near
