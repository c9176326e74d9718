"""Records that are larger than what is read at a time: one without a scalar is passed over unread.

A graph or a trace of hundreds of MB says within its first bytes that it is one.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Union, overload

import numpy as np

from tb_mindformers_plugin.eventfile import framing, storage, wire
from tb_mindformers_plugin.eventfile.decode import LARGE, OWN_TAGS
from tb_mindformers_plugin.eventfile.framing import FOOTER, HEADER

# Bytes read where something is looked at, and how often at most: what has more to look at is rather read.
_WINDOW = 1 << 12
_MOST_WINDOWS = 8


class Behind(NamedTuple):
    """Where reading goes on behind a record that was passed over.

    Attributes:
      position: of the next record.
      tail: the bytes before it, as many as were asked for.
    """

    position: int
    tail: bytes


def passed_over(file: storage.OpenFile, data: bytes, position: int, stop: int, tail: int) -> Optional[Behind]:
    """Returns what lies behind a large record that holds no scalar; None where it is to be read.

    It is passed over only where another record begins at its end: one that lost bytes ends elsewhere.

    Args:
      file: the file.
      data: its bytes from `position` on, which hold less than the record.
      position: where the record begins.
      stop: where the file ends.
      tail: so many bytes before the next record are wanted, less than the record has.
    """
    length = framing.length_at(np.frombuffer(data, np.uint8), 0)
    if length is None or length < LARGE:
        return None
    end = position + HEADER + length + FOOTER
    if end + HEADER > stop:
        return None
    try:
        behind = file.read(end - tail, end + HEADER)
        if framing.length_at(np.frombuffer(behind, np.uint8), tail) is None:
            return None
        if wire.may_hold_scalars(_Payload(file, position + HEADER, length, data[HEADER:]), OWN_TAGS):
            return None
    except OSError:
        return None  # who reads it is told what is wrong
    return Behind(end, behind[:tail])


class _Payload:
    """The payload of a record, read where it is looked at. Raises OSError, also where that is often."""

    def __init__(self, file: storage.OpenFile, start: int, length: int, head: bytes) -> None:
        self._file, self._start, self._length = file, start, length
        self._place, self._window = 0, head
        self._left = _MOST_WINDOWS

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> int: ...

    @overload
    def __getitem__(self, place: slice) -> bytes: ...

    def __getitem__(self, place: Union[int, slice]) -> Union[int, bytes]:
        if isinstance(place, slice):
            self._look(place.start, place.stop)
            return self._window[place.start - self._place : place.stop - self._place]
        self._look(place, place + 1)
        return self._window[place - self._place]

    def _look(self, start: int, stop: int) -> None:
        if self._place <= start and stop <= self._place + len(self._window):
            return
        self._left -= 1
        if self._left < 0 or stop - start > _WINDOW:
            raise OSError("more than a few looks")
        until = min(start + _WINDOW, self._length)
        self._window, self._place = self._file.read(self._start + start, self._start + until), start
        if len(self._window) < until - start:
            raise OSError("the file is shorter than it was")
