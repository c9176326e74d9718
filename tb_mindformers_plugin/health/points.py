"""Points of one role, and what is worked out of them: of a series that grew, out of the new points alone.

A rule that went through all points of a run that grew by ten would have a million of them to go through. So it asks
here: for something of each whole block, counted from the left; for the points at which something holds that they and
the few before them tell; for a part of the points. None of it ever changes for points that are there. What is left to
a rule is to go through the blocks, or through the few points that were found.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable, Hashable, Mapping, Optional, Sequence, Tuple, TypeVar, Union

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.runs.growing import Growing, Kept

State = TypeVar("State")
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


#: Points from which on what is worked out of a series is kept with its run. What is shorter takes no longer than what
#: goes on in any case, and thousands of short runs keep nothing.
LONG = 4096


@dataclasses.dataclass(frozen=True, eq=False)
class Series:
    """Points of one role, ascending in step.

    Attributes:
      role, tag: which series.
      step: (n,) int64.
      wall: (n,) float64 seconds since the Unix epoch, NaN where unknown.
      stored: (n,) values, float32 or float64.
      kept: what was worked out of its first points; a series that is later a longer one hands it on.
      path: under which names, where these are some of the points that `kept` is of.
    """

    role: str
    tag: str
    step: npt.NDArray[np.int64]
    wall: Floats
    stored: npt.NDArray[Any]
    kept: Kept = dataclasses.field(default_factory=Kept)
    path: Tuple[Hashable, ...] = ()

    def __len__(self) -> int:
        return len(self.step)

    @functools.cached_property
    def value(self) -> Floats:
        """(n,) the values: of a long series they are kept from the second time on that somebody asks for all of them.

        Whoever needs a few takes them from `values` or `values_of`.
        """

        def extend(known: Optional[Growing], count: int) -> Optional[Growing]:
            if known is not None:
                return known.longer((self.stored[count:].astype(np.float64),))
            return Growing((self.stored.astype(np.float64),)) if count else None

        if len(self) < LONG or self.stored.dtype == np.float64:
            return np.asarray(self.stored, np.float64)
        kept = self.extended(("value",), extend)
        return self.stored.astype(np.float64) if kept is None else kept.arrays[0]

    def values(self, first: int, stop: Optional[int] = None) -> Floats:
        """The values [first, stop)."""
        if "value" in self.__dict__ or (first == 0 and stop is None):
            return self.value[first:stop]
        return np.asarray(self.stored[first:stop], np.float64)

    def values_of(self, at: Indices) -> Floats:
        """The values of (k,) indices."""
        return np.asarray(self.stored[at], np.float64)

    def extended(self, name: Tuple[Hashable, ...], extend: Callable[[Optional[State], int], State]) -> State:
        """Returns what goes by a name, made of all points; see `Kept.extended`."""
        return self.kept.extended(self.path + name, len(self.step), extend)

    @functools.cached_property
    def finite(self) -> Series:
        """The points whose value is a number."""
        return self.such(np.isfinite)

    @functools.cached_property
    def positive(self) -> Series:
        """The points whose value is above 0."""
        return self.such(is_positive)

    def such(self, holds: Callable[[Floats], Mask]) -> Series:
        """The points that `holds` is true of; the series itself where that is all of them."""

        def extend(known: Optional[Growing], count: int) -> Optional[Growing]:
            good = holds(self.values(count))
            if known is None:
                if good.all():
                    return None
                known = Growing((self.step[:count], self.wall[:count], self.stored[:count]))
            return known.longer((self.step[count:][good], self.wall[count:][good], self.stored[count:][good]))

        some = self.extended(("such", holds), extend)
        if some is None:
            return self
        step, wall, stored = some.arrays
        return Series(self.role, self.tag, step, wall, stored, self.kept, (*self.path, holds))

    def cut(self, first: int, stop: Optional[int] = None) -> Series:
        """The points [first, stop): of a longer series they are the same or go on."""
        return Series(
            self.role,
            self.tag,
            self.step[first:stop],
            self.wall[first:stop],
            self.values(first, stop) if "value" in self.__dict__ else self.stored[first:stop],
            self.kept,
            (*self.path, (first, stop)),
        )

    def picked(self, which: Union[Mask, Indices, slice]) -> Series:
        """Some of the points."""
        return Series(self.role, self.tag, self.step[which], self.wall[which], self.stored[which])

    def at_or_after(self, step: int) -> int:
        """Index of the first point at or behind `step` (their number where there is none)."""
        return int(self.step.searchsorted(step))

    def values_at(self, step: npt.NDArray[np.int64]) -> Floats:
        """(k,) the last value at or before each step; NaN before the first."""
        place = np.searchsorted(self.step, step, side="right") - 1
        return (
            np.where(place >= 0, self.values_of(np.maximum(place, 0)), np.nan)
            if len(self)
            else np.full(len(step), np.nan)
        )

    def finding(
        self,
        rule: str,
        severity: str,
        span: Sequence[int],
        message: Text,
        advice: Text,
        evidence: Mapping[str, Any],
    ) -> Finding:
        """Makes a finding of these points.

        Args:
          rule: its rule's id.
          severity: one of `SEVERITIES`.
          span: indices of the first, last and worst point.
          message: what happened, where, how much.
          advice: what to look at and what to try.
          evidence: the numbers that it rests on.
        """
        first, last, peak = (int(self.step[i]) for i in span)
        return Finding(
            rule=rule,
            severity=severity,
            role=self.role,
            tag=self.tag,
            first_step=first,
            last_step=last,
            peak_step=peak,
            message=message.en,
            advice=advice.en,
            evidence={name: _plain(value) for name, value in evidence.items()},
            message_zh=message.zh,
            advice_zh=advice.zh,
        )


def of_blocks(
    series: Series, size: int, function: Callable[[Floats], Tuple[npt.NDArray[Any], ...]]
) -> Tuple[npt.NDArray[Any], ...]:
    """Returns what `function` makes of each whole block.

    Args:
      series: of n points.
      size: points of a block.
      function: (k, size) blocks -> arrays of (k,); of the module, so that it is known again.

    Returns:
      (n // size,) each.
    """

    def extend(known: Optional[Growing], count: int) -> Growing:
        done, blocks = count // size, len(series) // size
        if known is not None and done == blocks:
            return known
        new = function(series.values(done * size)[: (blocks - done) * size].reshape(-1, size))
        return Growing(new) if known is None else known.longer(new)

    return series.extended(("blocks", function, size), extend).arrays


def places(series: Series, holds: Callable[..., Mask], *parameters: Hashable, before: int = 0) -> Indices:
    """Returns the indices of the points at which something holds, ascending.

    Args:
      series: of n points.
      holds: ((before + k,) values, *parameters) -> (k,) whether it holds at the last k; of the module.
      parameters: what else it depends on.
      before: points before each that it has to know; it is not asked about the first so many.
    """

    def extend(known: Optional[Growing], count: int) -> Growing:
        first = max(count, before)
        if first >= len(series):
            return Growing((np.empty(0, np.int64),)) if known is None else known
        found = holds(series.values(first - before), *parameters).nonzero()[0]
        if known is None:
            return Growing((found + before if before else found,))
        return known.longer((found + first,)) if len(found) else known

    found: Indices = series.extended(("places", holds, *parameters), extend).arrays[0]
    return found


def first_place(series: Series, holds: Callable[[Floats], Mask], before: int = 0) -> Optional[int]:
    """Returns the first of `places`; None where there is none."""

    def extend(known: Optional[int], count: int) -> Optional[int]:
        first = max(count, before)
        if known is not None or first >= len(series):
            return known
        here = holds(series.values(first - before))
        place = int(np.argmax(here))
        return first + place if here[place] else None

    return series.extended(("first place", holds), extend)


def highest(series: Series, first: int, stop: int) -> float:
    """The highest of the finite values [first, stop), of which there is one at least."""
    return _extreme(series, first, stop, np.maximum)


def lowest(series: Series, first: int, stop: int) -> float:
    """The lowest of the finite values [first, stop), of which there is one at least."""
    return _extreme(series, first, stop, np.minimum)


_WIDE = 256


def _extreme(series: Series, first: int, stop: int, which: np.ufunc) -> float:
    begin, end = -(-first // _WIDE), stop // _WIDE
    if end - begin < 8:
        return float(which.reduce(series.values(first, stop)))
    inner = of_blocks(series, _WIDE, _extremes)[which is np.maximum][begin:end]
    edges = series.values(first, begin * _WIDE), series.values(end * _WIDE, stop)
    return float(which.reduce(np.concatenate([inner, *edges])))


def _extremes(rows: Floats) -> Tuple[Floats, Floats]:
    return rows.min(axis=1), rows.max(axis=1)


def is_positive(value: Floats) -> Mask:
    """(n,) whether it is above 0."""
    return value > 0


def goes_down(value: Floats) -> Mask:
    """(n - 1,) whether it is below the value before."""
    return value[1:] < value[:-1]


def goes_up(value: Floats) -> Mask:
    """(n - 1,) whether it is above the value before."""
    return value[1:] > value[:-1]


def _plain(value: Any) -> Any:
    """A number as Python has it, rounded to what a person reads."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(f"{float(value):.6g}")
    return value
