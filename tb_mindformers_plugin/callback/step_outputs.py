"""What one training step returned: loss, overflow, loss scale, lr, grad norm.

MindSpore gives the callback whatever the train cell returned, without names. These are known:

=====================================================  ================================================
train cell                                             outputs
=====================================================  ================================================
``nn.TrainOneStepCell``                                loss
``nn.TrainOneStepWithLossScaleCell``                   (loss, overflow, scale)
mindformers, as its ``MFLossMonitor`` unpacks them     (loss, overflow, scale, lr)
``MFTrainOneStepCell``, ``MFPipelineWithLossScaleCell``  (loss, overflow, scale, lr, global norm or None)
the same with ``local_norm=True``                      ... + (local norms, their sizes)
=====================================================  ================================================

A cell of the user's own says what it returns with an attribute ``health_outputs``, a tuple of roles
(`tb_mindformers_plugin.roles`) in the order of its outputs, as `GradNormTrainOneStepCell` does; or
it returns a dict by role, or by tag where the name has a slash.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Optional, Sequence

from tb_mindformers_plugin.callback.device_values import as_float, element_count, is_flag
from tb_mindformers_plugin.roles import ROLES

_LOSS_SCALE_CELL = ("loss", "overflow", "loss_scale", "lr", "grad_norm", "", "")
_LOSS_SCALE_LENGTHS = (3, 4, 5, 7)


@dataclasses.dataclass(frozen=True)
class StepOutputs:
    """Values of one step by role; what the cell does not return is absent.

    Attributes:
      values: role -> value. ``loss_scale`` is the scale after this step's update.
      not_understood: what could not be read, for the user; "" if nothing.
    """

    values: Mapping[str, float]
    not_understood: str = ""

    @property
    def overflow(self) -> Optional[bool]:
        """Whether the step overflowed; None where the cell does not say."""
        flag = self.values.get("overflow")
        return None if flag is None else bool(flag)


def read_step_outputs(net_outputs: Any, declared: Optional[Sequence[str]] = None) -> StepOutputs:
    """Reads the outputs of one step from the device.

    A loss with many elements counts with its mean. Nothing is guessed: where the form is unknown
    only the loss is taken, if the first output is a number.

    Args:
      net_outputs: ``cb_params.net_outputs``.
      declared: the train cell's ``health_outputs``, if it has them.
    """
    if isinstance(net_outputs, Mapping):
        named = {role: value for role, value in net_outputs.items() if role in ROLES or "/" in role}
        return _read(named, "" if "loss" in named else f"a dict without 'loss': {_forms(net_outputs.values())}")
    if not isinstance(net_outputs, (tuple, list)):
        return _read({"loss": net_outputs})
    if declared is not None and len(declared) == len(net_outputs):
        return _read({role: value for role, value in zip(declared, net_outputs) if role in ROLES})
    if len(net_outputs) == 1:
        return _read({"loss": net_outputs[0]})
    if len(net_outputs) in _LOSS_SCALE_LENGTHS and _is_loss_scale_cell(net_outputs):
        return _read({role: value for role, value in zip(_LOSS_SCALE_CELL, net_outputs) if role})
    unknown = f"{len(net_outputs)} outputs ({_forms(net_outputs)})"
    return _read({"loss": net_outputs[0]} if len(net_outputs) else {}, unknown)


def output_of(net_outputs: Any, declared: Optional[Sequence[str]], name: str) -> Any:
    """Returns what the train cell returns under a name that it declares, without reading it; None if it does not."""
    if isinstance(net_outputs, Mapping):
        return net_outputs.get(name)
    if declared is None or name not in declared or not isinstance(net_outputs, (tuple, list)):
        return None
    place = list(declared).index(name)
    return net_outputs[place] if len(net_outputs) == len(declared) else None


def _is_loss_scale_cell(outputs: Sequence[Any]) -> bool:
    # (loss, logits, labels) has three outputs as well: overflow must be a flag, the scale one number.
    return is_flag(outputs[1]) and element_count(outputs[2]) == 1


def _read(named: Mapping[str, Any], not_understood: str = "") -> StepOutputs:
    values: dict[str, float] = {}
    for role, value in named.items():
        if role == "lr" and isinstance(value, (tuple, list)):
            # A fixed grouped lr comes as one Parameter per weight; the first group speaks for all.
            value = value[0] if value else None
        number = as_float(value)
        if number is not None:
            values[role] = number
        elif role == "loss":
            not_understood = not_understood or f"the loss is no number ({_forms([value])})"
    if "overflow" in values:
        values["overflow"] = float(values["overflow"] != 0.0)
    return StepOutputs(values, not_understood)


def _forms(outputs: Any) -> str:
    """Says what `outputs` look like, without reading the device."""
    return ", ".join(
        f"{type(value).__name__}{list(value.shape)}" if hasattr(value, "shape") else type(value).__name__
        for value in outputs
    )
