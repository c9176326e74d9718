"""What a training of 200 steps leaves in the event file, against a computation of its own."""

from __future__ import annotations

import math

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops
from mindspore.train import Callback, Model
from run_reading import read_run
from small_trainings import dataset, regression_data

from tb_mindformers_plugin import GradNormTrainOneStepCell, TrainingHealthCallback
from tb_mindformers_plugin.callback import session
from tb_mindformers_plugin.callback.evaluations import eval_metrics

STEPS, BATCH, WIDTH, HIDDEN = 200, 8, 4, 6
SENS, CLIP = 1024.0, 1.0
PEAK, END, DECAY = 0.2, 0.01, 150
EMA_DECAY = 0.9


def first_weights():
    random = np.random.RandomState(7)
    return [
        (random.randn(*shape) * 0.5).astype(np.float32) for shape in ((HIDDEN, WIDTH), (HIDDEN,), (1, HIDDEN), (1,))
    ]


def forward(w1, b1, w2, b2, x, y):
    predicted = ops.matmul(ops.tanh(ops.matmul(x, w1.T) + b1), w2.T) + b2
    return ops.square(predicted - y).mean()


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w1, self.b1, self.w2, self.b2 = (
            Parameter(Tensor(value), name=f"p{index}") for index, value in enumerate(first_weights())
        )

    def construct(self, x, y):
        predicted = ops.matmul(ops.tanh(ops.matmul(x, self.w1.T) + self.b1), self.w2.T) + self.b2
        return ops.square(predicted - y).mean()


