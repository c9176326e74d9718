"""Changing the learning rate of a running training."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from mindspore import Parameter, Tensor, nn, ops

from tb_mindformers_plugin.callback import train_cell
from tb_mindformers_plugin.callback.adjustable import AdjustableSchedule
from tb_mindformers_plugin.callback.distributed import find_placement
from tb_mindformers_plugin.callback.learning_rate import distinct, unwrapped
from tb_mindformers_plugin.callback.settings import Settings


class LearningRateControl:
    """Multiplies the learning rates of an optimizer, all groups alike, by assigning what they are read from.

    ==============================================  ==========================================
    learning rate                                   what is assigned
    ==============================================  ==========================================
    fixed                                           the Parameter
    list or dynamic table                           the table
    `AdjustableSchedule`                            its factor
    ``mindspore.experimental.optim``, ``mint.optim``  ``param_groups[i]["lr"]``
    any other ``LearningRateSchedule``              nothing can be: ValueError
    ==============================================  ==========================================

    Args:
      optimizer: as for `LearningRateReader`.

    Raises:
      ValueError: the learning rate cannot be changed; the message says what to do.
    """

    def __init__(self, optimizer: Any) -> None:
        optimizer = unwrapped(optimizer)
        if optimizer is None:
            raise ValueError("no optimizer was found: give Model a train cell with an attribute `optimizer`")
        if hasattr(optimizer, "param_groups"):
            if type(optimizer).__module__.startswith("mindspore.mint.optim.sgd"):
                raise ValueError("mint.optim.SGD does not look at its learning rate again: use nn.SGD or nn.Momentum")
            rates = [group["lr"] for group in optimizer.param_groups]
        else:
            rates = distinct(getattr(optimizer, "learning_rate", None))
        if not rates:
            raise ValueError(f"{type(optimizer).__name__} has no learning rate that is known here")
        self._assigned = [_assigned(optimizer, rate) for rate in rates]

    def multiply(self, factor: float) -> None:
        """Multiplies every learning rate by `factor`, from the next step on."""
        for parameter in self._assigned:
            ops.assign(parameter, Tensor(parameter.asnumpy() * factor, parameter.dtype))


def checked_control(settings: Settings, cb_params: Mapping[str, Any]) -> Optional[LearningRateControl]:
    """Returns what the callback changes the learning rate with; None where it is not asked to.

    Raises:
      ValueError: what is asked for cannot be done in this training. A guard that does nothing is worse than none.
    """
    size = find_placement(cb_params.get("train_network")).size
    if size > 1:
        asked = "reduce_lr" if settings.reduce_lr is not None else "stop_on"
        raise ValueError(
            f"{asked} works in a training of one process, this one has {size}: the others would not know what one "
            "of them does to its learning rate, or of its end. Use on_alert there"
        )
    if settings.reduce_lr is None:
        return None
    try:
        return LearningRateControl(train_cell.find_optimizer(cb_params))
    except ValueError as error:
        raise ValueError(f"reduce_lr cannot change the learning rate of this training: {error}") from error


def _assigned(optimizer: Any, rate: Any) -> Parameter:
    if isinstance(rate, Parameter):
        return rate
    if isinstance(rate, AdjustableSchedule):
        return rate.factor
    inner = getattr(rate, "learning_rate", None)  # of the cells that nn.Optimizer wraps a Parameter in
    if isinstance(inner, Parameter) and type(rate).__module__.startswith("mindspore.nn.optim"):
        return inner
    name, owner = type(rate).__name__, type(optimizer).__name__
    if isinstance(rate, nn.Cell):
        raise ValueError(
            f"the schedule {name} of {owner} is compiled into the training and cannot be changed: wrap it, as in "
            f"{owner}(params, AdjustableSchedule({name}(...))), with `from tb_mindformers_plugin import "
            "AdjustableSchedule`"
        )
    raise ValueError(f"the learning rate of {owner} is {rate!r} ({name}), which cannot be assigned")
