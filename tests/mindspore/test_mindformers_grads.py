"""The cell of mindformers that keeps its gradients: histograms of them, and nothing else changes."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from mindformers.tools import MindFormerModuleType, MindFormerRegister
from mindformers.wrapper import MFTrainOneStepCell
from mindspore import Tensor, nn
from mindspore.train import Model
from run_reading import read_histograms, read_run
from scenarios.cpu_overflow import overflow_seen_on_cpu
from small_trainings import dataset, regression_data, regression_net, train_regression

from tb_mindformers_plugin import MFTrainOneStepCellWithGrads, TrainingHealthCallback

BATCH, STEPS, SCALE, CLIP = 8, 12, 64.0, 0.1


def make(kind, **arguments):
    ms.set_seed(1)
    net = regression_net()
    network = nn.WithLossCell(net, nn.MSELoss())
    arguments = {"use_clip_grad": True, "max_grad_norm": CLIP, "scale_sense": SCALE, **arguments}
    return kind(network, nn.Momentum(net.trainable_params(), 0.05, 0.9), **arguments)


def train(cell, callback, steps=STEPS):
    with overflow_seen_on_cpu():
        Model(cell).train(
            1, dataset(*regression_data(steps, BATCH), BATCH), callbacks=[callback], dataset_sink_mode=False
        )
    return [weight.asnumpy() for weight in cell.weights]


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
def test_the_kept_gradients_are_the_true_ones_and_the_training_is_the_same(mode, tmp_path):
    ms.set_context(mode=mode)
    cell = make(MFTrainOneStepCellWithGrads)
    gradients = ms.value_and_grad(cell.network, None, cell.weights)
    x, y = (Tensor(values[:BATCH]) for values in regression_data(STEPS, BATCH))
    expected = [grad.asnumpy() for grad in gradients(x, y)[1]]
    with overflow_seen_on_cpu():
        outputs = cell(x, y)
    assert cell.grad_names == tuple(weight.name for weight in cell.weights)
    # Neither scaled nor clipped.
    for kept, grad in zip(cell.kept_grads, expected):
        np.testing.assert_allclose(kept.asnumpy(), grad, rtol=1e-4, atol=1e-6)
    norm = np.sqrt(sum((grad**2).sum() for grad in expected))
    assert norm > CLIP
    assert len(outputs) == 5
    np.testing.assert_allclose(outputs[4].asnumpy(), norm, rtol=1e-4)
    ours = train(make(MFTrainOneStepCellWithGrads), TrainingHealthCallback(tmp_path / "ours", log_every=1))
    theirs = train(make(MFTrainOneStepCell), TrainingHealthCallback(tmp_path / "theirs", log_every=1))
    assert all((a == b).all() for a, b in zip(ours, theirs))
    ours, theirs = read_run(tmp_path / "ours"), read_run(tmp_path / "theirs")
    for tag in ("train/loss", "train/grad_norm", "train/lr", "train/loss_scale", "train/overflow"):
        assert ours.values(tag) == theirs.values(tag) != [], tag
    assert ours.manifests[0]["grad_clip"] == pytest.approx(CLIP)


def test_histograms_of_the_gradients_that_were_asked_for(tmp_path, log_lines):
    cell = make(MFTrainOneStepCellWithGrads, keep_grads="*weight")
    callback = TrainingHealthCallback(tmp_path, log_every=2, histogram_every=6)
    gradients = []

    class Watch(ms.train.Callback):
        def on_train_step_end(self, run_context):
            gradients.append([grad.asnumpy().copy() for grad in cell.kept_grads])

    with overflow_seen_on_cpu():
        data = dataset(*regression_data(STEPS, BATCH), BATCH)
        Model(cell).train(1, data, callbacks=[Watch(), callback], dataset_sink_mode=False)
    histograms = read_histograms(tmp_path)
    names = [weight.name for weight in cell.weights]
    assert set(histograms) == {f"weights/{name}" for name in names} | {
        f"grads/{name}" for name in names if name.endswith("weight")
    }
    for name, grads in zip(cell.grad_names, zip(*gradients)):
        points = histograms[f"grads/{name}"]
        assert [step for step, _ in points] == [1, 6, 12]
        for step, rows in points:
            grad = grads[step - 1]
            assert rows[:, 2].sum() == grad.size
            np.testing.assert_allclose((rows[0, 0], rows[-1, 1]), (grad.min(), grad.max()), rtol=1e-6)
    assert [line for line in log_lines() if line[0] != "DEBUG"] == []


def test_kept_gradients_are_in_no_checkpoint(tmp_path):
    cell = make(MFTrainOneStepCellWithGrads)
    train(cell, TrainingHealthCallback(tmp_path / "run"))
    ms.save_checkpoint(cell, str(tmp_path / "cell.ckpt"))
    plain = make(MFTrainOneStepCell)
    train(plain, TrainingHealthCallback(tmp_path / "plain"))
    ms.save_checkpoint(plain, str(tmp_path / "plain.ckpt"))
    saved = ms.load_checkpoint(str(tmp_path / "cell.ckpt"))
    assert set(saved) == set(ms.load_checkpoint(str(tmp_path / "plain.ckpt")))
    # And what mindformers filters for itself begins like this.
    assert all(parameter.name.startswith("accu_grads") for parameter in cell.kept_grads)


def test_it_is_registered_for_runner_wrapper():
    registered = MindFormerRegister.get_cls(MindFormerModuleType.WRAPPER, "MFTrainOneStepCellWithGrads")
    assert registered is MFTrainOneStepCellWithGrads


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"use_clip_grad": False}, "use_clip_grad must be True, got False"),
        ({"keep_grads": ["attention*"]}, r"keep_grads matches no weight, got \['attention\*'\]; there are 0.weight"),
    ],
)
def test_wrong_arguments(arguments, said):
    with pytest.raises(ValueError, match=said):
        make(MFTrainOneStepCellWithGrads, **arguments)


@pytest.mark.parametrize("kind", ["mindspore", "mindformers"])
def test_a_cell_without_gradients_is_told_once_what_to_do(kind, tmp_path, log_lines):
    callback = TrainingHealthCallback(tmp_path, log_every=1, histogram_every=1)
    if kind == "mindspore":
        train_regression([callback], steps=4)
    else:
        train(make(MFTrainOneStepCell), callback, steps=4)
    (said,) = [message for level, message in log_lines() if level != "DEBUG"]
    assert "of the weights alone" in said
    assert "GradNormTrainOneStepCell(..., return_grads" in said
    assert "MFTrainOneStepCellWithGrads" in said
    assert set(read_histograms(tmp_path)) == {f"weights/{n}.{part}" for n in (0, 2) for part in ("weight", "bias")}
