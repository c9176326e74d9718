"""What the train cell and its surroundings tell about the run: optimizer, loss scale, clipping, frameworks."""

from __future__ import annotations

import sys
from typing import Any, Iterator, Mapping, Optional

import mindspore

from tb_mindformers_plugin.callback.device_values import as_float


def find_optimizer(cb_params: Mapping[str, Any]) -> Any:
    """Returns the optimizer, or None. With ``Model(train_cell)`` only the cell knows it."""
    optimizer = cb_params.get("optimizer")
    return optimizer if optimizer is not None else _attribute(cb_params.get("train_network"), "optimizer")


def find_declared_outputs(cb_params: Mapping[str, Any]) -> Optional[tuple[str, ...]]:
    """Returns the ``health_outputs`` of the train cell, or None."""
    declared = _attribute(cb_params.get("train_network"), "health_outputs")
    return tuple(declared) if isinstance(declared, (tuple, list)) else None


def find_grad_clip(cb_params: Mapping[str, Any]) -> Optional[float]:
    """Returns the threshold of clipping by global norm, or None."""
    for cell in train_cells(cb_params.get("train_network")):
        if getattr(cell, "health_outputs", None) and getattr(cell, "clip_norm", None) is not None:
            return as_float(cell.clip_norm)
        if getattr(cell, "use_clip_grad", False) is True:  # mindformers
            return as_float(getattr(getattr(cell, "clip_grad_norm", None), "clip_norm", None))
    return None


def find_loss_scale(cb_params: Mapping[str, Any]) -> Optional[dict[str, Any]]:
    """Returns the loss scaling in use: ``kind`` (fixed or dynamic), ``initial`` and, if dynamic, ``window`` and
    ``factor``; None without loss scaling.
    """
    for cell in train_cells(cb_params.get("train_network")):
        manager = getattr(cell, "loss_scaling_manager", None)
        if manager is not None:
            scaling = {
                "kind": "dynamic" if hasattr(manager, "scale_window") else "fixed",
                "initial": as_float(getattr(manager, "loss_scale_value", None)),
                "window": _whole(getattr(manager, "scale_window", None)),
                "factor": as_float(getattr(manager, "scale_factor", None)),
            }
            return {name: value for name, value in scaling.items() if value is not None}
        if getattr(cell, "scale_sense", None) is not None:
            return {"kind": "fixed", "initial": as_float(cell.scale_sense)}
        if getattr(cell, "sense_flag", False) is True:
            return {"kind": "fixed", "initial": as_float(cell.sens)}
    return None


def find_batch_size(cb_params: Mapping[str, Any], processes: int) -> Optional[int]:
    """Returns the samples of one step over all devices, where that follows from the dataset's batch size.

    Under model or pipeline parallelism it does not: several devices work on the same samples.
    """
    dataset = cb_params.get("train_dataset")
    if dataset is None or (processes > 1 and str(cb_params.get("parallel_mode")) != "data_parallel"):
        return None
    size = dataset.get_batch_size()
    return int(size) * processes if size and size > 0 else None


def framework_versions() -> dict[str, str]:
    """Returns the versions of mindspore and, where the training uses it, mindformers."""
    versions = {"mindspore": str(mindspore.__version__)}
    mindformers = sys.modules.get("mindformers")
    if mindformers is not None:
        versions["mindformers"] = str(getattr(mindformers, "__version__", "unknown"))
    return versions


def skips_by_grad_norm(cb_params: Mapping[str, Any]) -> bool:
    """Tells whether mindformers may skip a step because its grad norm is large (no overflow then)."""
    return _attribute(cb_params.get("train_network"), "use_skip_data_by_global_norm") is True


def _attribute(train_network: Any, name: str) -> Any:
    for cell in train_cells(train_network):
        value = getattr(cell, name, None)
        if value is not None:
            return value
    return None


def train_cells(train_network: Any) -> Iterator[Any]:
    """Walks from the outermost cell inwards: data sinking and AutoParallel wrap the train cell."""
    for _ in range(6):
        if train_network is None:
            return
        yield train_network
        train_network = getattr(train_network, "network", None)


def _whole(value: Any) -> Optional[int]:
    number = as_float(value)
    return None if number is None else int(number)
