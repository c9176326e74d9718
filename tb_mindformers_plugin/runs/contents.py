"""What the event files of one run hold, as series with roles. Nothing here reads files."""

from __future__ import annotations

import copy
import functools
import math
from typing import Optional, Sequence, Tuple

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.eventfile import Column
from tb_mindformers_plugin.metadata import HealthEvent, RunManifest
from tb_mindformers_plugin.roles import Given, RoleMatch, framework_of, resolve
from tb_mindformers_plugin.runs.files import FileContents, with_meant_steps
from tb_mindformers_plugin.runs.growing import Kept
from tb_mindformers_plugin.runs.pauses import Pauses, find_pauses
from tb_mindformers_plugin.runs.series import Breaks, Segment, Series
from tb_mindformers_plugin.runs.writers import writers

__all__ = ["RunContents", "Segment"]


class RunContents:
    """The series of one run, joined over its event files.

    It may be asked by several threads: what it was given does not change any more.

    Args:
      files: snapshots, in TensorBoard's reading order.
      before: what the run held when it was looked at before: where it just went on, only what is new is
        new work.
    """

    def __init__(self, files: Sequence[FileContents], before: Optional[RunContents] = None) -> None:
        self._files, self._overflown = with_meant_steps(files)
        self._read_bytes = sum(file.nbytes for file in self._files)
        self._writers = writers(self._files)
        self._restarts = [self._file_restarts(writer) for writer in range(max(self._writers, default=0) + 1)]
        self._series: dict[str, Series] = {} if before is None else self._continued(before)
        manifests = [manifest for file in self._files for manifest in file.manifests]
        #: The newest manifest that could be read; an empty one where there is none.
        self.manifest: RunManifest = manifests[-1] if manifests else RunManifest()
        self.has_manifest = bool(manifests)
        #: Health events in the order of writing.
        self.events = [event for file in self._files for event in file.events]
        #: Scalar tags, sorted.
        self.tags = sorted({tag for file in self._files for tag in file.columns})
        #: Role -> the series that plays it.
        self.roles: dict[str, RoleMatch] = self._resolve(())
        #: The framework whose names the tags follow, where that can be told.
        self.framework = _framework(tuple(self.tags))
        #: (file name, stretch) that was skipped for being damaged.
        self.damage = [(file.name, damage) for file in self._files for damage in file.damage]
        #: Files that cannot be read at this moment, each a sentence.
        self.unreadable = [file.unreadable for file in self._files if file.unreadable]
        #: What else could not be read, each a sentence.
        self.problems = [problem for file in self._files for problem in file.problems]

    def with_roles(self, given: Given) -> RunContents:
        """Returns the run with the roles that whoever looks gave to tags; this one where it has none of them.

        The two share their points and what was made of them.
        """
        if not {tag for _, tag in given}.intersection(self.tags):
            return self
        other = copy.copy(self)
        other.__dict__.pop("pauses", None)  # which another role may tell
        other.roles = self._resolve(given)
        return other

    def _resolve(self, given: Given) -> dict[str, RoleMatch]:
        named = tuple(self.manifest.roles.items()), tuple(self.manifest.units.items())
        return dict(_resolved(tuple(self.tags), *named, tuple(given)))

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
        first = min((file.walls()[0] for file in self._files), default=math.inf)
        return first if math.isfinite(first) else 0.0

    @property
    def first_step(self) -> int:
        """The step at which the curve of its first role begins: of its loss, where it has one (0 where it has none)."""
        curve = self.current(next(iter(self.roles), ""))
        return 0 if curve is None or not len(curve) else int(curve.step[0])

    @functools.cached_property
    def pauses(self) -> Pauses:
        """When nothing was running, as the points of its first role tell."""
        match = next(iter(self.roles.values()), None)
        segments = [] if match is None else self.segments(match.tag)
        walls = np.concatenate([segment.wall for segment in segments]) if segments else np.empty(0)
        starts = sorted(first for first, _ in (file.walls() for file in self._files) if math.isfinite(first))
        return find_pauses(walls, starts[1:])

    @property
    def last_wall(self) -> Optional[float]:
        """Latest finite wall time of any record."""
        walls = [file.last_wall for file in self._files if file.last_wall is not None]
        return max(walls, default=None)

    @property
    def nbytes(self) -> int:
        """Bytes that the columns take, those of joined restarts and of smoothing included."""
        return self._read_bytes + sum(series.nbytes for series in list(self._series.values()))

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
        return self._series_of(tag).segments

    def smoothed(self, tag: str, place: int, decay: float) -> npt.NDArray[np.float32]:
        """Returns the bias-corrected EMA of one segment of `tag`, over all of its points.

        The last one of each segment is kept: zooming and panning ask for it again and again.

        Args:
          tag: the series.
          place: of the segment in `segments(tag)`.
          decay: in [0, 1).
        """
        return self._series_of(tag).smoothed(place, decay)

    def kept(self, tag: str) -> Kept:
        """Returns what was worked out of the points of the curve of `tag`, to be added to.

        It goes on with the run: while a series just grows, what is known of its first points is not lost.

        Raises:
          KeyError: the run has no such series.
        """
        return self._series_of(tag).kept

    def segmentation(self, tag: str) -> Breaks:
        """Returns where the points of `tag` by the run's first writer, in the order of writing, fall apart.

        Raises:
          KeyError: the run has no such series.
        """
        return self._series_of(tag).breaks

    def _series_of(self, tag: str) -> Series:
        known = self._series.get(tag)
        if known is None:
            if not any(tag in file.columns for file in self._files):
                raise KeyError(tag)
            known = self._series[tag] = Series.of(self._columns(tag), self._restarts)
        return known

    def _columns(self, tag: str) -> list[list[Optional[Column]]]:
        """For each writer the points of a series in each of its files."""
        found: list[list[Optional[Column]]] = [[] for _ in self._restarts]
        for file, writer in zip(self._files, self._writers):
            found[writer].append(file.columns.get(tag))
        return found

    def _continued(self, before: RunContents) -> dict[str, Series]:
        """The series that an earlier state of this run had cut into segments, and that just went on since."""
        mine, others = ([file.origin for file in some._files] for some in (self, before))
        same_files = len(mine) == len(others) and all(a is b for a, b in zip(mine, others))
        if not same_files or (self._writers, self._restarts) != (before._writers, before._restarts):
            return {}
        known = {tag: series.continued(self._columns(tag)) for tag, series in list(before._series.items())}
        # Steps that overflowed are other arrays each time.
        return {tag: series for tag, series in known.items() if series is not None and tag not in self._overflown}

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
def _resolved(tags: tuple[str, ...], roles: _Pairs, units: _Pairs, given: _Pairs) -> tuple[tuple[str, RoleMatch], ...]:
    """The roles of `tags`: runs of one project log the same."""
    return tuple(resolve(tags, dict(roles), dict(units), given).items())


@functools.lru_cache(maxsize=256)
def _framework(tags: tuple[str, ...]) -> Optional[str]:
    return framework_of(tags)
