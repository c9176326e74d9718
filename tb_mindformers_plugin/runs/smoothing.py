"""Bias-corrected exponential moving average."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

# Points of a block. More would mean fewer carries and longer rows of fewer blocks.
_BLOCK = 128


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
    return ema_from(BEGIN, value, decay)[0]


@dataclasses.dataclass(frozen=True)
class EmaState:
    """Where the average of a series that grows is to be taken up.

    Attributes:
      start: index of the first value from which on it has to be computed again.
      count: how many finite values come before.
      mean: the average of these, not corrected for its bias.
    """

    start: int
    count: int
    mean: float


#: Nothing is known yet.
BEGIN = EmaState(0, 0, 0.0)


def ema_from(state: EmaState, value: npt.NDArray[Any], decay: float) -> tuple[Values, EmaState]:
    """Returns what `ema` returns of all values, bit for bit, from `state.start` on, and where to go on later.

    Args:
      state: what the last call returned, of the first of these values and the same decay.
      value: (n,) all values; those before `state.start` are not looked at.
      decay: in [0, 1).
    """
    if not 0 <= decay < 1:
        raise ValueError(f"decay is in [0, 1), got {decay!r}")
    value = value[state.start :]
    finite = np.isfinite(value)
    every = bool(finite.all())
    x = np.asarray(value if every else value[finite], np.float64)
    if len(x) == 0:
        return np.full(len(value), np.nan), state
    mean, before = _recursion(x, decay, state.mean)
    if decay:
        # The correction is 1 from where decay^i is below half the last bit of it.
        count = min(len(x), math.ceil(-37.5 / math.log(decay)) - state.count)
        if count > 0:
            # -expm1(n log d) keeps 1 - d^n exact for decays close to 1.
            mean[:count] /= -np.expm1(np.arange(state.count + 1, state.count + count + 1) * math.log(decay))
    whole = (len(x) - 1) // _BLOCK * _BLOCK  # the last block may be filled up later
    start = whole if every else int(np.flatnonzero(finite)[whole])
    state = EmaState(state.start + start, state.count + whole, before)
    if every:
        return mean, state
    result = np.full(len(value), np.nan)
    result[finite] = mean
    return result, state


def _recursion(x: Values, decay: float, before: float) -> tuple[Values, float]:
    """m_i = decay m_{i-1} + (1 - decay) x_i: blocks side by side, then the carry from block to block.

    Args:
      x: (n,) finite values, at least one.
      decay: in [0, 1).
      before: m_{-1}.

    Returns:
      (n,) m, and what it was before the last block.
    """
    blocks = -(-len(x) // _BLOCK)
    padded = x
    if len(x) < blocks * _BLOCK:
        padded = np.zeros(blocks * _BLOCK)
        padded[: len(x)] = x
    # One row a place in the block: then each step of the recursion is one operation over all blocks.
    rows = np.empty((_BLOCK, blocks))
    np.multiply(padded.reshape(blocks, _BLOCK).T, 1 - decay, out=rows)
    scratch = np.empty(blocks)
    for i in range(1, _BLOCK):
        rows[i] += np.multiply(rows[i - 1], decay, out=scratch)
    carry = np.empty(blocks)
    carry[0] = before
    whole = decay**_BLOCK
    for block, end in enumerate(rows[-1].tolist()[:-1], start=1):
        before = end + whole * before
        carry[block] = before
    # Where decay^i is below the last bit of a sum, the carry no longer counts.
    reach = min(_BLOCK, math.ceil(-40 / math.log(decay))) if decay else 0
    rows[:reach] += np.power(decay, np.arange(1, reach + 1))[:, None] * carry
    return np.ascontiguousarray(rows.T).reshape(-1)[: len(x)], before
