"""Noise, and what has it."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def noise(rng: np.random.Generator, size: int, rho: float, tail: float = 20.0) -> Floats:
    """(size,) autocorrelated noise of mean 0 and deviation 1: lag one `rho`, Student's t of `tail` degrees, to 5."""
    drawn = rng.standard_t(tail, size + 64) * math.sqrt((tail - 2) / tail)
    kernel = rho ** np.arange(64)
    kernel /= math.sqrt(float((kernel**2).sum()))
    return np.clip(np.convolve(drawn, kernel, mode="valid")[:size], -5.0, 5.0)


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """A number whose logarithm is uniform."""
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))


def lagged(value: Floats, points: float) -> Floats:
    """What follows `value` with a lag of about `points`."""
    size = max(1, round(points * 3))
    kernel = np.exp(-np.arange(size) / max(points, 1e-9))
    padded = np.concatenate((np.full(size - 1, value[0]), value))
    return np.convolve(padded, kernel / kernel.sum(), mode="valid")


def fading_out(since: npt.NDArray[np.int64], points: float) -> Floats:
    """0 before, 1 at 0, and back within about `points` by e."""
    return np.where(since >= 0, np.exp(-since.clip(0) / points), 0.0)
