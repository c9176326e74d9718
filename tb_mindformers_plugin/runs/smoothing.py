"""Bias-corrected exponential moving average."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]


def ema(value: npt.NDArray[Any], decay: float) -> Values:
    """Bias-corrected EMA of the finite values.

    m_i = decay m_{i-1} + (1 - decay) x_i with m_0 = 0, divided by 1 - decay^i (Kingma & Ba, Adam,
    arXiv 1412.6980, section 3). A value that is not finite is no step of the average.

    Args:
      value: (n,) values.
      decay: in [0, 1); 0 returns the values themselves.

    Returns:
      (n,) float64; NaN where the value is not finite.

    >>> ema(np.array([1.0, np.nan, 3.0]), 0.5).round(4).tolist()
    [1.0, nan, 2.3333]
    """
    if not 0 <= decay < 1:
        raise ValueError(f"decay is in [0, 1), got {decay!r}")
    finite = np.isfinite(value)
    every = bool(finite.all())
    x = np.asarray(value if every else value[finite], np.float64)
    mean = _recursion((1 - decay) * x, decay)
    if decay and len(x):
        # The correction is 1 from where decay^i is below half the last bit of it.
        count = min(len(x), math.ceil(-37.5 / math.log(decay)))
        # -expm1(n log d) keeps 1 - d^n exact for decays close to 1.
        mean[:count] /= -np.expm1(np.arange(1, count + 1) * math.log(decay))
    if every:
        return mean
    result = np.full(len(value), np.nan)
    result[finite] = mean
    return result


def _recursion(x: Values, decay: float) -> Values:
    """m_i = decay m_{i-1} + x_i, in blocks: all blocks side by side, then the carry from block to block."""
    size = max(1, int(np.sqrt(len(x))))
    blocks = -(-len(x) // size)
    padded = np.zeros(blocks * size)
    padded[: len(x)] = x
    columns = np.ascontiguousarray(padded.reshape(blocks, size).T)
    for i in range(1, size):
        columns[i] += decay * columns[i - 1]
    carry = np.zeros(blocks)
    whole = decay**size
    ends = columns[-1].tolist()
    before = 0.0
    for block in range(1, blocks):
        before = ends[block - 1] + whole * before
        carry[block] = before
    columns += np.power(decay, np.arange(1, size + 1))[:, None] * carry
    return np.ascontiguousarray(columns.T).reshape(-1)[: len(x)]
