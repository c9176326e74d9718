from __future__ import annotations

import numpy as np
import pytest

from tb_mindformers_plugin.health.online.window import SortedWindow
from tb_mindformers_plugin.health.rolling import baseline


@pytest.mark.parametrize("values", ["normal", "ties"])
def test_quantiles_are_those_of_the_rules(values):
    random = np.random.default_rng(3)
    x = random.standard_normal(500) if values == "normal" else random.integers(0, 4, 500).astype(float)
    window = SortedWindow()
    for i, value in enumerate(x.tolist()):
        if i >= 64:
            base = baseline(x, np.array([i]))
            for q, expected in ((0.25, base.q25), (0.5, base.median), (0.75, base.q75), (0.95, base.q95)):
                assert window.quantile(q) == pytest.approx(float(expected[0]), rel=1e-12, abs=1e-12)
        window.add(value)
    assert len(window) == 128
