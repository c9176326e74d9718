"""Decodes many records of one layout at once: from rows of bytes to columns of numbers."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.eventfile import crc32c
from tb_mindformers_plugin.eventfile.crc32c import Bytes, Positions, Words
from tb_mindformers_plugin.eventfile.framing import FOOTER, rows
from tb_mindformers_plugin.eventfile.wire import Template

# Bytes of rows handled at a time: keeps them in cache.
_BLOCK = 1 << 20
# More varying bytes than this in a record, and their tables would take more memory than they save time.
_MOST_VARYING = 128

Mask = npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True)
class Gathered:
    """What a template says of some records.

    Attributes:
      fits: (k,) whether the record has the template's layout; the arrays below hold those k' alone.
      sound: (k',) whether the record's CRC is right.
      step: (k',) int64.
      wall: (k',) float64.
      values: a (k',) array for each of the template's values.
    """

    fits: Mask
    sound: Mask
    step: npt.NDArray[np.int64]
    wall: npt.NDArray[np.float64]
    values: list[npt.NDArray[Any]]


def width(length: int) -> int:
    """Bytes of a row that holds a payload of `length` and its CRC, in whole words of 8."""
    return -(-(length + FOOTER) // 8) * 8


class Gatherer:
    """Applies one template.

    The CRC is affine over GF(2): that of a record is that of the constant bytes XOR what each
    varying byte adds at its distance from the end. So only the varying bytes are looked up, two
    at a time.
    """

    def __init__(self, template: Template) -> None:
        self.template = template
        self._width = width(template.length)
        mask = np.zeros(self._width, np.uint8)
        mask[: template.length] = template.mask
        constant = np.zeros(self._width, np.uint8)
        constant[: template.length] = template.constant
        self._mask, self._constant = mask.view(np.uint64), constant.view(np.uint64)
        # In a step's varint the continuation bits are constant, and part of `constant`: the tables
        # below see whole bytes, so they are left out of the base.
        varying = np.flatnonzero(template.mask != 0xFF)
        base = template.constant.copy()
        base[varying] = 0
        self._base = np.uint32(crc32c.of_bytes(base.tobytes()))
        # Each pair of bytes has a table of 256 KB: a record of a thousand values has its CRC computed plainly.
        few = len(varying) <= _MOST_VARYING
        self._lookups = _lookups(varying.tolist(), template.length) if few else None

    def gather(self, buffer: Bytes, starts: Positions) -> Gathered:
        """Decodes the records that have the template's layout.

        Args:
          buffer: bytes; a row of `width(length)` bytes from each start lies inside.
          starts: (k,) positions of payloads of the template's length.
        """
        step = max(16, _BLOCK // self._width)
        blocks = [self._block(buffer, starts[i : i + step]) for i in range(0, len(starts), step)]
        if len(blocks) == 1:
            return blocks[0]
        return Gathered(
            np.concatenate([b.fits for b in blocks]),
            np.concatenate([b.sound for b in blocks]),
            np.concatenate([b.step for b in blocks]),
            np.concatenate([b.wall for b in blocks]),
            [np.concatenate(columns) for columns in zip(*(b.values for b in blocks))],
        )

    def _block(self, buffer: Bytes, starts: Positions) -> Gathered:
        data = rows(buffer, starts, self._width)
        differs = self._differences(data)
        fits = differs == 0
        if not fits.all():
            data = data[fits]
        stored = _column(data, self.template.length, "<u4")
        sound = crc32c.masked(self._crc(data)) == stored
        template = self.template
        wall = np.zeros(len(data)) if template.wall is None else _column(data, template.wall.offset, "<f8").copy()
        values = [_column(data, slot.offset, slot.dtype).copy() for slot in template.values]
        return Gathered(fits, sound, self._steps(data), wall, values)

    def _crc(self, data: Bytes) -> Words:
        if self._lookups is None:
            places = np.arange(len(data)) * data.shape[1]
            return crc32c.crc32c(data.reshape(-1), places, np.full(len(data), self.template.length))
        crc = np.full(len(data), self._base, np.uint32)
        for offset, dtype, distance in self._lookups:
            # Asked for each time: who keeps the tables is the cache, which is bounded.
            table = _pair_table(distance) if dtype == "<u2" else crc32c.contribution(distance)
            crc ^= table[_column(data, offset, dtype)]
        return crc

    def _differences(self, data: Bytes) -> npt.NDArray[np.uint64]:
        words = data.view(np.uint64)
        differs = np.zeros(len(words), np.uint64)
        for i in range(words.shape[1]):
            if self._mask[i]:
                differs |= (words[:, i] & self._mask[i]) ^ self._constant[i]
        return differs

    def _steps(self, data: Bytes) -> npt.NDArray[np.int64]:
        steps = np.zeros(len(data), np.uint64)
        if self.template.step is not None:
            offset, size = self.template.step
            for i in range(size):
                part = (data[:, offset + i] & np.uint8(0x7F)).astype(np.uint64)
                steps |= part << np.uint64(7 * i)
        return steps.view(np.int64)


def _column(data: Bytes, offset: int, dtype: str) -> npt.NDArray[Any]:
    """The numbers at `offset` of each row, as a view."""
    if len(data) == 0:
        return np.empty(0, dtype)
    return np.ndarray((len(data),), dtype, data, offset, (data.shape[1],))


def _lookups(varying: list[int], length: int) -> list[tuple[int, str, int]]:
    """(offset, dtype, distance from the end) that together cover the varying bytes, neighbours in pairs."""
    found: list[tuple[int, str, int]] = []
    i = 0
    while i < len(varying):
        offset = varying[i]
        pair = i + 1 < len(varying) and varying[i + 1] == offset + 1
        found.append((offset, "<u2" if pair else "u1", length - 1 - offset))
        i += 2 if pair else 1
    return found


@functools.lru_cache(maxsize=128)
def _pair_table(distance: int) -> Words:
    """What a little-endian pair of bytes adds to a CRC, its first byte `distance` before the last byte."""
    first, second = crc32c.contribution(distance), crc32c.contribution(distance - 1)
    return (second[:, None] ^ first[None, :]).reshape(-1)
