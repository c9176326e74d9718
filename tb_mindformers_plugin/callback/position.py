"""Where a training is: steps on an axis that goes on over restarts, and epochs.

MindSpore counts steps from 1 in every ``Model.train``. The step axis of a run must go on instead:
a training resumed after 150 steps continues at 151.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Optional


@dataclasses.dataclass(frozen=True)
class Position:
    """Position of one training on the run's step axis.

    Attributes:
      shift: run step = shift + ``cur_step_num``.
      start: run steps done before this training; 0 for a fresh one.
      steps_per_epoch: optimizer steps of one pass over the data.
      total_steps: run step at which this training ends.
    """

    shift: int
    start: int
    steps_per_epoch: Optional[int]
    total_steps: Optional[int]

    def epoch(self, step: int) -> Optional[float]:
        """Returns the passes over the data done after `step`, e.g. 1.5 after 150 of 100 a pass."""
        return step / self.steps_per_epoch if self.steps_per_epoch else None


def find_position(
    cb_params: Mapping[str, Any],
    *,
    resume_from: Optional[int] = None,
    declared_start: Optional[int] = None,
    known_start: int = 0,
    steps_per_epoch: Optional[int] = None,
    epochs: Optional[int] = None,
    total_steps: Optional[int] = None,
) -> Position:
    """Works out the position of a training that begins.

    Args:
      cb_params: the callback's parameters at ``on_train_begin``.
      resume_from: steps done before, as the user says; it wins over all.
      declared_start: steps done before, as the framework says (mindformers on resume).
      known_start: steps done before, as the optimizer (or the last training of the same callback)
        says.
      steps_per_epoch: steps of a pass over the data, where known better than from the dataset.
      epochs: passes over the data in all, resumed ones included (mindformers).
      total_steps: the user's word on the total.
    """
    counted = int(cb_params.get("cur_step_num") or 0)  # not 0 when MindSpore's fault tolerance restarts a step
    initial = cb_params.get("initial_step")
    if resume_from is not None:
        shift = resume_from - counted
    elif initial is not None:
        shift = int(initial)
    elif declared_start is not None:
        shift = declared_start
    else:
        shift = 0 if counted else known_start
    start = shift + counted

    batches = _positive(cb_params.get("batch_num"))
    if steps_per_epoch is None:
        # With sink_size=n, batch_num is n: the steps of a sink, not of an epoch.
        steps_per_epoch = _dataset_size(cb_params) or batches
    if total_steps is None:
        if epochs and steps_per_epoch:
            total_steps = epochs * steps_per_epoch
        else:
            # When sinking, MindSpore's "epoch" is one sink.
            per_round = batches if cb_params.get("dataset_sink_mode") else steps_per_epoch
            rounds = _positive(cb_params.get("epoch_num"))
            total_steps = start + rounds * per_round if rounds and per_round else None
    return Position(shift, start, steps_per_epoch, total_steps)


def _dataset_size(cb_params: Mapping[str, Any]) -> Optional[int]:
    dataset = cb_params.get("train_dataset")
    return None if dataset is None else _positive(dataset.get_dataset_size())


def _positive(value: Any) -> Optional[int]:
    return int(value) if value is not None and value > 0 else None
