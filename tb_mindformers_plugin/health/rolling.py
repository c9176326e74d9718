"""Jumps against the points just before: exact rolling quantiles, without looking at every window.

A window of 128 points ends before each point. Sorting all of them costs seconds per million points, so
the median is bounded first: of the 32-point blocks, the three before a point's own block lie inside its
window whatever the point's place in the block. Only points that pass the bound get a window of their own.
What a run's noise was for longer is known from the blocks themselves.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.health.robust import BLOCK, IQR_OF_NORMAL, block_levels, quantiles
from tb_mindformers_plugin.health.series import Floats, Indices, Mask, Series
from tb_mindformers_plugin.runs.growing import Growing

WINDOW = 128
#: Fewest points before a point that can be judged.
LEAST = 64
# Blocks that the noise for long is taken from.
_LONG = 64
# Windows that are sorted at a time: 16 MB.
_CHUNK = 16_384
_Q95_TO_SIGMA = 1.645


@dataclasses.dataclass(frozen=True)
class Baseline:
    """What (k,) points are compared with: median, 25, 75, 95 and 99 % quantiles of the window before each."""

    median: Floats
    q25: Floats
    q75: Floats
    q95: Floats
    q99: Floats

    def where(self, which: Mask, other: Baseline) -> Baseline:
        """These where `which` (k,) is false, the others where it is true."""
        return Baseline(*(np.where(which, getattr(other, f.name), getattr(self, f.name)) for f in _FIELDS))

    def sigma(self) -> Floats:
        """(k,) the larger of the sigmas that the middle and the upper tail of the window have."""
        return np.maximum((self.q75 - self.q25) / IQR_OF_NORMAL, (self.q95 - self.median) / _Q95_TO_SIGMA)

    def logs(self) -> Baseline:
        """The same of the logarithms (values at or below 0 count as the smallest number)."""
        tiny = np.finfo(np.float64).tiny
        return Baseline(*(np.log(np.maximum(getattr(self, f.name), tiny)) for f in _FIELDS))


_FIELDS = dataclasses.fields(Baseline)


def baseline(
    values: npt.NDArray[Any],
    at: Indices,
    window: int = WINDOW,
    scale: Callable[[Floats], Floats] = np.positive,
) -> Baseline:
    """Returns the exact quantiles of the up to 128 values before each index of `at`.

    Args:
      values: (n,) finite.
      at: (k,) ascending indices, each at least 1.
      window: another number than 128.
      scale: what the values are looked at on: ``np.log``, of their logarithms.

    >>> float(baseline(np.arange(300.0), np.array([200])).median[0])
    135.5
    """
    wanted = (0.5, 0.25, 0.75, 0.95, 0.99)
    found = np.empty((len(wanted), len(at)))
    early = int(np.searchsorted(at, window))
    for k, i in enumerate(at[:early].tolist()):
        found[:, k] = quantiles(np.sort(scale(values[:i].astype(np.float64))), wanted)
    if early < len(at):
        windows = np.lib.stride_tricks.sliding_window_view(values, window)
        for first in range(early, len(at), _CHUNK):
            chunk = slice(first, first + _CHUNK)
            rows = scale(windows[at[chunk] - window].astype(np.float64, copy=False))
            found[:, chunk] = quantiles(np.sort(rows, axis=1), wanted)
    return Baseline(*found)


def may_exceed(series: Series, factor: Floats) -> Indices:
    """Returns the indices of all points above the median of the window before them times a factor.

    A superset, from bounds, of those with at least 64 points before.

    Args:
      series: finite values.
      factor: (k + 1,) at least 1, for each of the k whole blocks of 32 points and the rest behind them.
    """
    n = len(series)
    levels = block_levels(series)
    k = len(levels.top)
    if n <= LEAST:
        return np.empty(0, np.int64)
    # Three quarters of each of three blocks lie above the least of their quartiles: more than half of the window.
    least = np.empty(k - 1)  # from the third block on
    np.minimum(levels.low[:-1], levels.low[1:], out=least)
    np.minimum(least[1:], levels.low[:-2], out=least[1:])
    bound = np.where(least > 0, least * factor[2:], least)
    rest = series.values(k * BLOCK)
    hot = np.flatnonzero(levels.top[2:] > bound[:-1]).tolist()
    if len(rest) and rest.max() > bound[-1]:
        hot.append(k - 2)
    if not hot:
        return np.empty(0, np.int64)
    at = ((np.array(hot) + 2)[:, None] * BLOCK + np.arange(BLOCK)).ravel()
    at = at[at < n]
    return at[series.stored[at] > bound[at // BLOCK - 2]]


def noise_before(sigma: Floats) -> Floats:
    """Returns what a point's noise was for long: medians of the up to 64 block sigmas before each block.

    Taken anew at each of the first 8 blocks, then at every eighth.

    Args:
      sigma: (k,) of blocks.

    Returns:
      (k + 1,): before each block, and before what follows the last; 0 before the first.

    >>> noise_before(np.array([1.0, 3.0, 2.0])).tolist()
    [0.0, 1.0, 2.0, 2.0]
    """
    plan = (_cached_plan if len(sigma) <= _FEW else _noise_plan)(len(sigma))
    padded = np.concatenate([_NOT_YET, sigma])
    ordered = np.sort(padded[plan.windows], axis=1)
    middle = (ordered[plan.row, plan.low] + ordered[plan.row, plan.high]) / 2
    return np.concatenate([_ZERO, middle])[plan.mark]


def noise_so_far(series: Series, name: str, sigma: Floats) -> Floats:
    """Returns what `noise_before` returns, and of a series that grew takes only the blocks that are new.

    Args:
      series: of which the sigmas are.
      name: which of its sigmas.
      sigma: (k,) of its blocks.
    """

    def extend(known: Optional[Growing], count: int) -> Growing:
        if known is None:
            return Growing((noise_before(sigma),))
        # From a mark on whose window is whole.
        done = len(known)
        begin = max(done // 8 * 8 - _LONG, 0)
        return known.longer((noise_before(sigma[begin:])[done - begin :],)) if done <= len(sigma) else known

    found: Floats = series.extended((noise_so_far, name), extend).arrays[0]
    return found


_NOT_YET = np.full(_LONG, np.inf)
_ZERO = np.zeros(1)


class _NoisePlan(NamedTuple):
    """What to do with so many sigmas.

    Attributes:
      windows: (m, 64) at each mark the 64 sigmas before, in an array that has 64 more at its beginning.
      row, low, high: (m,) where in the sorted windows the two in the middle are.
      mark: (k + 1,) the last mark at or before each block; 0 is none.
    """

    windows: Indices
    row: Indices
    low: Indices
    high: Indices
    mark: Indices


def _noise_plan(k: int) -> _NoisePlan:
    marks = np.concatenate([np.arange(1, min(k, 8) + 1), np.arange(16, k + 1, 8)])
    count = np.minimum(marks, _LONG)
    windows = marks[:, None] + np.arange(_LONG)
    mark = np.searchsorted(marks, np.arange(k + 1), side="right")
    return _NoisePlan(windows, np.arange(len(marks)), (count - 1) // 2, count // 2, mark)


# Runs of a project are of a few lengths; plans of more blocks take long to use and are large to keep.
_FEW = 1000
_cached_plan = functools.lru_cache(maxsize=64)(_noise_plan)


def second_largest_before(values: Floats) -> Floats:
    """Returns the second-largest of the values before each, of neighbours only one counting.

    Args:
      values: (k,) at least 0.

    Returns:
      (k + 1,): before each value, and behind the last.

    >>> second_largest_before(np.array([1.0, 5.0, 4.0, 0.0, 3.0])).tolist()
    [0.0, 0.0, 0.0, 1.0, 1.0, 3.0]
    """
    earlier = np.concatenate([[0.0, 0.0], np.maximum.accumulate(values)])[: len(values)]
    return np.concatenate([[0.0], np.maximum.accumulate(np.minimum(values, earlier))])
