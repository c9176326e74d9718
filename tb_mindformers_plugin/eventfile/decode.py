"""Decodes framed records into columns.

Event files repeat themselves: the records of one tag (or of one set of tags logged together) differ
in nothing but step, wall time and values. So records of equal length are decoded together by a
template made from the first of them, whatever their order in the file. What fits no template goes
through the protobuf library.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from typing import Any, Iterable, Optional, Sequence

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin import metadata
from tb_mindformers_plugin.eventfile import wire
from tb_mindformers_plugin.eventfile.columns import Chunk, Column
from tb_mindformers_plugin.eventfile.crc32c import Bytes, Positions
from tb_mindformers_plugin.eventfile.framing import FOOTER, HEADER, Damage, Frames, payloads_sound
from tb_mindformers_plugin.eventfile.gather import Gathered, Gatherer, width
from tb_mindformers_plugin.eventfile.single import SingleRecords, SinglesRead

Indices = npt.NDArray[np.int64]

_OWN_TAGS = frozenset((metadata.RUN_TAG.encode(), metadata.EVENTS_TAG.encode()))

# Fewer records than this of one length are not worth a template.
_FEWEST = 8
# Records from this length on are looked at one by one, and passed over where they hold no scalar.
_LARGE = (1 << 16) - 1
# More values than a record can hold: a point's place in the file is record * this + place in the record.
_PLACES = 1 << 20
# Layouts tried for records of one length before the rest is decoded one by one.
_MOST_LAYOUTS = 256
# Layouts remembered of one length, and lengths of which any are.
_KEPT_LAYOUTS = 32
_MOST_LENGTHS = 4096


@dataclasses.dataclass(frozen=True)
class _Part:
    """Points of one tag that were decoded together.

    Attributes:
      order: (n,) place of the record in the file, then of the value in the record: what to sort by.
      step, wall, value: (n,) the points.
    """

    order: npt.NDArray[np.int64]
    step: npt.NDArray[np.int64]
    wall: npt.NDArray[np.float64]
    value: npt.NDArray[Any]


class _Layouts:
    """The layouts met so far in any file, by length: runs of one project log the same tags.

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
        length = gatherer.template.length
        self._known[length] = (gatherer, *self.of(length))[:_KEPT_LAYOUTS]


_LAYOUTS = _Layouts()


class Decoder:
    """Decodes the records of one event file, chunk by chunk.

    It remembers which plugin a tag belongs to, since writers give a tag's metadata once only.
    """

    def __init__(self) -> None:
        self._single = SingleRecords()

    def decode(self, buffer: Bytes, frames: Frames) -> Chunk:
        """Returns the columns and health records of `frames`, in file order.

        The CRC of every payload is verified, but for large records that hold no scalar: those are
        passed over. A record that fails is left out and said.
        """
        return decode_together(buffer, [frames], [self])[0]

    def read_singly(self, records: Iterable[tuple[int, bytes]]) -> SinglesRead:
        """Decodes (index, payload) pairs one by one."""
        return self._single.read(records)


def decode_together(buffer: Bytes, frames: Sequence[Frames], decoders: Sequence[Decoder]) -> list[Chunk]:
    """Decodes several files that lie one after the other in `buffer`: a thousand small files are one large one.

    Args:
      buffer: bytes.
      frames: of each file, with positions in the buffer.
      decoders: of each file.
    """
    starts = np.concatenate([f.starts for f in frames])
    lengths = np.concatenate([f.lengths for f in frames])
    bounds = np.cumsum([0, *(len(f.starts) for f in frames)])
    parts: dict[bytes, list[_Part]] = collections.defaultdict(list)
    bad: list[Indices] = []
    alone: list[Indices] = []
    for index in _by_length(lengths):
        length = int(lengths[index[0]])
        if len(index) >= _FEWEST and length < _LARGE:
            index = _by_template(buffer, starts, index, length, parts, bad)
        alone.append(index)
    singles = np.sort(np.concatenate(alone)) if alone else np.empty(0, np.int64)
    by_file = _by_file(parts, bounds)
    failed = np.sort(np.concatenate(bad)) if bad else np.empty(0, np.int64)
    cut, cut_failed = np.searchsorted(singles, bounds), np.searchsorted(failed, bounds)
    return [
        _chunk(
            buffer,
            Frames(starts, lengths, frames[i].end, frames[i].damage),
            decoders[i],
            by_file[i],
            singles[cut[i] : cut[i + 1]],
            failed[cut_failed[i] : cut_failed[i + 1]].tolist(),
        )
        for i in range(len(frames))
    ]


