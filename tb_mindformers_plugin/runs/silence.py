"""How long a run may be silent before it is no longer believed to go on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: A run goes on while its last record is no older than so many seconds, or so many of its own intervals.
SECONDS, INTERVALS = 1800.0, 10.0

# So many of the newest points say how long the pauses between them usually are.
_MANY = 10_000


def usual_interval(wall: npt.NDArray[np.float64]) -> float:
    """Returns the median seconds between the newest points.

    Args:
      wall: (n,) seconds since the Unix epoch, NaN where unknown.

    Returns:
      0.0 where there are fewer than three points or no two with a known time.

    >>> usual_interval(np.array([0.0, 10.0, 20.0, 3600.0]))
    10.0
    """
    # Between the ends of a peeked run lies a gap that is no interval; the median passes over it.
    gaps = np.diff(wall[-_MANY:])
    gaps = gaps[np.isfinite(gaps)]
    return float(np.median(gaps)) if len(wall) >= 3 and len(gaps) else 0.0


def goes_on(silent: float, interval: float) -> bool:
    """Whether a run that has been silent for so many seconds, and usually is for `interval`, is taken to go on."""
    return silent <= max(SECONDS, INTERVALS * interval)
