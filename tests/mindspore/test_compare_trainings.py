"""Pairs of real trainings that differ in one thing, and what a comparison says of them."""

from __future__ import annotations

import json

import mindspore as ms
import numpy as np
import pytest
from click.testing import CliRunner
from mindspore import Tensor, nn
from mindspore.train import Model
from small_trainings import dataset, regression_data, regression_net

from tb_mindformers_plugin import TrainingHealthCallback
from tb_mindformers_plugin.cli.main import main

STEPS, ACCUMULATION = 120, 4


class MeanSquare(nn.Cell):
    """The loss of a batch; summed over its accumulation steps instead of divided by them where `parts` says so."""

    def __init__(self, net, parts=1):
        super().__init__()
        self.net, self.loss, self.parts = net, nn.MSELoss(), float(parts)

    def construct(self, x, y):
        return self.loss(self.net(x), y) * self.parts


def weights_of(net, seed):
    random = np.random.RandomState(seed)
    for weight in net.trainable_params():
        weight.set_data(Tensor((random.randn(*weight.shape) * 0.5).astype(np.float32)))


def train(log_dir, seed=3, lr=0.01, parts=1):
    """Trains a small net on the same data in the same order, whatever else differs."""
    net = regression_net()
    weights_of(net, seed)
    # Adam takes the same steps whatever the gradients are multiplied with: nothing but the logged loss shows it.
    cell = nn.TrainOneStepCell(MeanSquare(net, parts), nn.Adam(net.trainable_params(), lr, eps=1e-12))
    callback = TrainingHealthCallback(
        str(log_dir), log_every=1, hparams={"seed": seed, "lr": lr, "loss_is_sum_of": parts}
    )
    Model(cell).train(1, dataset(*regression_data(STEPS)), callbacks=[callback], dataset_sink_mode=False)


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    ms.set_context(mode=ms.GRAPH_MODE)
    top = tmp_path_factory.mktemp("logs")
    train(top / "baseline")
    train(top / "again")
    train(top / "seed", seed=4)
    train(top / "lr", lr=0.012)
    train(top / "accumulation", parts=ACCUMULATION)
    return top


def compare(logs, run, *arguments):
    done = CliRunner().invoke(main, ["compare", str(logs), run, "--baseline", "baseline", "--json", *arguments])
    assert done.exit_code in (0, 1), done.output
    (found,) = json.loads(done.output)["comparisons"]
    return done.exit_code, found


def test_the_same_training_twice_is_the_same(logs):
    status, found = compare(logs, "again", "--tolerance", "1e-6")
    assert (status, found["verdict"], found["errors"]["points"]) == (0, "same", STEPS)
    assert found["settings"] == []


def test_another_seed_parts_at_once(logs):
    status, found = compare(logs, "seed")
    assert (status, found["verdict"]) == (1, "differs")
    assert found["errors"]["parted_step"] <= 3
    assert found["lr"]["same"] is True
    assert found["constant"] is None
    assert [(s["name"], s["value"], s["baseline"]) for s in found["settings"]] == [("hparams.seed", 4, 3)]


def test_another_learning_rate_parts_after_the_first_step_and_is_named(logs):
    status, found = compare(logs, "lr")
    assert (status, found["verdict"]) == (1, "differs")
    # The first loss is that of the same weights on the same batch.
    assert found["errors"]["first_beyond_step"] > 1
    assert found["lr"]["same"] is False
    assert found["lr"]["first_step"] == 1
    assert found["lr"]["run"] == pytest.approx(0.012)
    assert found["lr"]["baseline"] == pytest.approx(0.01)
    assert "hparams.lr" in {setting["name"] for setting in found["settings"]}


def test_a_loss_that_was_not_divided_by_the_accumulation_steps_is_a_ratio(logs):
    status, found = compare(logs, "accumulation")
    assert (status, found["verdict"]) == (1, "ratio")
    assert found["constant"]["whole"] == ACCUMULATION
    assert found["constant"]["amount"] == pytest.approx(ACCUMULATION, rel=1e-3)
    assert found["title"] == f"Constant ratio {ACCUMULATION}"
    assert "gradient accumulation" in found["message"]
    assert found["lr"]["same"] is True
    assert [(s["name"], s["value"]) for s in found["settings"]] == [("hparams.loss_is_sum_of", ACCUMULATION)]
    assert found["errors"]["mean_relative"] == pytest.approx(ACCUMULATION - 1, rel=1e-3)