def _chunk(
    buffer: Bytes, frames: Frames, decoder: Decoder, templated: dict[bytes, _Part], singles: Indices, bad: list[int]
) -> Chunk:
    """What one file holds: what was decoded by templates, and what its single records add.

    Args:
      buffer: bytes.
      frames: of all files; the end and the damage are this one's.
      decoder: this file's.
      templated: by tag.
      singles: indices of the records that fitted no template.
      bad: indices of the records whose CRC was wrong.
    """
    passed_over = [i for i in singles[frames.lengths[singles] >= _LARGE].tolist() if _is_other(buffer, frames, i)]
    if passed_over:
        singles = np.setdiff1d(singles, passed_over)
    sound = payloads_sound(buffer, frames.starts[singles], frames.lengths[singles])
    read = decoder.read_singly((i, _payload(buffer, frames, i)) for i in singles[sound].tolist())
    parts = {tag: [part] for tag, part in templated.items()}
    for tag, points in read.points.items():
        parts.setdefault(tag, []).append(_single_part(points, tag in read.wide))
    if passed_over:
        read.other["large record"] += len(passed_over)
    damage = [*frames.damage, *(_damaged(frames, i) for i in (*bad, *singles[~sound].tolist()))]
    columns, problems = _named(parts)
    last_wall = max([read.last_wall, *(_latest(column.wall) for column in columns.values())])
    return Chunk(
        columns=columns,
        health=tuple(read.health),
        damage=tuple(sorted(damage, key=lambda d: d.start)),
        problems=(*read.problems, *problems),
        other_records=dict(read.other),
        last_wall=last_wall if math.isfinite(last_wall) else None,
    )


def _by_template(
    buffer: Bytes,
    starts: Positions,
    index: Indices,
    length: int,
    parts: dict[bytes, list[_Part]],
    bad: list[Indices],
) -> Indices:
    """Decodes records of one length; returns those that fit no template."""
    unfit: list[Indices] = []
    # A row reaches a few bytes beyond its record: the buffer's last record may have none.
    outside = starts[index] + width(length) > len(buffer)
    if outside.any():
        unfit.append(index[outside])
        index = index[~outside]
    known = iter(_LAYOUTS.of(length))
    for _ in range(_MOST_LAYOUTS):
        if not len(index):
            break
        gatherer = next(known, None)
        if gatherer is None:
            gatherer = _new_gatherer(buffer, int(starts[index[0]]), length)
            if gatherer is None:
                unfit.append(index[:1])
                index = index[1:]
                continue
        found = gatherer.gather(buffer, starts[index])
        taken = index[found.fits]
        index = index[~found.fits]
        if len(taken):
            bad.append(taken[~found.sound])
            _add(found, taken, gatherer, parts)
    return np.concatenate([*unfit, index])


def _new_gatherer(buffer: Bytes, start: int, length: int) -> Optional[Gatherer]:
    template = wire.template(buffer[start : start + length].tobytes(), _OWN_TAGS)
    if template is None:
        return None
    gatherer = Gatherer(template)
    _LAYOUTS.add(gatherer)
    return gatherer


def _add(found: Gathered, taken: Indices, gatherer: Gatherer, parts: dict[bytes, list[_Part]]) -> None:
    """Adds the sound records to `parts`."""
    step, wall, values = found.step, found.wall, found.values
    if not found.sound.all():
        taken, step, wall = taken[found.sound], step[found.sound], wall[found.sound]
        values = [value[found.sound] for value in values]
    for place, (slot, value) in enumerate(zip(gatherer.template.values, values)):
        number = value.astype(np.float64 if slot.dtype in wire.WIDE else np.float32, copy=False)
        parts[slot.tag].append(_Part(taken * _PLACES + place, step, wall, number))


