"""TFRecord framing: finds the sound records of a byte range.

A record is a length (uint64), the masked CRC of those 8 bytes (uint32), the payload, and the masked
CRC of the payload (uint32), all little-endian. Every CRC is verified. After damage, reading resumes
at the next place where a length and its CRC agree.
"""

from __future__ import annotations

import dataclasses
import struct

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.eventfile import crc32c
from tb_mindformers_plugin.eventfile.crc32c import Bytes, Positions

Mask = npt.NDArray[np.bool_]

HEADER = 12
FOOTER = 4

_LENGTH = struct.Struct("<Q")
# Bytes searched at a time for the next sound header.
_SEARCH = 1 << 20
# Records followed before their CRCs are verified: bounds what is walked again after damage.
_WALK = 1 << 16


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
    """The sound records of a byte range.

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


def scan(buffer: Bytes) -> Frames:
    """Finds the sound records of `buffer`, which begins at a record's first byte.

    Args:
      buffer: (n,) bytes, e.g. the mapped rest of a file.

    Returns:
      The frames. `end` < n where the last record is not complete yet.
    """
    starts = [np.empty(0, np.int64)]
    lengths = [np.empty(0, np.int64)]
    damage: list[Damage] = []
    position = 0
    while True:
        # Follow the lengths on trust, then verify all CRCs of the walk at once: damage is rare.
        walk_starts, walk_lengths, end = _walk(buffer, position)
        sound_header = _header_sound(buffer, walk_starts - HEADER)
        false_header = np.flatnonzero(~sound_header)
        if len(false_header):
            # From a wrong length on, the walk is fiction.
            end = int(walk_starts[false_header[0]]) - HEADER
            walk_starts, walk_lengths = walk_starts[: false_header[0]], walk_lengths[: false_header[0]]
        sound = _range_sound(buffer, walk_starts, walk_lengths)
        whole_header = len(buffer) - end >= HEADER
        astray = bool(len(false_header)) or (whole_header and not _header_sound(buffer, np.array([end]))[0])
        resume = _next_header(buffer, end + 1) if astray else end
        if len(sound) and not sound[-1] and (astray or not whole_header):
            # Bytes may be missing from the last record: then the next one begins inside of what it claims.
            begin = int(walk_starts[-1]) - HEADER
            inside = _next_header(buffer, begin + 1)
            if inside < end:
                astray, resume, end = True, inside, begin
                walk_starts, walk_lengths, sound = walk_starts[:-1], walk_lengths[:-1], sound[:-1]
        for start, length in zip(walk_starts[~sound].tolist(), walk_lengths[~sound].tolist()):
            damage.append(Damage(start - HEADER, start + length + FOOTER, "the record's checksum is wrong"))
        starts.append(walk_starts[sound])
        lengths.append(walk_lengths[sound])
        if astray:
            damage.append(Damage(end, resume, "no record begins here"))
            position = end = resume
        elif len(walk_starts) < _WALK:
            break  # what is left is a record that is not complete yet
        else:
            position = end
        if len(buffer) - end < HEADER:
            break
    return Frames(np.concatenate(starts), np.concatenate(lengths), end, tuple(damage))


def _walk(buffer: Bytes, position: int) -> tuple[Positions, Positions, int]:
    """Follows the lengths from `position` over at most `_WALK` records that lie whole in the buffer."""
    view = buffer.data
    size = len(buffer)
    starts: list[int] = []
    lengths: list[int] = []
    while position + HEADER + FOOTER <= size and len(starts) < _WALK:
        (length,) = _LENGTH.unpack_from(view, position)
        following = position + HEADER + length + FOOTER
        if following > size:
            break
        starts.append(position + HEADER)
        lengths.append(length)
        position = following
    return np.array(starts, np.int64), np.array(lengths, np.int64), position


def _words(buffer: Bytes, positions: Positions) -> crc32c.Words:
    """The little-endian uint32 at each position."""
    gathered = buffer[positions[:, None] + np.arange(4)]
    return np.ascontiguousarray(gathered).view("<u4")[:, 0]


def _header_sound(buffer: Bytes, positions: Positions) -> Mask:
    return _range_sound(buffer, positions, np.full(len(positions), 8))


def _range_sound(buffer: Bytes, starts: Positions, lengths: Positions) -> Mask:
    """Whether each range agrees with the masked CRC that follows it."""
    return np.equal(crc32c.masked(crc32c.crc32c(buffer, starts, lengths)), _words(buffer, starts + lengths))


def _next_header(buffer: Bytes, position: int) -> int:
    """The first position from `position` on whose length and length CRC agree.

    Where there is none: the first position that a header could still begin at once more bytes come.
    """
    last = len(buffer) - HEADER
    while position <= last:
        chunk = buffer[position : position + _SEARCH + HEADER - 1]
        windows = len(chunk) - HEADER + 1
        crc = crc32c.masked(crc32c.crc32c_windows(chunk[: windows + 7], 8))
        stored = np.lib.stride_tricks.sliding_window_view(chunk[8:], 4)[:windows]
        hits = np.flatnonzero(crc == np.ascontiguousarray(stored).view("<u4")[:, 0])
        if len(hits):
            return position + int(hits[0])
        position += windows
    return position
