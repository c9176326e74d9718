"""Curves of healthy trainings, for faults to be put into."""

from __future__ import annotations

import numpy as np


def noise(n, sigma=1.0, seed=0):
    return sigma * np.random.default_rng(seed).standard_normal(n)


def loss(n=3000, sigma=0.02, seed=0, start=8.0, end=2.0):
    """A loss that falls as a power law, with relative noise."""
    t = np.arange(n)
    return (end + (start - end) * (1 + t / (0.01 * n)) ** -0.7) * np.exp(noise(n, sigma, seed))


def level(n=2000, value=2.0, sigma=0.02, seed=0):
    return value * np.exp(noise(n, sigma, seed))


def lr(n=3000, warm=100, peak=1e-3):
    """Warm-up and cosine."""
    t = np.arange(n)
    return peak * np.minimum((t + 1) / warm, 0.5 * (1 + np.cos(np.pi * np.maximum(t - warm, 0) / max(n - warm, 1))))


def grad_norm(n=3000, sigma=0.2, seed=1):
    return np.exp(noise(n, sigma, seed))


def run(n=3000, every=1, seed=0, **other):
    """role -> (step, wall, value) of a healthy run; `other` roles are put in its place or beside."""
    values = {
        "loss": loss(n, seed=seed),
        "lr": lr(n),
        "grad_norm": grad_norm(n, seed=seed + 1),
        "throughput": 1000 * np.exp(noise(n, 0.03, seed + 2)),
        "loss_scale": np.full(n, 65536.0),
        "epoch": np.arange(n) / 1000,
        **other,
    }
    step = np.arange(1, n + 1) * every
    return {role: (step, 1e9 + step * 0.5, value) for role, value in values.items() if value is not None}
