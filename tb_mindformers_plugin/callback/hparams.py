"""The hyper-parameters of a run, for TensorBoard's HParams tab."""

from __future__ import annotations

from typing import Any

from tb_mindformers_plugin.metadata import RunManifest


def run_hparams(manifest: RunManifest, optimizer: Any) -> dict[str, Any]:
    """Returns what the user says, and what the callback found out about the training; the user's word wins.

    >>> run_hparams(RunManifest(grad_clip=1.0, schedule={"kind": "cosine"}, hparams={"layers": 2}), None)
    {'grad_clip': 1.0, 'schedule.kind': 'cosine', 'layers': 2}
    """
    found: dict[str, Any] = {}
    if optimizer is not None:
        found["optimizer"] = type(optimizer).__name__
    for name in ("global_batch_size", "tokens_per_step", "grad_clip"):
        value = getattr(manifest, name)
        if value is not None:
            found[name] = value
    for name in ("schedule", "loss_scale"):
        found.update({f"{name}.{key}": value for key, value in (getattr(manifest, name) or {}).items()})
    return {**found, **(manifest.hparams or {})}
