"""What schedule a learning-rate cell computes.

Calling a schedule cell to learn its value costs 1 to 18 ms a call, and a graph compilation at
first. The schedules of MindSpore and of MindSpore Transformers are formulas with constant
parameters: those are read off the cell once, put into the run's manifest, and evaluated on the host
(`tb_mindformers_plugin.schedules`).
"""

from __future__ import annotations

import dataclasses
import numbers
from typing import Any, Mapping, Optional


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
