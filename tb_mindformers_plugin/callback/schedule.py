"""Learning-rate schedules evaluated on the host.

Calling a schedule cell to learn its value costs 1 to 18 ms a call, and a graph compilation at
first. The schedules of MindSpore and of MindSpore Transformers are formulas with constant
parameters: those are read off the cell once, put into the run's manifest, and evaluated here.

A schedule is a dict: ``kind`` and the parameters of its formula. All formulas take i, the number of
optimizer steps done before (0 at the first step). Common parameters: ``peak``, the highest value;
``end``, the final one; ``warmup_steps``, the length w of a linear warm-up from ``warmup_init`` (used while
i < w). The sources are the cells' own definitions: mindspore.nn.learning_rate_schedule and
mindformers.core.lr.lr_schedule.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from typing import Any, Callable, Mapping, Optional

Parameters = Mapping[str, Any]


def lr_at(schedule: Parameters, i: int) -> float:
    """Returns the learning rate of the optimizer step after `i` steps.

    Args:
      schedule: as `describe` returns it.
      i: optimizer steps done before.

    Raises:
      KeyError: the kind is unknown, or a parameter is missing.
    """
    return _FORMULAS[schedule["kind"]](schedule, i)


def describe(cell: Any) -> Optional[dict[str, Any]]:
    """Returns the schedule that a learning-rate cell computes.

    Only exact classes are taken: a subclass may compute something else. Nothing is called, and
    mindspore is not needed.

    Args:
      cell: a ``LearningRateSchedule``.

    Returns:
      The schedule, or None where it is unknown or has a parameter that can change.
    """
    known = _CELLS.get(type(cell).__name__)
    if known is None or type(cell).__module__.partition(".")[0] not in ("mindspore", "mindformers"):
        return None
    schedule: dict[str, Any] = {"kind": known.kind}
    for name, attribute in known.parameters.items():
        if name == "base":
            value: Any = describe(getattr(cell, attribute, None))
        else:
            value = _constant(getattr(cell, attribute, None))
            if isinstance(value, float) and name in _WHOLE:
                value = int(value)  # mindformers keeps its steps as float32 tensors
        if value is None:
            return None
        schedule[name] = value
    if "peak" not in schedule and "base" in schedule:
        schedule["peak"] = schedule["scale"] * schedule["base"]["peak"]
    return schedule


def _constant(value: Any) -> Any:
    if any(base.__name__ == "Parameter" for base in type(value).__mro__):
        return None  # can be assigned during training
    if hasattr(value, "asnumpy"):
        array = value.asnumpy().reshape(-1)
        # By way of its text, as the float32 nearest to 2e-5 is 1.9999999e-5 in float64.
        value = float(str(array[0])) if array.size == 1 else None
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else None


def _warmup(p: Parameters, i: int) -> Optional[float]:
    w = p["warmup_steps"]
    if i >= w:
        return None
    value: float = p["warmup_init"] + (p["peak"] - p["warmup_init"]) * i / w
    return value


def _with_warmup(after: Callable[[Parameters, int], float]) -> Callable[[Parameters, int], float]:
    def formula(p: Parameters, i: int) -> float:
        value = _warmup(p, i)
        return after(p, i) if value is None else value

    return formula


def _half_cosine(turns: float) -> float:
    """Returns (1 + cos(2 pi turns)) / 2: 1 at 0 turns, 0 at half a turn."""
    return max(0.0, 0.5 * (1.0 + math.cos(2.0 * math.pi * turns)))


def _between(p: Parameters, share: float) -> float:
    """Returns the value `share` of the way from end (0) to peak (1)."""
    value: float = p["end"] + (p["peak"] - p["end"]) * share
    return value


def _constant_lr(p: Parameters, i: int) -> float:
    value: float = p["peak"]
    return value


def _decay_steps_done(p: Parameters, i: int) -> float:
    done: float = i / p["decay_steps"]
    return math.floor(done) if p["staircase"] else done


def _exponential_decay(p: Parameters, i: int) -> float:
    value: float = p["peak"] * p["decay_rate"] ** _decay_steps_done(p, i)
    return value


def _natural_exp_decay(p: Parameters, i: int) -> float:
    steps = i // p["decay_steps"] * p["decay_steps"] if p["staircase"] else i
    value: float = p["peak"] * math.exp(-p["decay_rate"] * steps)
    return value


def _inverse_decay(p: Parameters, i: int) -> float:
    value: float = p["peak"] / (1.0 + p["decay_rate"] * _decay_steps_done(p, i))
    return value


def _cosine(p: Parameters, i: int) -> float:
    return _between(p, _half_cosine(0.5 * min(i, p["decay_steps"]) / p["decay_steps"]))


def _polynomial(p: Parameters, i: int) -> float:
    decay_steps = p["decay_steps"]
    if p["cycle"]:
        decay_steps *= max(math.ceil(i / decay_steps), 1)
    return _between(p, (1.0 - min(i, decay_steps) / decay_steps) ** p["power"])


def _warmup_then_zero_start(p: Parameters, i: int) -> float:
    value: float = p["peak"] * min(i, p["warmup_steps"]) / p["warmup_steps"]
    return value


def _linear_after(p: Parameters, i: int) -> float:
    value: float = p["peak"] * max(0.0, (p["total_steps"] - i) / p["decay_steps"])
    return value


def _cosine_warmup(p: Parameters, i: int) -> float:
    if i >= p["total_steps"]:
        return float(p["end"])
    warm = _warmup(p, i)
    if warm is not None:
        return warm
    return _between(p, _half_cosine(p["num_cycles"] * (i - p["warmup_steps"]) / p["decay_steps"]))


def _cosine_restarts_warmup(p: Parameters, i: int) -> float:
    if i >= p["total_steps"]:
        return float(p["end"])
    warm = _warmup(p, i)
    if warm is not None:
        return warm
    progress = (i - p["warmup_steps"]) / p["decay_steps"]
    if progress >= 1.0:
        return 0.0
    return _between(p, _half_cosine(0.5 * ((p["num_cycles"] * progress) % 1.0)))


def _polynomial_after(p: Parameters, i: int) -> float:
    if i > p["total_steps"]:
        return float(p["end"])
    left = 1.0 - (i - p["warmup_steps"]) / p["decay_steps"]
    if left < 0.0 and float(p["power"]) != int(p["power"]):
        return math.nan  # as on the device: a negative number to a broken power
    value: float = (p["peak"] - p["end"]) * left ** p["power"] + p["end"]
    return value


def _cooldown_after(p: Parameters, i: int) -> float:
    i -= p["warmup_steps"] + p["keep_steps"]
    if i < 0:
        return float(p["peak"])
    if i < p["decay_steps"]:
        return _between(p, _half_cosine(p["num_cycles"] * i / p["decay_steps"]))
    return float(p["end"] if i < p["decay_steps"] + p["final_steps"] else p["final"])


def _stable_decay_after(p: Parameters, i: int) -> float:
    if i < p["decay_start"]:
        # The cell computes peak * i / i.
        return float(p["peak"]) if i else math.nan
    value: float = p["peak"] - (p["peak"] - p["end"]) * (i - p["decay_start"]) / p["decay_steps"]
    return value


def _cosine_annealing(p: Parameters, i: int) -> float:
    return _between(p, _half_cosine(0.5 * i / p["period"]))


def _cosine_annealing_restarts(p: Parameters, i: int) -> float:
    period, factor = p["period"], p["period_factor"]
    start = 0
    while i >= start + period:
        if factor == 1:
            start = i // period * period
            break
        start += period
        period *= factor
    return _between(p, _half_cosine(0.5 * (i - start) / period))


def _scaled(p: Parameters, i: int) -> float:
    value: float = p["scale"] * lr_at(p["base"], i)
    return value


_FORMULAS: Mapping[str, Callable[[Parameters, int], float]] = {
    "constant": _constant_lr,
    "exponential": _exponential_decay,
    "natural_exp": _natural_exp_decay,
    "inverse": _inverse_decay,
    "cosine": _cosine,
    "polynomial": _polynomial,
    "warmup": _warmup_then_zero_start,
    "constant_warmup": _with_warmup(_constant_lr),
    "linear_warmup": _with_warmup(_linear_after),
    "cosine_warmup": _cosine_warmup,
    "cosine_restarts_warmup": _cosine_restarts_warmup,
    "polynomial_warmup": _with_warmup(_polynomial_after),
    "cosine_cooldown": _with_warmup(_cooldown_after),
    "warmup_stable_decay": _with_warmup(_stable_decay_after),
    "cosine_annealing": _cosine_annealing,
    "cosine_annealing_restarts": _cosine_annealing_restarts,
    "scaled": _scaled,
}


@dataclasses.dataclass(frozen=True)
class _Cell:
    """How a schedule cell maps to a schedule: parameter -> attribute of the cell."""

    kind: str
    parameters: Mapping[str, str]


def _cell(kind: str, **parameters: str) -> _Cell:
    return _Cell(kind, parameters)


_DECAY = {
    "peak": "learning_rate",
    "decay_rate": "decay_rate",
    "decay_steps": "decay_steps",
    "staircase": "is_stair",
}
_WARMUP = {"peak": "learning_rate", "warmup_steps": "warmup_steps", "warmup_init": "warmup_lr_init"}
_ANNEALING = {"peak": "base_lr", "end": "eta_min"}

_WHOLE = ("warmup_steps", "decay_steps", "keep_steps", "final_steps", "total_steps", "decay_start", "period")

_CELLS: Mapping[str, _Cell] = {
    "ExponentialDecayLR": _cell("exponential", **_DECAY),
    "NaturalExpDecayLR": _cell("natural_exp", **_DECAY),
    "InverseDecayLR": _cell("inverse", **_DECAY),
    "CosineDecayLR": _cell("cosine", peak="max_lr", end="min_lr", decay_steps="decay_steps"),
    "PolynomialDecayLR": _cell(
        "polynomial",
        peak="start_learning_rate",
        end="end_learning_rate",
        decay_steps="decay_steps",
        power="power",
        cycle="update_decay_steps",
    ),
    "WarmUpLR": _cell("warmup", peak="learning_rate", warmup_steps="warmup_steps"),
    "ConstantWarmUpLR": _cell("constant_warmup", **_WARMUP),
    "LinearWithWarmUpLR": _cell("linear_warmup", **_WARMUP, total_steps="total_steps", decay_steps="linear_steps"),
    "CosineWithWarmUpLR": _cell(
        "cosine_warmup",
        **_WARMUP,
        end="lr_end",
        decay_steps="cosine_steps",
        total_steps="decay_steps",
        num_cycles="num_cycles",
    ),
    "CosineWithRestartsAndWarmUpLR": _cell(
        "cosine_restarts_warmup",
        **_WARMUP,
        end="lr_end",
        decay_steps="cosine_steps",
        total_steps="decay_steps",
        num_cycles="num_cycles",
    ),
    "PolynomialWithWarmUpLR": _cell(
        "polynomial_warmup",
        **_WARMUP,
        end="lr_end",
        decay_steps="decay_steps",
        total_steps="total_steps",
        power="power",
    ),
    "ConstantWithCoolDownLR": _cell(
        "cosine_cooldown",
        **_WARMUP,
        keep_steps="keep_steps",
        decay_steps="decay_steps",
        final_steps="final_steps",
        end="lr_end1",
        final="lr_end2",
        num_cycles="num_cycles",
    ),
    "WarmUpStableDecayLR": _cell(
        "warmup_stable_decay", **_WARMUP, end="lr_end", decay_start="decay_start_steps", decay_steps="decay_steps"
    ),
    "CosineAnnealingLR": _cell("cosine_annealing", **_ANNEALING, period="t_max"),
    "CosineAnnealingWarmRestarts": _cell(
        "cosine_annealing_restarts", **_ANNEALING, period="t_0", period_factor="t_mult"
    ),
    "LearningRateWiseLayer": _cell("scaled", scale="lr_scale", base="base_lr"),
}
