"""Histograms, text, images and hyper-parameters: what is taken, what is not, and what becomes of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.util import tensor_util

from tb_mindformers_plugin.writer import HealthWriter, summaries


def rows(values, buckets=30):
    return tensor_util.make_ndarray(summaries.histogram_value("h", values, buckets).tensor)


@given(st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True)), st.integers(1, 40))
def test_every_finite_value_is_in_its_bucket(values, buckets):
    found = rows(np.array(values, np.float32), buckets)
    finite = [value for value in values if math.isfinite(value)]
    assert found.shape == (buckets, 3)
    assert found[:, 2].sum() == len(finite)
    assert (found[:, 1] >= found[:, 0]).all()
    np.testing.assert_allclose(found[1:, 0], found[:-1, 1])
    if finite:
        assert found[0, 0] <= min(finite)
        assert found[-1, 1] >= max(finite)


def test_large_arrays_are_counted_as_numpy_does():
    data = np.random.RandomState(0).randn(3_000_000)
    counts, edges = np.histogram(data, 50)
    found = rows(data, 50)
    assert np.abs(found[:, 2] - counts).sum() <= 4
    np.testing.assert_allclose(found[:, 0], edges[:-1])


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.uint8, np.float16, np.float32, np.float64])
def test_kinds_of_numbers(dtype):
    assert rows(np.array([[0, 1], [1, 1]], dtype))[:, 2].sum() == 4


def test_widest_range():
    assert rows(np.array([-1.7e308, 0.0, 1.7e308]))[:, 2].sum() == 3


class Tensor:
    def asnumpy(self):
        return np.ones(3, np.float32)


def test_tensors_are_taken():
    assert rows(Tensor())[:, 2].sum() == 3


@pytest.mark.parametrize("values", ["abc", [object()], [1, "x"], [1j], None])
def test_what_holds_no_numbers(values, tmp_path):
    with HealthWriter(tmp_path) as writer, pytest.raises(ValueError, match="'w' must hold numbers"):
        writer.add_histogram("w", values, 1)


@pytest.mark.parametrize("buckets", [0, -1, 2.5, True, "30"])
def test_buckets_that_are_none(buckets, tmp_path):
    with HealthWriter(tmp_path) as writer, pytest.raises(ValueError, match="buckets"):
        writer.add_histogram("w", [1.0], 1, buckets=buckets)


@pytest.mark.parametrize(
    ("image", "dataformats", "words"),
    [
        (np.zeros((4, 4, 2)), "HWC", "channels.*4, 4, 2"),
        (np.zeros((4, 4)), "HWC", "shape"),
        (np.zeros((4, 4, 3)), "HW", "2 axes"),
        (np.zeros((0, 4, 3)), "HWC", "0, 4, 3"),
        (np.zeros((4, 4, 3), np.int64), "HWC", "uint8.*int64"),
        (np.zeros((4, 4, 3)), "NCHW", "dataformats"),
    ],
)
def test_images_that_are_none(image, dataformats, words, tmp_path):
    with HealthWriter(tmp_path) as writer, pytest.raises(ValueError, match=words):
        writer.add_image("i", image, 1, dataformats=dataformats)


def test_floats_beyond_one_are_cut_off_and_nan_is_black():
    pixels = summaries._pixels("i", np.array([[-1.0, 0.5, 7.0, math.nan]]), "HW")
    assert pixels.reshape(-1).tolist() == [0, 128, 255, 0]


@pytest.mark.parametrize("text", [3, None, b"x"])
def test_text_that_is_none(text, tmp_path):
    with HealthWriter(tmp_path) as writer, pytest.raises(TypeError, match="text"):
        writer.add_text("t", text, 1)


@pytest.mark.parametrize("hparams", [[("lr", 1)], "lr", {"net": object()}])
def test_hparams_that_are_none(hparams, tmp_path):
    with HealthWriter(tmp_path) as writer, pytest.raises(TypeError):
        writer.add_hparams(hparams)


def test_hparams_are_flattened():
    hparams = {"opt": {"lr": np.float32(0.5), "betas": [0.9, 0.95]}, "seed": None, "amp": True, "name": "x"}
    assert summaries._flat(hparams) == {
        "opt.lr": 0.5,
        "opt.betas": "[0.9, 0.95]",
        "seed": "null",
        "amp": True,
        "name": "x",
    }
