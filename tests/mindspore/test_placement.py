"""One process writes; the step axis goes on."""

from __future__ import annotations

import os
import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor
from msrun import run_two
from run_reading import read_run
from small_trainings import HandDriven

from tb_mindformers_plugin import TrainingHealthCallback
from tb_mindformers_plugin.callback.complaints import Complaints
from tb_mindformers_plugin.callback.distributed import Placement, find_placement, place
from tb_mindformers_plugin.callback.mean_loss import make_mean_loss
from tb_mindformers_plugin.callback.position import find_position


def writers(size, stages, schedule=""):
    return [rank for rank in range(size) if place(rank, size, stages, schedule).writes]


def test_one_rank_writes():
    assert writers(1, 1) == [0]
    assert writers(8, 1) == [0]
    assert writers(8, 2) == [4]  # the first of the last stage: elsewhere the loss is not real
    assert writers(8, 8) == [7]
    assert writers(8, 4, "zero_bubble_v") == [0]
    assert [place(rank, 8, 2).pipeline_stage for rank in range(8)] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_without_communication_there_is_one_process(monkeypatch):
    def fail():
        raise RuntimeError("distributed communication is not initialized")

    monkeypatch.setattr(ms.communication, "get_rank", fail)
    assert find_placement() == Placement(0, 1, None, True)


def test_pipeline_stages_of_an_auto_parallel_cell(monkeypatch):
    class Wrapped:
        _pipeline_stages = 2
        _pipeline_scheduler = "1f1b"

    monkeypatch.setattr(ms.communication, "get_rank", lambda: 2)
    monkeypatch.setattr(ms.communication, "get_group_size", lambda: 4)
    assert find_placement(Wrapped()) == Placement(2, 4, 1, True)


def test_other_ranks_leave_no_trace(tmp_path, monkeypatch):
    monkeypatch.setattr(ms.communication, "get_rank", lambda: 1)
    monkeypatch.setattr(ms.communication, "get_group_size", lambda: 2)
    by_hand = HandDriven(TrainingHealthCallback(tmp_path / "run", log_every=1)).begin()
    by_hand.step(Tensor(1.0))
    by_hand.end()
    assert list(tmp_path.iterdir()) == []


class Data:
    def __init__(self, size):
        self._size = size

    def get_dataset_size(self):
        return self._size


@pytest.mark.parametrize(
    ("params", "hints", "shift", "start", "per_epoch", "total"),
    [
        ({"batch_num": 10, "epoch_num": 3}, {}, 0, 0, 10, 30),
        ({"batch_num": 10, "epoch_num": 3}, {"known_start": 15}, 15, 15, 10, 45),
        ({"batch_num": 10, "epoch_num": 3, "initial_step": 20}, {"known_start": 15}, 20, 20, 10, 50),
        ({"batch_num": 10, "epoch_num": 3, "initial_step": 0}, {"known_start": 15}, 0, 0, 10, 30),
        ({"batch_num": 10, "epoch_num": 2}, {"declared_start": 20, "steps_per_epoch": 10, "epochs": 4}, 20, 20, 10, 40),
        # MindSpore's fault tolerance begins at cur_step_num itself.
        ({"batch_num": 10, "epoch_num": 2, "cur_step_num": 10}, {"known_start": 10}, 0, 10, 10, 30),
        # Sinks of 2 steps: batch_num is 2, an epoch is 10; epoch_num counts sinks.
        ({"batch_num": 2, "epoch_num": 25, "train_dataset": Data(10), "dataset_sink_mode": True}, {}, 0, 0, 10, 50),
        # The same on a CPU, which does not sink.
        ({"batch_num": 2, "epoch_num": 5, "train_dataset": Data(10), "dataset_sink_mode": False}, {}, 0, 0, 10, 50),
        ({"batch_num": 10, "epoch_num": 3}, {"total_steps": 7}, 0, 0, 10, 7),
        ({}, {}, 0, 0, None, None),
        ({"batch_num": -1, "epoch_num": 3, "train_dataset": Data(-1)}, {}, 0, 0, None, None),
    ],
)
def test_position(params, hints, shift, start, per_epoch, total):
    position = find_position(params, **hints)
    assert (position.shift, position.start) == (shift, start)
    assert (position.steps_per_epoch, position.total_steps) == (per_epoch, total)
    assert position.epoch(15) == (15 / per_epoch if per_epoch else None)


