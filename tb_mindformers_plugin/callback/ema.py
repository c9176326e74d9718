"""Exponential moving average of the loss, without the bias of its start."""

from __future__ import annotations

import math
from typing import Optional


class BiasCorrectedEMA:
    r"""Exponential moving average m_n / (1 - d^n), with m_n = d m_{n-1} + (1 - d) x_n and m_0 = 0.

    The division takes out the pull towards the zero start; it is the bias correction of Adam
    (Kingma and Ba, 2015, section 3), applied to the loss. n counts finite values only: a NaN or an
    infinity would stay in the average for good, so it leaves the average where it was.

    Args:
      decay: d, in [0, 1); 0 gives back the values themselves.

    >>> ema = BiasCorrectedEMA(0.5)
    >>> [ema.update(x) for x in (4.0, 1.0, float("nan"))]
    [4.0, 2.0, 2.0]
    """

    def __init__(self, decay: float) -> None:
        self._decay = decay
        self._weighted = 0.0
        self._missing = 1.0  # d^n

    @property
    def value(self) -> Optional[float]:
        """The average so far; None before the first finite value."""
        weight = 1.0 - self._missing
        return self._weighted / weight if weight > 0.0 else None

    def update(self, x: float) -> Optional[float]:
        """Takes in `x` and returns the average."""
        if math.isfinite(x):
            self._weighted = self._decay * self._weighted + (1.0 - self._decay) * x
            self._missing *= self._decay
        return self.value
