"""A train cell that returns the gradient norm, which plain MindSpore has no other place to get from."""

from __future__ import annotations

import fnmatch
import math
import numbers
from typing import Any, Optional, Sequence

from mindspore import Tensor, nn, ops
from mindspore import dtype as mstype

_LARGEST = 3.4028234663852886e38  # of float32

_sum_of_squares = ops.MultitypeFuncGraph("sum_of_squares")
_scaled_gradient = ops.MultitypeFuncGraph("scaled_gradient")


@_sum_of_squares.register("Tensor")
def sum_of_squares(grad):  # type: ignore[no-untyped-def]
    """Returns the sum of the squares of a Tensor, in float32."""
    # float16 squares overflow from 256 on.
    return ops.square(ops.cast(grad, mstype.float32)).sum()


@_sum_of_squares.register("RowTensor")
def _sum_of_squares_rows(grad):  # type: ignore[no-untyped-def]
    return ops.reduce_sum(ops.square(ops.cast(grad.values, mstype.float32)))


@_scaled_gradient.register("Tensor", "Tensor")
def _scaled_gradient_tensor(factor, grad):  # type: ignore[no-untyped-def]
    return grad * ops.cast(factor, grad.dtype)


class GradNormTrainOneStepCell(nn.TrainOneStepCell):  # type: ignore[misc]
    r"""``nn.TrainOneStepCell`` that returns (loss, global gradient norm) and can clip by that norm.

    The norm is :math:`\sqrt{\sum_p \lVert g_p \rVert_2^2}` over all weights, taken after the gradients of the
    data-parallel devices are averaged, with `sens` divided out, and **before** clipping. It is
    summed in float32, so it becomes infinite beyond 1.8e19. Clipping multiplies each gradient by
    ``clip_norm / max(norm, clip_norm)`` (Pascanu, Mikolov and Bengio, 2013). The rows of a sparse
    gradient (``nn.EmbeddingLookup``) count one by one, also where they repeat, and cannot be clipped.

    Works in GRAPH and PYNATIVE mode, alone and data-parallel, with mixed precision::

        train_cell = GradNormTrainOneStepCell(nn.WithLossCell(net, loss_fn), optimizer, clip_norm=1.0)
        Model(train_cell).train(epochs, dataset, callbacks=[TrainingHealthCallback("logs/run")])

    For `TrainingHealthCallback`'s ``layer_grad_norms`` and gradient histograms it can return more, which the
    callback reads on the steps that it logs: the norm of each weight's gradient (a few microseconds
    on the device), and the gradients themselves, as they are before clipping (kept in memory until the next
    step, nothing is copied).

    Args:
      network: cell that returns the loss.
      optimizer: the optimizer; with `sens`, give it ``loss_scale=sens``, as for ``nn.TrainOneStepCell``.
      sens: factor on the loss for the backward pass (a fixed loss scale), finite and > 0.
      clip_norm: largest gradient norm, > 0, on the scale of the true gradients (without `sens`);
        None does not clip.
      layer_norms: also return the norms of the single gradients.
      return_grads: also return the gradients of the weights whose names match one of these patterns
        (`fnmatch`), e.g. ``("*attention*",)``.

    Inputs:
      The inputs of `network`.

    Outputs:
      (loss, norm): the loss as `network` returns it, and the norm, a float32 Tensor of shape (). With
      `layer_norms` then a float32 Tensor (n,), in the order of ``optimizer.parameters``; with `return_grads`
      then a tuple of gradients, times `sens`, in the order of `grad_names`.

    Raises:
      TypeError: `network` or `optimizer` is no cell; `sens` or `clip_norm` is no number.
      ValueError: `sens` or `clip_norm` is not finite or not > 0, no weight matches `return_grads`, or the
        gradients to clip or to return are sparse.
    """

    def __init__(
        self,
        network: Any,
        optimizer: Any,
        sens: float = 1.0,
        clip_norm: Optional[float] = None,
        *,
        layer_norms: bool = False,
        return_grads: Sequence[str] = (),
    ) -> None:
        for name, cell in (("network", network), ("optimizer", optimizer)):
            if not isinstance(cell, nn.Cell):
                raise TypeError(f"{name} must be a mindspore.nn.Cell, got {cell!r} ({type(cell).__name__})")
        sens = _positive("sens", sens)
        # Without a factor the cheaper backward pass will do, which needs no filled tensor.
        super().__init__(network, optimizer, sens=None if sens == 1.0 else sens)
        self.clip_norm = None if clip_norm is None else _positive("clip_norm", clip_norm)
        self._clips = self.clip_norm is not None
        self._largest_norm = Tensor(self.clip_norm or math.inf, mstype.float32)
        self._unscale = Tensor(1.0 / sens, mstype.float32)
        self._map = ops.HyperMap()
        self.use_graceful_exit = getattr(self, "use_graceful_exit", False)  # not in all versions
        # AddN, one kernel for all weights, cannot be compiled over the squares of a sparse gradient.
        self._is_sparse = any(getattr(cell, "sparse", False) is True for _, cell in network.cells_and_names())
        if self._is_sparse and self._clips:
            raise ValueError(f"clip_norm must be None where the network has sparse gradients, got {clip_norm!r}")
        self._returned = matching("return_grads", self.weights, return_grads) if return_grads else ()
        #: Names of the weights whose gradients are returned.
        self.grad_names = tuple(self.weights[i].name for i in self._returned)
        if return_grads and self._is_sparse:
            raise ValueError(f"return_grads must be empty where the network has sparse gradients, got {return_grads!r}")
        self._layer_norms = bool(layer_norms)
        outputs = ("loss", "grad_norm") + (("layer_grad_norms",) if layer_norms else ())
        #: What the outputs are; `TrainingHealthCallback` goes by it.
        self.health_outputs = outputs + (("grads",) if self._returned else ())

    def construct(self, *inputs):  # type: ignore[no-untyped-def]
        """Takes one optimizer step."""
        loss = self.network(*inputs)
        if self.sense_flag:
            sens = ops.fill(loss.dtype, loss.shape, self.sens)
            grads = self.grad(self.network, self.weights)(*inputs, sens)
        else:
            grads = self.grad_no_sens(self.network, self.weights)(*inputs)
        grads = self.grad_reducer(grads)
        squares = self._map(_sum_of_squares, grads)
        if self._is_sparse:
            total = 0.0
            for square in squares:
                total = total + square
        else:
            total = ops.addn(squares)
        norm = ops.sqrt(total) * self._unscale
        more: Any = ()
        if self._layer_norms:
            more = (*more, ops.sqrt(ops.stack(squares)) * self._unscale)
        if self._returned:
            returned: Any = ()
            for i in self._returned:
                returned = (*returned, grads[i])
            more = (*more, returned)
        if self._clips:
            factor = self._largest_norm / ops.maximum(norm, self._largest_norm)
            grads = self._map(ops.partial(_scaled_gradient, factor), grads)
        if self.use_graceful_exit:
            grads = self.graceful_exit.exit_by_request(grads, self.init_param, self.exit_param)
        loss = ops.depend(loss, self.optimizer(grads))
        return (loss, norm, *more)


def matching(argument: str, weights: Sequence[Any], patterns: Sequence[str]) -> tuple[int, ...]:
    """Returns the places of the weights whose names match one of `patterns` (`fnmatch`).

    Raises:
      ValueError: none does; the message names `argument`.
    """
    names = [weight.name for weight in weights]
    found = tuple(i for i, name in enumerate(names) if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns))
    if not found:
        raise ValueError(f"{argument} matches no weight, got {patterns!r}; there are {', '.join(names)}")
    return found


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a finite number > 0, got {value!r} ({type(value).__name__})")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    # Beyond float32 it would be infinite on the device, and infinity / infinity is NaN.
    if not 0.0 < number <= _LARGEST:
        limit = " (float32 holds up to 3.4e38)" if number > _LARGEST else ""
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}{limit}")
    return number
