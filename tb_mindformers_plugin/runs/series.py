"""One series of a run: its curve, and what was superseded or written beside it."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, NamedTuple, Optional, Sequence

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.eventfile import Column
from tb_mindformers_plugin.eventfile.columns import joined_columns
from tb_mindformers_plugin.runs.growing import Growing, Kept
from tb_mindformers_plugin.runs.segments import segment
from tb_mindformers_plugin.runs.smoothing import BEGIN, EmaState, ema_from


@dataclasses.dataclass(frozen=True)
class Segment:
    """Points of a series, ascending in step.

    Attributes:
      current: whether it is the curve; else a restart superseded it (or the step was written again).
      step: (n,) int64.
      wall: (n,) float64, seconds since the Unix epoch.
      value: (n,) float32 or float64.
    """

    current: bool
    step: npt.NDArray[np.int64]
    wall: npt.NDArray[np.float64]
    value: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.step)


class Breaks(NamedTuple):
    """Where a series goes back.

    Attributes:
      restarts: (step, ...) at which the curve was taken up again.
      superseded: how many points restarts left behind.
      stray: how many points are out of order and no restart.
    """

    restarts: tuple[int, ...]
    superseded: int
    stray: int


class _Strand(NamedTuple):
    """A series as one process wrote it.

    Attributes:
      points: how many each of the process's files holds.
      last: the step that was written last.
      settled: see `Segmentation`.
      curve: the points of the curve.
      copied: whether they are a copy; else they are the column of a file.
      rest: what was superseded, repeated or stray.
      breaks: where it goes back.
    """

    points: tuple[int, ...]
    last: int
    settled: bool
    curve: Growing
    copied: bool
    rest: tuple[Segment, ...]
    breaks: Breaks

    def continued(self, columns: Sequence[Optional[Column]]) -> Optional[_Strand]:
        """Returns the strand with what `columns` hold more; None where that does not just lengthen the curve."""
        points = _points(columns)
        if points == self.points:
            return self
        old, column = self.points[-1], columns[-1]
        if not self.settled or points[:-1] != self.points[:-1] or column is None or not 0 < old < len(column):
            return None
        new = column.picked(slice(old, None))
        if int(new.step[0]) <= self.last or not (new.step[1:] > new.step[:-1]).all():
            return None
        if self.rest and column.value.dtype != self.rest[0].value.dtype:
            return None  # the file holds values by now that take a wider type, and all segments have one type
        curve = self.curve.longer(new.arrays) if self.copied else Growing(column.arrays)
        return self._replace(points=points, last=int(new.step[-1]), curve=curve)

    @property
    def nbytes(self) -> int:
        """Bytes of the copies."""
        copies = [array for part in self.rest for array in (part.step, part.wall, part.value)]
        return sum(array.nbytes for array in copies) + (self.curve.nbytes if self.copied else 0)


def _strand(columns: Sequence[Optional[Column]], restarts: Sequence[Optional[int]]) -> Optional[_Strand]:
    """Cuts what one process wrote into segments; None where that is nothing."""
    parts = [column for column in columns if column is not None]
    if not parts:
        return None
    points = _points(columns)
    whole = joined_columns(parts)
    found = segment(whole.step, list(itertools.accumulate(points, initial=0))[:-1], restarts)
    # Every point in the order of writing; points in no order may be the curve as a whole, too.
    every = len(found.current) == len(whole) and bool((whole.step[1:] > whole.step[:-1]).all())
    curve = whole if every else whole.picked(found.current)
    rest = [*found.superseded, *[indices for indices in (found.repeated, found.stray) if len(indices)]]
    return _Strand(
        points=points,
        last=int(whole.step[-1]),
        settled=found.settled,
        curve=Growing(curve.arrays),
        copied=len(parts) > 1 or not every,
        rest=tuple([Segment(False, *whole.picked(indices).arrays) for indices in rest]),
        breaks=Breaks(found.restarts, sum(map(len, found.superseded)), len(found.stray)),
    )


def _points(columns: Sequence[Optional[Column]]) -> tuple[int, ...]:
    return tuple([0 if column is None else len(column) for column in columns])


@dataclasses.dataclass(frozen=True)
class _Smoothed:
    decay: float
    values: Growing
    state: EmaState


class Series:
    """The segments of one series.

    Args:
      strands: of each of the run's writers, None of one that wrote none of it.
      smoothed: by place of the segment, of the first of its points.
      kept: of the first points of the first segment.

    Attributes:
      segments: first the curves (of several processes that wrote at the same time each has its own),
        then what was superseded.
      breaks: of the first writer.
      kept: what others worked out of the points of the first segment.
    """

    def __init__(self, strands: Sequence[Optional[_Strand]], smoothed: dict[int, _Smoothed], kept: Kept) -> None:
        self._strands = strands
        self._smoothed = smoothed
        self.kept = kept
        known = [strand for strand in strands if strand is not None]
        self.segments = [Segment(True, *strand.curve.arrays) for strand in known]
        self.segments.extend(part for strand in known for part in strand.rest)
        self.breaks = known[0].breaks

    @classmethod
    def of(cls, columns: Sequence[Sequence[Optional[Column]]], restarts: Sequence[Sequence[Optional[int]]]) -> Series:
        """Cuts a series into segments.

        Args:
          columns: for each writer its points in each of its files, at least one in all.
          restarts: for each writer and file, see `segment`.
        """
        return cls([_strand(*one) for one in zip(columns, restarts)], {}, Kept())

    def continued(self, columns: Sequence[Sequence[Optional[Column]]]) -> Optional[Series]:
        """Returns the series with what the same files hold by now; None where it has to be cut anew.

        It takes only the time of what is new.
        """
        strands: list[Optional[_Strand]] = []
        for strand, files in zip(self._strands, columns):
            longer = None if strand is None else strand.continued(files)
            if longer is None and any(_points(files)):
                return None
            strands.append(longer)
        return Series(strands, dict(self._smoothed), Kept(self.kept))

    def smoothed(self, place: int, decay: float) -> npt.NDArray[np.float32]:
        """Returns the bias-corrected EMA of the segment at `place`; the last one asked for is kept."""
        value = self.segments[place].value
        known = self._smoothed.get(place)
        if known is None or known.decay != decay:
            values, state = ema_from(BEGIN, value, decay)
            known = _Smoothed(decay, Growing((values.astype(np.float32),)), state)
        elif len(known.values) < len(value):
            values, state = ema_from(known.state, value, decay)
            new = values[len(known.values) - known.state.start :].astype(np.float32)
            known = _Smoothed(decay, known.values.longer((new,)), state)
        self._smoothed[place] = known
        smoothed: npt.NDArray[np.float32] = known.values.arrays[0]
        return smoothed

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept beside the files' columns."""
        strands = sum(strand.nbytes for strand in self._strands if strand is not None)
        smoothed = sum(known.values.nbytes for known in list(self._smoothed.values()))
        return strands + smoothed + self.kept.nbytes
