"""GradNormTrainOneStepCell beyond what the long training shows."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops
from mindspore.experimental import optim

from tb_mindformers_plugin import GradNormTrainOneStepCell


class Linear(nn.Cell):
    """loss = a . w + b . v: the gradients are a and b."""

    def __init__(self, dtype=ms.float32):
        super().__init__()
        self.w = Parameter(Tensor(np.zeros(2), dtype), name="w")
        self.v = Parameter(Tensor(np.zeros(1), dtype), name="v")

    def construct(self, a, b):
        return (self.w * a).sum() + (self.v * b).sum()


def step(dtype=ms.float32, a=(3.0, 0.0), b=(4.0,), sens=1.0, clip_norm=None, make=None):
    """Takes one SGD step at lr 1; returns loss, norm and the gradient that was applied."""
    net = Linear(dtype)
    make = make or (lambda weights: nn.SGD(weights, 1.0, loss_scale=sens))
    cell = GradNormTrainOneStepCell(net, make(net.trainable_params()), sens=sens, clip_norm=clip_norm)
    loss, norm = cell(Tensor(np.array(a), dtype), Tensor(np.array(b), dtype))
    assert norm.shape == ()
    assert norm.dtype == ms.float32
    applied = -np.concatenate([weight.asnumpy().astype(np.float64) for weight in (net.w, net.v)])
    return float(loss.asnumpy()), float(norm.asnumpy()), applied


@pytest.fixture(params=["graph", "pynative"], autouse=True)
def _mode(request):
    ms.set_context(mode=ms.GRAPH_MODE if request.param == "graph" else ms.PYNATIVE_MODE)


def test_norm_and_step():
    loss, norm, applied = step()
    assert (loss, norm) == (0.0, 5.0)
    np.testing.assert_allclose(applied, [3, 0, 4])


@pytest.mark.parametrize("sens", [0.5, 1024.0])
def test_sens_is_in_neither_norm_nor_step(sens):
    _, norm, applied = step(sens=sens)
    assert norm == pytest.approx(5.0)
    np.testing.assert_allclose(applied, [3, 0, 4], rtol=1e-6)


@pytest.mark.parametrize("sens", [1.0, 1024.0])
@pytest.mark.parametrize(("clip_norm", "factor"), [(2.5, 0.5), (5.0, 1.0), (50.0, 1.0)])
def test_clipping_by_the_true_norm(sens, clip_norm, factor):
    _, norm, applied = step(sens=sens, clip_norm=clip_norm)
    assert norm == pytest.approx(5.0)  # before clipping
    np.testing.assert_allclose(applied, np.array([3, 0, 4]) * factor, rtol=1e-6)


def test_zero_gradient_is_not_divided_by():
    _, norm, applied = step(a=(0.0, 0.0), b=(0.0,), clip_norm=1.0)
    assert norm == 0.0
    np.testing.assert_array_equal(applied, 0.0)


def test_float16_squares_do_not_overflow():
    _, norm, applied = step(dtype=ms.float16, a=(3000.0, 0.0), b=(4000.0,), clip_norm=2.5)
    assert norm == 5000.0
    np.testing.assert_allclose(applied, [1.5, 0, 2.0], rtol=2e-3)


def test_infinite_gradient_shows():
    _, norm, _ = step(a=(np.inf, 0.0))
    assert norm == np.inf


def test_experimental_optimizer():
    _, norm, applied = step(make=lambda weights: optim.SGD(weights, lr=1.0), clip_norm=2.5)
    assert norm == 5.0
    np.testing.assert_allclose(applied, [1.5, 0, 2.0])


def test_mixed_precision_network():
    net = nn.SequentialCell(nn.Dense(4, 8), nn.ReLU(), nn.Dense(8, 1)).to_float(ms.float16)
    optimizer = nn.SGD(net.trainable_params(), 0.1, loss_scale=64.0)

    class Loss(nn.Cell):
        def construct(self, predicted, y):
            return ops.square(ops.cast(predicted, ms.float32) - y).mean()

    cell = GradNormTrainOneStepCell(nn.WithLossCell(net, Loss()), optimizer, sens=64.0, clip_norm=1.0)
    x = Tensor(np.random.RandomState(0).randn(16, 4), ms.float32)
    y = Tensor(np.random.RandomState(1).randn(16, 1), ms.float32)
    losses, norms = zip(*[[float(value.asnumpy()) for value in cell(x, y)] for _ in range(30)])
    assert losses[-1] < 0.7 * losses[0]
    assert all(0 < norm < 10 for norm in norms)


class Lookup(nn.Cell):
    def __init__(self):
        super().__init__()
        self.embed = nn.EmbeddingLookup(10, 2, param_init="ones", sparse=True)

    def construct(self, index):
        return (self.embed(index) * 2.0).sum()


def test_sparse_gradient():
    ms.set_context(mode=ms.GRAPH_MODE)  # sparse gradients exist there alone
    net = Lookup()
    optimizer = nn.LazyAdam(net.trainable_params(), learning_rate=0.1)
    with pytest.raises(ValueError, match="clip_norm must be None where the network has sparse gradients"):
        GradNormTrainOneStepCell(net, optimizer, clip_norm=1.0)
    _, norm = GradNormTrainOneStepCell(net, optimizer)(Tensor([3, 7], ms.int32))
    assert float(norm.asnumpy()) == pytest.approx(4.0)  # two rows of two, each element 2
    assert sorted(set(np.nonzero(net.embed.embedding_table.asnumpy() != 1)[0])) == [3, 7]


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"sens": 0.0}, ValueError, "sens must be a finite number > 0, got 0.0"),
        ({"sens": float("inf")}, ValueError, "sens"),
        ({"sens": None}, TypeError, "sens"),
        ({"sens": True}, TypeError, "sens"),
        ({"clip_norm": 0}, ValueError, "clip_norm must be a finite number > 0, got 0"),
        ({"clip_norm": -1.0}, ValueError, "clip_norm"),
        ({"clip_norm": float("nan")}, ValueError, "clip_norm"),
        ({"clip_norm": "1"}, TypeError, "clip_norm"),
        ({"network": "net"}, TypeError, "network must be a mindspore.nn.Cell"),
        ({"optimizer": None}, TypeError, "optimizer must be a mindspore.nn.Cell"),
    ],
)
def test_wrong_arguments(arguments, error, said):
    net = Linear()
    right = {"network": net, "optimizer": nn.SGD(net.trainable_params(), 0.1)}
    with pytest.raises(error, match=said):
        GradNormTrainOneStepCell(**{**right, **arguments})


def test_norms_and_gradients_of_single_weights():
    net = Linear()
    optimizer = nn.SGD(net.trainable_params(), 1.0, loss_scale=8.0)
    cell = GradNormTrainOneStepCell(net, optimizer, sens=8.0, clip_norm=1.0, layer_norms=True, return_grads=["v", "x*"])
    assert cell.health_outputs == ("loss", "grad_norm", "layer_grad_norms", "grads")
    assert cell.grad_names == ("v",)
    _, norm, norms, grads = cell(Tensor([3.0, 0.0]), Tensor([4.0]))
    assert float(norm.asnumpy()) == 5.0
    np.testing.assert_allclose(norms.asnumpy(), [3.0, 4.0])  # true norms, before clipping
    (grad,) = grads
    np.testing.assert_allclose(grad.asnumpy(), [4.0 * 8.0])  # times sens, as the docstring says
    np.testing.assert_allclose(-net.v.asnumpy(), [0.8], rtol=1e-6)


def test_patterns_that_match_nothing():
    net = Linear()
    with pytest.raises(ValueError, match=r"return_grads matches no weight.*there are w, v"):
        GradNormTrainOneStepCell(net, nn.SGD(net.trainable_params(), 1.0), return_grads=["x*"])