def _by_length(lengths: Positions) -> list[Indices]:
    """Indices of the records of each length, ascending."""
    if len(lengths) == 0:
        return []
    # 16-bit keys sort by radix; what is longer is rare and shares one key with its like.
    short = np.minimum(lengths, _LARGE).astype(np.uint16)
    order = np.argsort(short, kind="stable")
    edges = np.flatnonzero(np.diff(short[order])) + 1
    return np.split(order, edges)


def _single_part(points: list[tuple[int, int, int, float, float]], wide: bool) -> _Part:
    index, place, step, wall, value = zip(*points)
    return _Part(
        np.array(index, np.int64) * _PLACES + np.array(place, np.int64),
        np.array(step, np.int64),
        np.array(wall, np.float64),
        np.array(value, np.float64 if wide else np.float32),
    )


def _by_file(parts: dict[bytes, list[_Part]], bounds: Indices) -> list[dict[bytes, _Part]]:
    """What each file holds of each tag, in the order of the file.

    Args:
      parts: by tag.
      bounds: index of each file's first record, and the number of all records.
    """
    files: list[dict[bytes, _Part]] = [{} for _ in bounds[1:]]
    for tag, tag_parts in parts.items():
        whole = _merged([part for part in tag_parts if len(part.order)] or tag_parts[:1])
        if len(files) == 1:
            files[0][tag] = whole
            continue
        cut = np.searchsorted(whole.order, bounds * _PLACES).tolist()
        for i, (first, stop) in enumerate(zip(cut[:-1], cut[1:])):
            if first < stop:
                # Copies: a run that is dropped must not be kept in memory by another.
                part = slice(first, stop)
                files[i][tag] = _Part(
                    whole.order[part].copy(), whole.step[part].copy(), whole.wall[part].copy(), whole.value[part].copy()
                )
    return files


def _merged(parts: list[_Part]) -> _Part:
    """One part with the points of all, in the order of the file."""
    if len(parts) == 1:
        return parts[0]
    parts = sorted(parts, key=lambda part: int(part.order[0]))
    joined = _Part(
        np.concatenate([part.order for part in parts]),
        np.concatenate([part.step for part in parts]),
        np.concatenate([part.wall for part in parts]),
        np.concatenate([part.value for part in parts]),
    )
    if (np.diff(joined.order) > 0).all():
        return joined
    # A stable sort merges stretches that are in order already.
    place = np.argsort(joined.order, kind="stable")
    return _Part(joined.order[place], joined.step[place], joined.wall[place], joined.value[place])


def _named(parts: dict[bytes, list[_Part]]) -> tuple[dict[str, Column], list[str]]:
    """The columns by the names of their tags; says which tags are not UTF-8."""
    by_name: dict[str, list[_Part]] = collections.defaultdict(list)
    problems: list[str] = []
    for tag, tag_parts in parts.items():
        name = tag.decode("utf-8", "replace")
        if name.encode("utf-8") != tag:
            problems.append(f"tag {name!r} is not UTF-8; the bytes that are not are replaced")
        by_name[name].extend(part for part in tag_parts if len(part.order))
    merged = {name: _merged(name_parts) for name, name_parts in sorted(by_name.items()) if name_parts}
    return {name: Column(part.step, part.wall, part.value) for name, part in merged.items()}, problems


def _latest(wall: npt.NDArray[np.float64]) -> float:
    """The latest finite wall time, or -inf."""
    last = float(wall.max(initial=-math.inf))
    # NaN where there is any; then, or where it is infinite, the finite ones have to be picked.
    return last if math.isfinite(last) else float(wall[np.isfinite(wall)].max(initial=-math.inf))


def _damaged(frames: Frames, i: int) -> Damage:
    start = int(frames.starts[i])
    return Damage(start - HEADER, start + int(frames.lengths[i]) + FOOTER, "the record's checksum is wrong")


def _payload(buffer: Bytes, frames: Frames, i: int) -> bytes:
    start = int(frames.starts[i])
    return buffer[start : start + int(frames.lengths[i])].tobytes()


def _is_other(buffer: Bytes, frames: Frames, i: int) -> bool:
    """Whether a large record holds no scalar."""
    start = int(frames.starts[i])
    return not wire.may_hold_scalars(buffer[start : start + int(frames.lengths[i])].data, _OWN_TAGS)
