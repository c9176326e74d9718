"""P8: what the callback takes from the training thread, per logged step of 8 metrics and per step not logged.

python benchmarks/callback_cost.py [--steps 5000] [--repeat 5]

Needs mindspore; tensorboardX, torch and mindformers (its MFLossMonitor with TensorBoard on) are measured where they are
installed. The values are Python numbers, so nothing is read back from a device; what that takes is shown apart.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Callable

# Before anything that uses protobuf.
import mindspore  # isort: skip
import numpy as np
from measure import Table, at_most, interleaved, ratio
from mindspore.train import RunContext

from tb_mindformers_plugin import TrainingHealthCallback
from tb_mindformers_plugin.callback.device_values import as_float
from tb_mindformers_plugin.health.online import HealthMonitor

_GOAL, _GOAL_NOT_LOGGED = 1 / 3, 2e-6


def values(steps: int) -> list[dict[str, float]]:
    """A healthy training: what a train cell returns of each step, as numbers."""
    random = np.random.default_rng(0)
    t = np.arange(steps)
    loss = (2 + 6 * (1 + t / 50) ** -0.7) * np.exp(0.02 * random.standard_normal(steps))
    norm = np.exp(0.2 * random.standard_normal(steps))
    lr = 1e-3 * np.minimum((t + 1) / 200, 1)
    rows = zip(loss.tolist(), norm.tolist(), lr.tolist())
    return [{"loss": a, "grad_norm": b, "lr": c, "loss_scale": 65536.0, "overflow": 0.0} for a, b, c in rows]


def callback(rows: list[dict[str, float]], log_every: int, watched: bool = True) -> float:
    """Seconds of this thread a step: loss, loss_ema, grad_norm, lr, loss_scale, overflow, step_time, epoch."""
    with tempfile.TemporaryDirectory() as log_dir:
        made = TrainingHealthCallback(log_dir, log_every=log_every)
        parameters: dict[str, Any] = {"cur_step_num": 0, "batch_num": len(rows), "epoch_num": 1, "list_callback": []}
        context = RunContext(parameters)
        made.__enter__()
        made.on_train_begin(context)
        if not watched:
            made._session._watch.step = lambda *_, **__: None
        spent = _timed(made.on_train_step_end, context, parameters, rows)
        made.on_train_end(context)
        made.__exit__(None, None, None)
    return spent


def _timed(step_end: Callable[[Any], None], context: Any, parameters: dict[str, Any], rows: Any) -> float:
    began = time.thread_time()
    for step, row in enumerate(rows, 1):
        parameters["cur_step_num"], parameters["net_outputs"] = step, row
        step_end(context)
    return (time.thread_time() - began) / len(rows)


def monitor(rows: list[dict[str, float]]) -> float:
    """Seconds a step of the rules alone."""
    watching = HealthMonitor()
    began = time.thread_time()
    for step, row in enumerate(rows, 1):
        watching.update(step, row)
    return (time.thread_time() - began) / len(rows)


def summary_writer(module: str, rows: list[dict[str, float]]) -> float:
    """Seconds a step of a SummaryWriter's add_scalar for 8 tags."""
    writer_type = importlib.import_module(module).SummaryWriter
    eight = [{**row, "loss_ema": row["loss"], "step_time": 0.1, "epoch": 0.5} for row in rows]
    with tempfile.TemporaryDirectory() as log_dir, contextlib.closing(writer_type(log_dir)) as writer:
        began = time.thread_time()
        for step, row in enumerate(eight, 1):
            for tag, value in row.items():
                writer.add_scalar(tag, value, step)
        return (time.thread_time() - began) / len(rows)


