"""Small nets that train in a moment, and callbacks that watch them."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore import dataset as ds
from mindspore.train import Callback, Model, RunContext


def regression_data(steps=40, batch=8, width=4, seed=0):
    """Noisy linear data, float32: x [steps * batch, width], y [steps * batch, 1]."""
    random = np.random.RandomState(seed)
    x = random.randn(steps * batch, width).astype(np.float32)
    y = x @ random.randn(width, 1) + 0.1 * random.randn(steps * batch, 1)
    return x, y.astype(np.float32)


def dataset(x, y, batch=8):
    return ds.NumpySlicesDataset((x, y), ["x", "y"], shuffle=False).batch(batch)


def regression_net(width=4, hidden=6):
    return nn.SequentialCell(nn.Dense(width, hidden), nn.Tanh(), nn.Dense(hidden, 1))


def train_regression(callbacks, steps=20, epochs=1, batch=8, optimizer=None, **fit):
    """Trains a small net with ``nn.TrainOneStepCell``; returns its model."""
    net = regression_net()
    optimizer = optimizer(net) if optimizer else nn.Momentum(net.trainable_params(), 0.05, 0.9)
    model = Model(nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer))
    data = dataset(*regression_data(steps, batch), batch)
    model.train(epochs, data, callbacks=callbacks, dataset_sink_mode=False, **fit)
    return model


class SumOfWeights(nn.Cell):
    """loss = sum of all weights: each gradient is 1, so SGD moves each weight by the learning rate."""

    def __init__(self, count=1):
        super().__init__()
        self.weights = ms.ParameterTuple(
            [Parameter(Tensor(np.zeros(1, np.float32)), name=f"w{index}") for index in range(count)]
        )

    def construct(self, x):
        total = x.sum() * 0.0
        for weight in self.weights:
            total = total + weight.sum()
        return total


class WeightSteps(Callback):
    """Notes how far each weight moved in each step."""

    def __init__(self, weights):
        super().__init__()
        self._weights = weights
        self._before = [0.0] * len(weights)
        self.moved = []

    def on_train_step_end(self, run_context):
        now = [float(weight.asnumpy()[0]) for weight in self._weights]
        self.moved.append([before - after for before, after in zip(self._before, now)])
        self._before = now


def train_sum_of_weights(callback, make_optimizer, steps, groups=1):
    """Trains `SumOfWeights`; returns [step][weight] how far each weight really moved."""
    net = SumOfWeights(groups)
    watch = WeightSteps(net.weights)
    data = ds.NumpySlicesDataset((np.ones((steps, 1), np.float32),), ["x"], shuffle=False).batch(1)
    cell = nn.TrainOneStepCell(net, make_optimizer(list(net.weights)))
    Model(cell).train(1, data, callbacks=[watch, callback], dataset_sink_mode=False)
    return watch.moved


class DoublingSchedule(nn.learning_rate_schedule.LearningRateSchedule):
    """A schedule of the user's own, made of two known ones."""

    def __init__(self):
        super().__init__()
        self.warm_up = nn.WarmUpLR(0.02, 10)
        self.decay = nn.CosineDecayLR(0.001, 0.02, 30)

    def construct(self, global_step):
        warm = self.warm_up(global_step)
        cold = self.decay(global_step - 10)
        return ops.select((global_step < 10).reshape(()), warm.reshape(()), cold.reshape(()))


class RaiseAt(Callback):
    """Raises at a step."""

    def __init__(self, step, error):
        super().__init__()
        self._step, self._error = step, error

    def on_train_step_end(self, run_context):
        if run_context.original_args().cur_step_num == self._step:
            raise self._error


class StopAt(Callback):
    """Asks for a stop at a step."""

    def __init__(self, step):
        super().__init__()
        self._step = step

    def on_train_step_end(self, run_context):
        if run_context.original_args().cur_step_num == self._step:
            run_context.request_stop()


class HandDriven:
    """Calls a callback as MindSpore would, with outputs of the test's own."""

    def __init__(self, callback, **cb_params):
        self.callback = callback
        defaults = {"cur_step_num": 0, "batch_num": 10, "epoch_num": 1, "train_network": None, "list_callback": []}
        self.params = {**defaults, **cb_params}
        self.context = RunContext(self.params)

    def begin(self):
        self.callback.__enter__()
        self.callback.on_train_begin(self.context)
        return self

    def step(self, outputs, steps=1):
        self.params["cur_step_num"] += steps
        self.params["net_outputs"] = outputs
        self.callback.on_train_step_end(self.context)

    def end(self):
        self.callback.on_train_end(self.context)
        self.callback.__exit__(None, None, None)


class CountingTensor(Tensor):
    """A tensor that counts how often it is read from the device."""

    reads = 0

    def asnumpy(self):
        CountingTensor.reads += 1
        return super().asnumpy()

    def item(self):
        CountingTensor.reads += 1
        return super().item()
