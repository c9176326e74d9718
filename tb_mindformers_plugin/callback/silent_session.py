"""A training in a process that writes nothing, but takes part where all have to."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from tb_mindformers_plugin.callback.session import TrainingSession
from tb_mindformers_plugin.callback.watch import TrainingWatch
from tb_mindformers_plugin.metadata import RunManifest


class SilentSession(TrainingSession):
    """Goes through the same steps as the `TrainingSession` of the writing process, so that what they do together
    (`MeanLoss`) never waits for one that does not come.
    """

    def _open_writer(self, directory: str, manifest: RunManifest) -> Any:
        return _NoWriter(manifest)

    def _make_watch(self, *arguments: Any) -> TrainingWatch:
        return _NoWatch(*arguments)


class _NoWriter:
    def __init__(self, manifest: RunManifest) -> None:
        self.manifest = manifest

    def _nothing(self, *arguments: Any, **fields: Any) -> None:
        pass

    log = event = add_histogram = add_hparams = flush = close = _nothing


class _NoWatch(TrainingWatch):
    def step(self, step: int, values: Mapping[str, Optional[float]], *, act: bool = True) -> None:
        pass

    def finish(self, step: int) -> None:
        pass
