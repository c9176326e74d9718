"""What the callback does about a fault, where it is asked to."""

from __future__ import annotations

import dataclasses
import math
import numbers
import re
from typing import Any, Mapping, Optional, Union

from tb_mindformers_plugin.health.finding import SEVERITIES, Finding

#: Severities that can stop a training.
STOPPING = ("critical", "warning")

# A learning rate that is this close to its floor is at it.
_LEAST_REDUCTION = 0.99

_EXPONENT = re.compile(r"([-+]?\d+)\.?(\d*)[eE]([-+]?)(\d+)")


@dataclasses.dataclass(frozen=True)
class ReduceLr:
    """Multiplies the learning rate when the grad norm explodes.

    On a finding of `grad_explosion` that is a warning or worse: from the next step on the learning rate,
    whatever the schedule does later, is `factor` times what it was.

    Attributes:
      factor: in (0, 1).
      cooldown: steps from one reduction to the next, at least; >= 1.
      floor: the learning rate is not reduced below this, >= 0.

    Raises:
      TypeError, ValueError: a wrong value; the message names it and what is allowed.
    """

    factor: float = 0.5
    cooldown: int = 200
    floor: float = 1e-6

    def __post_init__(self) -> None:
        _check("factor", self.factor, "a number in (0, 1)", 0.0 < _number("factor", self.factor) < 1.0)
        if isinstance(self.cooldown, bool) or not isinstance(self.cooldown, numbers.Integral):
            raise TypeError(f"reduce_lr: cooldown must be a whole number of steps >= 1, got {self.cooldown!r}")
        _check("cooldown", self.cooldown, "a whole number of steps >= 1", self.cooldown >= 1)
        _check("floor", self.floor, "a finite number >= 0", 0.0 <= _number("floor", self.floor) < math.inf)


def checked_reduce_lr(value: Union[ReduceLr, Mapping[str, Any], bool, None]) -> Optional[ReduceLr]:
    """Returns the argument ``reduce_lr`` as it is used: a mapping holds the fields of `ReduceLr`, True its defaults.

    Raises:
      TypeError, ValueError: something else; the message says what is allowed.

    >>> checked_reduce_lr({"factor": 0.2})
    ReduceLr(factor=0.2, cooldown=200, floor=1e-06)
    """
    if value is None or value is False:
        return None
    if value is True:
        return ReduceLr()
    if isinstance(value, ReduceLr):
        return value
    fields = [field.name for field in dataclasses.fields(ReduceLr)]
    if not isinstance(value, Mapping):
        raise TypeError(f"reduce_lr must be ReduceLr, a mapping of {', '.join(fields)}, True or None, got {value!r}")
    unknown = [name for name in value if name not in fields]
    if unknown:
        raise ValueError(f"reduce_lr has no {unknown[0]!r}; known: {', '.join(fields)}")
    return ReduceLr(**value)


def checked_stop_on(value: Optional[str]) -> Optional[str]:
    """Returns the argument ``stop_on``.

    Raises:
      ValueError: it is neither None nor in `STOPPING`.
    """
    if value is not None and value not in STOPPING:
        raise ValueError(f"stop_on must be {' or '.join(map(repr, STOPPING))} or None, got {value!r}")
    return value


class LrReductions:
    """Tells when the learning rate is to be reduced."""

    def __init__(self, settings: ReduceLr) -> None:
        self._settings = settings
        self._last: Optional[int] = None

    def due(self, step: int, lr: Optional[float], explosion: Finding) -> Optional[float]:
        """Returns the factor for the learning rate; None where it is not to be reduced now.

        Args:
          step: the step.
          lr: the learning rate that it used; None where unknown: then there is no floor.
          explosion: of the grad norm, which this step shows, or shows to be worse than it seemed.
        """
        s = self._settings
        if not at_least(explosion.severity, "warning"):
            return None
        # An explosion from before the last reduction is dealt with, whatever becomes known of it.
        if self._last is not None and (explosion.last_step <= self._last or step - self._last < s.cooldown):
            return None
        factor = max(s.factor, s.floor / lr) if lr else s.factor
        if factor > _LEAST_REDUCTION:
            return None
        self._last = step
        return factor


def at_least(severity: str, least: str) -> bool:
    """Whether a severity is `least` or worse."""
    return SEVERITIES.index(severity) <= SEVERITIES.index(least)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        said = f"{value!r} ({type(value).__name__}){exponent_hint(value)}"
        raise TypeError(f"reduce_lr: {name} must be a number, got {said}")
    return float(value)


def exponent_hint(value: Any) -> str:
    """Returns what to write in YAML, which takes 1e-6 for text; "" where `value` is no such text.

    >>> exponent_hint("1e-6")
    ': YAML takes 1e-6 for text, write 1.0e-6'
    """
    found = _EXPONENT.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return ""
    whole, part, sign, exponent = found.groups()
    return f": YAML takes {value} for text, write {whole}.{part or 0}e{sign or '+'}{exponent}"


def _check(name: str, value: Any, allowed: str, holds: bool) -> None:
    if not holds:
        raise ValueError(f"reduce_lr: {name} must be {allowed}, got {value!r}")
