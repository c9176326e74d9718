"""A constant that explains the difference: a ratio (a division forgotten) or an offset (a term added)."""

from __future__ import annotations

import dataclasses
import math
from typing import List, Optional

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: Fewest pairs that show a constant.
FEWEST = 5

# The share of the pairs that have to follow the constant.
_FOLLOWING = 0.95
# How far they may scatter around it, as a part of what the constant explains.
_SCATTER = 0.1
# A ratio this near to a whole number (or its inverse) is taken for one.
_WHOLE = 0.02


@dataclasses.dataclass(frozen=True)
class Constant:
    """What makes one curve of the other.

    Attributes:
      kind: "ratio" (value = amount * baseline) or "offset" (value = baseline + amount).
      amount: the median over the pairs.
      scatter: what 95 % of the pairs stay within of it, as a part of the baseline's value (scaled by the ratio).
      points: pairs that it was found on.
    """

    kind: str
    amount: float
    scatter: float
    points: int

    @property
    def whole(self) -> Optional[int]:
        """The whole number that a ratio (or its inverse, then negative) is near to; None where there is none."""
        if self.kind != "ratio" or self.amount <= 0:
            return None
        above = self.amount >= 1
        size = self.amount if above else 1 / self.amount
        nearest = round(size) if math.isfinite(size) else 0
        if nearest < 2 or abs(size / nearest - 1) > _WHOLE:
            return None
        return nearest if above else -nearest


def constant(value: Floats, baseline: Floats, tolerance: float) -> Optional[Constant]:
    """Returns the constant by which (n,) finite values differ from (n,) of a baseline, or None.

    It is one where the curves differ by more than the tolerance and 95 % of the pairs follow it: within
    the tolerance, or within a tenth of what it explains.

    Args:
      value: the run's.
      baseline: the baseline's.
      tolerance: a part of the baseline's value.

    >>> constant(np.array([8.0, 6.4, 4.8, 4.0, 3.2]), np.array([1.0, 0.8, 0.6, 0.5, 0.4]), 0.01).amount
    8.0
    """
    if len(value) < FEWEST:
        return None
    found = [c for c in (_ratio(value, baseline, tolerance), _offset(value, baseline, tolerance)) if c is not None]
    return min(found, key=lambda c: c.scatter, default=None)


def best_shift(value: Floats, baseline: Floats, most: int = 2) -> int:
    """Returns by how many pairs the run is to be moved so that it lies on the baseline best; 0 where as it is.

    One framework counts its first step as 0, the other as 1: every value is then paired with its neighbour.
    A shift is only said where it makes the error ten times smaller, of curves that move enough to tell.

    >>> curve = np.array([5.0, 3.0, 4.0, 2.0, 2.5, 1.0, 1.5, 0.5])
    >>> best_shift(curve[1:], curve[:-1])
    1
    """
    if len(value) < FEWEST + most:
        return 0
    errors = {shift: _median_error(*_shifted(value, baseline, shift)) for shift in range(-most, most + 1)}
    best = min(errors, key=lambda shift: (errors[shift], abs(shift)))
    return best if best and errors[best] < 0.1 * errors[0] else 0


def _shifted(value: Floats, baseline: Floats, shift: int) -> List[Floats]:
    if shift > 0:
        return [value[:-shift], baseline[shift:]]
    return [value[-shift:], baseline[: len(baseline) + shift]]


def _median_error(value: Floats, baseline: Floats) -> float:
    return float(np.median(np.abs(value - baseline)))


def _ratio(value: Floats, baseline: Floats, tolerance: float) -> Optional[Constant]:
    if (baseline == 0).any():
        return None
    with np.errstate(all="ignore"):
        ratios = value / baseline
        amount = float(np.median(ratios))
        off = np.abs(ratios / amount - 1)
    explained = abs(math.log(amount)) if amount > 0 and math.isfinite(amount) else 0.0
    return _named("ratio", amount, off, explained, tolerance)


def _offset(value: Floats, baseline: Floats, tolerance: float) -> Optional[Constant]:
    amount = float(np.median(value - baseline))
    level = float(np.median(np.abs(baseline)))
    if not level > 0 or not math.isfinite(amount):
        return None
    return _named("offset", amount, np.abs(value - baseline - amount) / level, abs(amount) / level, tolerance)


def _named(kind: str, amount: float, off: Floats, explained: float, tolerance: float) -> Optional[Constant]:
    if not explained > tolerance:
        return None
    scatter = float(np.quantile(off, _FOLLOWING))
    # A constant of two tolerances around which the pairs scatter by one explains nothing.
    allowed = max(min(tolerance, explained / 4), _SCATTER * explained)
    return Constant(kind, amount, scatter, len(off)) if scatter <= allowed else None
