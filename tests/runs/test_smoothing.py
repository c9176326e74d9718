from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_mindformers_plugin.runs.smoothing import ema


def plain(values, decay):
    """The definition, one value after another."""
    mean, count, result = 0.0, 0, []
    for value in values:
        if np.isfinite(value):
            mean, count = decay * mean + (1 - decay) * value, count + 1
            result.append(mean / (1 - decay**count))
        else:
            result.append(np.nan)
    return result


@given(
    st.lists(st.floats(-1e6, 1e6) | st.sampled_from([np.nan, np.inf, -np.inf]), max_size=200),
    st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.99, 0.9999]),
)
def test_equals_the_definition(values, decay):
    np.testing.assert_allclose(ema(np.array(values, float), decay), plain(values, decay), rtol=1e-9, atol=1e-6)


def test_long_series():
    values = np.random.default_rng(0).normal(2, 1, 100_003)
    np.testing.assert_allclose(ema(values, 0.999), plain(values, 0.999), rtol=1e-9)


def test_no_smoothing_is_the_values():
    assert ema(np.array([3.0, 1.0]), 0.0).tolist() == [3.0, 1.0]


def test_a_constant_stays_from_the_first_point():
    np.testing.assert_allclose(ema(np.full(1000, 7.0), 0.999), 7.0)


@pytest.mark.parametrize("decay", [-0.1, 1.0, 2.0])
def test_wrong_decay(decay):
    with pytest.raises(ValueError, match="decay"):
        ema(np.zeros(3), decay)
