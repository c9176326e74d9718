"""Which points of a series are its curve, and which were superseded by a restart.

Points come in the order in which they were written. Where the step goes back, a training was
resumed from a checkpoint: from that step on the newer points are the curve, and what they supersede
is kept beside it.
"""

from __future__ import annotations

import bisect
import dataclasses
from typing import Optional, Sequence, Union

import numpy as np
import numpy.typing as npt

Steps = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int64]

#: A step that overflowed 32 bits lies more than this below the one before it.
WRAP = 2**31

# A stretch that goes back and then jumps on to where the curve was is a stray, not a restart, when it
# has fewer points than this fraction of those it would supersede.
_STRAY_FRACTION = 0.25
# With more steps backwards than this the order means nothing (two writers, a shuffled log).
_MOST_STRETCHES = 2000


def unwrapped(step: Steps) -> Steps:
    """Returns steps that a writer kept in 32 bits, and that overflowed, as the steps that were meant.

    Step 2,000,000,000 followed by -1,600,000,000 was 2,694,967,296. Steps that were negative from the
    beginning are left as they are.
    """
    negative = step < 0
    if not negative.any() or negative.all():
        return step
    turns = np.diff(step, prepend=step[:1])
    over = (turns < -WRAP) & (turns >= -(2**32)) & negative
    back = (turns > WRAP) & (turns <= 2**32) & ~negative
    if not over.any():
        return step
    return step + (np.cumsum(over) - np.cumsum(back & (np.cumsum(over) > 0))) * 2**32


@dataclasses.dataclass(frozen=True)
class Segmentation:
    """Indices into a series, each set ascending in step.

    Attributes:
      current: the curve: strictly ascending steps; a range where it is every point.
      superseded: one set of indices for each stretch that a restart left behind.
      repeated: points whose step was written again right after; the later one is the curve's.
      stray: points out of order that are no restart.
      restarts: (step, ...) at which the curve was taken up again.
      settled: whether points with ever higher steps, written behind these in the same file, would only
        lengthen the curve. Else they may turn what looks like a restart into a stray.
    """

    current: Union[Indices, range]
    superseded: tuple[Indices, ...] = ()
    repeated: Indices = dataclasses.field(default_factory=lambda: np.empty(0, np.int64))
    stray: Indices = dataclasses.field(default_factory=lambda: np.empty(0, np.int64))
    restarts: tuple[int, ...] = ()
    settled: bool = True


def segment(
    step: Steps,
    file_starts: Sequence[int] = (0,),
    file_restarts: Sequence[Optional[int]] = (None,),
) -> Segmentation:
    """Tells the curve of a series from what it superseded.

    Args:
      step: (n,) steps in the order of writing.
      file_starts: index of each event file's first point.
      file_restarts: for each file, the step at which it takes the run up again, or None where it
        just goes on. A restart counts for every series of the run, also for one that has not
        logged since.
    """
    if (step[1:] > step[:-1]).all() and not any(r is not None for r in file_restarts):
        return Segmentation(current=range(len(step)))
    position = np.arange(len(step))
    written_again = np.zeros(len(step), bool)
    written_again[:-1] = step[1:] == step[:-1]
    repeated = position[written_again]
    kept = position[~written_again]
    steps = step[kept]
    backwards = np.flatnonzero(steps[1:] < steps[:-1]) + 1  # a difference of two steps may overflow
    if len(backwards) > _MOST_STRETCHES:
        return _by_step(step, position)

    starts = np.searchsorted(kept, np.asarray(file_starts, np.int64))
    curve = _Curve(steps)
    bounds = np.unique(np.concatenate([np.zeros(1, int), backwards, starts, [len(steps)]]))
    restart_at: dict[int, int] = {}
    for s, r in zip(starts.tolist(), file_restarts):
        if r is not None:
            # Files without a point of this series share a start; the earliest step takes most with it.
            restart_at[s] = min(r, restart_at.get(s, r))
    new_file = {int(s) for s in starts}
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist()):
        if first in restart_at:
            curve.restart(restart_at[first])
        curve.add(first, last, new_file=first in new_file)
    if len(steps) in restart_at:
        curve.restart(restart_at[len(steps)])
    current = kept[curve.current()]
    return Segmentation(
        current=current,
        superseded=tuple(kept[indices] for indices in curve.superseded),
        repeated=repeated,
        stray=kept[_joined(curve.stray)],
        restarts=tuple(curve.restarts),
        settled=curve.settled and _ends_last(current, step),
    )


