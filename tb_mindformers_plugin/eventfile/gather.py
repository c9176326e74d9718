"""Decodes many stretches of bytes of one layout at once: from rows of bytes to columns of numbers.

A row holds one record, or the several records that a writer repeats: one a tag at each step.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Optional, Sequence

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.eventfile import crc32c
from tb_mindformers_plugin.eventfile.crc32c import Bytes, Positions, Words
from tb_mindformers_plugin.eventfile.framing import FOOTER, HEADER, rows
from tb_mindformers_plugin.eventfile.wire import Template

# Bytes of rows handled at a time: keeps them in cache.
_BLOCK = 1 << 20
# More varying bytes than this in a record, and their tables would take more memory than they save time.
_MOST_VARYING = 128

Mask = npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True)
class RecordColumns:
    """The numbers of one of the records of a row, over all rows.

    Attributes:
      sound: (k,) whether the record's CRC is right.
      step: (k,) int64.
      wall: (k,) float64.
      values: a (k,) array for each of the values of the record's template.
    """

    sound: Mask
    step: npt.NDArray[np.int64]
    wall: npt.NDArray[np.float64]
    values: list[npt.NDArray[Any]]

    def picked(self, which: Mask) -> RecordColumns:
        """The same of some of the rows."""
        return RecordColumns(
            self.sound[which], self.step[which], self.wall[which], [value[which] for value in self.values]
        )


@dataclasses.dataclass(frozen=True)
class Gathered:
    """What a layout says of some rows.

    Attributes:
      fits: (k,) whether the row has the layout.
      records: for each record of a row its columns, of those k' rows that fit.
    """

    fits: Mask
    records: list[RecordColumns]


class _Record:
    """One of the records of a row.

    The CRC is affine over GF(2): that of a record is that of the constant bytes XOR what each
    varying byte adds at its distance from the end. So only the varying bytes are looked up, two
    at a time.
    """

    def __init__(self, template: Template, offset: int) -> None:
        self.template = template
        self.offset = offset  # of the payload in the row
        # In a step's varint the continuation bits are constant, and part of `constant`: the tables
        # below see whole bytes, so they are left out of the base.
        varying = np.flatnonzero(template.mask != 0xFF)
        base = template.constant.copy()
        base[varying] = 0
        self._base = crc32c.of_bytes(base.tobytes())
        # Each pair of bytes has a table of 256 KB: a record of a thousand values has its CRC computed plainly.
        few = len(varying) <= _MOST_VARYING
        self._lookups = _pairs(varying.tolist()) if few else None

    def empty_columns(self, count: int) -> RecordColumns:
        """Columns for `decode` to fill."""
        return RecordColumns(
            np.empty(count, bool),
            np.zeros(count, np.int64),
            np.zeros(count, np.float64),
            [np.empty(count, slot.dtype) for slot in self.template.values],
        )

    def decode(self, data: Bytes, varies: Mask, columns: RecordColumns, at: slice) -> None:
        """Fills the columns of some rows.

        Args:
          data: (k, width) rows, at least one.
          varies: (width,) which bytes differ between them.
          columns: what to fill.
          at: where these rows belong.
        """
        template, offset = self.template, self.offset
        stored = _column(data, offset + template.length, "<u4")
        np.equal(crc32c.masked(self._crc(data, varies)), stored, out=columns.sound[at])
        if template.wall is not None:
            columns.wall[at] = _column(data, offset + template.wall.offset, "<f8")
        for slot, value in zip(template.values, columns.values):
            value[at] = _column(data, offset + slot.offset, slot.dtype)
        if template.step is not None:
            self._put_steps(data, varies, columns.step[at].view(np.uint64))

    def _crc(self, data: Bytes, varies: Mask) -> Words:
        length = self.template.length
        if self._lookups is None:
            places = np.arange(len(data)) * data.shape[1] + self.offset
            return crc32c.crc32c(data.reshape(-1), places, np.full(len(data), length))
        constant = self._base
        crc: Optional[Words] = None
        for place, count in self._lookups:
            at = self.offset + place
            # Asked for each time: who keeps the tables is the cache, which is bounded.
            table = (crc32c.pair_contribution if count == 2 else crc32c.contribution)(length - 1 - place)
            column = _column(data, at, _UNSIGNED[count])
            # Of a wall time, or of a step, half the bytes stay as they are for hours.
            if not varies[at : at + count].any():
                constant ^= int(table[column[0]])
            elif crc is None:
                crc = table.take(column, mode="clip")
            else:
                crc ^= table.take(column, mode="clip")
        if crc is None:
            return np.full(len(data), constant, np.uint32)
        crc ^= np.uint32(constant)
        return crc

    def _put_steps(self, data: Bytes, varies: Mask, steps: npt.NDArray[np.uint64]) -> None:
        assert self.template.step is not None
        offset, size = self.template.step
        table = _varint_pairs()
        for i in range(0, size, 2):
            at, count = self.offset + offset + i, min(2, size - i)
            column = _column(data, at, _UNSIGNED[count])
            shift = np.uint64(7 * i)
            if varies[at : at + count].any():
                steps |= table.take(column, mode="clip").astype(np.uint64) << shift
            else:
                steps |= np.uint64(table[column[0]]) << shift


class Gatherer:
    """Applies the layout of a row: the records that it holds, each with its length and checksums.

    Args:
      templates: of the records.
    """

    def __init__(self, templates: Sequence[Template]) -> None:
        self.templates = tuple(templates)
        #: Bytes of a row.
        self.size = sum(HEADER + template.length + FOOTER for template in templates)
        #: Bytes of a row in whole words: so many must lie behind each start.
        self.width = width(self.size)
        mask, constant = np.zeros(self.width, np.uint8), np.zeros(self.width, np.uint8)
        self._records: list[_Record] = []
        offset = 0
        for template in templates:
            head = np.array([template.length], "<u8").view(np.uint8)
            head = np.concatenate(
                [head, crc32c.masked(crc32c.crc32c(head, _ZERO, _EIGHT)).astype("<u4").view(np.uint8)]
            )
            payload = offset + HEADER
            mask[offset:payload], constant[offset:payload] = 0xFF, head
            offset = payload + template.length
            mask[payload:offset], constant[payload:offset] = template.mask, template.constant
            offset += FOOTER
            self._records.append(_Record(template, payload))
        self._mask, self._constant = mask.view(np.uint64), constant.view(np.uint64)
        #: Where in a row each record's payload begins.
        self.payloads = [record.offset for record in self._records]

    def fits(self, buffer: Bytes, starts: Positions) -> Mask:
        """Whether at each start there is a row of this layout, all `width` bytes of it inside the buffer."""
        fits = starts + self.width <= len(buffer)
        fits[fits] = self._fit(rows(buffer, starts[fits], self.width).view(np.uint64))
        return fits

    def _fit(self, words: npt.NDArray[np.uint64]) -> Mask:
        return np.logical_not(((words ^ self._constant) & self._mask).any(axis=1))

    def gather(self, buffer: Bytes, starts: Positions) -> Gathered:
        """Decodes the rows that have the layout.

        Args:
          buffer: bytes; `width` bytes from each start lie inside.
          starts: (k,) positions where a record begins.
        """
        fits = np.ones(len(starts), bool)
        columns = [record.empty_columns(len(starts)) for record in self._records]
        filled = 0
        block = max(16, _BLOCK // self.width)
        for first in range(0, len(starts), block):
            data = rows(buffer, starts[first : first + block], self.width)
            words = data.view(np.uint64)
            differs = np.bitwise_or.reduce(words ^ words[0], axis=0)
            if ((differs | (words[0] ^ self._constant)) & self._mask).any():
                fit = fits[first : first + block] = self._fit(words)
                data = data[fit]
                if not len(data):
                    continue
                words = data.view(np.uint64)
                differs = np.bitwise_or.reduce(words ^ words[0], axis=0)
            varies = differs.view(np.uint8) != 0
            at = slice(filled, filled + len(data))
            for record, column in zip(self._records, columns):
                record.decode(data, varies, column, at)
            filled += len(data)
        if filled < len(starts):
            kept = np.arange(len(starts)) < filled
            columns = [column.picked(kept) for column in columns]
        return Gathered(fits, columns)


_ZERO, _EIGHT = np.zeros(1, np.int64), np.full(1, 8)
_UNSIGNED = {1: "u1", 2: "<u2"}


def width(size: int) -> int:
    """Bytes of a row of `size` bytes in whole words of 8."""
    return -(-size // 8) * 8


def _column(data: Bytes, offset: int, dtype: str) -> npt.NDArray[Any]:
    """The numbers at `offset` of each row, as a view."""
    return np.ndarray((len(data),), dtype, data, offset, (data.shape[1],))


def _pairs(varying: Sequence[int]) -> list[tuple[int, int]]:
    """(offset, how many) that together cover the varying bytes, neighbours in pairs."""
    found: list[tuple[int, int]] = []
    i = 0
    while i < len(varying):
        count = 2 if i + 1 < len(varying) and varying[i + 1] == varying[i] + 1 else 1
        found.append((varying[i], count))
        i += count
    return found


@functools.cache
def _varint_pairs() -> npt.NDArray[np.uint16]:
    """The 14 bits that a little-endian pair of bytes of a varint holds."""
    pair = np.arange(1 << 16, dtype=np.uint16)
    return (pair & np.uint16(0x7F)) | ((pair & np.uint16(0x7F00)) >> np.uint16(1))
