"""A Llama of MindSpore Transformers, small enough for a CPU, trained by its own Trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional, Sequence

import mindformers
import mindspore as ms
import numpy as np
from mindformers import MindFormerConfig, Trainer, build_context
from mindspore import dataset as ds

from scenarios.corpus import CHARACTERS, read_corpus, windows
from scenarios.cpu_overflow import overflow_seen_on_cpu
from tb_mindformers_plugin import TrainingHealthCallback

WINDOW = 32
BATCH = 8

# What a CPU cannot do is off, and all is float32.
_MODEL = {
    "type": "LlamaConfig",
    "batch_size": BATCH,
    "seq_length": WINDOW,
    "hidden_size": 64,
    "num_layers": 2,
    "num_heads": 4,
    "vocab_size": len(CHARACTERS),
    "intermediate_size": 128,
    "pad_token_id": len(CHARACTERS) - 1,
    "fused_rms_norm": False,
    "use_rope_slice": True,
    "use_flash_attention": False,
    **dict.fromkeys(
        (
            "compute_dtype",
            "layernorm_compute_type",
            "softmax_compute_type",
            "rotary_dtype",
            "param_init_type",
            "embedding_init_type",
        ),
        "float32",
    ),
}


def mindformers_tiny_llama(run_dir: Path, steps: int = 800) -> None:
    """`Trainer.train()` with CosineWithWarmUpLR, clipping and a dynamic loss scale near the end of float32."""
    hparams = {"model": "Llama, 2 layers, width 64", "optimizer": "AdamW", "lr": 2e-3, "batch_size": BATCH}
    callback = TrainingHealthCallback(
        run_dir, log_every=1, flush_seconds=1, tokens_per_step=WINDOW * BATCH, hparams=hparams
    )
    train_llama(steps, [callback])


def train_llama(steps: int, callbacks: Sequence[Any], mode: Optional[int] = None, output_dir: str = "output") -> None:
    """Trains the Llama on a CPU.

    Args:
      steps: optimizer steps.
      callbacks: for ``Trainer(callbacks=...)``.
      mode: ``mindspore.GRAPH_MODE`` (the default) or ``mindspore.PYNATIVE_MODE``.
      output_dir: where the Trainer puts its own logs.
    """
    mode = ms.GRAPH_MODE if mode is None else mode
    samples = windows(read_corpus(300_000), BATCH * steps, WINDOW + 1, seed=0)[0]
    data = ds.NumpySlicesDataset((np.ascontiguousarray(samples),), ["input_ids"], shuffle=False).batch(BATCH)
    config = _config(steps, mode, output_dir)
    # The Trainer alone would stay in PyNative mode, forty times slower here.
    build_context(config)
    ms.set_context(mode=mode)
    with overflow_seen_on_cpu():
        Trainer(args=config, task="text_generation", train_dataset=data, callbacks=list(callbacks)).train()


def _config(steps: int, mode: int, output_dir: str) -> MindFormerConfig:
    general = Path(mindformers.__file__).resolve().parent.parent / "configs" / "general" / "run_general_task.yaml"
    config = MindFormerConfig(str(general))
    config.merge_from_dict(
        {
            "seed": 1,
            "output_dir": output_dir,
            "use_parallel": False,
            "context": {"mode": mode, "device_target": "CPU"},
            "runner_config": {"epochs": 1, "batch_size": BATCH, "sink_mode": False},
            "optimizer": {"type": "AdamW", "weight_decay": 0.01},
            "lr_schedule": {
                "type": "CosineWithWarmUpLR",
                "learning_rate": 2e-3,
                "lr_end": 2e-5,
                "warmup_steps": max(1, steps // 10),
                "total_steps": steps,
            },
            "runner_wrapper": {
                "type": "MFTrainOneStepCell",
                "use_clip_grad": True,
                "max_grad_norm": 1.0,
                # Doubled every 50 steps, 2^126 soon overflows float32, as 2^16 does in float16.
                "scale_sense": {
                    "type": "DynamicLossScaleUpdateCell",
                    "loss_scale_value": 2.0**126,
                    "scale_factor": 2,
                    "scale_window": 50,
                },
            },
        }
    )
    config.train_dataset = MindFormerConfig(data_loader=MindFormerConfig(type=""), batch_size=BATCH, seed=0)
    config.model = MindFormerConfig(
        model_config=MindFormerConfig(**_MODEL), arch=MindFormerConfig(type="LlamaForCausalLM")
    )
    config.callbacks = [{"type": "MFLossMonitor"}]
    config.eval_callbacks = []
    return config
