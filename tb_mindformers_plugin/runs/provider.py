"""Runs of a TensorBoard that has no log directory of its own, through its data provider.

Such a TensorBoard is given its data by a server. What it hands out is sampled, and has lost what
came before restarts, so every run says so.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from typing import Any, Iterable, Optional

import numpy as np
from tensorboard import context
from tensorboard.data import provider as tensorboard_provider

from tb_mindformers_plugin import metadata
from tb_mindformers_plugin.eventfile import Chunk, Column, HealthRecord
from tb_mindformers_plugin.language import Text
from tb_mindformers_plugin.roles import resolve
from tb_mindformers_plugin.runs.contents import RunContents
from tb_mindformers_plugin.runs.discovery import Discovery, Root
from tb_mindformers_plugin.runs.files import FileContents
from tb_mindformers_plugin.runs.summary import RunSummary, summarise

SAMPLED = Text(
    "Sampled: TensorBoard has no log directory here, and hands out at most some points of each curve.",
    "已抽样：此处的 TensorBoard 没有日志目录，每条曲线只给出部分点。",
)

# Asked of the provider for each series; it may hand out fewer.
_MOST_POINTS = 1_000_000
_SCALARS = "scalars"


class ProviderStore:
    """The same questions as to a `RunStore`, answered from a data provider.

    Args:
      data_provider: TensorBoard's.
      experiment: id of the experiment, "" where there is but one.
    """

    def __init__(self, data_provider: tensorboard_provider.DataProvider, experiment: str = "") -> None:
        self._provider = data_provider
        self._experiment = experiment
        self._lock = threading.Lock()
        self._refreshed: Optional[float] = None
        self.searched = (Root("TensorBoard's data provider"),)
        self.discovery = Discovery({}, 0, ())
        self.runs: dict[str, ProviderRun] = {}

    def refresh(self, max_age_seconds: float = 0.0) -> None:
        """Asks for the runs and their tags, unless that was done no longer ago than `max_age_seconds`."""
        with self._lock:
            if self._refreshed is not None and time.monotonic() - self._refreshed <= max_age_seconds:
                return
            asked = {"experiment_id": self._experiment}
            scalars = self._provider.list_scalars(context.RequestContext(), plugin_name=_SCALARS, **asked)
            own = self._provider.list_tensors(context.RequestContext(), plugin_name=metadata.PLUGIN_NAME, **asked)
            names = sorted({*scalars, *own})
            self.runs = {
                name: ProviderRun(name, self._read(name, list(scalars.get(name, {})), own.get(name, {})))
                for name in names
            }
            self._refreshed = time.monotonic()

    def summaries(self, read_all: bool = False) -> list[RunSummary]:
        """Returns what a listing says of each run, in the order of their names."""
        return [run.summary() for run in self.runs.values()]

    def load(self, names: Iterable[str]) -> dict[str, RunContents]:
        """Returns what the provider handed out of the named runs.

        Raises:
          KeyError: a run is unknown.
        """
        return {name: self.runs[name].contents for name in names}

    def glance(self, name: str) -> tuple[RunContents, bool]:
        """Returns what the provider handed out of a run, which is all that there is of it.

        Raises:
          KeyError: the run is unknown.
        """
        return self.runs[name].contents, True

    def is_active(self) -> bool:
        """Whether any run has a series with a known role, or a manifest."""
        asked = {"experiment_id": self._experiment}
        scalars = self._provider.list_scalars(context.RequestContext(), plugin_name=_SCALARS, **asked)
        return any(resolve(tags) for tags in scalars.values()) or bool(
            self._provider.list_tensors(context.RequestContext(), plugin_name=metadata.PLUGIN_NAME, **asked)
        )

    def _read(self, run: str, tags: list[str], own: Any) -> RunContents:
        contents = FileContents(run)
        health = []
        if metadata.RUN_TAG in own:
            series = own[metadata.RUN_TAG]
            health.append(HealthRecord(metadata.RUN_TAG, 0, series.max_wall_time, series.plugin_content))
        found = self._provider.read_scalars(
            context.RequestContext(),
            experiment_id=self._experiment,
            plugin_name=_SCALARS,
            downsample=_MOST_POINTS,
            run_tag_filter=tensorboard_provider.RunTagFilter(runs=[run], tags=tags),
        )
        columns = {
            tag: Column(
                np.array([point.step for point in points], np.int64),
                np.array([point.wall_time for point in points], np.float64),
                np.array([point.value for point in points], np.float32),
            )
            for tag, points in found.get(run, {}).items()
            if points
        }
        walls = [column.wall[np.isfinite(column.wall)] for column in columns.values()]
        last_wall = max((float(wall.max()) for wall in walls if len(wall)), default=None)
        if metadata.EVENTS_TAG in own:
            health += self._events(run, last_wall)
        contents.add(Chunk(columns=columns, health=tuple(health), last_wall=last_wall))
        return RunContents([contents])

    def _events(self, run: str, last_wall: Optional[float]) -> list[HealthRecord]:
        """The newest health events; not that the run ended, where it was taken up again since."""
        found = self._provider.read_tensors(
            context.RequestContext(),
            experiment_id=self._experiment,
            plugin_name=metadata.PLUGIN_NAME,
            downsample=_MOST_POINTS,
            run_tag_filter=tensorboard_provider.RunTagFilter(runs=[run], tags=[metadata.EVENTS_TAG]),
        )
        newest = found.get(run, {}).get(metadata.EVENTS_TAG, ())
        return [
            HealthRecord(metadata.EVENTS_TAG, event.step, event.wall_time, bytes(event.numpy.flat[0]))
            for event in newest
            if event.numpy.size and (last_wall is None or event.wall_time >= last_wall or not _says_end(event))
        ]


def _says_end(event: Any) -> bool:
    try:
        return bool(json.loads(event.numpy.flat[0])["kind"] == "end")
    except (ValueError, TypeError, KeyError):
        return False


class ProviderRun:
    """A run as a data provider knows it.

    Attributes:
      name: TensorBoard's name of the run.
      contents: what it handed out.
      files: none.
    """

    files: tuple[str, ...] = ()

    def __init__(self, name: str, contents: RunContents) -> None:
        self.name = name
        self.contents = contents
        found = summarise(name, contents, exact=True)
        self._summary = dataclasses.replace(found, notes=(SAMPLED, *found.notes))

    def summary(self) -> RunSummary:
        """Returns what a listing says of the run."""
        return self._summary