@pytest.fixture(scope="module")
def reference():
    """Losses and true gradient norms of the same training, stepped by hand with `value_and_grad`."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    value_and_grad = ms.value_and_grad(forward, grad_position=(0, 1, 2, 3))
    weights = first_weights()
    x, y = regression_data(STEPS, BATCH, WIDTH)
    losses, norms = [], []
    for step in range(STEPS):
        batch = slice(step * BATCH, (step + 1) * BATCH)
        loss, grads = value_and_grad(*map(Tensor, weights), Tensor(x[batch]), Tensor(y[batch]))
        grads = [grad.asnumpy().astype(np.float64) for grad in grads]
        norm = math.sqrt(sum((grad**2).sum() for grad in grads))
        losses.append(float(loss.asnumpy()))
        norms.append(norm)
        scale = formula(step) * min(1.0, CLIP / norm)
        weights = [(weight - scale * grad).astype(np.float32) for weight, grad in zip(weights, grads)]
    return np.array(losses), np.array(norms)


def formula(step):
    """The learning rate of the step after `step` steps: cosine decay (Loshchilov and Hutter, 2017)."""
    return END + 0.5 * (PEAK - END) * (1.0 + math.cos(math.pi * min(step, DECAY) / DECAY))


@pytest.fixture(scope="module", params=["graph", "pynative"])
def run(request, tmp_path_factory):
    ms.set_context(mode=ms.GRAPH_MODE if request.param == "graph" else ms.PYNATIVE_MODE)
    directory = tmp_path_factory.mktemp(request.param)
    net = Net()
    optimizer = nn.SGD(net.trainable_params(), nn.CosineDecayLR(END, PEAK, DECAY), loss_scale=SENS)
    cell = GradNormTrainOneStepCell(net, optimizer, sens=SENS, clip_norm=CLIP)
    callback = TrainingHealthCallback(directory, log_every=1, ema_decay=EMA_DECAY, hparams={"clip": CLIP})
    data = dataset(*regression_data(STEPS, BATCH, WIDTH), BATCH)
    Model(cell).train(1, data, callbacks=[callback], dataset_sink_mode=False)
    return read_run(directory)


def test_every_step_is_one_record(run):
    assert [step for step, _ in run.records] == list(range(1, STEPS + 1))
    expected = {"loss", "loss_ema", "lr", "grad_norm", "loss_scale", "step_time", "throughput", "epoch"}
    assert {tag for _, values in run.records[1:] for tag in values} == {f"train/{name}" for name in expected}
    assert all(len(values) == len(expected) for _, values in run.records[1:])


def test_first_step_has_no_speed_as_it_is_mostly_compilation(run):
    assert run.steps("train/step_time") == run.steps("train/throughput") == list(range(2, STEPS + 1))


def test_loss_is_that_of_the_reference(run, reference):
    np.testing.assert_allclose(run.values("train/loss"), reference[0], rtol=2e-3)


def test_grad_norm_is_the_true_one_before_clipping_and_without_sens(run, reference):
    norms = reference[1]
    assert (norms > CLIP).mean() > 0.3  # the clipping is at work, else the losses prove nothing about it
    assert (norms < CLIP).mean() > 0.05
    np.testing.assert_allclose(run.values("train/grad_norm"), norms, rtol=5e-3)


def test_lr_is_that_of_the_formula(run):
    np.testing.assert_allclose(run.values("train/lr"), [formula(i) for i in range(STEPS)], rtol=1e-6)


def test_ema_is_that_of_its_formula(run):
    average, expected = 0.0, []
    for n, loss in enumerate(run.values("train/loss"), 1):
        average = EMA_DECAY * average + (1 - EMA_DECAY) * loss
        expected.append(average / (1 - EMA_DECAY**n))
    np.testing.assert_allclose(run.values("train/loss_ema"), expected, rtol=1e-5)


def test_epoch_counts_passes(run):
    np.testing.assert_allclose(run.values("train/epoch"), np.arange(1, STEPS + 1) / STEPS, rtol=1e-6)


def test_throughput_is_batch_over_step_time(run):
    times = np.array(run.values("train/step_time"))
    assert (times > 0).all()
    np.testing.assert_allclose(run.values("train/throughput"), BATCH / times, rtol=1e-5)


def test_fixed_loss_scale_is_sens(run):
    assert set(run.values("train/loss_scale")) == {SENS}


def test_manifest(run):
    (manifest,) = run.manifests
    assert manifest["schedule"] == {"kind": "cosine", "peak": PEAK, "end": END, "decay_steps": DECAY}
    assert manifest["grad_clip"] == CLIP
    assert manifest["loss_scale"] == {"kind": "fixed", "initial": SENS}
    assert manifest["ema_decay"] == EMA_DECAY
    assert manifest["total_steps"] == manifest["steps_per_epoch"] == STEPS
    assert manifest["global_batch_size"] == BATCH
    assert manifest["units"]["train/throughput"] == "samples/s"
    assert manifest["units"]["train/step_time"] == "s"
    assert manifest["roles"]["grad_norm"] == "train/grad_norm"
    assert manifest["framework"]["mindspore"] == ms.__version__
    assert manifest["distributed"] == {"rank": 0, "size": 1}
    assert manifest["hparams"] == {"clip": CLIP}
    assert manifest["started_at"].endswith("+00:00")
    assert "resumed_from" not in manifest


def test_ends_completed(run):
    # On a machine with other work, a drop of the throughput is an alert.
    rest = [event for event in run.events if event.get("rule") != "throughput_drop"]
    assert rest == [{"kind": "end", "status": "completed", "step": STEPS}]


class Clock(Callback):
    """A clock that a training moves: a second a step, a thousand an evaluation."""

    now = 0.0

    def perf_counter(self):
        return self.now

    def on_train_step_begin(self, run_context):
        self.now += 1.0

    def on_eval_end(self, run_context):
        self.now += 1000.0


def test_fit_writes_evaluations_at_the_training_step_and_leaves_their_time_out(tmp_path, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(session, "time", clock)
    x, y = regression_data(30, BATCH)
    other_x, other_y = regression_data(5, BATCH, seed=0)
    net = nn.SequentialCell(nn.Dense(4, 3), nn.Tanh(), nn.Dense(3, 1))
    loss = nn.MSELoss()
    cell = nn.TrainOneStepCell(nn.WithLossCell(net, loss), nn.Momentum(net.trainable_params(), 0.05, 0.9))
    model = Model(
        cell,
        metrics={"loss": nn.Loss(), "mae": nn.MAE()},
        eval_network=nn.WithEvalCell(net, loss),
        eval_indexes=[0, 1, 2],
    )
    seen = []

    class Watch(Callback):
        def on_train_epoch_end(self, run_context):
            difference = net(Tensor(other_x)).asnumpy() - other_y
            seen.append(((difference**2).mean(), np.abs(difference).mean()))

    model.fit(
        3,
        dataset(x, y, BATCH),
        dataset(other_x, other_y, BATCH),
        callbacks=[clock, TrainingHealthCallback(tmp_path, log_every=1), Watch()],
        dataset_sink_mode=False,
        valid_dataset_sink_mode=False,
    )
    run = read_run(tmp_path)
    assert run.steps("eval/loss") == [30, 60, 90]
    np.testing.assert_allclose(run.values("eval/loss"), [mse for mse, _ in seen], rtol=1e-4)
    np.testing.assert_allclose(run.values("eval/mae"), [mae for _, mae in seen], rtol=1e-4)
    assert run.steps("train/loss") == list(range(1, 91))
    assert set(run.values("train/step_time")) == {1.0}
    assert [event["kind"] for event in run.events] == ["end"]  # the evaluations' __exit__ is not the end
    assert len(run.manifests) == 1


def test_eval_loss_of_fit_without_a_loss_metric_is_mindspores_own():
    results = {"metrics": {"accuracy": 0.5}, "eval_results": {"accuracy": 0.5, "eval_loss": 2.0}}
    assert eval_metrics(results) == {"eval_accuracy": 0.5, "eval_loss": 2.0}
    metrics = {"loss": 1.5, "confusion": np.eye(3).tolist()}
    assert eval_metrics({"metrics": metrics, "eval_results": {**metrics, "eval_loss": 9.0}}) == {"eval_loss": 1.5}


def test_nan_loss_is_written_and_leaves_the_ema(tmp_path):
    x, y = regression_data(10, BATCH)
    y[3 * BATCH : 4 * BATCH] = np.nan
    net = nn.SequentialCell(nn.Dense(4, 1))
    optimizer = nn.SGD(net.trainable_params(), 0.0)  # so that the weights survive
    cell = GradNormTrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer)

    class KeepWeights(Callback):
        def on_train_step_end(self, run_context):
            for weight in net.trainable_params():
                ops.assign(weight, Tensor(np.full(weight.shape, 0.5, np.float32)))

    Model(cell).train(1, dataset(x, y, BATCH), callbacks=[KeepWeights(), TrainingHealthCallback(tmp_path, log_every=1)])
    run = read_run(tmp_path)
    losses, averages = run.values("train/loss"), run.values("train/loss_ema")
    assert [math.isnan(loss) for loss in losses] == [step == 4 for step in range(1, 11)]
    assert math.isnan(run.values("train/grad_norm")[3])
    assert averages[3] == averages[2]
    assert all(map(math.isfinite, averages))
    assert averages[4] != averages[3]
