"""What the event files of one run hold, as series with roles. Nothing here reads files."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from typing import Any, Optional, Sequence, Tuple

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin import metadata
from tb_mindformers_plugin.eventfile import Chunk, Column, Damage
from tb_mindformers_plugin.eventfile.columns import joined_columns
from tb_mindformers_plugin.metadata import HealthEvent, ManifestError, RunManifest
from tb_mindformers_plugin.roles import RoleMatch, framework_of, resolve
from tb_mindformers_plugin.runs.segments import Segmentation, segment, unwrapped
from tb_mindformers_plugin.runs.smoothing import ema
from tb_mindformers_plugin.runs.writers import writers


@dataclasses.dataclass(frozen=True)
class Segment:
    """Points of a series, ascending in step.

    Attributes:
      current: whether it is the curve; else a restart superseded it (or the step was written again).
      step: (n,) int64.
      wall: (n,) float64, seconds since the Unix epoch.
      value: (n,) float32 or float64.
    """

    current: bool
    step: npt.NDArray[np.int64]
    wall: npt.NDArray[np.float64]
    value: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.step)


class FileContents:
    """What was read of one event file."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.columns: dict[str, list[Column]] = collections.defaultdict(list)
        self.manifests: list[RunManifest] = []
        self.events: list[HealthEvent] = []
        self.damage: list[Damage] = []
        self.problems: list[str] = []
        self.last_wall: Optional[float] = None

    def add(self, chunk: Chunk) -> None:
        """Takes in what the file gained."""
        for tag, column in chunk.columns.items():
            self.columns[tag].append(column)
        for record in chunk.health:
            try:
                if record.tag == metadata.RUN_TAG:
                    self.manifests.append(metadata.parse_summary_metadata(record.content))
                else:
                    self.events.append(metadata.parse_event(record.content, record.step, record.wall))
            except ManifestError as error:
                self.problems.append(str(error))
        self.damage.extend(chunk.damage)
        self.problems.extend(f"{self.name}: {problem}" for problem in chunk.problems)
        if chunk.last_wall is not None:
            self.last_wall = max(chunk.last_wall, self.last_wall or chunk.last_wall)

    def snapshot(self) -> FileContents:
        """Returns a copy that stays as it is when more is added here; the points are shared."""
        taken = FileContents(self.name)
        for tag, parts in self.columns.items():
            if len(parts) > 1:
                parts[:] = [joined_columns(parts)]  # pieces that came one by one become one
            taken.columns[tag] = list(parts)
        taken.manifests, taken.events = list(self.manifests), list(self.events)
        taken.damage, taken.problems = list(self.damage), list(self.problems)
        taken.last_wall = self.last_wall
        return taken

    def column(self, tag: str) -> Optional[Column]:
        """The points of `tag`, or None where there are none."""
        parts = self.columns.get(tag)
        return joined_columns(parts) if parts else None

    def spans(self) -> dict[str, tuple[int, int]]:
        """First step as written and last step as reached, by tag."""
        return {
            tag: (int(parts[0].step[0]), max(int(part.step.max()) for part in parts))
            for tag, parts in self.columns.items()
            if parts
        }

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        return sum(c.nbytes for chunks in self.columns.values() for c in chunks)


