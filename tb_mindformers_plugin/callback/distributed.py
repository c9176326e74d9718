"""Which process of a distributed training writes."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

import mindspore
from mindspore import communication


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where this process stands in a distributed training.

    Attributes:
      rank: its rank.
      size: number of processes.
      pipeline_stage: its pipeline stage; None without pipeline parallelism.
      writes: whether it is the one that writes. All others stay silent, so that a run directory
        has one writer: rank 0, or the first rank of the last pipeline stage, as only there the loss
        is real (with the zero-bubble-V schedule it is real on rank 0 instead).
    """

    rank: int = 0
    size: int = 1
    pipeline_stage: Optional[int] = None
    writes: bool = True


def find_placement(train_network: Any = None) -> Placement:
    """Returns this process's placement; a single process where there is no communication."""
    try:
        rank, size = int(communication.get_rank()), int(communication.get_group_size())
    except Exception:  # Not initialised: what is raised differs between versions and devices.
        return Placement()
    stages, schedule = _pipeline(train_network)
    return place(rank, size, stages, schedule)


def place(rank: int, size: int, stages: int, schedule: str = "") -> Placement:
    """Returns the placement of `rank` among `size` processes in `stages` pipeline stages.

    >>> [place(rank, 8, 4).writes for rank in range(8)]
    [False, False, False, False, False, False, True, False]
    """
    if stages <= 1 or size % stages:
        return Placement(rank, size, None, rank == 0)
    ranks_per_stage = size // stages
    writer = 0 if schedule == "zero_bubble_v" else size - ranks_per_stage
    return Placement(rank, size, rank // ranks_per_stage, rank == writer)


def run_directory(log_dir: str, placement: Placement, all_ranks: bool) -> str:
    """Returns where this process writes.

    >>> run_directory("logs/run", Placement(rank=3, size=8), all_ranks=True)
    'logs/run/rank_3'
    """
    return f"{log_dir.rstrip('/')}/rank_{placement.rank}" if all_ranks else log_dir


def _pipeline(train_network: Any) -> tuple[int, str]:
    # mindspore.parallel.AutoParallel keeps its own setting, and the old global context knows nothing of it.
    stages = getattr(train_network, "_pipeline_stages", None)
    if isinstance(stages, int) and stages > 1:
        return stages, str(getattr(train_network, "_pipeline_scheduler", ""))
    return (
        int(mindspore.get_auto_parallel_context("pipeline_stages")),
        str(mindspore.get_auto_parallel_context("pipeline_scheduler")),
    )
