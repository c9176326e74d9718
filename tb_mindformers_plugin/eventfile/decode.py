"""Decodes the bytes of event files into columns.

Event files repeat themselves: the records of one tag (or of one set of tags logged together) differ
in nothing but step, wall time and values. So what comes in rounds is decoded as such; of the rest,
records of equal length are decoded together by a template made from the first of them, whatever
their order in the file. What fits no template goes through the protobuf library.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from typing import Any, Iterable, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin import metadata
from tb_mindformers_plugin.eventfile import framing, rounds, wire
from tb_mindformers_plugin.eventfile.columns import Chunk, Column
from tb_mindformers_plugin.eventfile.crc32c import Bytes, Positions
from tb_mindformers_plugin.eventfile.framing import FOOTER, HEADER, Damage, Frames, payloads_sound
from tb_mindformers_plugin.eventfile.gather import Gatherer, RecordColumns, width
from tb_mindformers_plugin.eventfile.rounds import Layouts
from tb_mindformers_plugin.eventfile.single import SingleRecords, SinglesRead

Indices = npt.NDArray[np.int64]

#: Tags of the data contract.
OWN_TAGS = frozenset((metadata.RUN_TAG.encode(), metadata.EVENTS_TAG.encode()))

# Fewer records than this of one length are not worth a template.
_FEWEST = 8
#: Records from this length on are looked at one by one, and passed over where they hold no scalar.
LARGE = (1 << 16) - 1
#: What they are called among `Chunk.other_records`.
LARGE_RECORD = "large record"
# Layouts tried for records of one length before the rest is decoded one by one.
_MOST_LAYOUTS = 256


@dataclasses.dataclass(frozen=True)
class _Part:
    """Points of one tag that were decoded together.

    Attributes:
      record: (n,) where the record, or the round, of each point begins; ascending.
      place: of the value behind that: `record` + `place` is what to sort points by.
      step, wall, value: (n,) the points.
    """

    record: Positions
    place: int
    step: npt.NDArray[np.int64]
    wall: npt.NDArray[np.float64]
    value: npt.NDArray[Any]


class _Parts:
    """What was decoded so far.

    Attributes:
      points: by tag.
      bad: (start, length) of the payloads with a wrong CRC.
    """

    def __init__(self) -> None:
        self.points: dict[bytes, list[_Part]] = collections.defaultdict(list)
        self._bad = [np.empty((0, 2), np.int64)]

    def add(self, gatherer: Gatherer, starts: Positions, records: Sequence[RecordColumns]) -> None:
        """Takes in rows of one layout that begin at `starts`."""
        for template, offset, columns in zip(gatherer.templates, gatherer.payloads, records):
            record = starts
            if not columns.sound.all():
                bad = starts[~columns.sound] + offset
                self.add_bad(bad, np.full(len(bad), template.length))
                record, columns = starts[columns.sound], columns.picked(columns.sound)
            for slot, value in zip(template.values, columns.values):
                number = value.astype(np.float64 if slot.dtype in wire.WIDE else np.float32, copy=False)
                self.points[slot.tag].append(_Part(record, offset + slot.offset, columns.step, columns.wall, number))

    def add_bad(self, starts: Positions, lengths: Positions) -> None:
        """Takes note of payloads with a wrong CRC."""
        self._bad.append(np.stack([starts, lengths], axis=1))

    def damage(self) -> list[Damage]:
        """The records with a wrong CRC, in the order of the buffer."""
        bad = np.concatenate(self._bad)
        return [
            Damage(start - HEADER, start + length + FOOTER, "the record's checksum is wrong")
            for start, length in bad[np.argsort(bad[:, 0])].tolist()
        ]

    def by_file(self, bounds: Positions) -> tuple[list[dict[bytes, list[_Piece]]], npt.NDArray[np.float64]]:
        """What each file holds of each tag, and the latest finite wall time of that (-inf: none)."""
        files: list[dict[bytes, list[_Piece]]] = [{} for _ in bounds[1:]]
        latest = np.full(len(files), -np.inf)
        for tag, parts in self.points.items():
            for part in parts:
                cut = np.searchsorted(part.record, bounds)
                some = np.flatnonzero(cut[1:] > cut[:-1])
                begins, stops = cut[some], cut[some + 1]
                finite = np.isfinite(part.wall)
                wall = part.wall if finite.all() else np.where(finite, part.wall, -np.inf)
                if len(some):
                    latest[some] = np.maximum(latest[some], np.maximum.reduceat(wall, begins))
                firsts, lasts = part.record[begins] + part.place, part.record[stops - 1] + part.place
                for file, first, last, begin, stop in np.stack([some, firsts, lasts, begins, stops], axis=1).tolist():
                    files[file].setdefault(tag, []).append(_Piece(first, last, begin, stop, part))
        return files, latest


class _Piece(NamedTuple):
    """Some of the points of a part; of two pieces of a tag the lesser comes first.

    Attributes:
      first: what to sort its first point by.
      last: what to sort its last point by.
      begin, stop: which points of the part.
      part: the points.
    """

    first: int
    last: int
    begin: int
    stop: int
    part: _Part


_SINGLE = Layouts()


class Decoder:
    """Decodes the records of one event file, chunk by chunk.

    It remembers which plugin a tag belongs to, since writers give a tag's metadata once only.
    """

    def __init__(self) -> None:
        self._single = SingleRecords()

    def decode(self, buffer: Bytes, beyond: int = 0) -> tuple[Chunk, int]:
        """Returns the columns and health records of what a file gained, and where its last whole record ends.

        The CRC of every payload is verified, but for large records that hold no scalar: those are
        passed over. A record that fails is left out and said.

        Args:
          buffer: bytes, from a record's first one on.
          beyond: so many bytes the file has behind them: where there are any, what is cut by the buffer's end, and
            a few records before it, may be left for later.
        """
        return decode_together(buffer, np.array([0, len(buffer)]), [self], beyond)[0]

    def read_singly(self, records: Iterable[tuple[int, bytes]]) -> SinglesRead:
        """Decodes (position, payload) pairs one by one."""
        return self._single.read(records)


def decode_together(
    buffer: Bytes, bounds: Positions, decoders: Sequence[Decoder], beyond: int = 0
) -> list[tuple[Chunk, int]]:
    """Decodes several files that lie one after the other in `buffer`: a thousand small files are one large one.

    Args:
      buffer: bytes.
      bounds: (files + 1,) where each file begins, and where the last ends.
      decoders: of each file.
      beyond: of the last file, see `Decoder.decode`.

    Returns:
      What each file holds, and where its last whole record ends. All positions are those of the buffer.
    """
    begins, stops = bounds[:-1], bounds[1:]
    parts = _Parts()
    found = rounds.find(buffer, begins, stops, OWN_TAGS)
    for stretch in found.stretches:
        parts.add(stretch.gatherer, stretch.starts, stretch.records)
    rests = []
    for begin, position, stop in zip(begins.tolist(), found.ends.tolist(), stops.tolist()):
        later = beyond and position > begin and stop - position < rounds.WORTH
        behind = beyond if stop == stops[-1] else 0
        rests.append(_frames(buffer, position, position if later else stop, behind))
    starts = np.concatenate([found.starts, *(rest.starts for rest in rests)])
    lengths = np.concatenate([found.lengths, *(rest.lengths for rest in rests)])
    if len(found.starts):
        # Those were passed over file by file and place by place; what is decoded together is told apart by its order.
        order = np.argsort(starts)
        starts, lengths = starts[order], lengths[order]

    alone: list[Indices] = [np.empty(0, np.int64)]
    for index in _by_length(lengths):
        length = int(lengths[index[0]])
        if len(index) >= _FEWEST and length < LARGE:
            index = index[_by_template(buffer, starts[index], length, parts)]
        alone.append(index)
    singles = np.concatenate(alone)
    singles = singles[np.argsort(starts[singles])]
    starts, lengths = starts[singles], lengths[singles]
    other = np.array([_is_other(buffer, s, n) for s, n in zip(starts.tolist(), lengths.tolist())], bool)
    sound = ~other
    sound[~other] = payloads_sound(buffer, starts[~other], lengths[~other])
    bad = ~(sound | other)
    parts.add_bad(starts[bad], lengths[bad])

    damage = parts.damage()
    at_damage = np.searchsorted([d.start for d in damage], bounds).tolist()
    payloads = [(s, buffer[s : s + n].tobytes()) for s, n in zip(starts[sound].tolist(), lengths[sound].tolist())]
    at_payload = np.searchsorted(starts[sound], bounds).tolist()
    passed_over = np.diff(np.searchsorted(starts[other], bounds)).tolist()
    pieces, latest = parts.by_file(bounds)
    return [
        (
            _chunk(
                decoders[file],
                pieces[file],
                payloads[at_payload[file] : at_payload[file + 1]],
                passed_over[file],
                [*rest.damage, *damage[at_damage[file] : at_damage[file + 1]]],
                float(latest[file]),
                shared=len(decoders) > 1,
            ),
            rest.end,
        )
        for file, rest in enumerate(rests)
    ]


def _frames(buffer: Bytes, begin: int, stop: int, beyond: int) -> Frames:
    """The records between two positions of the buffer, behind which the file has so many more bytes."""
    if begin == stop:
        return Frames(np.empty(0, np.int64), np.empty(0, np.int64), stop, ())
    frames = framing.scan(buffer[begin:stop], beyond)
    damage = tuple(dataclasses.replace(d, start=d.start + begin, stop=d.stop + begin) for d in frames.damage)
    return Frames(frames.starts + begin, frames.lengths, frames.end + begin, damage)


def _chunk(
    decoder: Decoder,
    pieces: dict[bytes, list[_Piece]],
    singles: Sequence[tuple[int, bytes]],
    passed_over: int,
    damage: Sequence[Damage],
    latest: float,
    shared: bool,
) -> Chunk:
    """What one file holds: what was decoded by templates, and what its single records add.

    Args:
      decoder: the file's.
      pieces: by tag.
      singles: (position, payload) of the records that fitted no template.
      passed_over: how many large records hold no scalar.
      damage: what was skipped.
      latest: finite wall time of any point.
      shared: whether the arrays of `pieces` hold what belongs to other files.
    """
    read = decoder.read_singly(singles)
    for tag, points in read.points.items():
        pieces.setdefault(tag, []).append(_single_piece(points, tag in read.wide))
    if passed_over:
        read.other[LARGE_RECORD] += passed_over
    columns, problems = _named(pieces, shared)
    latest = max(read.last_wall, latest)
    return Chunk(
        columns=columns,
        health=tuple(read.health),
        damage=tuple(sorted(damage, key=lambda d: d.start)),
        problems=(*read.problems, *problems),
        other_records=dict(read.other),
        last_wall=latest if math.isfinite(latest) else None,
    )


def _by_template(buffer: Bytes, starts: Positions, length: int, parts: _Parts) -> Indices:
    """Decodes records of one length; returns those (indices into `starts`) that fit no template."""
    unfit: list[Indices] = []
    index = np.arange(len(starts))
    heads = starts - HEADER
    # A row reaches a few bytes beyond its record: the buffer's last record may have none.
    outside = heads + width(HEADER + length + FOOTER) > len(buffer)
    if outside.any():
        unfit.append(index[outside])
        index = index[~outside]
    known = iter(_SINGLE.of(length))
    for _ in range(_MOST_LAYOUTS):
        if not len(index):
            break
        gatherer = next(known, None)
        if gatherer is None:
            start = int(starts[index[0]])
            template = wire.template(buffer[start : start + length].tobytes(), OWN_TAGS)
            if template is None:
                unfit.append(index[:1])
                index = index[1:]
                continue
            gatherer = Gatherer([template])
            _SINGLE.add(gatherer)
        found = gatherer.gather(buffer, heads[index])
        taken = index[found.fits]
        index = index[~found.fits]
        if len(taken):
            parts.add(gatherer, heads[taken], found.records)
    return np.concatenate([*unfit, index])


def _by_length(lengths: Positions) -> list[Indices]:
    """Indices of the records of each length, ascending."""
    if len(lengths) == 0:
        return []
    # 16-bit keys sort by radix; what is longer is rare and shares one key with its like.
    short = np.minimum(lengths, LARGE).astype(np.uint16)
    order = np.argsort(short, kind="stable")
    edges = np.flatnonzero(np.diff(short[order])) + 1
    return np.split(order, edges)


def _single_piece(points: list[tuple[int, int, int, float, float]], wide: bool) -> _Piece:
    record, place, step, wall, value = zip(*points)
    part = _Part(
        np.array(record, np.int64) + np.array(place, np.int64),
        0,
        np.array(step, np.int64),
        np.array(wall, np.float64),
        np.array(value, np.float64 if wide else np.float32),
    )
    return _Piece(record[0] + place[0], record[-1] + place[-1], 0, len(points), part)


def _named(pieces: dict[bytes, list[_Piece]], shared: bool) -> tuple[dict[str, Column], list[str]]:
    """The columns by the names of their tags; says which tags are not UTF-8."""
    by_name: dict[str, list[_Piece]] = collections.defaultdict(list)
    problems: list[str] = []
    for tag, tag_pieces in pieces.items():
        name = tag.decode("utf-8", "replace")
        if name.encode("utf-8") != tag:
            problems.append(f"tag {name!r} is not UTF-8; the bytes that are not are replaced")
        by_name[name].extend(tag_pieces)
    return {name: _merged(by_name[name], shared) for name in sorted(by_name)}, problems


def _merged(pieces: list[_Piece], shared: bool) -> Column:
    """The points of all pieces, in the order of the file.

    Args:
      pieces: of one tag.
      shared: copy them in any case: a run that is dropped must not be kept in memory by another.
    """
    if len(pieces) == 1 and not shared:
        part = pieces[0].part
        return Column(part.step, part.wall, part.value)
    pieces.sort()
    column = Column(
        np.concatenate([part.step[begin:stop] for _, _, begin, stop, part in pieces]),
        np.concatenate([part.wall[begin:stop] for _, _, begin, stop, part in pieces]),
        np.concatenate([part.value[begin:stop] for _, _, begin, stop, part in pieces]),
    )
    if all(piece.last < following.first for piece, following in zip(pieces, pieces[1:])):
        return column
    record = [part.record[begin:stop] + part.place for _, _, begin, stop, part in pieces]
    # A stable sort merges stretches that are in order already.
    order = np.argsort(np.concatenate(record), kind="stable")
    return Column(column.step[order], column.wall[order], column.value[order])


def _is_other(buffer: Bytes, start: int, length: int) -> bool:
    """Whether a record is large and holds no scalar."""
    return length >= LARGE and not wire.may_hold_scalars(buffer[start : start + length].data, OWN_TAGS)