class RunContents:
    """The series of one run, joined over its event files.

    It may be asked by several threads: what it was given does not change any more.

    Args:
      files: snapshots, in TensorBoard's reading order.
    """

    def __init__(self, files: Sequence[FileContents]) -> None:
        self._files = _unwrapped(files)
        self._segments: dict[str, tuple[list[Segment], Segmentation]] = {}
        self._read_bytes = sum(file.nbytes for file in self._files)
        self._copied: dict[str, int] = {}
        self._smoothed: dict[tuple[str, int], tuple[float, npt.NDArray[np.float32]]] = {}
        self._writers = writers([file.columns for file in self._files])
        self._restarts = [self._file_restarts(writer) for writer in range(max(self._writers, default=0) + 1)]
        manifests = [manifest for file in self._files for manifest in file.manifests]
        #: The newest manifest that could be read; an empty one where there is none.
        self.manifest: RunManifest = manifests[-1] if manifests else RunManifest()
        self.has_manifest = bool(manifests)
        #: Health events in the order of writing.
        self.events = [event for file in self._files for event in file.events]
        #: Scalar tags, sorted.
        self.tags = sorted({tag for file in self._files for tag in file.columns})
        named = tuple(self.manifest.roles.items()), tuple(self.manifest.units.items())
        roles, framework = _resolved(tuple(self.tags), *named)
        #: Role -> the series that plays it.
        self.roles: dict[str, RoleMatch] = dict(roles)
        #: The framework whose names the tags follow, where that can be told.
        self.framework = framework
        #: (file name, stretch) that was skipped for being damaged.
        self.damage = [(file.name, damage) for file in self._files for damage in file.damage]
        #: What could not be read, each a sentence.
        self.problems = [problem for file in self._files for problem in file.problems]

    @property
    def ended(self) -> Optional[HealthEvent]:
        """The ``end`` event of the newest start, if it has one."""
        for file in reversed(self._files):
            ends = [event for event in file.events if event.kind == "end"]
            if ends:
                return ends[-1]
            if file.manifests or file.columns:
                return None
        return None

    @property
    def first_wall(self) -> float:
        """Earliest finite wall time of a point (0 where there is none)."""
        walls = [c.wall for file in self._files for chunks in file.columns.values() for c in chunks]
        finite = [float(w[np.isfinite(w)].min()) for w in walls if np.isfinite(w).any()]
        return min(finite, default=0.0)

    @property
    def last_wall(self) -> Optional[float]:
        """Latest finite wall time of any record."""
        walls = [file.last_wall for file in self._files if file.last_wall is not None]
        return max(walls, default=None)

    @property
    def nbytes(self) -> int:
        """Bytes that the columns take, those of joined restarts and of smoothing included."""
        smoothed = sum(values.nbytes for _, values in list(self._smoothed.values()))
        return self._read_bytes + sum(list(self._copied.values())) + smoothed

    @property
    def second_writers(self) -> list[str]:
        """Names of the files that another process wrote while the run's first one was writing."""
        return [file.name for file, writer in zip(self._files, self._writers) if writer > 0]

    def current(self, role: str) -> Optional[Segment]:
        """Returns the curve of `role`, or None where the run has none."""
        match = self.roles.get(role)
        return None if match is None else self.segments(match.tag)[0]

    def segments(self, tag: str) -> list[Segment]:
        """Returns the series of `tag`: first its curve, then what was superseded.

        Where several processes wrote at the same time, each has a curve of its own.

        Raises:
          KeyError: the run has no such series.
        """
        return self._segmented(tag)[0]

    def smoothed(self, tag: str, place: int, decay: float) -> npt.NDArray[np.float32]:
        """Returns the bias-corrected EMA of one segment of `tag`, over all of its points.

        The last one of each segment is kept: zooming and panning ask for it again and again.

        Args:
          tag: the series.
          place: of the segment in `segments(tag)`.
          decay: in [0, 1).
        """
        known = self._smoothed.get((tag, place))
        if known is None or known[0] != decay:
            known = decay, ema(self.segments(tag)[place].value, decay).astype(np.float32)
            self._smoothed[tag, place] = known
        return known[1]

    def segmentation(self, tag: str) -> Segmentation:
        """Returns how the points of `tag` by the run's first writer, in the order of writing, fall apart.

        Raises:
          KeyError: the run has no such series.
        """
        return self._segmented(tag)[1]

    def _segmented(self, tag: str) -> tuple[list[Segment], Segmentation]:
        if tag not in self._segments:
            segments: list[Segment] = []
            first: Optional[Segmentation] = None
            copied = 0
            for writer, restarts in enumerate(self._restarts):
                columns = [file.column(tag) for file, w in zip(self._files, self._writers) if w == writer]
                parts = [column for column in columns if column is not None]
                if not parts:
                    continue
                whole = joined_columns(parts)
                starts = list(itertools.accumulate((len(column or ()) for column in columns), initial=0))[:-1]
                found = segment(whole.step, starts, restarts)
                first = first or found
                segments.extend(_segments_of(whole, found))
                if len(parts) > 1 or len(found.current) < len(whole):
                    copied += whole.nbytes + found.current.nbytes
            if first is None:
                raise KeyError(tag)
            # The curves first: the answer's first segment is the series' curve.
            segments.sort(key=lambda s: not s.current)
            self._segments[tag] = (segments, first)
            self._copied[tag] = copied
        return self._segments[tag]

    def _file_restarts(self, writer: int) -> list[Optional[int]]:
        """For each file of a writer, the step at which it takes the run up again (None: it just goes on).

        A property of the run, not of a series: a loss that resumed at step 60 also supersedes the
        eval loss of step 80, which is not written again before step 100.
        """
        mine = [file for file, other in zip(self._files, self._writers) if other == writer]
        if len(mine) < 2:
            return [None for _ in mine]
        found: list[Optional[int]] = []
        reached: dict[str, int] = {}
        for file in mine:
            spans = file.spans()
            resumed = file.manifests[0].resumed_from if file.manifests else None
            # A file of other series goes on beside this one: only a series that both have can go back.
            back = [first for tag, (first, _) in spans.items() if first <= reached.get(tag, first - 1)]
            restart = min(back, default=None)
            if reached and resumed is not None:
                restart = resumed + 1
            found.append(restart)
            if restart is not None:
                reached = {tag: min(step, restart - 1) for tag, step in reached.items()}
            for tag, (_, last) in spans.items():
                reached[tag] = max(last, reached.get(tag, last))
        return found


