"""The fast rolling quantiles are the exact ones."""

from __future__ import annotations

import numpy as np
import pytest

from tb_mindformers_plugin.health.rolling import baseline, may_exceed, noise_before
from tb_mindformers_plugin.health.series import of_values
from tb_mindformers_plugin.health.spike_score import spike_score


@pytest.mark.parametrize("n", [65, 128, 129, 159, 160, 161, 200, 1000, 4321])
@pytest.mark.parametrize("kind", ["normal", "heavy", "steps"])
def test_no_jump_is_missed(n, kind):
    random = np.random.default_rng(n)
    x = {
        "normal": random.standard_normal(n),
        "heavy": random.standard_t(1.5, n),
        "steps": np.repeat(random.standard_normal(n // 10 + 1), 10)[:n],
    }[kind] + 3
    x[random.random(n) < 0.01] += 5
    every = np.arange(64, n)
    base = baseline(x, every)
    for factor in (1.0, 1.1, 3.0):
        jumps = every[(x[every] > factor * base.median) & (base.median > 0)]
        found = may_exceed(of_values(loss=x).curves["loss"], np.full(n // 32 + 1, factor))
        assert set(jumps) <= set(found.tolist())
        assert found.min(initial=64) >= 64


def test_noise_for_long_is_that_of_the_blocks_before():
    sigma = np.random.default_rng(0).random(300)
    found = noise_before(sigma)
    assert len(found) == 301
    for mark in (1, 2, 7, 8, 16, 64, 72, 296):
        assert found[mark] == np.median(sigma[max(mark - 64, 0) : mark])
    assert found[10] == found[8]
    assert found[300] == found[296]


def test_quantiles_are_those_of_the_window():
    x = np.random.default_rng(0).standard_normal(1000)
    at = np.array([64, 100, 128, 129, 500, 999])
    base = baseline(x, at)
    for k, i in enumerate(at):
        expected = np.percentile(x[max(i - 128, 0) : i], [50, 25, 75, 95, 99])
        found = [base.median[k], base.q25[k], base.q75[k], base.q95[k], base.q99[k]]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_spike_score():
    x = np.random.default_rng(0).standard_normal(5000)
    assert spike_score(x) == 0
    x[[1000, 3000]] = 50
    expected = 100 * 2 / (5000 - 128)
    assert spike_score(x) == pytest.approx(expected)
    assert spike_score(1e300 * x) == pytest.approx(expected)
    assert spike_score(np.append(x, np.nan)) == pytest.approx(expected)
    assert spike_score(x[:100]) is None
    assert spike_score(np.zeros(500)) == 0
