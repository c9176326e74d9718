"""Learning-rate schedules as formulas: what a manifest declares, evaluated without any framework.

A schedule is a dict: ``kind`` and the parameters of its formula. All formulas take i, the number of
optimizer steps done before (0 at the first step). Common parameters: ``peak``, the highest value;
``end``, the final one; ``warmup_steps``, the length w of a linear warm-up from ``warmup_init`` (used while
i < w). The sources are the definitions of the schedules' own cells: mindspore.nn.learning_rate_schedule and
mindformers.core.lr.lr_schedule.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

import numpy as np
import numpy.typing as npt

Parameters = Mapping[str, Any]
Floats = npt.NDArray[np.float64]
_Formula = Callable[[Parameters, Floats], Floats]


def learning_rates(schedule: Parameters, i: npt.ArrayLike) -> Floats:
    """Returns the learning rate of each optimizer step.

    NaN where the schedule's own formula has no value.

    Args:
      schedule: `kind` and parameters.
      i: (n,) optimizer steps done before each.

    Returns:
      (n,) float64.

    Raises:
      KeyError: the kind is unknown, or a parameter is missing.
      TypeError, ValueError: a parameter is no number.

    >>> learning_rates({"kind": "warmup", "peak": 0.1, "warmup_steps": 4}, [0, 1, 4, 5]).tolist()
    [0.0, 0.025, 0.1, 0.1]
    """
    steps = np.asarray(i, np.float64)
    with np.errstate(all="ignore"):
        return np.asarray(_FORMULAS[schedule["kind"]](schedule, steps), np.float64)


def learning_rate(schedule: Parameters, i: int) -> float:
    """Returns the learning rate of the optimizer step after `i` steps; raises as `learning_rates`."""
    return float(learning_rates(schedule, [i])[0])


def _constant(p: Parameters, i: Floats) -> Floats:
    return np.full(len(i), float(p["peak"]))


def _with_warmup(after: _Formula) -> _Formula:
    """The formula behind a linear warm-up."""

    def formula(p: Parameters, i: Floats) -> Floats:
        w = p["warmup_steps"]
        warm = p["warmup_init"] + (p["peak"] - p["warmup_init"]) * i / (w or 1)
        return np.where(i < w, warm, after(p, i))

    return formula


def _half_cosine(turns: Floats) -> Floats:
    """Returns (1 + cos(2 pi turns)) / 2: 1 at 0 turns, 0 at half a turn."""
    return np.maximum(0.5 * (1.0 + np.cos(2.0 * np.pi * turns)), 0.0)


def _between(p: Parameters, share: Floats) -> Floats:
    """Returns the values `share` of the way from end (0) to peak (1)."""
    return np.asarray(p["end"] + (p["peak"] - p["end"]) * share)


def _decay_steps_done(p: Parameters, i: Floats) -> Floats:
    done = i / p["decay_steps"]
    return np.floor(done) if p["staircase"] else done


def _exponential_decay(p: Parameters, i: Floats) -> Floats:
    return np.asarray(p["peak"] * p["decay_rate"] ** _decay_steps_done(p, i))


def _natural_exp_decay(p: Parameters, i: Floats) -> Floats:
    return np.asarray(p["peak"] * np.exp(-p["decay_rate"] * p["decay_steps"] * _decay_steps_done(p, i)))


def _inverse_decay(p: Parameters, i: Floats) -> Floats:
    return np.asarray(p["peak"] / (1.0 + p["decay_rate"] * _decay_steps_done(p, i)))


def _cosine(p: Parameters, i: Floats) -> Floats:
    return _between(p, _half_cosine(0.5 * np.minimum(i / p["decay_steps"], 1.0)))


def _polynomial(p: Parameters, i: Floats) -> Floats:
    rounds = np.maximum(np.ceil(i / p["decay_steps"]), 1.0) if p["cycle"] else 1.0
    return _between(p, (1.0 - np.minimum(i / (p["decay_steps"] * rounds), 1.0)) ** p["power"])


def _warmup_from_zero(p: Parameters, i: Floats) -> Floats:
    return np.asarray(p["peak"] * np.minimum(i / p["warmup_steps"], 1.0))


def _linear_after(p: Parameters, i: Floats) -> Floats:
    return np.asarray(p["peak"] * np.maximum((p["total_steps"] - i) / p["decay_steps"], 0.0))


def _to_the_end(formula: _Formula) -> _Formula:
    """The formula, and `end` from `total_steps` on."""

    def ended(p: Parameters, i: Floats) -> Floats:
        return np.where(i >= p["total_steps"], float(p["end"]), formula(p, i))

    return ended


def _cosine_after(p: Parameters, i: Floats) -> Floats:
    return _between(p, _half_cosine(p["num_cycles"] * (i - p["warmup_steps"]) / p["decay_steps"]))


def _cosine_restarts_after(p: Parameters, i: Floats) -> Floats:
    progress = (i - p["warmup_steps"]) / p["decay_steps"]
    return np.where(progress >= 1.0, 0.0, _between(p, _half_cosine(0.5 * ((p["num_cycles"] * progress) % 1.0))))


def _polynomial_after(p: Parameters, i: Floats) -> Floats:
    left = 1.0 - (i - p["warmup_steps"]) / p["decay_steps"]
    # NaN as on the device, where a negative number has a broken power.
    return np.where(i > p["total_steps"], float(p["end"]), _between(p, left ** float(p["power"])))


def _cooldown_after(p: Parameters, i: Floats) -> Floats:
    since = i - p["warmup_steps"] - p["keep_steps"]
    decay = p["decay_steps"]
    falling = _between(p, _half_cosine(p["num_cycles"] * since / decay))
    flat = np.where(since < decay + p["final_steps"], float(p["end"]), float(p["final"]))
    return np.where(since < 0, float(p["peak"]), np.where(since < decay, falling, flat))


def _stable_decay_after(p: Parameters, i: Floats) -> Floats:
    falling = p["peak"] - (p["peak"] - p["end"]) * (i - p["decay_start"]) / p["decay_steps"]
    # The cell computes peak * i / i.
    return np.where(i < p["decay_start"], p["peak"] * i / i, falling)


def _cosine_annealing(p: Parameters, i: Floats) -> Floats:
    return _between(p, _half_cosine(0.5 * i / p["period"]))


def _cosine_annealing_restarts(p: Parameters, i: Floats) -> Floats:
    period, factor = float(p["period"]), float(p["period_factor"])
    if factor == 1:
        return _between(p, _half_cosine(0.5 * (i % period) / period))
    starts, last = [0.0], float(i.max(initial=0.0))
    while factor > 1 and starts[-1] + period <= last:
        starts.append(starts[-1] + period)
        period *= factor
    begun = np.searchsorted(starts, i, side="right") - 1
    return _between(p, _half_cosine(0.5 * (i - np.array(starts)[begun]) / (p["period"] * factor**begun)))


def _scaled(p: Parameters, i: Floats) -> Floats:
    return np.asarray(p["scale"] * learning_rates(p["base"], i))


_FORMULAS: Mapping[str, _Formula] = {
    "constant": _constant,
    "exponential": _exponential_decay,
    "natural_exp": _natural_exp_decay,
    "inverse": _inverse_decay,
    "cosine": _cosine,
    "polynomial": _polynomial,
    "warmup": _warmup_from_zero,
    "constant_warmup": _with_warmup(_constant),
    "linear_warmup": _with_warmup(_linear_after),
    "cosine_warmup": _to_the_end(_with_warmup(_cosine_after)),
    "cosine_restarts_warmup": _to_the_end(_with_warmup(_cosine_restarts_after)),
    "polynomial_warmup": _with_warmup(_polynomial_after),
    "cosine_cooldown": _with_warmup(_cooldown_after),
    "warmup_stable_decay": _with_warmup(_stable_decay_after),
    "cosine_annealing": _cosine_annealing,
    "cosine_annealing_restarts": _cosine_annealing_restarts,
    "scaled": _scaled,
}

#: The kinds of schedules that are known.
KINDS = tuple(_FORMULAS)