_Pairs = Tuple[Tuple[str, str], ...]


@functools.lru_cache(maxsize=256)
def _resolved(
    tags: tuple[str, ...], roles: _Pairs, units: _Pairs
) -> tuple[tuple[tuple[str, RoleMatch], ...], Optional[str]]:
    """The roles of `tags` and the framework: runs of one project log the same."""
    return tuple(resolve(tags, dict(roles), dict(units)).items()), framework_of(tags)


def _unwrapped(files: Sequence[FileContents]) -> list[FileContents]:
    """The files with steps that overflowed 32 bits as they were meant: a resumed run goes on overflowing."""
    found = list(files)
    for tag in {tag for file in files for tag, parts in file.columns.items() if any(_negative(part) for part in parts)}:
        columns = [file.column(tag) for file in found]
        step = unwrapped(np.concatenate([column.step for column in columns if column is not None]))
        for i, column in enumerate(columns):
            if column is not None:
                found[i] = found[i] if found[i] is not files[i] else files[i].snapshot()
                found[i].columns[tag] = [dataclasses.replace(column, step=step[: len(column)])]
                step = step[len(column) :]
    return found


def _negative(column: Column) -> bool:
    return len(column) > 0 and bool(np.minimum.reduce(column.step) < 0)


def _segments_of(column: Column, found: Segmentation) -> list[Segment]:
    if len(found.current) == len(column):
        curve = Segment(True, column.step, column.wall, column.value)  # as it is, without a copy
    else:
        curve = _picked(column, found.current, True)
    rest = [*found.superseded, *(indices for indices in (found.repeated, found.stray) if len(indices))]
    return [curve, *(_picked(column, indices, False) for indices in rest)]


def _picked(column: Column, indices: npt.NDArray[np.int64], current: bool) -> Segment:
    return Segment(current, column.step[indices], column.wall[indices], column.value[indices])
