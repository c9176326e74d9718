"""TrainingLog: what `TrainingHealthCallback` does, for loops that are written by hand."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

import numpy as np
from mindspore import Tensor, ops

from tb_mindformers_plugin.callback.callback import TrainingHealthCallback
from tb_mindformers_plugin.callback.step_cell import sum_of_squares
from tb_mindformers_plugin.writer.summaries import as_array


class TrainingLog:
    """Logs a functional training loop, one without ``Model``.

    For instance::

        grad_fn = ms.value_and_grad(forward, None, optimizer.parameters)
        with TrainingLog("logs/run", optimizer=optimizer, log_every=10) as health:
            for step, (x, y) in enumerate(batches, 1):
                loss, grads = grad_fn(x, y)
                optimizer(grads)
                health.log(step, loss=loss, grads=grads)

    All that `TrainingHealthCallback` writes and does is there: the EMA, the learning rate, step times, alerts,
    histograms, the end and its error. On a step that is not logged the tensors are not touched.

    Args:
      log_dir: directory of the run.
      optimizer: the optimizer, from which the learning rate is read; None where there is none.
      weights: the weights, in the order of the gradients; by default ``optimizer.parameters``.
      batch_size: samples of one step over all devices, for the throughput.
      **arguments: of `TrainingHealthCallback`.

    Raises:
      TypeError, ValueError: a wrong argument.
    """

    def __init__(
        self,
        log_dir: Union[str, os.PathLike[str]],
        *,
        optimizer: Any = None,
        weights: Optional[Sequence[Any]] = None,
        batch_size: Optional[int] = None,
        **arguments: Any,
    ) -> None:
        self._callback = TrainingHealthCallback(log_dir, **arguments)
        self._context = _Context(
            {
                "cur_step_num": 0,
                "optimizer": optimizer,
                "train_network": _Loop(getattr(optimizer, "parameters", ()) if weights is None else weights),
                "train_dataset": None if batch_size is None else _Batches(batch_size),
            }
        )
        self._callback.__enter__()
        self._callback.on_train_begin(self._context)
        self._shift = self._callback.steps_before

    @property
    def stop_requested(self) -> bool:
        """Whether `stop_on` asks for the end of the training."""
        return self._context.stops

    def log(self, step: int, loss: Any = None, *, grads: Optional[Sequence[Any]] = None, **metrics: Any) -> None:
        """Takes note of a step, and logs it when it is due.

        Args:
          step: optimizer steps done with this one, from 1.
          loss: the loss, a Tensor or a number.
          grads: the gradients as the optimizer got them but for clipping: Tensors or arrays.
          **metrics: more values by role, or by tag where the name has a slash.

        Raises:
          ValueError: `step` is below 1.
        """
        if step < 1:
            raise ValueError(f"step counts the optimizer steps done, from 1; got {step!r}: give step + 1")
        self._context.parameters["cur_step_num"] = step - self._shift
        self._context.parameters["net_outputs"] = _Values({"loss": loss, **metrics}, grads)
        self._callback.on_train_step_end(self._context)

    def log_eval(self, **metrics: Any) -> None:
        """Logs the results of an evaluation at the step where the training stands, e.g. ``loss`` and ``accuracy``."""
        self._context.parameters["metrics"] = metrics
        self._callback.on_eval_end(self._context)

    def close(self) -> None:
        """Logs the last step and writes that the training completed."""
        self._callback.on_train_end(self._context)
        self._callback.__exit__(None, None, None)

    def __enter__(self) -> TrainingLog:
        return self

    def __exit__(
        self,
        exc_type: Optional[type[BaseException]],
        exc: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if exc_type is None:
            self.close()
        else:
            self._callback.__exit__(exc_type, exc, traceback)


class _Context:
    """What a callback gets to see of the training: ``mindspore.train.RunContext`` for a loop without Model."""

    def __init__(self, parameters: dict[str, Any]) -> None:
        self.parameters = parameters
        self.stops = False

    def original_args(self) -> dict[str, Any]:
        return self.parameters

    def request_stop(self) -> None:
        self.stops = True

    def get_stop_requested(self) -> bool:
        return self.stops


class _Loop:
    """In the place of a train cell."""

    health_outputs = ("loss", "grad_norm", "layer_grad_norms", "grads")

    def __init__(self, weights: Sequence[Any]) -> None:
        self.weights = tuple(weights)
        self.grad_names = tuple(weight.name for weight in self.weights)

    def trainable_params(self) -> tuple[Any, ...]:
        return self.weights


class _Batches:
    def __init__(self, size: int) -> None:
        self._size = size

    def get_batch_size(self) -> int:
        return self._size

    def get_dataset_size(self) -> int:
        return -1


class _Values(Mapping[str, Any]):
    """The values of one step by role; what is made of the gradients is made when it is asked for."""

    def __init__(self, given: dict[str, Any], grads: Optional[Sequence[Any]]) -> None:
        self._given = given
        self._grads = grads
        self._norms: Optional[np.ndarray[Any, Any]] = None

    def __getitem__(self, name: str) -> Any:
        if self._grads is None or name in self._given:
            return self._given[name]
        if name == "grads":
            return self._grads
        if name not in ("grad_norm", "layer_grad_norms"):
            raise KeyError(name)
        if self._norms is None:
            self._norms = gradient_norms(self._grads)
        with np.errstate(all="ignore"):
            return self._norms if name == "layer_grad_norms" else float(np.sqrt((self._norms**2).sum()))

    def __iter__(self) -> Iterator[str]:
        yield from self._given
        if self._grads is not None:
            yield from (name for name in _Loop.health_outputs[1:] if name not in self._given)

    def __len__(self) -> int:
        return len(list(iter(self)))


def gradient_norms(grads: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Returns the norms (n,) of `n` gradients, summed in float32 on the device, with one read from it.

    Args:
      grads: Tensors, or arrays.
    """
    if all(isinstance(grad, Tensor) for grad in grads):
        squares = ops.stack([sum_of_squares(grad) for grad in grads]).asnumpy().astype(np.float64)
    else:
        squares = np.array([np.square(as_array("a gradient", grad).astype(np.float64)).sum() for grad in grads])
    with np.errstate(all="ignore"):
        return np.sqrt(squares)
