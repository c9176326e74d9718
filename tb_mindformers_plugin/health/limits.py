"""What values the parameters of rules may have; their dataclasses say it by these types."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Mapping, Type, get_type_hints

#: The largest values that no rule can do anything sensible beyond.
MOST_POINTS = 10**9
LARGEST = 1e12


@dataclasses.dataclass(frozen=True)
class Limits:
    """Lowest and highest value, both allowed.

    Attributes:
      low, high: the limits.
      whole: whether it is a whole number.
    """

    low: float
    high: float
    whole: bool = False

    def allow(self, value: Any) -> bool:
        """Whether `value` is a number of this kind.

        >>> Limits(1, 10, whole=True).allow(2), Limits(1, 10, whole=True).allow(2.5), Limits(0, 1).allow(float("nan"))
        (True, False, False)
        """
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        return self.low <= value <= self.high and not (self.whole and isinstance(value, float))

    def __str__(self) -> str:
        """As people say it.

        >>> str(Limits(0, 1)), str(Limits(1, MOST_POINTS, whole=True))
        ('a number from 0 to 1', 'a whole number from 1')
        """
        kind = "a whole number" if self.whole else "a number"
        bounded = self.high < (MOST_POINTS if self.whole else LARGEST)
        return f"{kind} from {self.low:g}" + (f" to {self.high:g}" if bounded else "")


def at_least(points: int) -> Limits:
    """Returns the limits of a number of points that must be `points` or more."""
    return Limits(points, MOST_POINTS, whole=True)


#: A part of a whole.
Part = Annotated[float, Limits(0, 1)]
#: So many times something else.
Times = Annotated[float, Limits(1, LARGEST)]
#: A number of points that may be none.
AnyPoints = Annotated[int, at_least(0)]

_PLAIN: Mapping[Any, Limits] = {
    int: at_least(1),
    float: Limits(0, LARGEST),
}


def limits_of(parameters: Type[Any]) -> dict[str, Limits]:
    """Returns parameter -> what is allowed, of a rule's parameters dataclass.

    A plain ``int`` is a number of things, 1 or more; a plain ``float`` is 0 or more.
    """
    hints = get_type_hints(parameters, include_extras=True)
    return {field.name: _limits(hints[field.name]) for field in dataclasses.fields(parameters)}


def _limits(hint: Any) -> Limits:
    for told in getattr(hint, "__metadata__", ()):
        if isinstance(told, Limits):
            return told
    return _PLAIN[hint]
