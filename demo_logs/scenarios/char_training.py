"""Trainings of the character model that differ in what goes wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional

import mindspore as ms
import numpy as np
from mindformers.core.lr import ConstantWarmUpLR, CosineWithWarmUpLR
from mindspore import dataset as ds
from mindspore import nn
from mindspore.train import Callback, Model

from scenarios.char_model import BATCH, CHARACTERS_PER_STEP, WINDOW, CharModel, CrossEntropy
from scenarios.corpus import CHARACTERS, read_corpus, windows
from tb_mindformers_plugin import AdjustableSchedule, GradNormTrainOneStepCell, TrainingHealthCallback

CORPUS_CHARACTERS = 600_000


def healthy_warmup_cosine(run_dir: Path, steps: int = 3000) -> None:
    """AdamW, warm-up and cosine decay, clipping: as it should be."""
    net = _network()
    optimizer = _adamw(net, peak=3e-3, warmup=300, steps=steps)
    _train(run_dir, net, optimizer, _batches(steps), clip_norm=2.0, hparams=_hparams("AdamW", 3e-3))


def lr_too_high(run_dir: Path, steps: int = 3000, stop_at: int = 1100) -> None:
    """SGD with momentum warms up to a learning rate it cannot take; stopped by hand."""
    net = _network()
    optimizer = nn.Momentum(net.trainable_params(), CosineWithWarmUpLR(3.0, warmup_steps=800, total_steps=steps), 0.9)
    _train(
        run_dir,
        net,
        optimizer,
        _batches(steps),
        clip_norm=1.0,
        hparams=_hparams("Momentum", 3.0),
        also=[StopAt(stop_at)],
    )


def lr_too_high_nan(run_dir: Path, steps: int = 3000) -> None:
    """The same without clipping: the loss becomes NaN, and a guard fails the training."""
    net = _network()
    optimizer = nn.Momentum(net.trainable_params(), CosineWithWarmUpLR(3.0, warmup_steps=800, total_steps=steps), 0.9)
    guard = FailOnNaN(patience=25)
    try:
        _train(run_dir, net, optimizer, _batches(steps), hparams=_hparams("Momentum", 3.0), also=[guard])
    except FloatingPointError:
        return
    raise AssertionError("this training was to become NaN")


def grad_explosion_recovered(run_dir: Path, steps: int = 1800, broken_at: int = 900, broken: int = 3) -> None:
    """A damaged stretch of the corpus, one rare character over and over, without clipping."""
    net = _network()
    optimizer = nn.Momentum(net.trainable_params(), CosineWithWarmUpLR(0.2, warmup_steps=100, total_steps=steps), 0.9)
    _train(run_dir, net, optimizer, _damaged_batches(steps, broken_at, broken), hparams=_hparams("Momentum", 0.2))


def grad_explosion_kept_lr(run_dir: Path) -> None:
    """The damaged stretch meets a learning rate that is nearly too high; clipping alone does not save the run."""
    _at_the_edge(run_dir)


def grad_explosion_reduced_lr(run_dir: Path) -> None:
    """The same training, from the same seed, whose callback may reduce the learning rate."""
    _at_the_edge(run_dir, reduce_lr={"factor": 0.25, "cooldown": 200})


def _at_the_edge(run_dir: Path, steps: int = 1000, broken_at: int = 350, broken: int = 3, **action: Any) -> None:
    net = _network()
    schedule = AdjustableSchedule(ConstantWarmUpLR(1.5, warmup_steps=150, total_steps=steps))
    optimizer = nn.Momentum(net.trainable_params(), schedule, 0.9)
    batches = _damaged_batches(steps, broken_at, broken)
    _train(run_dir, net, optimizer, batches, clip_norm=1.0, hparams={**_hparams("Momentum", 1.5), **action}, **action)


def overfit_with_eval(run_dir: Path, epochs: int = 60, samples: int = 320) -> None:
    """320 windows of text, learnt by heart; `Model.fit` evaluates on other text after every epoch."""
    corpus = read_corpus(CORPUS_CHARACTERS)
    train = windows(corpus[:-100_000], samples, WINDOW, seed=3)
    other = windows(corpus[-100_000:], samples, WINDOW, seed=4)
    net, loss = _network(), CrossEntropy()
    steps = epochs * samples // BATCH
    cell = _cell(net, _adamw(net, peak=4e-3, warmup=60, steps=steps), clip_norm=2.0)
    model = Model(cell, metrics={"loss": nn.Loss()}, eval_network=nn.WithEvalCell(net, loss), eval_indexes=[0, 1, 2])
    hparams = {**_hparams("AdamW", 4e-3), "train_windows": samples}
    callbacks = [_callback(run_dir, hparams)]
    model.fit(epochs, _dataset(train, shuffle=True), _dataset(other), callbacks=callbacks, dataset_sink_mode=False)


def killed_and_resumed(run_dir: Path, epochs: int = 4, steps_per_epoch: int = 400, kill_at: int = 1050) -> None:
    """Killed (SIGKILL) at `kill_at`, and started again from the last epoch's checkpoint in the same directory.

    Both starts are processes of their own; this one runs the first, then continues as the second.
    """
    checkpoints = Path("checkpoints").absolute()
    if os.environ.get("DEMO_FIRST_START"):
        _resumable(run_dir, checkpoints, epochs, steps_per_epoch, done=0, also=[KillAt(kill_at)])
        raise AssertionError("this process was to be killed")
    code = f"import make; make.run_scenario('killed_and_resumed', {str(run_dir)!r})"
    demo_logs = str(Path(__file__).resolve().parent.parent)
    environment = {**os.environ, "DEMO_FIRST_START": "1", "PYTHONPATH": os.pathsep.join([demo_logs, *sys.path])}
    first = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    if first.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the first start ended with {first.returncode}, not with a kill")
    _resumable(run_dir, checkpoints, epochs, steps_per_epoch, done=kill_at // steps_per_epoch)


def _resumable(run_dir: Path, checkpoints: Path, epochs: int, steps_per_epoch: int, done: int, also: Any = ()) -> None:
    steps = epochs * steps_per_epoch
    net = _network()
    cell = _cell(net, _adamw(net, peak=3e-3, warmup=160, steps=steps), clip_norm=2.0)
    if done:
        # The optimizer's step count is in it: the callback goes by that.
        ms.load_param_into_net(cell, ms.load_checkpoint(str(checkpoints / f"{done}.ckpt")), strict_load=True)
    Model(cell).train(
        epochs,
        _dataset(_batches(steps_per_epoch)),
        callbacks=[_callback(run_dir, _hparams("AdamW", 3e-3)), SaveEachEpoch(checkpoints), *also],
        dataset_sink_mode=False,
        initial_epoch=done,
    )


class StopAt(Callback):
    """Asks for a stop at a step, as a person who watches would."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self._step = step

    def on_train_step_end(self, run_context: Any) -> None:
        """Asks for the stop when it is time."""
        if run_context.original_args().cur_step_num >= self._step:
            run_context.request_stop()