class _Curve:
    """Builds the curve from stretches of ascending steps.

    The curve is a list of half-open ranges; their steps ascend from one range to the next, so what a
    step touches is found by bisection however often a run was taken up again.
    """

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._pieces: list[tuple[int, int]] = []
        self._lasts: list[int] = []  # last step of each piece
        self._before: list[int] = []  # points in the pieces before each piece
        self.superseded: list[Indices] = []
        self.stray: list[Indices] = []
        self.restarts: list[int] = []
        # Whether the stretch that was added last would be taken the same way if it went on.
        self.settled = True

    def current(self) -> Indices:
        return _joined([np.arange(first, stop) for first, stop in self._pieces])

    def add(self, first: int, stop: int, new_file: bool) -> None:
        """Takes up the stretch [first, stop) of ascending steps."""
        if first == stop:
            return
        step = int(self._steps[first])
        self.settled = True
        if self._lasts and step <= self._lasts[-1]:
            overlap = int(np.searchsorted(self._steps[first:stop], self._lasts[-1], side="right"))
            jumps_on = overlap < stop - first or overlap == 1
            few = overlap < _STRAY_FRACTION * self._replaced(step)
            # What has not come to where the curve was may still do so, and be a stray.
            self.settled = new_file or not few or overlap < stop - first
            if not new_file and jumps_on and few:
                self.stray.append(np.arange(first, first + overlap))
                first += overlap
            else:
                self.restart(step)
        if first < stop:
            self._push(first, stop)

    def restart(self, step: int) -> None:
        """Gives up all of the curve from `step` on."""
        if not self._pieces:
            return
        left_behind = []
        place, inside = self._find(step)
        if place < len(self._pieces):
            first, stop = self._pieces[place]
            tail = self._pieces[place + 1 :]
            del self._pieces[place:], self._lasts[place:], self._before[place:]
            if inside > first:
                self._push(first, inside)
            left_behind = [np.arange(inside, stop), *(np.arange(*piece) for piece in tail)]
            self.superseded.append(_joined(left_behind))
        self.restarts.append(step)

    def _push(self, first: int, stop: int) -> None:
        before = self._before[-1] + self._pieces[-1][1] - self._pieces[-1][0] if self._pieces else 0
        self._pieces.append((first, stop))
        self._lasts.append(int(self._steps[stop - 1]))
        self._before.append(before)

    def _find(self, step: int) -> tuple[int, int]:
        """The piece in which the first point at or behind `step` lies, and where (beyond the last: past the end)."""
        place = bisect.bisect_left(self._lasts, step)
        if place == len(self._pieces):
            return place, 0
        first, stop = self._pieces[place]
        return place, first + int(np.searchsorted(self._steps[first:stop], step))

    def _replaced(self, step: int) -> int:
        """How many points of the curve lie at `step` or behind it."""
        place, inside = self._find(step)
        total = self._before[-1] + self._pieces[-1][1] - self._pieces[-1][0]
        return total - self._before[place] - (inside - self._pieces[place][0])


def _by_step(step: Steps, position: Indices) -> Segmentation:
    """Of points in no order: the curve is by step, the last written point of a step wins."""
    order = np.argsort(step, kind="stable")
    last_of_step = np.ones(len(order), bool)
    last_of_step[:-1] = step[order][1:] != step[order][:-1]
    current = position[order[last_of_step]]
    repeated = position[np.sort(order[~last_of_step])]
    return Segmentation(current=current, repeated=repeated, settled=_ends_last(current, step))


def _ends_last(current: Indices, step: Steps) -> bool:
    """Whether the point that was written last is the end of the curve."""
    return len(current) > 0 and int(current[-1]) == len(step) - 1


def _joined(pieces: list[Indices]) -> Indices:
    return np.concatenate(pieces) if pieces else np.empty(0, np.int64)
