"""Gradient norms of single layers, where the train cell returns them."""

from __future__ import annotations

import math
from typing import Any, Mapping, Optional, Sequence

import numpy as np

from tb_mindformers_plugin.callback.device_values import element_count
from tb_mindformers_plugin.callback.step_outputs import output_of
from tb_mindformers_plugin.callback.train_cell import train_cells
from tb_mindformers_plugin.writer.summaries import as_array

#: How a train cell declares them among its `health_outputs`.
NAME = "layer_grad_norms"

_MINDFORMERS = ("loss", "overflow", "loss_scale", "lr", "grad_norm", NAME, "sizes")

# So many times `k` layers are shown at most: which are the largest changes as a training goes on.
_SHOWN = 4


class LayerNorms:
    """The gradient norms of the `k` layers that have the largest.

    A layer that was among them once stays, up to four times `k`, so that its curve has no gaps. The norm of
    a layer is that of the gradients of its weights together; its name is theirs without the last part.

    Args:
      cb_params: the callback's parameters at ``on_train_begin``.
      k: layers, >= 1.

    Raises:
      ValueError: the train cell does not return the norms.
    """

    def __init__(self, cb_params: Mapping[str, Any], k: int) -> None:
        self._k = k
        self._shown: dict[str, None] = {}
        self._declared, self._squares, names = _find(cb_params)
        self._layers = [name.rpartition(".")[0] or name for name in names]

    def read(self, net_outputs: Any) -> dict[str, float]:
        """Returns {tag: norm} from the outputs of one step, with one read from the device."""
        output = output_of(net_outputs, self._declared, NAME)
        if output is None or element_count(output) != len(self._layers):
            return {}
        values = as_array(NAME, output).astype(np.float64).reshape(-1)
        with np.errstate(all="ignore"):
            norms = layer_norms(self._layers, (values if self._squares else values**2).tolist())
        for layer in largest(norms, self._k):
            if layer in self._shown or len(self._shown) < _SHOWN * self._k:
                self._shown[layer] = None
        return {f"grad_norm/{layer}": norms[layer] for layer in self._shown}


def layer_norms(layers: Sequence[str], squares: Sequence[float]) -> dict[str, float]:
    """Returns the norm of each layer from its weights' squared norms.

    >>> layer_norms(["a", "b", "a"], [9.0, 4.0, 16.0])
    {'a': 5.0, 'b': 2.0}
    """
    totals: dict[str, float] = {}
    for layer, square in zip(layers, squares):
        totals[layer] = totals.get(layer, 0.0) + float(square)
    return {layer: math.sqrt(total) if total >= 0 else math.nan for layer, total in totals.items()}


def largest(norms: Mapping[str, float], k: int) -> list[str]:
    """Returns the `k` layers with the largest norms; what is not finite comes first.

    >>> largest({"a": 1.0, "b": math.nan, "c": 3.0}, 2)
    ['b', 'c']
    """
    return sorted(norms, key=lambda layer: -norms[layer] if math.isfinite(norms[layer]) else -math.inf)[:k]


def _find(cb_params: Mapping[str, Any]) -> tuple[Sequence[str], bool, list[str]]:
    """Returns what the train cell declares, whether its norms are squared, and of which weights they are."""
    for cell in train_cells(cb_params.get("train_network")):
        weights = getattr(cell, "weights", None)
        if weights is None:
            continue
        names = [weight.name for weight in weights]
        declared: Optional[Sequence[str]] = getattr(cell, "health_outputs", None)
        if declared is not None and NAME in declared:
            return declared, False, names
        if getattr(cell, "local_norm", False) is True:  # mindformers, whose local norms are squares
            return _MINDFORMERS, True, names
    raise ValueError(
        "the train cell returns no norms of layers: GradNormTrainOneStepCell(..., layer_norms=True) does, and with "
        "mindformers `runner_wrapper: local_norm: True`"
    )