def loss_monitor(rows: list[dict[str, float]]) -> float:
    """Seconds a step of mindformers' MFLossMonitor, which prints its line and writes through tensorboardX."""
    from mindformers.core.callback.callback import MFLossMonitor
    from mindformers.utils import tensorboard

    with tempfile.TemporaryDirectory() as log_dir, _silent():
        tensorboard._set_tensorboard_writer(SimpleNamespace(tensorboard_dir=log_dir, tensorboard_queue_size=10))
        tensorboard.get_tensorboard_args().update(log_timers_to_tensorboard=True, log_loss_scale_to_tensorboard=True)
        made = MFLossMonitor(origin_epochs=1, dataset_size=len(rows), global_batch_size=8)
        parameters = _Parameters(cur_epoch_num=1, batch_num=len(rows), mode="train", train_network=object())
        context = RunContext(parameters)
        made.on_train_epoch_begin(context)
        made.on_train_step_begin(context)
        outputs = [(row["loss"], False, row["loss_scale"], row["lr"], row["grad_norm"]) for row in rows]
        spent = _timed(made.on_train_step_end, context, parameters, outputs)
        tensorboard._unset_tensorboard_writer()
    return spent


class _Parameters(dict):  # type: ignore[type-arg]
    """As MindSpore's own: what is not there is None."""

    __getattr__ = dict.get


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Sends what is printed nowhere, the lines that others print from C++ and by logging included."""
    saved = [(number, os.dup(number)) for number in (1, 2)]
    with open(os.devnull, "w") as nowhere:
        for number, _ in saved:
            os.dup2(nowhere.fileno(), number)
        try:
            yield
        finally:
            for number, copy in saved:
                os.dup2(copy, number)
                os.close(copy)


def read_back(count: int) -> float:
    """Seconds to read `count` numbers from a CPU, one tensor each."""
    tensors = [mindspore.Tensor(float(number)) + 1.0 for number in range(count)]
    best = float("inf")
    for _ in range(200):
        began = time.thread_time()
        for tensor in tensors:
            as_float(tensor)
        best = min(best, time.thread_time() - began)
    return best


def tables(steps: int, repeat: int) -> list[Table]:
    """The table."""
    rows = values(steps)
    contenders: dict[str, Callable[[], float]] = {
        "callback, every step logged": lambda: callback(rows, 1),
        "the same without the rules": lambda: callback(rows, 1, watched=False),
        "the rules alone": lambda: monitor(rows),
        "callback, a step that is not logged": lambda: callback(rows, 10**9),
    }
    rivals = {"tensorboardX": "tensorboardX", "torch": "torch.utils.tensorboard"}
    for name, module in rivals.items():
        if importlib.util.find_spec(name) is not None:
            contenders[f"{name} add_scalar, 8 times"] = lambda module=module: summary_writer(module, rows)  # type: ignore[misc]
    if importlib.util.find_spec("mindformers") is not None:
        contenders["mindformers' MFLossMonitor, TensorBoard on"] = lambda: loss_monitor(rows)
    # One that meets no cold code, then those that count.
    interleaved(contenders, 1)
    spent = {name: statistics.median(found) for name, found in interleaved(contenders, repeat).items()}
    best = min((s for name, s in spent.items() if "add_scalar" in name or "MFLossMonitor" in name), default=None)
    table = Table(
        "P8",
        "time taken from the training thread",
        ("what", "us a step", "to the best rival", "goal"),
        (f"CPU time of the calling thread over {steps:,} steps, median of {repeat} interleaved runs.",),
    )
    for name, seconds in spent.items():
        goal = None
        if name == "callback, every step logged" and best:
            goal = at_most(seconds / best, round(_GOAL, 2))
        elif name == "callback, a step that is not logged":
            goal = at_most(seconds * 1e6, _GOAL_NOT_LOGGED * 1e6, " us")
        table.add(name, f"{seconds * 1e6:.3g}", ratio(seconds / best) if best else None, goal)
    table.add("not counted: reading 5 numbers back, on a CPU", f"{read_back(5) * 1e6:.3g}", None, None)
    return [table]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5000, help="steps of a run (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each (default: %(default)s)")
    arguments = parser.parse_args()
    for table in tables(arguments.steps, arguments.repeat):
        print(table)
