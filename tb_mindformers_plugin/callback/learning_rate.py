"""The learning rate that a step used, read the cheap and right way for each kind of optimizer."""

from __future__ import annotations

from typing import Any, Callable, Optional

import mindspore
import numpy as np
from mindspore import Parameter, Tensor, nn

from tb_mindformers_plugin.callback.adjustable import AdjustableSchedule
from tb_mindformers_plugin.callback.device_values import as_float
from tb_mindformers_plugin.callback.schedule import describe
from tb_mindformers_plugin.schedules import learning_rate

# Layer-wise learning rates make a group of every layer; this many are logged.
MOST_GROUPS = 16

# These count from -1, as their kernels count the step by themselves.
_STEP_COUNT_STARTS = {"FusedAdamW": -1, "FusedPmaAdamW": -1, "mindspore.mint.optim.adamw.AdamW": -1}

_Source = Callable[[int], Optional[float]]


class LearningRateReader:
    """Reads the learning rates of an optimizer.

    ==============================================  =====================================================
    learning rate                                   read by
    ==============================================  =====================================================
    fixed                                           the Parameter (also where it is assigned anew)
    list or dynamic table                           the table, copied once; its last entry past the end
    a schedule of MindSpore or mindformers          its formula (`schedule`), on the host
    any other ``LearningRateSchedule``              a call of the cell (1 to 18 ms)
    `AdjustableSchedule`                            its base as above, times its factor
    grouped                                         each distinct learning rate as above
    ``mindspore.experimental.optim``, ``mint.optim``  ``param_groups[i]["lr"]``
    ==============================================  =====================================================

    Args:
      optimizer: an ``nn.Optimizer``, one of ``mindspore.experimental.optim`` or ``mindspore.mint.optim``, a
        wrapper with an ``opt`` or ``optimizer`` inside (``nn.LARS``), or None.
    """

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = unwrapped(optimizer)
        self._sources: list[_Source] = []
        self.schedule: Optional[dict[str, Any]] = None
        #: Whether it can be assigned anew, so that a copy of it says nothing.
        self.assignable = False
        #: Whether it follows the optimizer's step count.
        self.goes_by_step = False
        if hasattr(self.optimizer, "param_groups"):
            groups = list(self.optimizer.param_groups)
            self._sources = [_from_group(group) for group in groups[:MOST_GROUPS]]
        elif self.optimizer is not None:
            rates = distinct(getattr(self.optimizer, "learning_rate", None))
            self._sources = [source for source in map(_source, rates[:MOST_GROUPS]) if source is not None]
            fixed = bool(rates) and not getattr(self.optimizer, "dynamic_lr", False)
            self.goes_by_step = not fixed
            self.assignable = fixed or any(isinstance(rate, AdjustableSchedule) for rate in rates)
            self.schedule = _described(rates[0]) if rates else None

    @property
    def grouped(self) -> bool:
        """Whether there is more than one learning rate."""
        return len(self._sources) > 1

    def step_count(self) -> Optional[int]:
        """Returns how many steps the optimizer took (skipped ones not counted); None if it does not count.

        Reads one number from the device.
        """
        counter = getattr(self.optimizer, "global_step", None)
        if counter is None:
            counter = getattr(self.optimizer, "state_step", None)
        count = None if counter is None else as_float(counter)
        if count is None:
            return None
        kind = type(self.optimizer)
        start = _STEP_COUNT_STARTS.get(f"{kind.__module__}.{kind.__name__}", _STEP_COUNT_STARTS.get(kind.__name__, 0))
        return max(0, int(count) - start)

    def read(self, i: int) -> list[float]:
        """Returns the learning rate of each group at the optimizer step after `i` steps.

        The first is that of the first parameter group; groups that share a learning rate count once.

        Args:
          i: optimizer steps done before the one in question.
        """
        values = [source(i) for source in self._sources]
        return [value for value in values if value is not None]


def unwrapped(optimizer: Any) -> Any:
    """Returns the optimizer inside of wrappers, the one whose learning rate counts."""
    # nn.LARS has a learning_rate of 0 for show; what counts is the optimizer inside.
    for _ in range(4):
        inner = getattr(optimizer, "opt", None)
        if inner is None and not hasattr(optimizer, "learning_rate"):
            inner = getattr(optimizer, "optimizer", None)
        # Adam and others call their kernel `opt`, and that has no learning rate.
        if not hasattr(inner, "learning_rate") and not hasattr(inner, "param_groups"):
            return optimizer
        optimizer = inner
    return optimizer


def distinct(rates: Any) -> list[Any]:
    """Returns the different learning rates of a grouped optimizer, which repeats them per weight."""
    if rates is None:
        return []
    if not isinstance(rates, (tuple, list, nn.CellList)):
        return [rates]
    return list({id(rate): rate for rate in rates}.values())


def _source(rate: Any) -> Optional[_Source]:
    inner = getattr(rate, "learning_rate", None)  # of the cells that nn.Optimizer wraps a Parameter in
    if isinstance(rate, (Parameter, Tensor, float, int)):
        return lambda i: as_float(rate)
    if isinstance(inner, Parameter) and type(rate).__module__.startswith("mindspore.nn.optim"):
        if inner.ndim == 0:
            return lambda i: as_float(inner)
        return _from_table(inner.asnumpy())
    if isinstance(rate, AdjustableSchedule):
        return _adjusted(rate)
    known = describe(rate)
    if known is not None:
        return lambda i: learning_rate(known, i)
    return _from_call(rate) if isinstance(rate, nn.Cell) else None


def _described(rate: Any) -> Optional[dict[str, Any]]:
    if isinstance(rate, (Parameter, Tensor, float, int)):
        peak = as_float(rate)
        return None if peak is None else {"kind": "constant", "peak": peak}
    inner = getattr(rate, "learning_rate", None)
    if isinstance(inner, Parameter) and type(rate).__module__.startswith("mindspore.nn.optim"):
        table = np.asarray(inner.asnumpy(), dtype=np.float64).reshape(-1)
        if inner.ndim == 0:
            return {"kind": "constant", "peak": float(table[0])}
        return {"kind": "table", "peak": float(table.max()), "points": int(table.size)}
    if isinstance(rate, AdjustableSchedule):
        base, factor = describe(rate.base), as_float(rate.factor)
        if base is None or factor is None or factor == 1.0:
            return base
        return {"kind": "scaled", "scale": factor, "base": base, "peak": factor * base["peak"]}
    return describe(rate)


def _adjusted(rate: AdjustableSchedule) -> Optional[_Source]:
    base = _source(rate.base)
    if base is None:
        return None

    def adjusted(i: int) -> Optional[float]:
        lr, factor = base(i), as_float(rate.factor)
        return None if lr is None or factor is None else lr * factor

    return adjusted


def _from_table(table: np.ndarray[Any, Any]) -> _Source:
    return lambda i: float(table[min(max(i, 0), len(table) - 1)])


def _from_group(group: Any) -> _Source:
    return lambda i: as_float(group["lr"])


def _from_call(cell: Any) -> _Source:
    def call(i: int) -> Optional[float]:
        if mindspore.get_auto_parallel_context("parallel_mode") in ("semi_auto_parallel", "auto_parallel"):
            # The call would be compiled for all devices, on this one alone.
            raise RuntimeError(f"{type(cell).__name__} is no known schedule and cannot be called under auto parallel")
        return as_float(cell(Tensor([i], mindspore.int32)))

    return call
