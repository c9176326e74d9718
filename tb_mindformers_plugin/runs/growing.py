"""Arrays that grow at their end, while what was seen of them before stays as it is; and what is worked out of them."""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, Hashable, Optional, Tuple, TypeVar

import numpy as np
import numpy.typing as npt

Arrays = Tuple[npt.NDArray[Any], ...]
State = TypeVar("State")

# Room is made for so many points more than there are: a part of them, and no less than a few. A larger
# part would mean fewer copies and more memory: with 1/16 each point is copied 17 times in the long run.
_PART = 16
_FEWEST = 32


class _Room:
    """Arrays of which the first `filled` points are in use."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.filled = 0
        self._lock = threading.Lock()

    def put(self, at: int, more: Arrays) -> bool:
        """Writes points behind the first `at`; returns whether there was room and nobody else had taken it."""
        stop = at + len(more[0])
        with self._lock:
            if self.filled != at or stop > len(self.arrays[0]):
                return False
            for array, new in zip(self.arrays, more):
                array[at:stop] = new
            self.filled = stop
            return True

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)


class Growing:
    """Arrays of one length, as they are at one moment. That never changes: what is added makes a new one of these.

    Both share their memory where there is room behind the points: adding costs what is new, and a copy of
    all only each time that the arrays have grown by a sixteenth.

    Args:
      arrays: (n,) each. They are kept as they are, without a copy, until something is added.
    """

    def __init__(self, arrays: Arrays, room: Optional[_Room] = None) -> None:
        self.arrays = arrays
        self._room = room

    def __len__(self) -> int:
        return len(self.arrays[0])

    def longer(self, more: Arrays) -> Growing:
        """Returns these arrays with `more` behind them, in types that hold both."""
        count, stop = len(self), len(self) + len(more[0])
        types = tuple(np.result_type(old, new) for old, new in zip(self.arrays, more))
        room = self._room
        fits = room is not None and types == tuple(array.dtype for array in self.arrays)
        if room is None or not fits or not room.put(count, more):
            room = _Room(tuple(np.empty(stop + max(stop // _PART, _FEWEST), dtype) for dtype in types))
            room.put(0, self.arrays)
            room.put(count, more)
        return Growing(tuple(array[:stop] for array in room.arrays), room)

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take, with the room behind them."""
        return sum(array.nbytes for array in self.arrays) if self._room is None else self._room.nbytes


class Kept:
    """What was worked out of the first points of something that grows, by name; more points cost only their own work.

    Several threads may ask at once: at worst both do the same work.

    Args:
      before: what was known of fewer of the points: what is added here is not seen there.

    Attributes:
      origin: the same for all states of one thing that grows.
    """

    def __init__(self, before: Optional[Kept] = None) -> None:
        self.origin: object = object() if before is None else before.origin
        self._known: Dict[Hashable, Tuple[int, Any]] = {} if before is None else dict(before._known)
        self._nbytes: Optional[int] = None  # where that was added up since something was added

    def extended(self, name: Hashable, count: int, extend: Callable[[Optional[State], int], State]) -> State:
        """Returns what goes by a name, of the first `count` points.

        Args:
          name: says all that it depends on beside the points.
          count: how many points there are by now.
          extend: (what is known, of how many points) -> what it is of all; (None, 0) where nothing is known. What
            it is given does not change: it makes a new one.
        """
        known = self._known.get(name)
        if known is None or known[0] > count:
            known = count, extend(None, 0)
            self._known[name], self._nbytes = known, None
        elif known[0] < count:
            known = count, extend(known[1], known[0])
            self._known[name], self._nbytes = known, None
        state: State = known[1]
        return state

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays in it."""
        found = self._nbytes
        if found is None:
            found = self._nbytes = sum(getattr(state, "nbytes", 0) for _, state in list(self._known.values()))
        return found
