"""Overflow detection on a CPU.

MindSpore's loss-scale cells ask the accelerator whether a step overflowed; a CPU has no such
register, and they fail. Here the gradients themselves are looked at. Everything else of the cells,
the dynamic loss scale with its halvings and doublings included, stays as it is.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

from mindspore import dtype as mstype
from mindspore import nn, ops

_non_finite = ops.MultitypeFuncGraph("non_finite")


@_non_finite.register("Tensor")
def _non_finite_tensor(grad):  # type: ignore[no-untyped-def]
    return ops.cast(ops.logical_not(ops.isfinite(grad).all()), mstype.float32)


def _get_overflow_status(self, status, compute_output):  # type: ignore[no-untyped-def]
    return ops.addn(self.hyper_map(_non_finite, compute_output)) > 0


def _start_overflow_check(self, pre_cond, compute_input):  # type: ignore[no-untyped-def]
    return ops.zeros((8,), mstype.int32), compute_input


class LossScaleCell(nn.TrainOneStepWithLossScaleCell):  # type: ignore[misc]
    """``nn.TrainOneStepWithLossScaleCell`` that also runs on a CPU."""

    get_overflow_status = _get_overflow_status
    start_overflow_check = _start_overflow_check


@contextlib.contextmanager
def overflow_seen_on_cpu() -> Iterator[None]:
    """Makes all loss-scale cells, those of mindformers included, run on a CPU."""
    cell: Any = nn.TrainOneStepWithLossScaleCell
    saved = cell.get_overflow_status, cell.start_overflow_check
    cell.get_overflow_status, cell.start_overflow_check = _get_overflow_status, _start_overflow_check
    try:
        yield
    finally:
        cell.get_overflow_status, cell.start_overflow_check = saved
