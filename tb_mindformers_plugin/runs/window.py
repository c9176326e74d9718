"""Window queries: a stretch of a curve in at most so many points, with no extreme left out."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Callable, Optional

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
    x: npt.NDArray[Any],
    value: npt.NDArray[Any],
    smoothed: Optional[npt.NDArray[Any]],
    start: Optional[float],
    stop: Optional[float],
    buckets: int,
    log: bool = False,
) -> Window:
    """Returns the part of a curve between `start` and `stop`, and one neighbour on either side.

    Buckets have equal width in x, or in log2(x) for an axis that is logarithmic. They lie at whole
    multiples of that width, and the width moves in steps of 1/8 octave: the same window gives the
    same buckets, and a growing run keeps its buckets but for one renewal each time it grows by an eighth.

    Args:
      x: (n,) ascending positions, whole or real numbers.
      value: (n,) values.
      smoothed: (n,) smoothed values, or None.
      start: where the window begins, or None for the curve's own beginning.
      stop: where it ends, or None for the curve's own end.
      buckets: at most this many points are returned (at least 8).
      log: buckets of equal width in log2(x); what lies at or below 0 is one bucket.
    """
    if len(x) == 0:
        return _points(x, value, smoothed, None)
    low = float(x[0]) if start is None else start
    high = float(x[-1]) if stop is None else stop
    # Without a bound it is the curve's own end, which a whole number beyond 2^53 is not as a float.
    first = 0 if start is None else max(0, _place(x, low) - 1)
    last = len(x) if stop is None else min(len(x), _place(x, high, after=True) + 1)
    if last - first <= buckets:
        part = slice(first, last)
        return _points(x[part], value[part], None if smoothed is None else smoothed[part], None)
    # Of a window that is wider than the curve only the curve counts.
    low, high = max(low, float(x[first])), min(high, float(x[last - 1]))
    positive = first + int(np.searchsorted(x[first:last], 0, side="right"))
    if log and positive < last and high > 0:
        low = max(low, float(x[positive]))
        high = max(low, high)  # a window may end before the first point that such an axis has a place for
        with np.errstate(over="ignore"):  # as in `_edges`
            edges = np.exp2(_edges(math.log2(low), math.log2(high), buckets - 1))
    else:
        edges = _edges(low, high, buckets)
    places = np.searchsorted(x, _as(x, edges))
    # Whole buckets and a neighbour; and what lies at or below 0, which is before any edge of a logarithmic axis.
    first, last = min(first, max(0, int(places[0]) - 1)), max(last, min(len(x), int(places[-1]) + 1))
    part = slice(first, last)
    starts = np.unique(np.concatenate([[first], places, [last - 1 if places[-1] < last else last]]))
    starts = starts[(starts >= first) & (starts < last)] - first
    return _points(x[part], value[part], None if smoothed is None else smoothed[part], starts)


def _edges(low: float, high: float, buckets: int) -> Floats:
    """The (n,) ends of less than `buckets` - 1 aligned buckets that hold `low` and `high`."""
    # Many points at one position (wall times of a fast loop) still need a width.
    finest = float(np.spacing(max(abs(low), abs(high))))
    # Two neighbours, and two buckets that the window's ends cut.
    # Divided first: the span of what is at both ends of the numbers is none of them.
    width = _width(max(high / (buckets - 4) - low / (buckets - 4), finest))
    count = math.floor(high / width) - math.floor(low / width) + 2
    with np.errstate(over="ignore"):  # the last edge of all is beyond all numbers
        edges: Floats = (math.floor(low / width) + np.arange(count, dtype=np.float64)) * width
    return edges


def _place(x: npt.NDArray[Any], position: float, after: bool = False) -> int:
    """The index of the first point at `position` or behind it (behind it, if `after`)."""
    if after:
        position = float(np.nextafter(position, np.inf))
    return int(np.searchsorted(x, _as(x, np.array([position])))[0])


def _as(x: npt.NDArray[Any], positions: Floats) -> npt.NDArray[Any]:
    """`positions` in the type of `x`, so that a search does not convert all of `x`.

    The first whole number at a position or behind it is its ceiling.
    """
    if x.dtype.kind != "i":
        return positions
    limits = np.iinfo(x.dtype)
    beyond = float(limits.max)  # 2^63; the largest float64 below it is far below the largest whole number
    whole = np.ceil(np.clip(positions, float(limits.min), np.nextafter(beyond, 0))).astype(x.dtype)
    return np.where(positions >= beyond, limits.max, whole)


def _width(least: float) -> float:
    """The smallest m/8 x 2^e >= `least`, m from 8 to 15."""
    mantissa, exponent = math.frexp(least)  # in [0.5, 1)
    return math.ldexp(math.ceil(mantissa * 16) / 16, exponent)


def _points(
    x: npt.NDArray[Any],
    value: npt.NDArray[Any],
    smoothed: Optional[npt.NDArray[Any]],
    starts: Optional[npt.NDArray[np.int64]],
) -> Window:
    """The points as they are (`starts` None), or gathered into the buckets that begin at `starts`."""
    ends = None if starts is None else np.append(starts[1:], len(x)) - 1
    finite = np.isfinite(value)
    all_finite = bool(finite.all())
    number = _as_float32(value)
    if not all_finite:
        number = np.where(finite, number, np.float32(np.nan))

    def count(kind: Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]]) -> npt.NDArray[np.uint32]:
        if all_finite:
            return np.zeros(len(x) if starts is None else len(starts), np.uint32)
        mask = kind(value)
        return mask.astype(np.uint32) if starts is None else np.add.reduceat(mask, starts, dtype=np.uint32)

    return Window(
        raw=starts is None,
        x=(x if ends is None else x[ends]).astype(np.float64),
        minimum=number if starts is None else np.fmin.reduceat(number, starts),
        maximum=number if starts is None else np.fmax.reduceat(number, starts),
        last=number if ends is None else number[ends],
        smoothed=None if smoothed is None else (smoothed if ends is None else smoothed[ends]).astype(np.float32),
        nan=count(np.isnan),
        posinf=count(np.isposinf),
        neginf=count(np.isneginf),
    )


def _as_float32(value: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    if value.dtype == np.float32:
        return value
    with np.errstate(over="ignore"):
        narrow = value.astype(np.float32)
    # A double beyond float32 is a number all the same: the largest one, rather than infinity.
    return np.where(np.isinf(narrow) & np.isfinite(value), np.copysign(np.finfo(np.float32).max, narrow), narrow)
