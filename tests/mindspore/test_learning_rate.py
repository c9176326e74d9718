"""The lr that is written is the one the optimizer really used, told by how far the weights moved."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from mindformers.core.lr import CosineWithWarmUpLR, WarmUpStableDecayLR
from mindspore import Tensor, nn, ops
from mindspore.experimental import optim
from mindspore.train import Callback
from run_reading import read_run
from small_trainings import DoublingSchedule, train_sum_of_weights

from tb_mindformers_plugin import TrainingHealthCallback
from tb_mindformers_plugin.callback.learning_rate import LearningRateReader

STEPS = 40


def sgd(learning_rate):
    return lambda weights: nn.SGD(weights, learning_rate)


# name -> (optimizer of the weights, number of learning rates, kind of the schedule in the manifest)
OPTIMIZERS = {
    "fixed": (sgd(0.05), 1, "constant"),
    "list": (sgd([0.01 * (1 + step % 7) for step in range(STEPS)]), 1, "table"),
    "tensor": (sgd(Tensor(np.linspace(0.1, 0.01, STEPS), ms.float32)), 1, "table"),
    "cosine": (sgd(nn.CosineDecayLR(0.001, 0.1, 30)), 1, "cosine"),
    "polynomial": (sgd(nn.PolynomialDecayLR(0.1, 0.01, 15, 2.0, True)), 1, "polynomial"),
    "own schedule": (sgd(DoublingSchedule()), 1, None),
    "mindformers cosine": (
        sgd(CosineWithWarmUpLR(0.1, warmup_steps=8, total_steps=STEPS, lr_end=0.01)),
        1,
        "cosine_warmup",
    ),
    "mindformers stable decay": (
        sgd(WarmUpStableDecayLR(0.1, 0.01, warmup_steps=5, total_steps=STEPS, decay_start_steps=20)),
        1,
        "warmup_stable_decay",
    ),
    "grouped fixed": (
        lambda weights: nn.SGD([{"params": [weights[0]], "lr": 0.05}, {"params": [weights[1]]}], 0.02),
        2,
        "constant",
    ),
    "grouped mixed": (
        lambda weights: nn.SGD(
            [
                {"params": [weights[0]], "lr": nn.CosineDecayLR(0.001, 0.1, 30)},
                {"params": [weights[1]], "lr": DoublingSchedule()},
                {"params": [weights[2]]},
            ],
            0.03,
        ),
        3,
        "cosine",
    ),
    "experimental": (
        lambda weights: optim.SGD([{"params": [weights[0]], "lr": 0.05}, {"params": [weights[1]]}], lr=0.02),
        2,
        None,
    ),
}


@pytest.mark.parametrize("mode", ["graph", "pynative"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_lr_is_what_moved_the_weights(name, mode, tmp_path):
    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    make_optimizer, groups, kind = OPTIMIZERS[name]
    callback = TrainingHealthCallback(tmp_path, log_every=1)
    moved = np.array(train_sum_of_weights(callback, make_optimizer, STEPS, groups))
    run = read_run(tmp_path)
    assert len(set(moved[:, 0])) > 5 or kind in ("constant", None) or name == "list"
    for group in range(groups):
        tag = "train/lr" if group == 0 else f"train/lr_group/{group}"
        np.testing.assert_allclose(run.values(tag), moved[:, group], rtol=1e-3, atol=1e-6)
    assert {tag for _, values in run.records for tag in values if "lr_group" in tag} == {
        f"train/lr_group/{group}" for group in range(1, groups)
    }
    assert run.manifests[0].get("schedule", {}).get("kind") == kind


def test_lr_assigned_during_training_is_seen(tmp_path):
    optimizers = []

    class Halve(Callback):
        def on_train_step_begin(self, run_context):
            rate = optimizers[0].learning_rate
            if run_context.original_args().cur_step_num == 6:
                ops.assign(rate, Tensor(0.025, ms.float32))

    class Both(TrainingHealthCallback):
        def on_train_step_begin(self, run_context):
            Halve().on_train_step_begin(run_context)

    def make(weights):
        optimizers.append(nn.SGD(weights, 0.05))
        return optimizers[0]

    moved = np.array(train_sum_of_weights(Both(tmp_path, log_every=1), make, 10))
    written = read_run(tmp_path).values("train/lr")
    np.testing.assert_allclose(written, moved[:, 0], rtol=1e-4)
    np.testing.assert_allclose(written, [0.05] * 5 + [0.025] * 5, rtol=1e-6)


def test_lr_of_a_later_logged_step_is_that_of_the_step(tmp_path):
    schedule = nn.CosineDecayLR(0.001, 0.1, 30)
    moved = np.array(train_sum_of_weights(TrainingHealthCallback(tmp_path, log_every=7), sgd(schedule), 25))
    steps, written = read_run(tmp_path).series("train/lr")
    assert steps == [1, 7, 14, 21, 25]
    np.testing.assert_allclose(written, moved[[step - 1 for step in steps], 0], rtol=1e-3)


def test_lars_has_the_lr_of_the_optimizer_inside():
    weights = [ms.Parameter(Tensor(np.zeros(1, np.float32)), name="w")]
    reader = LearningRateReader(nn.LARS(nn.SGD(weights, nn.CosineDecayLR(0.001, 0.1, 30))))
    assert reader.read(0) == [pytest.approx(0.1)]
    assert reader.schedule["kind"] == "cosine"


def test_table_stays_at_its_last_entry_past_the_end():
    weights = [ms.Parameter(Tensor(np.zeros(1, np.float32)), name="w")]
    reader = LearningRateReader(nn.SGD(weights, [0.3, 0.2, 0.1]))
    assert [reader.read(i)[0] for i in (0, 2, 3, 99)] == pytest.approx([0.3, 0.1, 0.1, 0.1])


def test_no_optimizer_has_no_lr():
    reader = LearningRateReader(None)
    assert reader.read(0) == []
    assert reader.step_count() is None


@pytest.mark.parametrize("rate", [0.05, nn.CosineDecayLR(0.001, 0.05, 30), [0.05, 0.04]])
def test_a_group_counts_once_however_many_weights_it_has(rate):
    weights = [ms.Parameter(Tensor(np.zeros(1, np.float32)), name=f"w{index}") for index in range(6)]
    groups = [{"params": weights[:3], "lr": rate}, {"params": weights[3:]}]
    assert LearningRateReader(nn.SGD(groups, 0.02)).read(0) == pytest.approx([0.05, 0.02])


def test_many_groups_are_cut():
    weights = [ms.Parameter(Tensor(np.zeros(1, np.float32)), name=f"w{index}") for index in range(40)]
    groups = [{"params": [weight], "lr": 0.001 * (index + 1)} for index, weight in enumerate(weights)]
    assert LearningRateReader(nn.SGD(groups, 0.1)).read(0) == pytest.approx([0.001 * (n + 1) for n in range(16)])


def test_unknown_schedule_is_not_called_under_auto_parallel(monkeypatch):
    weights = [ms.Parameter(Tensor(np.zeros(1, np.float32)), name="w")]
    reader = LearningRateReader(nn.SGD(weights, DoublingSchedule()))
    monkeypatch.setattr(ms, "get_auto_parallel_context", lambda name: "semi_auto_parallel")
    with pytest.raises(RuntimeError, match="DoublingSchedule is no known schedule"):
        reader.read(0)
