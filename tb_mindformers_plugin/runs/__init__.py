"""Runs, their series at full resolution, and windows on them."""

from tb_mindformers_plugin.runs.contents import RunContents, Segment
from tb_mindformers_plugin.runs.run import Run
from tb_mindformers_plugin.runs.store import RunStore, open_logdir

__all__ = ["Run", "RunContents", "RunStore", "Segment", "open_logdir"]
