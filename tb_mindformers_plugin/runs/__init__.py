"""Runs, their series at full resolution, and windows on them."""

from tb_mindformers_plugin.runs.run import Run, Segment
from tb_mindformers_plugin.runs.store import RunStore, open_logdir

__all__ = ["Run", "RunStore", "Segment", "open_logdir"]
