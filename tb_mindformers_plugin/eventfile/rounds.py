"""Finds rounds: the few records that a writer repeats at each step, one behind the other.

Where records come in rounds, each next round lies where the last one ends. So its place is known
before it is looked at, and all rounds of a file, or of a hundred files, are checked and decoded as
rows of a table. What is between rounds, and files without any, are left to be framed.
"""

from __future__ import annotations

import dataclasses
from typing import Iterator, Optional

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.eventfile import framing, wire
from tb_mindformers_plugin.eventfile.crc32c import Bytes, Positions
from tb_mindformers_plugin.eventfile.framing import FOOTER, HEADER
from tb_mindformers_plugin.eventfile.gather import Gatherer, RecordColumns

Indices = npt.NDArray[np.int64]

#: Fewer bytes than this are not worth a search.
WORTH = 1 << 14
# Bytes in which a repetition has to show, and how often.
_WINDOW = 1 << 15
_FEWEST = 16
# The longest round, in records and in bytes, and how many records may come before the first.
_MOST_RECORDS = 64
_MOST_BYTES = 1 << 13
_MOST_BEFORE = 64
# In one search, layouts that are looked for.
_MOST_LEARNED = 8
# Layouts remembered: that begin with a record of one length, and lengths of which any are.
_KEPT_LAYOUTS = 32
_MOST_LENGTHS = 4096


