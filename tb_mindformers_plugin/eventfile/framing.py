"""TFRecord framing: finds the records of a byte range.

A record is a length (uint64), the masked CRC of those 8 bytes (uint32), the payload, and the masked
CRC of the payload (uint32), all little-endian.

Records are not followed one after the other: every place where a length and its CRC agree is found
at once, and then it is checked that each record ends where the next begins. Only where that breaks
(damage, or a payload that itself holds records) is there anything to walk.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.eventfile import crc32c
from tb_mindformers_plugin.eventfile.crc32c import Bytes, Positions

Mask = npt.NDArray[np.bool_]

HEADER = 12
FOOTER = 4

#: Why a stretch was skipped that holds no length with its right CRC.
NO_RECORD = "no record begins here"

# Bytes searched at a time: keeps the work in cache.
_SEARCH = 1 << 19
# Lengths below this are found all at once, and have their CRC in a table.
_SHORT = 1 << 16
# No event is as long: protobuf writes no message of 2 GB.
_TOO_LONG = 1 << 31


@dataclasses.dataclass(frozen=True)
class Damage:
    """A stretch of a file that is no sound record.

    Attributes:
      start: position of its first byte.
      stop: position after its last byte.
      reason: what is wrong, in words.
    """

    start: int
    stop: int
    reason: str


@dataclasses.dataclass(frozen=True)
class Frames:
    """The records of a byte range whose lengths are sound.

    Attributes:
      starts: (k,) positions of the payloads, ascending.
      lengths: (k,) their lengths in bytes.
      end: where reading resumes: what lies behind is a record that is not complete yet.
      damage: the stretches that were skipped.
    """

    starts: Positions
    lengths: Positions
    end: int
    damage: tuple[Damage, ...]


def scan(buffer: Bytes, beyond: int = 0) -> Frames:
    """Finds the records of `buffer`, which begins at a record's first byte.

    The CRCs of the lengths are verified, those of the payloads only where damage makes it needed:
    the rest is for the decoder, which has a faster way.

    Args:
      buffer: (n,) bytes, e.g. what a file has gained.
      beyond: so many bytes the file has behind them: a record that ends there is not judged yet.

    Returns:
      The frames. `end` < n where the last record is not complete yet.
    """
    size = len(buffer)
    headers, lengths = _short_headers(buffer)
    ends = headers + lengths + (HEADER + FOOTER)
    joins = np.empty(len(headers), bool)
    joins[:-1] = ends[:-1] == headers[1:]
    joins[-1:] = False
    breaks = np.flatnonzero(~joins)

    starts: list[Positions] = []
    kept: list[Positions] = []
    damage: list[Damage] = []
    position = 0
    while size - position >= HEADER:
        first = int(np.searchsorted(headers, position))
        if first < len(headers) and headers[first] == position:
            # As many records as end where the next begins, at once.
            last = int(breaks[np.searchsorted(breaks, first)])
            run, run_lengths = headers[first : last + 1], lengths[first : last + 1]
        else:
            length = length_at(buffer, position)
            if length is None:
                limit = int(headers[first]) if first < len(headers) else size
                resume = _nextlength_at(buffer, position + 1, limit)
                damage.append(Damage(position, resume, NO_RECORD))
                position = resume
                continue
            run, run_lengths = np.array([position]), np.array([length])
        end = int(run[-1] + run_lengths[-1]) + HEADER + FOOTER
        begin = int(run[-1])
        inside = int(np.searchsorted(headers, begin, side="right"))
        waits = size < end <= size + beyond
        following = None if waits else _sound_inside(buffer, headers[inside:], lengths[inside:], end)
        if following is not None and (end > size or not payloads_sound(buffer, run[-1:] + HEADER, run_lengths[-1:])[0]):
            # Bytes are missing from the last record: the next one begins inside of what it claims.
            end, run, run_lengths = following, run[:-1], run_lengths[:-1]
            damage.append(Damage(begin, end, "the record is cut short"))
        elif end > size:
            # The last record is not complete yet.
            end, run, run_lengths = begin, run[:-1], run_lengths[:-1]
        starts.append(run + HEADER)
        kept.append(run_lengths)
        if end == begin:
            position = end
            break
        position = end
    empty = [np.empty(0, np.int64)]
    return Frames(np.concatenate(starts or empty), np.concatenate(kept or empty), position, tuple(damage))


def _sound_inside(buffer: Bytes, headers: Positions, lengths: Positions, end: int) -> Optional[int]:
    """The first of `headers` before `end` that begins a whole and sound record, or None."""
    for header, length in zip(headers.tolist(), lengths.tolist()):
        if header >= end:
            break
        start = np.array([header + HEADER])
        if start[0] + length + FOOTER <= len(buffer) and payloads_sound(buffer, start, np.array([length]))[0]:
            return int(header)
    return None


def payloads_sound(buffer: Bytes, starts: Positions, lengths: Positions) -> Mask:
    """Whether each payload agrees with the masked CRC that follows it."""
    stored = words(buffer, starts + lengths)
    return np.equal(crc32c.masked(crc32c.crc32c(buffer, starts, lengths)), stored)


def rows(buffer: Bytes, starts: Positions, width: int) -> Bytes:
    """(k, width) copies of `buffer[s : s + width]`; every range lies inside the buffer."""
    if len(starts) == 0:
        return np.empty((0, width), np.uint8)
    # As elements of `width` bytes, which numpy copies one by one instead of byte by byte.
    windows: npt.NDArray[Any] = np.ndarray((len(buffer) - width + 1,), np.dtype((np.void, width)), buffer, 0, (1,))
    return windows[starts].view(np.uint8).reshape(-1, width)


def words(buffer: Bytes, positions: Positions) -> crc32c.Words:
    """The little-endian uint32 at each position."""
    return rows(buffer, positions, 4).view("<u4")[:, 0]


@functools.cache
def _length_crcs() -> crc32c.Words:
    """Masked CRC of each length below `_SHORT`, as the 8 bytes that it is stored in."""
    return crc32c.masked(crc32c.pair_contribution(7) ^ np.uint32(crc32c.of_bytes(bytes(8))))


def _short_headers(buffer: Bytes) -> tuple[Positions, Positions]:
    """Every position with a length below `_SHORT` and its right CRC, and the lengths there."""
    found = [np.empty(0, np.int64)]
    found_lengths = [np.empty(0, np.int64)]
    last = len(buffer) - HEADER
    for begin in range(0, last + 1, _SEARCH):
        chunk = buffer[begin : begin + _SEARCH + HEADER - 1]
        if not chunk.any():
            continue  # as a file may end in after a power cut; no CRC is 0 there
        count = len(chunk) - HEADER + 1
        # Six zero bytes end such a length: rare enough to look only there.
        zero = chunk[2:] == 0
        pair = zero[:-1] & zero[1:]
        places = pair[:count] & pair[2 : count + 2] & pair[4 : count + 4]
        if np.count_nonzero(places) > count // 8:
            # Zeros again. No length below `_SHORT` has the CRC 0.
            places &= ~(pair[6 : count + 6] & pair[8 : count + 8])
        candidates = np.flatnonzero(places)
        length = short_lengths(chunk, candidates)
        agrees = length >= 0
        found.append(candidates[agrees] + begin)
        found_lengths.append(length[agrees])
    return np.concatenate(found), np.concatenate(found_lengths)


def short_lengths(buffer: Bytes, positions: Positions) -> Positions:
    """The length below `_SHORT` that begins at each position, -1 where there is none with its right CRC.

    The `HEADER` bytes from each position lie inside of the buffer.
    """
    head = rows(buffer, positions, HEADER).view("<u4")
    length = head[:, 0]
    agrees = (head[:, 1] == 0) & (np.take(_length_crcs(), length, mode="clip") == head[:, 2]) & (length < _SHORT)
    return np.where(agrees, length.astype(np.int64), -1)


def length_at(buffer: Bytes, position: int) -> Optional[int]:
    """Returns the length of the record that begins at `position`, or None where none does."""
    head = buffer[position : position + HEADER]
    if len(head) < HEADER or not payloads_sound(head, np.zeros(1, np.int64), np.full(1, 8))[0]:
        return None
    length = int.from_bytes(head[:8].tobytes(), "little")
    return length if length < _TOO_LONG else None


def _nextlength_at(buffer: Bytes, position: int, limit: int) -> int:
    """The first place in [position, limit) with a length of any size and its right CRC, or else `limit`.

    Where `limit` is the buffer's end, the result is the first place that a header could still begin
    at once more bytes come.
    """
    last = len(buffer) - HEADER
    while position < min(limit, last + 1):
        chunk = buffer[position : min(position + _SEARCH, limit) + HEADER - 1]
        count = len(chunk) - HEADER + 1
        if not chunk.any():
            position += count
            continue
        # The upper half of any length that an event can have is zero.
        zero = chunk == 0
        pair = zero[:-1] & zero[1:]
        upper = pair[4 : count + 4] & pair[6 : count + 6]
        blank = pair[:count] & pair[2 : count + 2] & pair[8 : count + 8] & pair[10 : count + 10]
        candidates = np.flatnonzero(upper & (chunk[3 : count + 3] < _TOO_LONG >> 24) & ~blank)
        hits = candidates[payloads_sound(chunk, candidates, np.full(len(candidates), 8))]
        if len(hits):
            return min(limit, position + int(hits[0]))
        position += count
    return min(limit, max(position, last + 1))
