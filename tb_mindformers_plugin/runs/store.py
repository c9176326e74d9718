"""The runs of a logdir, kept up to date."""

from __future__ import annotations

import os
import threading
import time
from typing import Optional

from tb_mindformers_plugin import metadata
from tb_mindformers_plugin.eventfile import EventFile
from tb_mindformers_plugin.roles import resolve
from tb_mindformers_plugin.runs.discovery import Discovery, Root, discover, roots
from tb_mindformers_plugin.runs.run import Run

# What a writer logs at all, it logs within this many bytes; a graph before it may be larger, and then
# the run is found when it is read.
_HEAD_BYTES = 1 << 20


class RunStore:
    """Runs by name, read when asked for. Its methods may be called from several threads.

    Args:
      searched: where to look for runs.
    """

    def __init__(self, searched: tuple[Root, ...]) -> None:
        self.searched = searched
        self._lock = threading.Lock()
        self._runs: dict[str, Run] = {}
        self._discovery = Discovery({}, 0, ())
        self._refreshed: Optional[float] = None
        self._active = False

    def refresh(self, max_age_seconds: float = 0.0) -> None:
        """Looks for new runs and reads what the known ones gained.

        Args:
          max_age_seconds: do nothing where the last look is no older than this.
        """
        with self._lock:
            if self._refreshed is not None and time.monotonic() - self._refreshed <= max_age_seconds:
                return
            self._discovery = discover(self.searched)
            known = {name: self._runs.get(name) or Run(name) for name in self._discovery.runs}
            for name, run in known.items():
                run.update(self._discovery.runs[name])
            self._runs = known
            self._refreshed = time.monotonic()

    @property
    def discovery(self) -> Discovery:
        """What the last look found."""
        return self._discovery

    @property
    def runs(self) -> dict[str, Run]:
        """Run name -> run, sorted by name, as of the last `refresh`."""
        return self._runs

    def is_active(self) -> bool:
        """Whether any run has a manifest or a series with a known role.

        TensorBoard asks at each page load, so this reads no more than the beginning of files, and
        only until one of them answers.
        """
        if not self._active:
            found = discover(self.searched).runs.values()
            self._active = any(_has_metrics(path) for run in found for path in run.files)
        return self._active


def _has_metrics(path: str) -> bool:
    try:
        head = EventFile(path).read(most_bytes=_HEAD_BYTES)
    except OSError:
        return False
    return bool(resolve(head.columns)) or any(record.tag == metadata.RUN_TAG for record in head.health)


def open_logdir(logdir: str) -> RunStore:
    """Reads the runs of `logdir`, for scripts and notebooks.

    Args:
      logdir: what ``tensorboard --logdir`` takes, or, with a comma or ``name:path`` entries, what
        ``--logdir_spec`` takes.

    Raises:
      FileNotFoundError: there is no such directory.
    """
    spec = not os.path.exists(os.path.expanduser(logdir)) and (":" in logdir or "," in logdir)
    searched = roots(logdir_spec=logdir) if spec else roots(logdir=logdir)
    for root in searched:
        if not os.path.isdir(root.path):
            raise FileNotFoundError(
                f"{root.path} is not a directory: give the directory that `tensorboard --logdir` takes"
            )
    store = RunStore(searched)
    store.refresh()
    return store
