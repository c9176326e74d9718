"""P9: a real MindSpore training with and without the callback at every 10th step.

python benchmarks/training_slowdown.py [--pairs 100]

Needs mindspore. In one training the callback is taken part in for 20 steps and left out for the next 20, in turns, so
that each stretch has a neighbour of the other kind a moment away: on a machine with other work, whole trainings
differ by more than what is to be measured.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from typing import Any, Optional

# Before anything that uses protobuf.
import mindspore as ms  # isort: skip
import numpy as np
from measure import Table, at_most
from mindspore import dataset as ds
from mindspore import nn
from mindspore.train import Callback, Model

from tb_mindformers_plugin import GradNormTrainOneStepCell, TrainingHealthCallback

_GOAL_PERCENT = 1.0
_BATCH = 64
_STRETCH = 20  # steps: two that are logged

# Width and depth of the net.
_NETS = {"tiny": (32, 2), "small": (256, 4)}

_ASKED: dict[str, dict[str, Any]] = {
    "callback": {"log_every": 10},
    "and histograms every 100th step, norms of 4 layers, memory": {
        "log_every": 10,
        "histogram_every": 100,
        "layer_grad_norms": 4,
        "log_memory": True,
    },
}


class Turns(Callback):  # type: ignore[misc]
    """Calls a callback in every second stretch, and times both kinds."""

    def __init__(self, callback: Callback) -> None:
        self._callback = callback
        self._stretch = 0
        self._began: Optional[tuple[float, float]] = None
        self._inside = 0.0
        self._outputs: Any = None
        self.spent: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
        self.inside: list[float] = []

    def __enter__(self) -> Turns:
        self._callback.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._callback.__exit__(*error)

    def on_train_begin(self, run_context: Any) -> None:
        """Opens the event file."""
        self._callback.on_train_begin(run_context)

    def on_train_end(self, run_context: Any) -> None:
        """Ends it."""
        self._callback.on_train_end(run_context)

    def on_train_step_end(self, run_context: Any) -> None:
        """Calls, or does not, and takes the time at the end of a stretch."""
        takes_part = self._takes_part()
        if takes_part:
            began = time.thread_time()
            self._callback.on_train_step_end(run_context)
            self._inside += time.thread_time() - began
        # Giving up a step's outputs takes its time without a callback too: here it happens in both kinds of stretches.
        self._outputs = run_context.original_args()["net_outputs"]
        if run_context.original_args()["cur_step_num"] % _STRETCH == 0:
            now = time.perf_counter(), time.process_time()
            if self._began is not None:
                self.spent[takes_part].append((now[0] - self._began[0], now[1] - self._began[1]))
                if takes_part:
                    self.inside.append(self._inside)
            self._inside = 0.0
            self._began = now
            self._stretch += 1

    def _takes_part(self) -> bool:
        # with, without, without, with: neither kind is always the first of a pair.
        return self._stretch % 4 in (0, 3)


def make(width: int, depth: int, steps: int) -> tuple[Any, Any]:
    """Returns a model and its data."""
    random = np.random.RandomState(0)
    x = random.randn(steps * _BATCH, width).astype(np.float32)
    layers = [layer for _ in range(depth) for layer in (nn.Dense(width, width), nn.ReLU())]
    net = nn.SequentialCell(*layers, nn.Dense(width, 1))
    optimizer = nn.Adam(net.trainable_params(), 1e-4)
    cell = GradNormTrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer, layer_norms=True)
    return Model(cell), ds.NumpySlicesDataset((x, x[:, :1]), ["x", "y"], shuffle=False).batch(_BATCH)


def tables(pairs: int) -> list[Table]:
    """The table."""
    ms.set_context(mode=ms.GRAPH_MODE)
    table = Table(
        "P9",
        "a training with and without the callback at every 10th step",
        ("net", "what", "ms a step without", "time to without", "CPU time to without", "in the callback", "goal"),
        (
            f"Graph mode on a CPU; medians of {pairs} pairs of {_STRETCH} steps each, in turns in one training; "
            "in brackets the quartiles of the pairs.",
            "In the callback: CPU time of the training thread there, to all CPU time of the stretch without it. It "
            "does not depend on the machine's other work, and the goal is judged by it.",
        ),
    )
    for name, (width, depth) in _NETS.items():
        for what, asked in _ASKED.items():
            model, data = make(width, depth, (2 * pairs + 1) * _STRETCH)
            with tempfile.TemporaryDirectory() as log_dir:
                turns = Turns(TrainingHealthCallback(log_dir, **asked))
                model.train(1, data, callbacks=[turns], dataset_sink_mode=False)
            rows = list(zip(turns.spent[True], turns.spent[False]))
            elapsed, cpu = ([with_it[i] / without[i] for with_it, without in rows] for i in (0, 1))
            step = statistics.median(without[0] for _, without in rows) / _STRETCH
            inside = statistics.median(turns.inside) / statistics.median(without[1] for _, without in rows)
            goal = at_most(100 * inside, _GOAL_PERCENT, " %") if what == "callback" else None
            table.add(
                f"{name}: {depth} x {width}",
                what,
                f"{step * 1e3:.3g}",
                _quartiles(elapsed),
                _quartiles(cpu),
                f"{100 * inside:.2g} %",
                goal,
            )
    return [table]


def _quartiles(values: list[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.3f}x ({low:.3f}–{high:.3f})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=100, help="stretches of each kind (default: %(default)s)")
    for found in tables(parser.parse_args().pairs):
        print(found)
