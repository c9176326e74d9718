"""The loss EMA of the callback, point by point, and the tab's, over a whole series, are one formula."""

from __future__ import annotations

import numpy as np
import pytest

from tb_mindformers_plugin.callback.ema import BiasCorrectedEMA
from tb_mindformers_plugin.runs.smoothing import ema


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.99, 0.9999])
def test_both_are_the_same(decay):
    values = np.random.default_rng(0).normal(2, 1, 500)
    values[[7, 90, 91]] = np.nan, np.inf, -np.inf
    one_by_one = BiasCorrectedEMA(decay)
    found = np.array([np.nan if (mean := one_by_one.update(float(value))) is None else mean for value in values])
    finite = np.isfinite(values)
    np.testing.assert_allclose(found[finite], ema(values, decay)[finite], rtol=1e-9)
