"""Folds the directories that the ranks of one training wrote into one job."""

from __future__ import annotations

import collections
import dataclasses
import os
import re
from typing import Sequence

from tb_mindformers_plugin.runs.summary import RunSummary

_RANK = re.compile(r"rank_(\d+)", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Job:
    """One training.

    Attributes:
      shown: the run that stands for it.
      ranks: names of all its runs by rank, that of `shown` included; empty where it has but one.
    """

    shown: RunSummary
    ranks: tuple[str, ...] = ()


def fold_ranks(runs: Sequence[RunSummary]) -> list[Job]:
    """Returns the jobs of `runs`, in the order of their first run.

    Runs are one job where their names differ in the number of one ``rank_N`` directory alone. The
    rank that carries the loss stands for it: of those with a loss the last pipeline stage (only it
    computes the loss), then one whose loss is not 0 throughout, then the lowest.
    """
    groups: dict[tuple[str, ...], list[tuple[int, RunSummary]]] = collections.defaultdict(list)
    for run in runs:
        rank, key = _rank_of(run.name)
        groups[key].append((rank, run))
    jobs = []
    for members in groups.values():
        members.sort(key=lambda member: member[0])
        shown = max(members, key=lambda member: _carries_loss(member[1], member[0]))[1]
        jobs.append(Job(shown, tuple(run.name for _, run in members) if len(members) > 1 else ()))
    return jobs


def _rank_of(name: str) -> tuple[int, tuple[str, ...]]:
    """The rank that a run's name gives (-1: none), and what it has in common with the other ranks' names."""
    parts = name.replace(os.sep, "/").split("/")
    for i, part in enumerate(parts):
        match = _RANK.fullmatch(part)
        if match:
            return int(match.group(1)), (*parts[:i], "", *parts[i + 1 :])
    return -1, (name,)


def _carries_loss(run: RunSummary, rank: int) -> tuple[bool, int, bool, int]:
    loss = run.roles.get("loss")
    stage = (run.manifest.distributed or {}).get("pipeline_stage")
    return loss is not None, stage if isinstance(stage, int) else -1, loss is not None and loss.last_value != 0, -rank
