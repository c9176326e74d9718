"""When nothing of a run was running, so that it can be cut out of its time."""

from __future__ import annotations

import dataclasses
from typing import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# Without a point for longer than this (s) and than so many usual intervals a run was paused; where another
# process took it up again, so few.
_LONG = 60.0
_INTERVALS, _INTERVALS_OF_A_START = 20.0, 2.0


@dataclasses.dataclass(frozen=True, eq=False)
class Pauses:
    """Stretches of wall time in which nothing was running.

    Attributes:
      ends: (2n,) ascending, seconds since the Unix epoch: where each of n pauses begins and where it ends.
      cut: (2n,) seconds that are cut out up to there.
    """

    ends: Floats
    cut: Floats

    def without(self, wall: Floats) -> Floats:
        """Returns (n,) wall times less what is cut out before them."""
        return wall - np.interp(wall, self.ends, self.cut) if len(self.ends) else wall


def find_pauses(walls: Floats, starts: Sequence[float]) -> Pauses:
    """Finds the pauses of a run.

    A pause is a time without a point that is longer than a minute and than 20 usual (median) intervals between
    points; 2 of them where another process began in it. What remains of it is as long as the interval before it,
    so that a curve goes on at its own pace, and what comes later changes nothing of what was before.

    Args:
      walls: (n,) wall times of the points of one series, in any order; those that are not finite do not count.
      starts: when the processes that wrote it began.

    >>> find_pauses(np.array([0.0, 1.0, 2.0, 1000.0, 1001.0]), []).without(np.array([2.0, 1000.0, 1001.0])).tolist()
    [2.0, 3.0, 4.0]
    """
    at = np.sort(walls[np.isfinite(walls)])
    gaps = np.diff(at)
    if not len(gaps):
        return Pauses(np.empty(0), np.empty(0))
    usual = float(np.median(gaps))
    longest = np.full(len(gaps), max(_LONG, _INTERVALS * usual))
    # A process begins before its first point: in the gap that ends there, or exactly at its end.
    places = np.searchsorted(at, np.asarray(starts, np.float64)) - 1
    longest[places[(places >= 0) & (places < len(gaps))]] = max(_LONG, _INTERVALS_OF_A_START * usual)
    paused = np.flatnonzero(gaps > longest)
    before = np.where(paused > 0, gaps[paused - 1], 0.0)
    kept = np.where(before > longest[paused - 1], 0.0, before)
    ends = np.stack([at[paused], at[paused + 1]], axis=1).ravel()
    removed = gaps[paused] - np.minimum(kept, gaps[paused])
    total = np.cumsum(removed)
    return Pauses(ends, np.stack([total - removed, total], axis=1).ravel())