class Layouts:
    """The layouts met so far in any file, by the length of their first record: runs of one project log the same tags.

    Bounded: of each length the last ones are kept, and all are forgotten when there are too many.
    Threads may share it; at worst a layout is made twice.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Gatherer, ...]] = {}

    def of(self, length: int) -> tuple[Gatherer, ...]:
        """The layouts known of a length, the newest first."""
        return self._known.get(length, ())

    def add(self, gatherer: Gatherer) -> None:
        """Remembers a layout."""
        if len(self._known) > _MOST_LENGTHS:
            self._known = {}
        length = gatherer.templates[0].length
        self._known[length] = (gatherer, *self.of(length))[:_KEPT_LAYOUTS]


_KNOWN = Layouts()


@dataclasses.dataclass(frozen=True)
class Stretch:
    """Rounds of one layout, of one file or of several.

    Attributes:
      gatherer: the layout.
      starts: (k,) where each round begins, ascending.
      records: for each record of a round its columns.
    """

    gatherer: Gatherer
    starts: Positions
    records: list[RecordColumns]


@dataclasses.dataclass(frozen=True)
class Rounds:
    """What was found in some files that lie in one buffer.

    Attributes:
      stretches: the rounds.
      starts, lengths: the payloads that were passed over before a file's first round.
      ends: (files,) where in each file the search ended; what lies behind is to be framed.
    """

    stretches: list[Stretch]
    starts: Positions
    lengths: Positions
    ends: Positions


class _Search:
    def __init__(self, buffer: Bytes, begins: Positions, stops: Positions, own_tags: frozenset[bytes]) -> None:
        self.buffer = buffer
        self.stops = stops
        self.position = begins.copy()
        self.own_tags = own_tags
        self.stretches: list[Stretch] = []
        self.starts = [np.empty(0, np.int64)]
        self.lengths = [np.empty(0, np.int64)]

    def worth(self, files: Indices) -> Indices:
        """Those of `files` in which enough is left."""
        return files[self.stops[files] - self.position[files] >= WORTH]

    def run(self) -> None:
        files = self.worth(np.arange(len(self.stops)))
        learned = 0
        while len(files):
            going_on, strange = self._follow_known(files)
            if len(strange) and learned < _MOST_LEARNED:
                learned += 1
                found = self._learn(int(strange[0]))
                # Others most likely begin like the first; if not, it is their turn next.
                strange = strange[1:] if found is None else self._pass_over(strange, found)
                going_on = np.concatenate([going_on, strange])
            files = self.worth(np.sort(going_on))

    def _follow_known(self, files: Indices) -> tuple[Indices, Indices]:
        """Follows the known layouts; returns the files that got on by that, and those that begin with none."""
        lengths = framing.short_lengths(self.buffer, self.position[files])
        got_on, strange = [files[:0]], [files[:0]]
        for length in sorted({*lengths.tolist()} - {-1}):
            some = files[lengths == length]
            for gatherer in _KNOWN.of(length):
                fits = (self._room(gatherer, some) >= _FEWEST) & gatherer.fits(self.buffer, self.position[some])
                if fits.any():
                    got_on.append(self._follow(gatherer, some[fits]))
                    some = some[~fits]
                    if not len(some):
                        break
            strange.append(some)
        return np.concatenate(got_on), np.concatenate(strange)

    def _room(self, gatherer: Gatherer, files: Indices) -> Positions:
        """How many rounds of a layout could follow in each file."""
        # A row reaches a few bytes beyond its round.
        stops = np.minimum(self.stops[files], len(self.buffer) - (gatherer.width - gatherer.size))
        return (stops - self.position[files]) // gatherer.size

    def _follow(self, gatherer: Gatherer, files: Indices) -> Indices:
        """Takes all rounds of a layout at the files' positions; returns the files where that went well."""
        begins = self.position[files]
        expected = self._expected(gatherer, files)
        stops = np.cumsum(expected)
        owner = np.repeat(np.arange(len(files)), expected)
        nth = np.arange(stops[-1]) - (stops - expected)[owner]
        starts = begins[owner] + nth * gatherer.size
        found = gatherer.gather(self.buffer, starts)
        taken, records = expected, found.records
        sound = np.zeros(len(starts), bool)
        sound[found.fits] = found.records[-1].sound
        if not found.fits.all():
            taken = np.full(len(files), len(starts))
            np.minimum.at(taken, owner[~found.fits], nth[~found.fits])
            taken = np.minimum(taken, expected)
        # A record that is followed by damage, and is damaged itself, may hold the next one: that is for the framing.
        taken = taken - ~sound[stops - expected + taken - 1]
        if (taken < expected).any():
            kept = nth < taken[owner]
            starts, records = starts[kept], [record.picked(kept[found.fits]) for record in records]
        self.position[files] += taken * gatherer.size
        self.stretches.append(Stretch(gatherer, starts, records))
        # Where rounds end all the time, following them costs more than it saves.
        return files[(4 * taken > expected) & (taken * gatherer.size >= WORTH)]

    def _expected(self, gatherer: Gatherer, files: Indices) -> Positions:
        """How many rounds follow in each file, as far as a few looks tell: a step that grows a byte ends them."""
        begins, room = self.position[files], self._room(gatherer, files)
        low, high = np.zeros_like(room), room.copy()  # the one fits; the other is beyond, or does not
        probe = room - 1
        while True:
            fits = gatherer.fits(self.buffer, begins + probe * gatherer.size)
            low, high = np.where(fits, probe, low), np.where(fits, high, probe)
            if (high - low <= 1).all():
                return high
            probe = (low + high) // 2

    def _learn(self, file: int) -> Optional[int]:
        """Looks for rounds near a file's position, and remembers their layout.

        Returns:
          How many records come before them; None where there are no rounds.
        """
        begin = int(self.position[file])
        frames = framing.scan(self.buffer[begin : min(begin + _WINDOW, int(self.stops[file]))])
        if frames.damage:
            return None
        heads, lengths = begin + frames.starts - HEADER, frames.lengths
        for first, period in _repetitions(lengths):
            sizes = lengths[first : first + period] + (HEADER + FOOTER)
            if sizes.sum() > _MOST_BYTES:
                break
            place = heads[first : first + 1]
            if any(known.fits(self.buffer, place).all() for known in _KNOWN.of(int(lengths[first]))):
                return first
            payloads = zip(heads[first:][:period] + HEADER, lengths[first:][:period])
            templates = [wire.template(self.buffer[p : p + n].tobytes(), self.own_tags) for p, n in payloads]
            whole = [template for template in templates if template is not None]
            if len(whole) < period:
                continue
            gatherer = Gatherer(whole)
            # Records of the same lengths may still be of other tags.
            if gatherer.fits(self.buffer, place + np.arange(1, _FEWEST // period + 1) * gatherer.size).all():
                _KNOWN.add(gatherer)
                return first
        return None

    def _pass_over(self, files: Indices, count: int) -> Indices:
        """Passes over `count` sound lengths in each file; returns the files that have as many, and one behind."""
        position = self.position[files]
        passed = []
        for _ in range(count):
            lengths = framing.short_lengths(self.buffer, position)
            passed.append((position + HEADER, lengths))
            behind = position + HEADER + lengths + FOOTER
            good = (lengths >= 0) & (behind + HEADER <= self.stops[files])
            files, position = files[good], behind[good]
            passed = [(starts[good], lengths[good]) for starts, lengths in passed]
        good = framing.short_lengths(self.buffer, position) >= 0
        files = files[good]
        self.position[files] = position[good]
        for starts, lengths in passed:
            self.starts.append(starts[good])
            self.lengths.append(lengths[good])
        return files


def _repetitions(lengths: Positions) -> Iterator[tuple[int, int]]:
    """Yields (first record, how many records) of what might be a round, the shortest rounds first."""
    for period in range(1, _MOST_RECORDS + 1):
        breaks = np.flatnonzero(lengths[period:] != lengths[:-period])
        edges = np.concatenate([[-1], breaks, [max(0, len(lengths) - period)]])
        long_enough = np.flatnonzero(np.diff(edges) > max(_FEWEST, period))
        if len(long_enough) and edges[long_enough[0]] < _MOST_BEFORE:
            yield int(edges[long_enough[0]]) + 1, period


def find(buffer: Bytes, begins: Positions, stops: Positions, own_tags: frozenset[bytes]) -> Rounds:
    """Finds and decodes the rounds that files begin with, but for a few records before.

    Args:
      buffer: bytes.
      begins: (files,) where each file begins in it, with a record's first byte.
      stops: (files,) where each file ends.
      own_tags: tags that are never scalars.
    """
    search = _Search(buffer, begins, stops, own_tags)
    search.run()
    return Rounds(search.stretches, np.concatenate(search.starts), np.concatenate(search.lengths), search.position)
