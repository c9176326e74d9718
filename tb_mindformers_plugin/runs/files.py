"""What the event files of a run hold, file by file. Nothing here reads files."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, NamedTuple, Optional, Sequence

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin import metadata
from tb_mindformers_plugin.eventfile import Chunk, Column, Damage
from tb_mindformers_plugin.eventfile.columns import joined_damage
from tb_mindformers_plugin.metadata import HealthEvent, ManifestError, RunManifest
from tb_mindformers_plugin.runs.growing import Growing
from tb_mindformers_plugin.runs.segments import WRAP, unwrapped


class Extent(NamedTuple):
    """The least and the greatest finite number of a column's first points; inf and -inf where there is none."""

    points: int
    low: float
    high: float


class FileContents:
    """What was read of one event file.

    Attributes:
      origin: the same for all states of one file, which differ in nothing but how far they reach.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.origin = object()
        self.columns: dict[str, Column] = {}
        self.manifests: list[RunManifest] = []
        self.events: list[HealthEvent] = []
        self.damage: Sequence[Damage] = ()
        self.problems: list[str] = []
        #: Why the file cannot be read at this moment.
        self.unreadable: Optional[str] = None
        self.last_wall: Optional[float] = None
        self._growing: dict[str, Growing] = {}
        # Shared by all states of the file: each says how many points it is of.
        self._extents: dict[tuple[str, str], Extent] = {}

    def add(self, chunk: Chunk) -> None:
        """Takes in what the file gained."""
        for tag, column in chunk.columns.items():
            self.columns[tag] = self._longer(tag, column) if tag in self.columns else column
        for record in chunk.health:
            try:
                if record.tag == metadata.RUN_TAG:
                    self.manifests.append(metadata.parse_summary_metadata(record.content))
                else:
                    self.events.append(metadata.parse_event(record.content, record.step, record.wall))
            except ManifestError as error:
                self.problems.append(str(error))
        self.damage = joined_damage([self.damage, chunk.damage])
        self.problems.extend(f"{self.name}: {problem}" for problem in chunk.problems)
        if chunk.last_wall is not None:
            self.last_wall = max(chunk.last_wall, self.last_wall or chunk.last_wall)

    def _longer(self, tag: str, more: Column) -> Column:
        known = self._growing.get(tag) or Growing(self.columns[tag].arrays)
        self._growing[tag] = known.longer(more.arrays)
        return Column(*self._growing[tag].arrays)

    def snapshot(self) -> FileContents:
        """Returns a copy that stays as it is when more is added here; the points are shared."""
        taken = FileContents(self.name)
        taken.origin, taken._extents = self.origin, self._extents
        taken.columns, taken._growing = dict(self.columns), dict(self._growing)
        taken.manifests, taken.events = list(self.manifests), list(self.events)
        taken.damage, taken.problems = self.damage, list(self.problems)
        taken.last_wall, taken.unreadable = self.last_wall, self.unreadable
        return taken

    def with_steps(self, columns: dict[str, Column]) -> FileContents:
        """Returns a copy in which some columns are others."""
        taken = self.snapshot()
        taken._extents = {key: extent for key, extent in self._extents.items() if key[1] not in columns}
        taken.columns.update(columns)
        return taken

    def spans(self) -> dict[str, tuple[int, int]]:
        """First step as written and last step as reached, by tag."""
        return {tag: (int(column.step[0]), int(self.extent(tag, "step").high)) for tag, column in self.columns.items()}

    def extent(self, tag: str, field: Literal["step", "wall"]) -> Extent:
        """Returns between what the steps or the wall times of a tag lie; costs what is new since it was last asked."""
        values = getattr(self.columns[tag], field)
        known = self._extents.get((field, tag), _NOTHING)
        if known.points > len(values):  # this is an earlier state than the one that was asked last
            return _extended(_NOTHING, values)
        if known.points < len(values):
            known = self._extents[field, tag] = _extended(known, values)
        return known

    def walls(self) -> tuple[float, float]:
        """Returns the first and the last finite wall time of a point; inf and -inf where there is none."""
        extents = [self.extent(tag, "wall") for tag in self.columns]
        lows, highs = (extent.low for extent in extents), (extent.high for extent in extents)
        return min(lows, default=math.inf), max(highs, default=-math.inf)

    @property
    def nbytes(self) -> int:
        """Bytes of the columns, with the room that they have to grow."""
        return sum((self._growing.get(tag) or column).nbytes for tag, column in self.columns.items())


_NOTHING = Extent(0, math.inf, -math.inf)


def _extended(known: Extent, values: npt.NDArray[Any]) -> Extent:
    new = values[known.points :]
    low, high = np.minimum.reduce(new).item(), np.maximum.reduce(new).item()
    if values.dtype.kind == "f" and not (math.isfinite(low) and math.isfinite(high)):
        new = new[np.isfinite(new)]
        low, high = np.min(new, initial=math.inf).item(), np.max(new, initial=-math.inf).item()
    return Extent(len(values), min(known.low, low), max(known.high, high))


def with_meant_steps(files: Sequence[FileContents]) -> tuple[list[FileContents], frozenset[str]]:
    """Returns the files with steps that overflowed 32 bits as they were meant, and the tags that have such.

    A resumed run goes on overflowing.
    """
    found = list(files)
    negative = {tag for file in files for tag in file.columns if file.extent(tag, "step").low < 0}
    overflown = frozenset(
        tag for tag in negative if _reach([file for file in files if tag in file.columns], tag) > WRAP
    )
    for tag in overflown:
        holding = [i for i, file in enumerate(found) if tag in file.columns]
        columns = [found[i].columns[tag] for i in holding]
        step = unwrapped(np.concatenate([column.step for column in columns]))
        for i, column in zip(holding, columns):
            found[i] = found[i].with_steps({tag: dataclasses.replace(column, step=step[: len(column)])})
            step = step[len(column) :]
    return found, overflown


def _reach(files: Sequence[FileContents], tag: str) -> float:
    """How far the least and the greatest step of a tag lie apart."""
    extents = [file.extent(tag, "step") for file in files]
    return max(extent.high for extent in extents) - min(extent.low for extent in extents)