TWO_PROCESSES = """
import sys
sys.path.insert(0, {tests!r})
import mindspore as ms
from mindspore import nn
from mindspore.communication import get_rank, init
from mindspore.train import Model
from small_trainings import dataset, regression_data, regression_net
from tb_mindformers_plugin import GradNormTrainOneStepCell, TrainingHealthCallback

ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
init()
ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True, device_num=2)
ms.set_seed(1)
net = regression_net()
cell = GradNormTrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.05))
data = dataset(*regression_data(12, seed=get_rank()))
callbacks = [
    TrainingHealthCallback({top!r} + "/run", log_every=1),
    TrainingHealthCallback({top!r} + "/each", log_every=1, all_ranks=True),
    TrainingHealthCallback({top!r} + "/mean", log_every=5, mean_loss=True),
    # A directory that cannot be made must not leave the other process waiting for this one.
    TrainingHealthCallback({top!r} + "/train.py/blocked", log_every=5, mean_loss=True),
]
Model(cell).train(1, data, callbacks=callbacks, dataset_sink_mode=False)
print("weights", get_rank(), [round(float(w.asnumpy().sum()), 5) for w in net.trainable_params()], flush=True)
"""


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """A data-parallel training of two processes under msrun: its directory and what it printed."""
    tmp_path = tmp_path_factory.mktemp("msrun")
    script = tmp_path / "train.py"
    script.write_text(TWO_PROCESSES.format(tests=os.path.dirname(__file__), top=str(tmp_path)))
    status, logs = run_two(script, tmp_path)
    assert status == 0, logs[-4000:]
    return tmp_path, logs


def test_two_real_processes_leave_one_run(two_processes):
    directory, logs = two_processes
    weights = dict(re.findall(r"weights (\d) (\[.*\])", logs))
    assert weights["0"] == weights["1"]  # the gradients were averaged, which GradNormTrainOneStepCell must keep
    run = read_run(directory / "run")
    assert run.steps() == list(range(1, 13))
    assert len(run.manifests) == 1
    assert run.manifests[0]["distributed"] == {"rank": 0, "size": 2}
    assert run.manifests[0]["global_batch_size"] == 16
    assert len(list((directory / "run").iterdir())) == 1  # one process, one file


def test_all_ranks_write_directories_of_their_own(two_processes):
    directory, _ = two_processes
    assert sorted(path.name for path in (directory / "each").iterdir()) == ["rank_0", "rank_1"]
    ranks = [read_run(directory / "each" / f"rank_{rank}") for rank in (0, 1)]
    for rank, run in enumerate(ranks):
        assert run.manifests[0]["distributed"] == {"rank": rank, "size": 2}
        assert run.steps() == list(range(1, 13))
    assert ranks[0].values("train/loss") == read_run(directory / "run").values("train/loss")
    assert ranks[0].values("train/loss") != ranks[1].values("train/loss")  # each its own part of the batch
    assert ranks[0].values("train/grad_norm") == ranks[1].values("train/grad_norm")


def test_mean_loss_is_that_of_the_ranks(two_processes):
    directory, logs = two_processes
    ranks = [dict(zip(*read_run(directory / "each" / f"rank_{rank}").series("train/loss"))) for rank in (0, 1)]
    run = read_run(directory / "mean")
    assert run.steps() == [1, 5, 10, 12]
    expected = [(ranks[0][step] + ranks[1][step]) / 2 for step in run.steps()]
    np.testing.assert_allclose(run.values("train/loss"), expected, rtol=1e-6)
    assert len(run.manifests) == 1
    assert logs.count("cannot write to") == 1


def test_mean_loss_is_for_data_parallelism(log_lines, monkeypatch):
    for mode, placement in (("semi_auto_parallel", Placement(0, 4)), ("data_parallel", Placement(0, 4, 1))):
        monkeypatch.setattr(ms, "get_auto_parallel_context", lambda name, mode=mode: mode)
        assert make_mean_loss(placement, Complaints()) is None
    assert make_mean_loss(Placement(), Complaints()) is None
    assert len([line for line in log_lines() if "mean_loss is for data parallelism" in line[1]]) == 2
