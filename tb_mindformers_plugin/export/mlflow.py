"""Runs into MLflow, through its own client."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any, Iterator, Mapping, Optional, Sequence, Tuple

import numpy as np

from tb_mindformers_plugin.compare.settings import settings_of
from tb_mindformers_plugin.export.table import ExportError, as_utf8, points_of
from tb_mindformers_plugin.runs.contents import RunContents

# What one call of MLflow's takes.
_METRICS, _PARAMETERS = 1000, 100
_LONGEST_NAME = 250
_LONGEST_VALUE = 6000

_STATUS = {"completed": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}


class MlflowExport:
    """An experiment of a tracking server that takes runs.

    Args:
      tracking_uri: where the server or the store is; None: where MLflow's own settings say.
      experiment: its name; made where it is missing.

    Raises:
      ExportError: mlflow is not installed, or the server does not answer as it should.
    """

    def __init__(self, tracking_uri: Optional[str], experiment: str) -> None:
        try:
            import mlflow
        except ImportError as error:
            raise ExportError(
                "the export to MLflow needs mlflow, which is not installed: pip install 'tb-mindformers-plugin[mlflow]'"
            ) from error
        self._entities = mlflow.entities
        with self._said():
            self._client = mlflow.MlflowClient(tracking_uri)
            known = self._client.get_experiment_by_name(experiment)
            self._experiment = self._client.create_experiment(experiment) if known is None else known.experiment_id

    def add(self, name: str, run: RunContents, roles: Optional[Sequence[str]] = None) -> str:
        """Adds a run: its curves as metrics, its manifest as parameters. Returns its id there.

        A tag is a metric's name, with ``_`` for what MLflow does not take. Of a run that cannot be added as a whole
        nothing stays.

        Args:
          name: TensorBoard's name of the run.
          run: what was read of it.
          roles: the roles that are wanted; None: every series.

        Raises:
          ExportError: the server does not take it.
        """
        start, end = _times(run)
        with self._said():
            tags = {"training_health.run": as_utf8(name)}
            made = self._client.create_run(self._experiment, start_time=start, tags=tags, run_name=as_utf8(name))
            identity = str(made.info.run_id)
            try:
                for parameters in _parts(list(_parameters(self._entities, run)), _PARAMETERS):
                    self._client.log_batch(identity, params=parameters)
                for metrics in _parts(_metrics(self._entities, name, run, roles), _METRICS):
                    self._client.log_batch(identity, metrics=metrics)
                self._client.set_terminated(identity, _status(run), end)
            except BaseException:
                with contextlib.suppress(Exception):
                    self._client.delete_run(identity)
                raise
        return identity

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        """Turns what MLflow raises into an ExportError."""
        try:
            yield
        except Exception as error:  # its client raises what its store and its transport raise
            raise ExportError(f"MLflow: {type(error).__name__}: {error}") from error


def _times(run: RunContents) -> Tuple[int, int]:
    """When the run began and ended, in milliseconds since the Unix epoch."""
    start = max(int(run.first_wall * 1000), 0)
    return start, max(int((run.last_wall or 0) * 1000), start)


def _status(run: RunContents) -> str:
    """FINISHED, FAILED or KILLED as its writer said; RUNNING where it writes manifests and has not said yet."""
    if run.ended is not None:
        return _STATUS.get(str(run.ended.fields.get("status")), "FINISHED")
    return "RUNNING" if run.has_manifest else "FINISHED"


def _parameters(entities: Any, run: RunContents) -> Iterator[Any]:
    found: Mapping[str, Any] = settings_of(run.manifest) if run.has_manifest else {}
    for name, value in found.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        yield entities.Param(_name(name), as_utf8(text)[:_LONGEST_VALUE])


def _metrics(entities: Any, name: str, run: RunContents, roles: Optional[Sequence[str]]) -> Iterator[Any]:
    keys: dict[str, str] = {}
    for points in points_of(name, run, roles, superseded=False):
        key = _name(points.tag)
        # Two tags that MLflow cannot tell apart stay two metrics.
        while keys.setdefault(key, points.tag) != points.tag:
            key = key[: _LONGEST_NAME - 1] + "_"
        wall = np.where(np.isfinite(points.wall_time), np.maximum(points.wall_time, 0), 0)
        times = np.minimum(wall * 1000, float(2**62)).astype(np.int64).tolist()
        for step, time, value in zip(points.step.tolist(), times, points.value.tolist()):
            yield entities.Metric(key, value, time, step)


def _name(text: str) -> str:
    """A name as every version of MLflow takes it: it may become a path."""
    clean = re.sub(r"[^\w\-. /]", "_", as_utf8(text))
    parts = [part if part.strip(".") else "_" * max(len(part), 1) for part in clean.split("/")]
    return "/".join(parts)[:_LONGEST_NAME]


def _parts(items: Any, most: int) -> Iterator[list[Any]]:
    part: list[Any] = []
    for item in items:
        part.append(item)
        if len(part) == most:
            yield part
            part = []
    if part:
        yield part
