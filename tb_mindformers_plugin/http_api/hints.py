"""How to get a metric that a run does not log."""

from __future__ import annotations

from typing import Optional

from tb_mindformers_plugin.language import Text
from tb_mindformers_plugin.runs.summary import RunSummary

#: Roles whose absence is worth a word.
EXPECTED = ("loss", "lr", "grad_norm", "loss_scale")

_OURS = "MindSpore"

_HINTS: dict[str, dict[Optional[str], Text]] = {
    "loss": {
        None: Text(
            "Log the training loss: TrainingHealthCallback does it for Model.train, "
            "HealthWriter.log(step, loss=...) for any other loop.",
            "请记录训练损失：Model.train 由 TrainingHealthCallback 记录，其他循环用 HealthWriter.log(step, loss=...)。",
        ),
    },
    "lr": {
        _OURS: Text(
            "The callback reads the learning rate from the optimizer; it found none. Train with an nn, "
            "experimental or mint optimizer, or log it: HealthWriter.log(step, lr=...).",
            "回调从优化器读取学习率，但没有找到。请使用 nn、experimental 或 mint 优化器，"
            "或自行记录：HealthWriter.log(step, lr=...)。",
        ),
        "PyTorch Lightning": Text(
            "Add LearningRateMonitor to the Trainer's callbacks.", "请在 Trainer 的回调中加入 LearningRateMonitor。"
        ),
        "Keras": Text(
            "Log it from a callback; the TensorBoard callback writes epoch_learning_rate for a schedule.",
            "请在回调中记录；使用学习率调度时，TensorBoard 回调会写入 epoch_learning_rate。",
        ),
        None: Text(
            "Log it beside the loss; with MindSpore TrainingHealthCallback reads it from the optimizer.",
            "请与损失一起记录；使用 MindSpore 时 TrainingHealthCallback 会从优化器读取。",
        ),
    },
    "grad_norm": {
        _OURS: Text(
            "Plain MindSpore does not compute it: train with "
            "Model(GradNormTrainOneStepCell(nn.WithLossCell(net, loss_fn), optimizer)). "
            "In MindSpore Transformers set runner_wrapper.use_clip_grad: True.",
            "MindSpore 本身不计算它：请用 Model(GradNormTrainOneStepCell(nn.WithLossCell(net, loss_fn), optimizer)) "
            "训练；在 MindSpore Transformers 中设置 runner_wrapper.use_clip_grad: True。",
        ),
        "MindSpore Transformers": Text(
            "Set runner_wrapper.use_clip_grad: True: it is computed for clipping.",
            "请设置 runner_wrapper.use_clip_grad: True：裁剪时会计算它。",
        ),
        "PyTorch Lightning": Text(
            "Log lightning's grad_norm in on_before_optimizer_step.",
            "请在 on_before_optimizer_step 中记录 lightning 的 grad_norm。",
        ),
        None: Text("Log the global norm of the gradients before clipping.", "请记录裁剪前的全局梯度范数。"),
    },
    "loss_scale": {
        "MindSpore Transformers": Text(
            "Only runs with a loss scaler have one: set runner_wrapper.scale_sense "
            "(and callbacks' log_loss_scale_to_tensorboard for its own logs). bfloat16 needs none.",
            "只有使用损失缩放的运行才有：请设置 runner_wrapper.scale_sense"
            "（其自带日志还需 callbacks 的 log_loss_scale_to_tensorboard）。bfloat16 不需要。",
        ),
        None: Text(
            "Only mixed-precision runs with a loss scaler have one; float32 and bfloat16 need none.",
            "只有使用损失缩放的混合精度运行才有；float32 和 bfloat16 不需要。",
        ),
    },
}


def missing_hints(summary: RunSummary, language: str = "en") -> list[dict[str, str]]:
    """Returns {"role", "hint"} for each expected role that a run does not log."""
    roles, framework = summary.roles, summary.framework
    if summary.has_manifest:
        # Whoever wrote the manifest used this package; what is to be done depends on what it trains with.
        framework = _OURS if "mindspore" in summary.manifest.framework else None
    return [
        {"role": role, "hint": (_HINTS[role].get(framework) or _HINTS[role][None]).in_language(language)}
        for role in EXPECTED
        if role not in roles
    ]
