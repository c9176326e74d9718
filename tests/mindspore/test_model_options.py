"""What ``Model`` itself makes of its arguments: mixed precision, loss-scale managers; and accumulation by hand."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops
from mindspore.amp import FixedLossScaleManager
from mindspore.train import Model
from run_reading import read_run
from small_trainings import dataset, regression_data, regression_net

from tb_mindformers_plugin import TrainingHealthCallback

STEPS = 12


def losses_by_hand(net, lr=0.05):
    """The losses of plain SGD, in numpy."""
    w1, b1, w2, b2 = (weight.asnumpy().astype(np.float64).copy() for weight in net.trainable_params())
    x, y = regression_data(STEPS)
    losses = []
    for step in range(STEPS):
        part = slice(8 * step, 8 * step + 8)
        hidden = np.tanh(x[part] @ w1.T + b1)
        error = hidden @ w2.T + b2 - y[part]
        losses.append((error**2).mean())
        out = 2 * error / error.size
        back = (out @ w2) * (1 - hidden**2)
        w1, b1, w2, b2 = (
            w1 - lr * back.T @ x[part],
            b1 - lr * back.sum(0),
            w2 - lr * out.T @ hidden,
            b2 - lr * out.sum(0),
        )
    return losses


@pytest.mark.parametrize("amp_level", ["O0", "O2"])
@pytest.mark.parametrize(
    ("manager", "kind"),
    [
        (lambda: None, None),
        (lambda: FixedLossScaleManager(128.0, drop_overflow_update=False), "fixed"),
    ],
    ids=["none", "fixed"],  # on a CPU Model takes no others; test_loss_scaling.py has their cells,
)
def test_mixed_precision_and_loss_scale_managers(amp_level, manager, kind, tmp_path):
    net = regression_net()
    expected = losses_by_hand(net)
    optimizer = nn.SGD(net.trainable_params(), 0.05, loss_scale=1.0 if kind is None else 128.0)
    model = Model(net, nn.MSELoss(), optimizer, amp_level=amp_level, loss_scale_manager=manager())
    callback = TrainingHealthCallback(tmp_path, log_every=1)
    model.train(1, dataset(*regression_data(STEPS)), callbacks=[callback], dataset_sink_mode=False)
    run = read_run(tmp_path)
    assert run.steps() == list(range(1, STEPS + 1))
    np.testing.assert_allclose(run.values("train/loss"), expected, rtol=2e-2)
    np.testing.assert_allclose(run.values("train/lr"), [0.05] * STEPS, rtol=1e-6)
    if kind == "fixed":
        assert set(run.values("train/loss_scale")) == {128.0}
    assert (run.manifests[0].get("loss_scale") or {}).get("kind") == kind


class Accumulating(nn.TrainOneStepCell):
    """Takes an optimizer step at every second call, with the mean of both gradients."""

    def __init__(self, network, optimizer):
        super().__init__(network, optimizer)
        self.sums = self.weights.clone(prefix="sum", init="zeros")
        self.calls = Parameter(Tensor(0, ms.int32), name="calls")
        self.add = ops.HyperMap()

    def construct(self, *inputs):
        loss = self.network(*inputs)
        grads = self.grad_no_sens(self.network, self.weights)(*inputs)
        for i in range(len(self.sums)):
            ops.assign_add(self.sums[i], grads[i] / 2)
        ops.assign_add(self.calls, Tensor(1, ms.int32))
        if self.calls % 2 == 0:
            self.optimizer(tuple(self.sums))
            for i in range(len(self.sums)):
                ops.assign(self.sums[i], ops.zeros_like(self.sums[i]))
        return loss


def test_accumulation_in_a_cell_of_ones_own(tmp_path):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    net = regression_net()
    optimizer = nn.SGD(net.trainable_params(), nn.CosineDecayLR(0.001, 0.1, STEPS))
    cell = Accumulating(nn.WithLossCell(net, nn.MSELoss()), optimizer)
    Model(cell).train(1, dataset(*regression_data(STEPS)), callbacks=[TrainingHealthCallback(tmp_path, log_every=2)])
    run = read_run(tmp_path)
    assert run.steps() == [1, 2, 4, 6, 8, 10, 12]
    # The schedule goes by optimizer steps, of which there is one for two calls.
    expected = [0.001 + 0.5 * 0.099 * (1 + np.cos(np.pi * max(step // 2 - 1, 0) / STEPS)) for step in run.steps()]
    np.testing.assert_allclose(run.values("train/lr"), expected, rtol=1e-5)
    assert [event["kind"] for event in run.events] == ["end"]
