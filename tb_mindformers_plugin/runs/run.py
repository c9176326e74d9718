"""One run: what its event files hold, as series with roles."""

from __future__ import annotations

import collections
import dataclasses
import os
import threading
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin import metadata
from tb_mindformers_plugin.eventfile import Column, Damage, EventFile
from tb_mindformers_plugin.eventfile.columns import joined_columns
from tb_mindformers_plugin.metadata import HealthEvent, ManifestError, RunManifest
from tb_mindformers_plugin.roles import RoleMatch, framework_of, resolve
from tb_mindformers_plugin.runs.discovery import RunFiles
from tb_mindformers_plugin.runs.segments import Segmentation, segment


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


class _File:
    """An event file and what was read of it."""

    def __init__(self, path: str) -> None:
        self.source = EventFile(path)
        self.problem: Optional[str] = None
        self.clear()

    def clear(self) -> None:
        self.columns: dict[str, list[Column]] = collections.defaultdict(list)
        self.manifests: list[RunManifest] = []
        self.events: list[HealthEvent] = []
        self.damage: list[Damage] = []
        self.problems: list[str] = []
        self.last_wall: Optional[float] = None

    @property
    def name(self) -> str:
        return os.path.basename(self.source.path)

    def read(self) -> bool:
        """Takes in what the file gained; returns whether there was anything."""
        try:
            chunk = self.source.read()
        except OSError as error:
            problem = f"{self.name} cannot be read: {error.strerror or error}"
            news = self.problem != problem
            self.problem = problem
            return news
        changed = self.problem is not None or not chunk.empty
        self.problem = None
        if chunk.anew:
            self.clear()
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
        return changed

    def steps(self) -> tuple[Optional[int], Optional[int]]:
        """First step as written and last step as reached, over all series; None where there is none."""
        columns = [column for chunks in self.columns.values() for column in chunks if len(column)]
        if not columns:
            return None, None
        return min(int(c.step[0]) for c in columns), max(int(c.step.max()) for c in columns)