class KillAt(Callback):
    """Kills the process at a step: nothing can be caught, closed or flushed."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self._step = step

    def on_train_step_end(self, run_context: Any) -> None:
        """Kills when it is time."""
        if run_context.original_args().cur_step_num == self._step:
            os.kill(os.getpid(), signal.SIGKILL)


class FailOnNaN(Callback):
    """Fails the training after `patience` losses in a row that are no number."""

    def __init__(self, patience: int) -> None:
        super().__init__()
        self._patience, self._seen = patience, 0

    def on_train_step_end(self, run_context: Any) -> None:
        """Looks at the loss."""
        loss = float(run_context.original_args().net_outputs[0].asnumpy())
        self._seen = 0 if np.isfinite(loss) else self._seen + 1
        if self._seen >= self._patience:
            raise FloatingPointError(f"the loss was no number for {self._patience} steps")


class SaveEachEpoch(Callback):
    """Saves the train cell, optimizer included, after each epoch."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    def on_train_epoch_end(self, run_context: Any) -> None:
        """Saves."""
        parameters = run_context.original_args()
        self._directory.mkdir(exist_ok=True)
        ms.save_checkpoint(parameters.train_network, str(self._directory / f"{parameters.cur_epoch_num}.ckpt"))


def _network() -> CharModel:
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_seed(1)
    return CharModel()


def _adamw(net: nn.Cell, peak: float, warmup: int, steps: int) -> nn.Cell:
    schedule = CosineWithWarmUpLR(peak, warmup_steps=warmup, total_steps=steps, lr_end=peak / 100)
    return nn.AdamWeightDecay(net.trainable_params(), schedule, beta2=0.95, weight_decay=0.01)


def _batches(steps: int) -> tuple[np.ndarray, np.ndarray]:
    return windows(read_corpus(CORPUS_CHARACTERS), BATCH * steps, WINDOW, seed=0)


def _damaged_batches(steps: int, broken_at: int, broken: int) -> tuple[np.ndarray, np.ndarray]:
    """Batches of which `broken`, behind the first `broken_at`, are one rare character over and over."""
    characters, targets = _batches(steps)
    stretch = slice(broken_at * BATCH, (broken_at + broken) * BATCH)
    characters[stretch] = targets[stretch] = CHARACTERS.index("~")
    return characters, targets


def _dataset(samples: tuple[np.ndarray, np.ndarray], shuffle: bool = False) -> ds.Dataset:
    return ds.NumpySlicesDataset(samples, ["characters", "targets"], shuffle=shuffle).batch(BATCH)


def _cell(net: nn.Cell, optimizer: nn.Cell, clip_norm: Optional[float] = None) -> GradNormTrainOneStepCell:
    return GradNormTrainOneStepCell(nn.WithLossCell(net, CrossEntropy()), optimizer, clip_norm=clip_norm)


def _callback(run_dir: Path, hparams: dict[str, Any], **action: Any) -> TrainingHealthCallback:
    return TrainingHealthCallback(
        run_dir, log_every=1, flush_seconds=0.5, tokens_per_step=CHARACTERS_PER_STEP, hparams=hparams, **action
    )


def _train(
    run_dir: Path,
    net: nn.Cell,
    optimizer: nn.Cell,
    samples: tuple[np.ndarray, np.ndarray],
    hparams: dict[str, Any],
    clip_norm: Optional[float] = None,
    also: Any = (),
    **action: Any,
) -> None:
    callbacks = [_callback(run_dir, hparams, **action), *also]
    Model(_cell(net, optimizer, clip_norm)).train(1, _dataset(samples), callbacks=callbacks, dataset_sink_mode=False)


def _hparams(optimizer: str, peak: float) -> dict[str, Any]:
    return {"model": "2-layer character transformer, width 48", "optimizer": optimizer, "lr": peak, "batch_size": BATCH}
