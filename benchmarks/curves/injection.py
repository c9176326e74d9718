"""How a fault is put into a run."""

from __future__ import annotations

import dataclasses
from typing import Callable, Optional, Sequence

import numpy as np

from curves.drafts import Draft, Fault
from curves.healthy import LEAST_POINTS, MOST_POINTS

#: The least rise of a loss that is a fault.
FLOOR = 0.15


@dataclasses.dataclass(frozen=True)
class Injected:
    """A kind of fault.

    Attributes:
      inject: changes a draft; None where that run has no place for it.
      families: that it occurs in.
      least_points, most_points: of runs that it is put into.
      wanted: see `draft`.
    """

    inject: Callable[[Draft], Optional[Fault]]
    families: tuple[str, ...]
    least_points: int = LEAST_POINTS
    most_points: int = MOST_POINTS
    wanted: frozenset[str] = frozenset()


#: Kind -> how it is made.
KNOWN: dict[str, Injected] = {}
# What may follow from a norm that goes up with the loss.
NORM_UP = ("grad_explosion", "clip_saturation")
RATIO = ("pretraining", "pretraining", "fine-tuning", "classification", "DPO")
STEADY = ("pretraining", "pretraining", "classification")
ALL = (*RATIO, "GRPO")


def fault(
    families: tuple[str, ...], wanted: Sequence[str] = (), least: int = LEAST_POINTS, most: int = MOST_POINTS
) -> Callable[[Callable[[Draft], Optional[Fault]]], Callable[[Draft], Optional[Fault]]]:
    """Registers a kind of fault, named after the function that puts it into a run."""

    def register(inject: Callable[[Draft], Optional[Fault]]) -> Callable[[Draft], Optional[Fault]]:
        kind = inject.__name__.strip("_")
        KNOWN[kind] = Injected(inject, families, least, most, frozenset(wanted))
        return inject

    return register


def made(
    kind: str,
    onset: int,
    end: int,
    strength: str,
    rules: Sequence[str] = (),
    excused: Sequence[str] = (),
    anywhere: bool = False,
) -> Fault:
    """A fault, by default named by the rule of its kind."""
    return Fault(kind, tuple(rules) or (kind,), frozenset(excused), onset, end, strength, anywhere)


def lr_rises(run: Draft, onset: int) -> bool:
    """Whether the lr is raised after `onset`, which raises a healthy loss as well."""
    return bool(np.any(np.diff(run.lr[onset:]) > 1e-3 * run.lr.max()))


def overflows(run: Draft, onset: int) -> bool:
    """Whether the loss scaler may have skipped what begins at `onset`."""
    return run.scale is not None and bool(np.any(np.diff(run.scale[onset - 5 : onset + 15]) < 0))


def explode(run: Draft, onset: int, end: int, times: float) -> None:
    """Raises the gradient norm to so many times its level before `onset`, until `end`."""
    level = float(np.median(run.norm[max(0, onset - 128) : onset][np.isfinite(run.norm[max(0, onset - 128) : onset])]))
    run.norm[onset:end] = level * times * np.exp(0.1 * run.rng.normal(size=end - onset))
    if run.overflow is not None:
        run.overflow[onset:end] = 0.0


def follow(run: Draft, onset: int) -> None:
    """Evaluations after the onset see the level that training has."""
    late = run.evals >= onset
    if not late.any() or not run.eval_loss.size:
        return
    window = np.maximum(1, np.minimum(run.evals[late] - onset, 32))
    levels = [float(run.mean[at - size + 1 : at + 1].mean()) for at, size in zip(run.evals[late], window)]
    before = run.eval_loss[~late]
    factor = before[-1] / run.mean[run.evals[~late][-1]] if before.size else 1.0
    run.eval_loss[late] = np.array(levels) * factor * np.exp(run.rng.normal(0, 0.005, len(levels)))