class Run:
    """A run of a logdir. Its methods may be called from several threads.

    Attributes:
      name: TensorBoard's name of the run.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.RLock()
        self._files: dict[str, _File] = {}
        self._forget()

    def update(self, files: RunFiles) -> bool:
        """Reads what the run's event files gained; returns whether that was anything."""
        with self._lock:
            changed = list(self._files) != list(files.files)
            self._files = {path: self._files.get(path) or _File(path) for path in files.files}
            for file in self._files.values():
                changed = file.read() or changed
            if changed:
                self._forget()
            return changed

    def _forget(self) -> None:
        """Drops what was derived from the files."""
        self._segmentations: dict[str, tuple[Column, Segmentation]] = {}
        self._roles: Optional[dict[str, RoleMatch]] = None
        self._restarts: Optional[list[Optional[int]]] = None

    @property
    def manifest(self) -> RunManifest:
        """The newest manifest that could be read; an empty one where there is none."""
        return next((m for f in reversed(self._file_list()) for m in reversed(f.manifests)), RunManifest())

    @property
    def has_manifest(self) -> bool:
        """Whether a manifest of the run could be read."""
        return any(file.manifests for file in self._file_list())

    @property
    def events(self) -> list[HealthEvent]:
        """Health events in the order of writing."""
        return [event for file in self._file_list() for event in file.events]

    @property
    def ended(self) -> Optional[HealthEvent]:
        """The ``end`` event of the newest start, if it has one."""
        for file in reversed(self._file_list()):
            ends = [event for event in file.events if event.kind == "end"]
            if ends:
                return ends[-1]
            if file.manifests or file.columns:
                return None
        return None

    @property
    def tags(self) -> list[str]:
        """Scalar tags, sorted."""
        return sorted({tag for file in self._file_list() for tag in file.columns})

    @property
    def roles(self) -> dict[str, RoleMatch]:
        """Role -> the series that plays it."""
        with self._lock:
            if self._roles is None:
                manifest = self.manifest
                self._roles = resolve(self.tags, manifest.roles, manifest.units)
            return self._roles

    @property
    def framework(self) -> Optional[str]:
        """The framework whose names the tags follow, where that can be told."""
        return framework_of(self.tags)

    @property
    def first_wall(self) -> float:
        """Earliest finite wall time of a point (0 where there is none)."""
        walls = [c.wall for file in self._file_list() for chunks in file.columns.values() for c in chunks]
        finite = [float(w[np.isfinite(w)].min()) for w in walls if np.isfinite(w).any()]
        return min(finite, default=0.0)

    @property
    def last_wall(self) -> Optional[float]:
        """Latest finite wall time of any record."""
        walls = [file.last_wall for file in self._file_list() if file.last_wall is not None]
        return max(walls, default=None)

    @property
    def damage(self) -> list[tuple[str, Damage]]:
        """(file name, stretch) that was skipped for being damaged."""
        return [(file.name, damage) for file in self._file_list() for damage in file.damage]

    @property
    def problems(self) -> list[str]:
        """What could not be read, each a sentence."""
        files = self._file_list()
        return [f.problem for f in files if f.problem] + [p for f in files for p in f.problems]

    @property
    def files(self) -> list[str]:
        """Paths of the event files, in reading order."""
        return [file.source.path for file in self._file_list()]

    def current(self, role: str) -> Optional[Segment]:
        """Returns the curve of `role`, or None where the run has none."""
        match = self.roles.get(role)
        return None if match is None else self.segments(match.tag)[0]

    def segments(self, tag: str) -> list[Segment]:
        """Returns the series of `tag`: first its curve, then what was superseded.

        Raises:
          KeyError: the run has no such series.
        """
        column, found = self.segmentation(tag)
        rest = [*found.superseded, *(s for s in (found.repeated, found.stray) if len(s))]
        return [_segment(column, found.current, True), *(_segment(column, indices, False) for indices in rest)]

    def segmentation(self, tag: str) -> tuple[Column, Segmentation]:
        """Returns all points of `tag` in the order of writing, and how they fall into segments.

        Raises:
          KeyError: the run has no such series.
        """
        with self._lock:
            if tag not in self._segmentations:
                columns: list[Column] = []
                starts: list[int] = []
                total = 0
                for file in self._files.values():
                    starts.append(total)
                    columns.extend(file.columns.get(tag, ()))
                    total = sum(len(column) for column in columns)
                if not columns:
                    raise KeyError(tag)
                whole = joined_columns(columns)
                self._segmentations[tag] = (whole, segment(whole.step, starts, self._file_restarts()))
            return self._segmentations[tag]

    def _file_restarts(self) -> list[Optional[int]]:
        """For each file, the step at which it takes the run up again (None: it just goes on).

        A property of the run, not of a series: a loss that resumed at step 60 also supersedes the
        eval loss of step 80, which is not written again before step 100.
        """
        if self._restarts is None:
            self._restarts = []
            reached: Optional[int] = None
            for file in self._files.values():
                first, last = file.steps()
                resumed = file.manifests[0].resumed_from if file.manifests else None
                restart = None
                if reached is not None and resumed is not None:
                    restart = resumed + 1
                elif reached is not None and first is not None and first <= reached:
                    restart = first
                self._restarts.append(restart)
                if last is not None:
                    reached = last if reached is None or restart is not None else max(reached, last)
        return self._restarts

    def _file_list(self) -> list[_File]:
        with self._lock:
            return list(self._files.values())


def _segment(column: Column, indices: npt.NDArray[np.int64], current: bool) -> Segment:
    if len(indices) == len(column) and current:
        return Segment(current, column.step, column.wall, column.value)
    return Segment(current, column.step[indices], column.wall[indices], column.value[indices])
