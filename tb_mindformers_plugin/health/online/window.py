"""Quantiles of the newest values, value by value."""

from __future__ import annotations

import collections
from bisect import bisect_left, insort

from tb_mindformers_plugin.health.rolling import WINDOW


class SortedWindow:
    """The newest values, in order: every quantile by index. A few microseconds a value.

    >>> window = SortedWindow(size=3)
    >>> for value in (5.0, 1.0, 3.0, 2.0):
    ...     window.add(value)
    >>> len(window), window.quantile(0.5), window.quantile(0.75)
    (3, 2.0, 2.5)
    """

    __slots__ = ("_newest", "_ordered", "_size")

    def __init__(self, size: int = WINDOW) -> None:
        self._size = size
        self._newest: collections.deque[float] = collections.deque()
        self._ordered: list[float] = []

    def __len__(self) -> int:
        return len(self._ordered)

    def add(self, value: float) -> None:
        """Takes in a finite value; the oldest leaves a full window."""
        if len(self._newest) == self._size:
            del self._ordered[bisect_left(self._ordered, self._newest.popleft())]
        self._newest.append(value)
        insort(self._ordered, value)

    def quantile(self, q: float) -> float:
        """The quantile `q` in [0, 1] of at least one value, interpolated linearly."""
        place = q * (len(self._ordered) - 1)
        low = int(place)
        part = place - low
        if part == 0.0:
            return self._ordered[low]
        return self._ordered[low] * (1.0 - part) + self._ordered[low + 1] * part
