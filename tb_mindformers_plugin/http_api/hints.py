"""How to get a metric that a run does not log."""

from __future__ import annotations

from typing import Optional

from tb_mindformers_plugin.runs.summary import RunSummary

#: Roles whose absence is worth a word.
EXPECTED = ("loss", "lr", "grad_norm", "loss_scale")

_OURS = "MindSpore"

_HINTS: dict[str, dict[Optional[str], str]] = {
    "loss": {
        None: "Log the training loss: TrainingHealthCallback does it for Model.train, "
        "HealthWriter.log(step, loss=...) for any other loop.",
    },
    "lr": {
        _OURS: "The callback reads the learning rate from the optimizer; it found none. Train with an nn, "
        "experimental or mint optimizer, or log it: HealthWriter.log(step, lr=...).",
        "PyTorch Lightning": "Add LearningRateMonitor to the Trainer's callbacks.",
        "Keras": "Log it from a callback; the TensorBoard callback writes epoch_learning_rate for a schedule.",
        None: "Log it beside the loss; with MindSpore TrainingHealthCallback reads it from the optimizer.",
    },
    "grad_norm": {
        _OURS: "Plain MindSpore does not compute it: train with "
        "Model(GradNormTrainOneStepCell(nn.WithLossCell(net, loss_fn), optimizer)). "
        "In MindSpore Transformers set runner_wrapper.use_clip_grad: True.",
        "MindSpore Transformers": "Set runner_wrapper.use_clip_grad: True: it is computed for clipping.",
        "PyTorch Lightning": "Log lightning's grad_norm in on_before_optimizer_step.",
        None: "Log the global norm of the gradients before clipping.",
    },
    "loss_scale": {
        "MindSpore Transformers": "Only runs with a loss scaler have one: set runner_wrapper.scale_sense "
        "(and callbacks' log_loss_scale_to_tensorboard for its own logs). bfloat16 needs none.",
        None: "Only mixed-precision runs with a loss scaler have one; float32 and bfloat16 need none.",
    },
}


def missing_hints(summary: RunSummary) -> list[dict[str, str]]:
    """Returns {"role", "hint"} for each expected role that a run does not log."""
    roles, framework = summary.roles, summary.framework
    if summary.has_manifest:
        # Whoever wrote the manifest used this package; what is to be done depends on what it trains with.
        framework = _OURS if "mindspore" in summary.manifest.framework else None
    return [
        {"role": role, "hint": _HINTS[role].get(framework) or _HINTS[role][None]}
        for role in EXPECTED
        if role not in roles
    ]
