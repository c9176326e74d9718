"""The runs of a logdir, kept up to date."""

from __future__ import annotations

import os
import threading
import time
from typing import Optional

from tb_mindformers_plugin.runs.discovery import Discovery, Root, discover, roots
from tb_mindformers_plugin.runs.run import Run


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
        """Whether any run has a series with a known role, or a manifest."""
        self.refresh(max_age_seconds=5.0)
        return any(run.has_manifest or run.roles for run in self._runs.values())


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
            raise FileNotFoundError(f"{root.path} is not a directory: give the directory that `tensorboard --logdir` takes")
    store = RunStore(searched)
    store.refresh()
    return store
