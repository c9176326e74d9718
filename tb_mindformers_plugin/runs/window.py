"""Window queries: a stretch of a curve in at most so many points, with no extreme left out."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Window:
    """Points or buckets of a curve, ascending in x.

    Attributes:
      raw: whether every point of the window is there (each "bucket" is one point).
      x: (n,) float64: position of the last logged point of each bucket.
      minimum, maximum: (n,) float32: extremes of the bucket's finite values; NaN where it has none.
      last: (n,) float32: value of the last logged point; NaN where that is not finite.
      smoothed: (n,) float32 smoothed value at that point, or None.
      nan, posinf, neginf: (n,) uint32: how many values of the bucket are NaN, +Inf, -Inf.
    """

    raw: bool
    x: Floats
    minimum: npt.NDArray[np.float32]
    maximum: npt.NDArray[np.float32]
    last: npt.NDArray[np.float32]
    smoothed: Optional[npt.NDArray[np.float32]]
    nan: npt.NDArray[np.uint32]
    posinf: npt.NDArray[np.uint32]
    neginf: npt.NDArray[np.uint32]


def window(
    x: Floats,
    value: npt.NDArray[Any],
    smoothed: Optional[Floats],
    start: Optional[float],
    stop: Optional[float],
    buckets: int,
) -> Window:
    """Returns the part of a curve between `start` and `stop`, and one neighbour on either side.

    Buckets have equal width in x, lie at whole multiples of that width, and the width moves in
    steps of 1/8 octave: the same window gives the same buckets, and a growing run keeps its buckets
    but for one renewal each time it grows by an eighth.

    Args:
      x: (n,) ascending positions.
      value: (n,) values.
      smoothed: (n,) smoothed values, or None.
      start: where the window begins, or None for the curve's own beginning.
      stop: where it ends, or None for the curve's own end.
      buckets: at most this many points are returned (at least 8).
    """
    if len(x) == 0:
        return _raw(x, value, smoothed)
    low = float(x[0]) if start is None else start
    high = float(x[-1]) if stop is None else stop
    first = max(0, int(np.searchsorted(x, low, side="left")) - 1)
    last = min(len(x), int(np.searchsorted(x, high, side="right")) + 1)
    if last - first <= buckets:
        part = slice(first, last)
        return _raw(x[part], value[part], None if smoothed is None else smoothed[part])
    # Two neighbours, and two buckets that the window's ends cut.
    # Many points at one position (wall times of a fast loop) still need a width.
    finest = float(np.spacing(max(abs(low), abs(high))))
    width = _width(max((high - low) / (buckets - 4), finest))
    first = max(0, int(np.searchsorted(x, math.floor(low / width) * width, side="left")) - 1)
    last = min(len(x), int(np.searchsorted(x, (math.floor(high / width) + 1) * width, side="left")) + 1)
    part = slice(first, last)
    return _bucketed(x[part], value[part], None if smoothed is None else smoothed[part], width)


def _width(least: float) -> float:
    """The smallest m/8 x 2^e >= `least`, m from 8 to 15."""
    mantissa, exponent = math.frexp(least)  # in [0.5, 1)
    return math.ldexp(math.ceil(mantissa * 16) / 16, exponent)


def _raw(x: Floats, value: npt.NDArray[Any], smoothed: Optional[Floats]) -> Window:
    finite = _finite_only(value)
    return Window(
        raw=True,
        x=x,
        minimum=finite,
        maximum=finite,
        last=finite,
        smoothed=None if smoothed is None else smoothed.astype(np.float32),
        nan=np.isnan(value).astype(np.uint32),
        posinf=np.isposinf(value).astype(np.uint32),
        neginf=np.isneginf(value).astype(np.uint32),
    )


def _bucketed(x: Floats, value: npt.NDArray[Any], smoothed: Optional[Floats], width: float) -> Window:
    bucket = np.floor(x / width)
    starts = np.concatenate([np.zeros(1, int), np.flatnonzero(np.diff(bucket)) + 1])
    ends = np.append(starts[1:], len(x)) - 1
    finite = _finite_only(value)

    def count(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint32]:
        if not mask.any():
            return np.zeros(len(starts), np.uint32)
        return np.add.reduceat(mask, starts, dtype=np.uint32)

    return Window(
        raw=False,
        x=x[ends],
        minimum=np.fmin.reduceat(finite, starts),
        maximum=np.fmax.reduceat(finite, starts),
        last=finite[ends],
        smoothed=None if smoothed is None else smoothed[ends].astype(np.float32),
        nan=count(np.isnan(value)),
        posinf=count(np.isposinf(value)),
        neginf=count(np.isneginf(value)),
    )


def _finite_only(value: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        narrow = np.asarray(value, np.float32)
    # A double beyond float32 is a number all the same: the largest one, rather than infinity.
    narrow = np.where(np.isinf(narrow) & np.isfinite(value), np.copysign(np.finfo(np.float32).max, narrow), narrow)
    return np.where(np.isfinite(narrow), narrow, np.float32(np.nan))
