"""Histograms of weights, and of gradients where the train cell returns or keeps them."""

from __future__ import annotations

import fnmatch
from typing import Any, Mapping, Optional, Sequence

import numpy as np

from tb_mindformers_plugin.callback.step_outputs import output_of
from tb_mindformers_plugin.callback.train_cell import train_cells
from tb_mindformers_plugin.writer import HealthWriter
from tb_mindformers_plugin.writer.summaries import as_array

#: How a train cell declares its gradients among its `health_outputs`.
NAME = "grads"


class Histograms:
    """Writes histograms of the weights, and of the gradients, whose names match.

    Args:
      cb_params: the callback's parameters at ``on_train_begin``.
      every: steps between histograms, >= 1.
      patterns: of names (`fnmatch`).
      start: steps done before this training.

    Raises:
      ValueError: no weight matches.
    """

    def __init__(self, cb_params: Mapping[str, Any], every: int, patterns: Sequence[str], start: int) -> None:
        self._every = every
        self._next = start + 1
        weights: Sequence[Any] = ()
        self._declared: Optional[Sequence[str]] = None
        self._kept: Sequence[Any] = ()
        self._grad_names: Sequence[str] = ()
        self._scale = 1.0
        for cell in train_cells(cb_params.get("train_network")):
            weights = weights or getattr(cell, "weights", None) or ()
            declared = getattr(cell, "health_outputs", None) or ()
            if self._grad_names:
                continue
            if NAME in declared:
                self._declared = declared
                self._grad_names, self._scale = cell.grad_names, float(getattr(cell, "sens", None) or 1.0)
            elif hasattr(cell, "kept_grads"):
                self._grad_names, self._kept = cell.grad_names, cell.kept_grads
        if not weights and cb_params.get("train_network") is not None:
            weights = list(cb_params["train_network"].trainable_params())
        self._patterns = patterns
        self._weights = [weight for weight in weights if self._matches(weight.name)]
        if not self._weights:
            names = ", ".join(weight.name for weight in weights) or "none at all"
            raise ValueError(f"histogram_tags {list(patterns)!r} matches no weight; there are {names}")

    @property
    def has_grads(self) -> bool:
        """Whether the train cell gives its gradients."""
        return bool(self._grad_names)

    def write(self, writer: HealthWriter, step: int, net_outputs: Any) -> None:
        """Writes the histograms if they are due at `step`, a step that is logged."""
        if step < self._next:
            return
        self._next = (step // self._every + 1) * self._every
        for weight in self._weights:
            writer.add_histogram(f"weights/{weight.name}", weight, step)
        for name, grad in zip(self._grad_names, self._kept or output_of(net_outputs, self._declared, NAME) or ()):
            if self._matches(name):
                writer.add_histogram(f"grads/{name}", self._unscaled(grad), step)

    def _matches(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self._patterns)

    def _unscaled(self, grad: Any) -> np.ndarray[Any, Any]:
        array = as_array("a gradient", grad)
        return array if self._scale == 1.0 else array.astype(np.float64) / self._scale
