"""What mindformers' own MFLossMonitor knows of the training and MindSpore does not say.

The monitor is among the callbacks of every mindformers ``Trainer``. It is recognised by its name, so
that nothing here imports mindformers.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Optional

import mindspore


@dataclasses.dataclass(frozen=True)
class LossMonitorFacts:
    """Facts of a mindformers training.

    Attributes:
      initial_step: steps done before a resumed training; 0 for a fresh one.
      steps_per_epoch: optimizer steps of a pass over the data.
      epochs: passes in all.
      global_batch_size: samples of one optimizer step, over all devices.
      loss_divisor: what the train cell's loss has to be divided by to be the mean over samples that
        mindformers prints: micro batches (pipeline), interleaved copies and accumulation steps add up.
    """

    initial_step: Optional[int] = None
    steps_per_epoch: Optional[int] = None
    epochs: Optional[int] = None
    global_batch_size: Optional[int] = None
    loss_divisor: int = 1


def find_loss_monitor_facts(cb_params: Mapping[str, Any]) -> LossMonitorFacts:
    """Returns what the training's MFLossMonitor knows; nothing where there is none."""
    for callback in cb_params.get("list_callback") or ():
        if any(kind.__name__ == "MFLossMonitor" for kind in type(callback).__mro__):
            return LossMonitorFacts(
                initial_step=_whole(callback, "initial_step", least=0),
                steps_per_epoch=_whole(callback, "steps_per_epoch"),
                epochs=_whole(callback, "origin_epochs"),
                global_batch_size=_whole(callback, "global_batch_size"),
                loss_divisor=_loss_divisor(callback, int(mindspore.get_auto_parallel_context("pipeline_stages"))),
            )
    return LossMonitorFacts()


def _loss_divisor(monitor: Any, pipeline_stages: int) -> int:
    # As MFLossMonitor does it; a loss per token is a mean already.
    per_token = bool(getattr(monitor, "calculate_per_token_loss", False))
    divisor = _whole(monitor, "micro_batch_interleave_num") or 1
    if not per_token:
        divisor *= _whole(monitor, "gradient_accumulation_steps") or 1
        if pipeline_stages > 1:
            divisor *= _whole(monitor, "mirco_size") or 1  # spelled so in mindformers
    return divisor


def _whole(monitor: Any, name: str, least: int = 1) -> Optional[int]:
    value = getattr(monitor, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= least else None
