"""How far a curve is from its baseline, point by point and as a whole."""

from __future__ import annotations

import dataclasses
import math
from typing import Optional

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """From when on two values are not the same.

    A pair is beyond the tolerance where ``|value - baseline| > absolute + relative * |baseline|``
    (numpy's ``isclose``), or where only one of the two is a finite number. The curves part where,
    from a point beyond it on, more than half of `points` pairs are: one spike is no divergence.

    Attributes:
      relative: part of the baseline's value.
      absolute: in the unit of the values.
      points: pairs that are looked at from a point on.
    """

    relative: float = 0.01
    absolute: float = 0.0
    points: int = 10

    def __post_init__(self) -> None:
        for name in ("relative", "absolute"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"the {name} tolerance is {value!r}; it is a number from 0 on, 0.01 is 1 %")
        if self.points < 1:
            raise ValueError(f"the tolerance looks at {self.points!r} points; it is a whole number from 1 on")


@dataclasses.dataclass(frozen=True)
class Errors:
    """The error of a curve of n pairs; statistics are over the pairs of which both are finite.

    Attributes:
      points: n.
      beyond: pairs beyond the tolerance.
      not_finite: pairs of which one only is a finite number.
      both_not_finite: pairs of which neither is.
      first_beyond: index of the first pair beyond the tolerance, or None.
      parted: index of the pair from which on the curves part, or None.
      worst: index of the pair with the largest relative error, or None where no pair is finite.
      mean_absolute, max_absolute, rms_absolute: of |value - baseline|; NaN where no pair is finite.
      mean_relative, max_relative, rms_relative: of the relative error.
      bias: mean of (value - baseline) / |baseline|, signed.
    """

    points: int
    beyond: int
    not_finite: int
    both_not_finite: int
    first_beyond: Optional[int]
    parted: Optional[int]
    worst: Optional[int]
    mean_absolute: float
    max_absolute: float
    rms_absolute: float
    mean_relative: float
    max_relative: float
    rms_relative: float
    bias: float


def relative_error(value: Floats, baseline: Floats) -> Floats:
    """(n,) |value - baseline| / |baseline|; 0 where both are 0, Inf where the baseline alone is, NaN where undefined.

    >>> relative_error(np.array([1.1, 0.0, 1.0]), np.array([1.0, 0.0, 0.0])).round(3).tolist()
    [0.1, 0.0, inf]
    """
    with np.errstate(all="ignore"):
        error = np.abs(value - baseline) / np.abs(baseline)
    return np.where(value == baseline, 0.0, error)


def measure(value: Floats, baseline: Floats, tolerance: Tolerance) -> Errors:
    """Returns the errors of (n,) values against (n,) values of the baseline."""
    finite, other = np.isfinite(value), np.isfinite(baseline)
    both = finite & other
    beyond = _beyond(value, baseline, both, finite != other, tolerance)
    relative = relative_error(value, baseline)
    a, b = value[both], baseline[both]
    absolute, part = np.abs(a - b), relative[both]
    first = np.flatnonzero(beyond)
    with np.errstate(all="ignore"):
        bias = np.where(a == b, 0.0, (a - b) / np.abs(b))
    return Errors(
        points=len(value),
        beyond=len(first),
        not_finite=int(np.count_nonzero(finite != other)),
        both_not_finite=int(np.count_nonzero(~finite & ~other)),
        first_beyond=int(first[0]) if len(first) else None,
        parted=_parted(beyond, tolerance.points),
        worst=int(np.flatnonzero(both)[np.argmax(part)]) if len(part) else None,
        mean_absolute=_mean(absolute),
        max_absolute=float(absolute.max()) if len(absolute) else math.nan,
        rms_absolute=_rms(absolute),
        mean_relative=_mean(part),
        max_relative=float(part.max()) if len(part) else math.nan,
        rms_relative=_rms(part),
        bias=_mean(bias),
    )


def _beyond(value: Floats, baseline: Floats, both: Mask, one: Mask, tolerance: Tolerance) -> Mask:
    with np.errstate(all="ignore"):
        far = np.abs(value - baseline) > tolerance.absolute + tolerance.relative * np.abs(baseline)
    return (far & both) | one


def _parted(beyond: Mask, points: int) -> Optional[int]:
    """The first index that is beyond, with more than half of the `points` from there on; a shorter end counts as is."""
    if not beyond.any():
        return None
    total = np.concatenate([[0], np.cumsum(beyond)])
    start = np.arange(len(beyond))
    stop = np.minimum(start + points, len(beyond))
    # The end of a run is no evidence by itself: a window that it cuts must be as full as a whole one is.
    needed = min(points, len(beyond)) // 2 + 1
    found = np.flatnonzero(beyond & (total[stop] - total[start] >= needed))
    return int(found[0]) if len(found) else None


def _mean(values: Floats) -> float:
    if not len(values):
        return math.nan
    with np.errstate(all="ignore"):  # the mean of two infinities, of either sign, is none
        return float(values.mean())


def _rms(values: Floats) -> float:
    """Root of the mean square, of values whose squares may be too large for a number."""
    if not len(values):
        return math.nan
    largest = float(np.abs(values).max())
    if not (0 < largest < math.inf):
        return largest
    return largest * float(np.sqrt(np.mean((values / largest) ** 2)))
