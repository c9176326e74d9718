"""Loops without Model: the same training by hand and by Model leaves the same."""

from __future__ import annotations

import math

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn
from mindspore.experimental import optim
from mindspore.train import Model
from run_reading import read_histograms, read_run
from small_trainings import CountingTensor, dataset, regression_data, regression_net

from tb_mindformers_plugin import GradNormTrainOneStepCell, TrainingHealthCallback, TrainingLog

STEPS, BATCH = 30, 8


def forward(net):
    return lambda x, y: ((net(x) - y) ** 2).mean()


def batches():
    x, y = regression_data(STEPS, BATCH)
    for step in range(STEPS):
        part = slice(step * BATCH, (step + 1) * BATCH)
        yield Tensor(x[part]), Tensor(y[part])


def seeded_net():
    ms.set_seed(1)
    np.random.seed(1)
    return regression_net()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    top = tmp_path_factory.mktemp("runs")
    asked = {"log_every": 5, "layer_grad_norms": 2, "histogram_every": 10, "log_memory": True}
    net = seeded_net()
    start = [weight.asnumpy().copy() for weight in net.trainable_params()]
    optimizer = nn.Momentum(net.trainable_params(), nn.CosineDecayLR(0.001, 0.1, STEPS), 0.9)
    cell = GradNormTrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer, layer_norms=True, return_grads=["*"])
    callback = TrainingHealthCallback(top / "model", **asked)
    Model(cell).train(1, dataset(*regression_data(STEPS, BATCH)), callbacks=[callback], dataset_sink_mode=False)

    ms.set_context(mode=ms.PYNATIVE_MODE)
    net = seeded_net()
    for weight, value in zip(net.trainable_params(), start):
        weight.set_data(Tensor(value))
    optimizer = nn.Momentum(net.trainable_params(), nn.CosineDecayLR(0.001, 0.1, STEPS), 0.9)
    value_and_grad = ms.value_and_grad(forward(net), None, optimizer.parameters)
    with TrainingLog(top / "loop", optimizer=optimizer, batch_size=BATCH, **asked) as health:
        for step, (x, y) in enumerate(batches(), 1):
            loss, grads = value_and_grad(x, y)
            optimizer(grads)
            health.log(step, loss=loss, grads=grads, **{"mine/batch": step * 2})
        health.log_eval(loss=0.5, accuracy=0.25)
    return top / "model", top / "loop"


def test_a_loop_leaves_what_model_leaves(runs):
    model, loop = map(read_run, runs)
    assert loop.steps() == model.steps() == [1, 5, 10, 15, 20, 25, 30]
    tags = {tag for _, values in model.records for tag in values}
    assert {tag for _, values in loop.records for tag in values} - tags == {"mine/batch", "eval/loss", "eval/accuracy"}
    for tag in ("train/loss", "train/loss_ema", "train/lr", "train/grad_norm", "grad_norm/0", "grad_norm/2"):
        assert len(model.values(tag)) == 7
        np.testing.assert_allclose(loop.values(tag), model.values(tag), rtol=1e-3, err_msg=tag)
    assert loop.values("mine/batch") == [step * 2.0 for step in loop.steps()]
    assert loop.manifests[0]["schedule"] == model.manifests[0]["schedule"]
    assert loop.events[-1] == model.events[-1] == {"kind": "end", "status": "completed", "step": STEPS}
    times = np.array(loop.values("train/step_time"))
    np.testing.assert_allclose(loop.values("train/throughput"), BATCH / times, rtol=1e-5)


def test_layer_norms_make_up_the_whole(runs):
    run = read_run(runs[0])
    whole = np.hypot(run.values("grad_norm/0"), run.values("grad_norm/2"))
    np.testing.assert_allclose(whole, run.values("train/grad_norm"), rtol=1e-5)


def test_histograms_of_weights_and_gradients(runs):
    model, loop = map(read_histograms, runs)
    names = [f"{kind}/{name}" for kind in ("weights", "grads") for name in ("0.weight", "0.bias", "2.weight", "2.bias")]
    assert set(model) == set(loop) == set(names)
    for name in names:
        assert [step for step, _ in model[name]] == [step for step, _ in loop[name]] == [1, 10, 20, 30]
        for (_, first), (_, second) in zip(model[name], loop[name]):
            np.testing.assert_allclose(first[[0, -1], [0, 1]], second[[0, -1], [0, 1]], rtol=1e-2, atol=1e-4)
            assert (
                first[:, 2].sum()
                == second[:, 2].sum()
                == {"0.weight": 24, "0.bias": 6, "2.weight": 6, "2.bias": 1}[name.split("/")[1]]
            )


def test_memory_is_logged(runs):
    run = read_run(runs[0])
    assert all(0.05 < value < 100 for value in run.values("memory/host"))
    assert run.manifests[0]["units"]["memory/host"] == "GiB"


def test_nothing_is_read_on_a_step_that_is_not_logged(tmp_path):
    CountingTensor.reads = 0
    with TrainingLog(tmp_path, log_every=10, weights=regression_net().trainable_params()) as health:
        for step in range(1, 21):
            before = CountingTensor.reads
            health.log(step, CountingTensor(1.0), grads=[CountingTensor(np.ones(3, np.float32))] * 4)
            assert (CountingTensor.reads > before) == (step in (1, 10, 20))


def test_an_error_ends_failed(tmp_path):
    def train():
        with TrainingLog(tmp_path) as health:
            health.log(1, loss=1.0, grads=[np.array([3.0, 4.0])])
            health.log(2, loss=2.0)
            raise RuntimeError("bad batch")

    with pytest.raises(RuntimeError):
        train()
    run = read_run(tmp_path)
    assert run.values("train/loss") == [1.0, 2.0]
    assert run.values("train/grad_norm") == [5.0]
    assert run.events[-1]["error"] == "RuntimeError: bad batch"


def test_resume_goes_on_with_the_steps_of_the_loop(tmp_path):
    with TrainingLog(tmp_path, log_every=1, resume_from=100) as health:
        for step in (101, 102):
            health.log(step, loss=1.0)
    run = read_run(tmp_path)
    assert run.steps() == [101, 102]
    assert run.manifests[0]["resumed_from"] == 100


def test_steps_from_zero_are_refused(tmp_path):
    with TrainingLog(tmp_path) as health, pytest.raises(ValueError, match="from 1; got 0"):
        health.log(0, loss=1.0)


def test_stop_on_is_a_wish(tmp_path):
    with TrainingLog(tmp_path, log_every=1, stop_on="critical") as health:
        for step in range(1, 50):
            health.log(step, loss=1.0 if step < 10 else math.nan)
            if health.stop_requested:
                break
    assert 10 <= step < 49
    assert read_run(tmp_path).events[-1]["status"] == "stopped"


def test_optimizer_of_another_family(tmp_path):
    net = seeded_net()
    optimizer = optim.SGD(net.trainable_params(), lr=0.05)
    value_and_grad = ms.value_and_grad(forward(net), None, net.trainable_params())
    ms.set_context(mode=ms.PYNATIVE_MODE)
    with TrainingLog(tmp_path, optimizer=optimizer, weights=net.trainable_params(), log_every=1) as health:
        for step, (x, y) in zip(range(1, 4), batches()):
            loss, grads = value_and_grad(x, y)
            optimizer(grads)
            health.log(step, loss=loss, grads=grads)
    run = read_run(tmp_path)
    np.testing.assert_allclose(run.values("train/lr"), [0.05] * 3)
    assert len(run.values("train/grad_norm")) == 3
