"""Draws a healthy training."""

from __future__ import annotations

import numpy as np

from curves.drafts import Draft
from curves.families import FAMILIES
from curves.noise import log_uniform
from curves.surroundings import draw_norm, draw_precision, draw_speed

#: Of a run, unless a fault asks for other numbers.
LEAST_POINTS, MOST_POINTS = 300, 50_000


def draft(
    rng: np.random.Generator,
    family: str,
    *,
    least: int = LEAST_POINTS,
    most: int = MOST_POINTS,
    wanted: frozenset[str] = frozenset(),
) -> Draft:
    """Draws a healthy training.

    Args:
      rng: source of all that is random.
      family: one of `FAMILIES`.
      least: smallest number of points.
      most: largest number of points.
      wanted: roles that must be logged, or "constant" for a lr that is neither decayed nor restarted, "no restarts"
        for no restarts of the process.
    """
    n = round(log_uniform(rng, least, most))
    every = int(rng.choice([1, 10, 100], p=[0.5, 0.35, 0.15]))
    drawn = FAMILIES[family](rng, n, every, wanted)
    drawn.extra = np.ones(n)
    draw_precision(drawn, wanted)
    draw_norm(drawn)
    draw_speed(drawn)
    if n >= 600 and "no restarts" not in wanted and rng.random() < 0.25:
        for _ in range(int(rng.integers(1, 4))):
            index = int(rng.integers(n // 5, n - 150))
            drawn.joins[index] = int(rng.integers(1, max(2, min(n - index, n // 20)))) if rng.random() < 0.5 else 0
        drawn.joins = dict(sorted(drawn.joins.items()))
    for role, share in (("lr", 0.15), ("grad_norm", 0.1), ("step_time", 0.4), ("throughput", 0.3), ("epoch", 0.3)):
        if role not in wanted and rng.random() < share:
            drawn.unlogged.add(role)
    if rng.random() < 0.3:
        drawn.silent = float(np.median(drawn.seconds)) * every * rng.uniform(0, 3)
    return drawn
