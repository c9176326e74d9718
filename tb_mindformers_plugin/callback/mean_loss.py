"""The mean of the loss over the processes of a data-parallel training."""

from __future__ import annotations

import math
from typing import Any, Optional

import mindspore
import numpy as np
from mindspore import Tensor, nn, ops

from tb_mindformers_plugin.callback.complaints import Complaints
from tb_mindformers_plugin.callback.distributed import Placement


class MeanLoss:
    """Averages a number over all processes.

    Every process has to call it at the same steps, as it waits for the others: one all-reduce of one number.

    Args:
      size: number of processes.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._sum = _Sum()

    def __call__(self, loss: Optional[float]) -> Optional[float]:
        """Returns the mean; NaN where one process has none, None where this one has none."""
        own = math.nan if loss is None else loss
        total = float(self._sum(Tensor(np.array([own], np.float32))).asnumpy()[0])
        return None if loss is None else total / self._size


def make_mean_loss(placement: Placement, complaints: Complaints) -> Optional[MeanLoss]:
    """Returns a `MeanLoss` where the processes each have a loss of their own, else None."""
    if placement.size == 1:
        return None
    mode = str(mindspore.get_auto_parallel_context("parallel_mode"))
    if placement.pipeline_stage is not None or mode not in ("data_parallel", "stand_alone"):
        # Under (semi-)auto parallelism the loss is the same everywhere; in a pipeline most have none.
        kind = "pipeline parallelism" if placement.pipeline_stage is not None else mode
        complaints.say("mean_loss", f"mean_loss is for data parallelism, and does nothing under {kind}")
        return None
    return MeanLoss(placement.size)


class _Sum(nn.Cell):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.all_reduce = ops.AllReduce()

    def construct(self, x: Any) -> Any:
        return self.all_reduce(x)
