"""The published spike score, for reference beside the findings."""

from __future__ import annotations

from typing import Optional

import numpy as np

from tb_mindformers_plugin.health.series import Floats

_WINDOW = 1000
_SIGMAS = 7.0


def spike_score(values: Floats) -> Optional[float]:
    """Returns the percentage of values more than 7 standard deviations above the mean of the last 1,000.

    As the OLMo 2 report (2024) defines it for loss and grad norm; computed here over the up to 1,000
    values before each, from the 128th on. None where there are too few.

    Args:
      values: (n,); those that are not finite are left out.

    >>> flat = np.tile([1.0, 1.1], 1000)
    >>> flat[1500] = 9.0
    >>> round(spike_score(flat), 3)
    0.053
    """
    x = np.asarray(values, np.float64)
    x = x[np.isfinite(x)]
    n, least = len(x), 128
    if n <= least:
        return None
    # In units of the largest value, which overflows no square.
    largest = float(np.max(np.abs(x)))
    scaled = x / largest if largest > 0 else x
    # Against the median, so that sums of squares lose nothing.
    scaled = scaled - np.median(scaled)
    total, square = (np.concatenate([[0.0], np.cumsum(scaled**power)]) for power in (1, 2))
    at = np.arange(least, n)
    first = np.maximum(at - _WINDOW, 0)
    count = at - first
    mean = (total[at] - total[first]) / count
    variance = np.maximum((square[at] - square[first]) / count - mean**2, 0)
    return 100 * float(np.mean(scaled[at] > mean + _SIGMAS * np.sqrt(variance) + 1e-12))
