"""Dynamic loss scaling in float16, with overflows that the numbers themselves make."""

from __future__ import annotations

from pathlib import Path

import mindspore as ms
from mindformers.core.lr import CosineWithWarmUpLR
from mindformers.wrapper import MFTrainOneStepCell
from mindspore import dataset as ds
from mindspore import nn
from mindspore.train import Model

from scenarios.char_model import BATCH, CHARACTERS_PER_STEP, WINDOW, CharModel, CrossEntropy
from scenarios.corpus import read_corpus, windows
from scenarios.cpu_overflow import overflow_seen_on_cpu
from tb_mindformers_plugin import TrainingHealthCallback


def dynamic_loss_scale_overflow(run_dir: Path, steps: int = 1500) -> None:
    """float16 activations and gradients, scale from 2^24, doubled after 60 steps without overflow.

    The gradients of the activations overflow float16 (65504) when the scale is too large: first
    the scale comes down to what fits, then it tries a doubling every 60 steps.
    """
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_seed(1)
    net = CharModel()
    net.to_float(ms.float16)
    schedule = CosineWithWarmUpLR(3e-3, warmup_steps=150, total_steps=steps, lr_end=3e-5)
    optimizer = nn.AdamWeightDecay(net.trainable_params(), schedule, beta2=0.95, weight_decay=0.01)
    scaling = nn.DynamicLossScaleUpdateCell(loss_scale_value=2.0**24, scale_factor=2, scale_window=60)
    samples = windows(read_corpus(600_000), BATCH * steps, WINDOW, seed=0)
    data = ds.NumpySlicesDataset(samples, ["characters", "targets"], shuffle=False).batch(BATCH)
    with overflow_seen_on_cpu():
        cell = MFTrainOneStepCell(
            nn.WithLossCell(net, CrossEntropy()), optimizer, use_clip_grad=True, max_grad_norm=2.0, scale_sense=scaling
        )
        callback = TrainingHealthCallback(
            run_dir,
            log_every=1,
            flush_seconds=1,
            tokens_per_step=CHARACTERS_PER_STEP,
            hparams={"model": "2-layer character transformer, width 48, float16", "optimizer": "AdamW", "lr": 3e-3},
        )
        Model(cell).train(1, data, callbacks=[callback], dataset_sink_mode=False)
