"""A stretch of a curve as a line of text."""

from __future__ import annotations

from typing import Any

import numpy as np

_BARS = "▁▂▃▄▅▆▇█"
_NOT_FINITE = "×"
_COLUMNS = 60
# Points shown on either side of a stretch, at least, and as a part of it.
_AROUND_POINTS, _AROUND_PART = 12, 0.4


def sparkline(step: Any, value: Any, first_step: int, last_step: int, columns: int = _COLUMNS) -> str:
    """Returns a stretch of a curve, with some points around it, as a line of bars.

    A column shows the value of its points that is furthest from the median; × where one is no number.

    >>> sparkline(np.arange(8), np.array([1.0, 1, 1, 5, 1, 1, np.nan, 1]), 0, 7)
    '▁▁▁█▁▁×▁'
    """
    inside = int(np.searchsorted(step, last_step, side="right")) - int(np.searchsorted(step, first_step))
    around = max(_AROUND_POINTS, int(_AROUND_PART * inside))
    first = max(int(np.searchsorted(step, first_step)) - around, 0)
    shown = value[first : int(np.searchsorted(step, last_step, side="right")) + around]
    finite = shown[np.isfinite(shown)]
    if not len(finite):
        return _NOT_FINITE * min(len(shown), columns)
    if finite.min() > 0 and finite.max() / 100 > finite.min():
        with np.errstate(invalid="ignore"):
            shown = np.log(np.where(np.isfinite(shown), shown, np.nan))
        finite = shown[np.isfinite(shown)]
    middle, low, span = float(np.median(finite)), float(finite.min()), float(finite.max() / 2 - finite.min() / 2)
    line = ""
    for points in np.array_split(shown, min(len(shown), columns)):
        if not np.isfinite(points).all():
            line += _NOT_FINITE
        else:
            far = float(points[np.argmax(np.abs(points / 2 - middle / 2))])
            place = (far / 2 - low / 2) / span if span > 0 else 0.0
            line += _BARS[min(int(place * len(_BARS)), len(_BARS) - 1)]
    return line
