"""A learning-rate schedule that can be changed while the training runs."""

from __future__ import annotations

from typing import Any

from mindspore import Parameter, Tensor
from mindspore import dtype as mstype
from mindspore.nn.learning_rate_schedule import LearningRateSchedule


class AdjustableSchedule(LearningRateSchedule):  # type: ignore[misc]
    """A schedule times a factor that can be assigned: what ``reduce_lr`` needs where the learning rate is a schedule.

    MindSpore compiles a schedule into the training graph, where nothing of it can be changed any more; a
    Parameter can. The factor begins at 1, and is saved in checkpoints with the optimizer. GRAPH and PYNATIVE
    mode::

        schedule = AdjustableSchedule(nn.CosineDecayLR(1e-5, 1e-3, 10_000))
        optimizer = nn.AdamWeightDecay(net.trainable_params(), schedule)

    Args:
      base: the schedule. Give each parameter group one of its own.

    Inputs:
      The step, as for `base`.

    Outputs:
      The learning rate, as from `base`, times the factor.

    Raises:
      TypeError: `base` is no ``LearningRateSchedule``.
    """

    def __init__(self, base: Any) -> None:
        super().__init__()
        if not isinstance(base, LearningRateSchedule):
            raise TypeError(f"base must be a LearningRateSchedule, got {base!r} ({type(base).__name__})")
        self.base = base
        self.factor = Parameter(Tensor(1.0, mstype.float32), name="learning_rate_factor", requires_grad=False)

    def construct(self, global_step):  # type: ignore[no-untyped-def]
        """Returns the learning rate at a step."""
        return self.base(global_step) * self.factor
