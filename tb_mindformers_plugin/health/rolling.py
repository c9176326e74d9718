"""Jumps against the points just before: exact rolling quantiles, without looking at every window.

A window of 128 points ends before each point. Sorting all of them costs seconds per million points, so
they are bounded first: of the 32-point blocks, the three before a point's own block lie inside its
window whatever the point's place in the block. Of 96 sorted values the k-th is never below the window's
k-th, and the (k - 32)-th never above it. Only points that pass these bounds get a window of their own.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tb_mindformers_plugin.health.robust import IQR_OF_NORMAL, quantiles
from tb_mindformers_plugin.health.series import Floats, Indices

WINDOW = 128
#: Fewest points before a point that can be judged.
LEAST = 64
_BLOCK = 32
_INNER = WINDOW - _BLOCK
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

    def sigma(self) -> Floats:
        """(k,) the larger of the sigmas that the middle and the upper tail of the window have."""
        return np.maximum((self.q75 - self.q25) / IQR_OF_NORMAL, (self.q95 - self.median) / _Q95_TO_SIGMA)

    def logs(self) -> Baseline:
        """The same of the logarithms (values at or below 0 count as the smallest number)."""
        tiny = np.finfo(np.float64).tiny
        return Baseline(*(np.log(np.maximum(getattr(self, f.name), tiny)) for f in dataclasses.fields(self)))


def baseline(values: Floats, at: Indices) -> Baseline:
    """Returns the exact quantiles of the up to 128 values before each index of `at`.

    Args:
      values: (n,) finite.
      at: (k,) ascending indices, each at least 1.

    >>> float(baseline(np.arange(300.0), np.array([200])).median[0])
    135.5
    """
    wanted = (0.5, 0.25, 0.75, 0.95, 0.99)
    found = np.empty((len(wanted), len(at)))
    early = int(np.searchsorted(at, WINDOW))
    for k, i in enumerate(at[:early].tolist()):
        found[:, k] = quantiles(np.sort(values[:i]), wanted)
    if early < len(at):
        windows = np.lib.stride_tricks.sliding_window_view(values, WINDOW)
        for first in range(early, len(at), _CHUNK):
            chunk = slice(first, first + _CHUNK)
            found[:, chunk] = quantiles(np.sort(windows[at[chunk] - WINDOW], axis=1), wanted)
    return Baseline(*found)


def may_jump(values: Floats, z: float, relative: float = 0.0, absolute: float = 0.0) -> Indices:
    """Returns the indices of all points x that can be above median + max(relative |median|, absolute, z sigma).

    A superset, from bounds: with sigma as `Baseline.sigma` has it, and at least 64 points before.

    Args:
      values: (n,) finite.
      z: how far above, in sigmas.
      relative: how far above, as a part of the median.
      absolute: how far above.
    """
    early = np.arange(LEAST, min(len(values), WINDOW))
    whole = len(values) // _BLOCK
    if len(values) <= WINDOW or whole < 4:
        return early
    inner = np.lib.stride_tricks.sliding_window_view(values[: whole * _BLOCK], _INNER)[::_BLOCK]
    ordered = np.sort(inner, axis=1)
    # The window's quantiles lie between order statistics of 128: 31|32, 63|64, 95|96, 120|121.
    lowest_median, highest_median = ordered[:, 63 - _BLOCK], ordered[:, 64]
    sigma = np.maximum(
        (ordered[:, 95 - _BLOCK] - ordered[:, 32]) / IQR_OF_NORMAL,
        (ordered[:, 120 - _BLOCK] - highest_median) / _Q95_TO_SIGMA,
    )
    reach = np.maximum(np.maximum(relative * np.abs(lowest_median), absolute), z * np.maximum(sigma, 0))
    # Median plus its own part rises with the median, so the lowest median gives the lowest bound.
    bound = lowest_median + reach
    # Triple t bounds block t + 3; the first point with a whole window is in block 4.
    per_point = np.repeat(bound[1:], _BLOCK)[: len(values) - WINDOW]
    tail = values[WINDOW : WINDOW + len(per_point)]
    return np.concatenate([early, WINDOW + np.flatnonzero(tail > per_point)])
