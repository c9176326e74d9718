"""What an event file holds, as columns."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, Optional, Sequence

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.eventfile.framing import NO_RECORD, Damage


@dataclasses.dataclass(frozen=True)
class Column:
    """The points of one scalar tag, in the order in which they were written.

    Attributes:
      step: (n,) int64.
      wall: (n,) float64, seconds since the Unix epoch.
      value: (n,) float32, or float64 where the file holds values that float32 cannot.
    """

    step: npt.NDArray[np.int64]
    wall: npt.NDArray[np.float64]
    value: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.step)

    @property
    def arrays(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[Any]]:
        """The steps, the wall times and the values."""
        return self.step, self.wall, self.value

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.step.nbytes + self.wall.nbytes + self.value.nbytes

    def picked(self, which: Any) -> Column:
        """Some of the points: of a slice without a copy, of (k,) indices in their order."""
        return Column(self.step[which], self.wall[which], self.value[which])


@dataclasses.dataclass(frozen=True)
class HealthRecord:
    """A run manifest (`content` is the JSON of its metadata) or a health event (of its string).

    Attributes:
      tag: `metadata.RUN_TAG` or `metadata.EVENTS_TAG`.
      step: optimizer step.
      wall: seconds since the Unix epoch.
      content: the JSON, undecoded.
    """

    tag: str
    step: int
    wall: float
    content: bytes


@dataclasses.dataclass(frozen=True)
class Chunk:
    """What one look at an event file found.

    Attributes:
      anew: whether the file was read from its beginning: what was known of it is void.
      columns: tag -> points.
      health: manifests and health events, in file order.
      damage: stretches that were skipped, positions from the file's beginning.
      problems: what could not be read, each a sentence.
      other_records: values that are no scalars (graphs, images, text …), by kind.
      last_wall: latest finite wall time of any record, or None.
    """

    anew: bool = False
    columns: dict[str, Column] = dataclasses.field(default_factory=dict)
    health: tuple[HealthRecord, ...] = ()
    damage: tuple[Damage, ...] = ()
    problems: tuple[str, ...] = ()
    other_records: dict[str, int] = dataclasses.field(default_factory=dict)
    last_wall: Optional[float] = None

    @property
    def empty(self) -> bool:
        """Whether the look found nothing new at all."""
        return self is NOTHING or self == NOTHING


#: What a look at a file that did not change finds.
NOTHING = Chunk()


def joined(chunks: Sequence[Chunk]) -> Chunk:
    """Returns one chunk that holds what `chunks`, in file order, hold."""
    if len(chunks) == 1:
        return chunks[0]
    columns: dict[str, list[Column]] = collections.defaultdict(list)
    other: collections.Counter[str] = collections.Counter()
    for chunk in chunks:
        for tag, column in chunk.columns.items():
            columns[tag].append(column)
        other.update(chunk.other_records)
    return Chunk(
        columns={tag: joined_columns(parts) for tag, parts in columns.items()},
        health=tuple(record for chunk in chunks for record in chunk.health),
        damage=joined_damage([chunk.damage for chunk in chunks]),
        problems=tuple(dict.fromkeys(problem for chunk in chunks for problem in chunk.problems)),
        other_records=dict(other),
        last_wall=max((chunk.last_wall for chunk in chunks if chunk.last_wall is not None), default=None),
    )


def joined_damage(parts: Sequence[Sequence[Damage]]) -> tuple[Damage, ...]:
    """Returns all damage of the parts of a file; a stretch without a record that goes on from part to part is one."""
    found: list[Damage] = []
    for damage in parts:
        if found and damage and found[-1].stop == damage[0].start and found[-1].reason == damage[0].reason == NO_RECORD:
            found[-1] = dataclasses.replace(found[-1], stop=damage[0].stop)
            damage = damage[1:]
        found.extend(damage)
    return tuple(found)


def joined_columns(parts: Sequence[Column]) -> Column:
    """Returns one column with the points of `parts`, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return Column(
        np.concatenate([part.step for part in parts]),
        np.concatenate([part.wall for part in parts]),
        np.concatenate([part.value for part in parts]),
    )
