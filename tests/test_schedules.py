"""Declared learning-rate schedules, by their values at known steps; against their cells: tests/mindspore."""

from __future__ import annotations

import numpy as np
import pytest

from tb_mindformers_plugin.schedules import KINDS, learning_rate, learning_rates

WARM = {"peak": 1.0, "warmup_init": 0.0, "warmup_steps": 10}
EXAMPLES = {
    "constant": ({"peak": 1.0}, {0: 1, 10**9: 1}),
    "exponential": ({"peak": 1.0, "decay_rate": 0.5, "decay_steps": 4, "staircase": False}, {0: 1, 4: 0.5, 8: 0.25}),
    "natural_exp": (
        {"peak": 1.0, "decay_rate": 0.1, "decay_steps": 4, "staircase": True},
        {3: 1, 4: np.exp(-0.4), 7: np.exp(-0.4)},
    ),
    "inverse": ({"peak": 1.0, "decay_rate": 1.0, "decay_steps": 5, "staircase": False}, {0: 1, 5: 0.5, 15: 0.25}),
    "cosine": ({"peak": 1.0, "end": 0.2, "decay_steps": 30}, {0: 1, 15: 0.6, 30: 0.2, 99: 0.2}),
    "polynomial": (
        {"peak": 1.0, "end": 0.0, "decay_steps": 10, "power": 2.0, "cycle": False},
        {0: 1, 5: 0.25, 10: 0, 50: 0},
    ),
    "warmup": ({"peak": 1.0, "warmup_steps": 10}, {0: 0, 5: 0.5, 10: 1, 90: 1}),
    "constant_warmup": (WARM, {0: 0, 5: 0.5, 10: 1, 90: 1}),
    "linear_warmup": ({**WARM, "total_steps": 50, "decay_steps": 40}, {5: 0.5, 10: 1, 30: 0.5, 60: 0}),
    "cosine_warmup": (
        {**WARM, "end": 0.2, "total_steps": 50, "decay_steps": 40, "num_cycles": 0.5},
        {5: 0.5, 10: 1, 30: 0.6, 50: 0.2, 90: 0.2},
    ),
    "cosine_restarts_warmup": (
        {**WARM, "end": 0.0, "total_steps": 50, "decay_steps": 40, "num_cycles": 2.0},
        {5: 0.5, 10: 1, 20: 0.5, 30: 1, 40: 0.5, 50: 0},
    ),
    "polynomial_warmup": (
        {**WARM, "end": 0.0, "total_steps": 50, "decay_steps": 40, "power": 1.0},
        {5: 0.5, 10: 1, 30: 0.5, 51: 0},
    ),
    "cosine_cooldown": (
        {**WARM, "keep_steps": 10, "decay_steps": 20, "final_steps": 5, "end": 0.2, "final": 0.1, "num_cycles": 0.5},
        {5: 0.5, 15: 1, 30: 0.6, 42: 0.2, 45: 0.1},
    ),
    "warmup_stable_decay": ({**WARM, "end": 0.0, "decay_start": 30, "decay_steps": 20}, {5: 0.5, 29: 1, 40: 0.5}),
    "cosine_annealing": ({"peak": 1.0, "end": 0.0, "period": 20}, {0: 1, 10: 0.5, 20: 0, 40: 1}),
    "cosine_annealing_restarts": (
        {"peak": 1.0, "end": 0.0, "period": 8, "period_factor": 2},
        {0: 1, 4: 0.5, 8: 1, 16: 0.5, 24: 1, 40: 0.5},
    ),
    "scaled": ({"scale": 0.5, "base": {"kind": "constant", "peak": 1.0}}, {0: 0.5}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_known_values(kind):
    parameters, known = EXAMPLES[kind]
    schedule = {"kind": kind, **parameters}
    np.testing.assert_allclose(learning_rates(schedule, list(known)), list(known.values()), atol=1e-12)
    for i, value in known.items():
        assert learning_rate(schedule, i) == pytest.approx(value, abs=1e-12)


def test_no_warmup_is_no_division_by_zero():
    assert learning_rate({"kind": "constant_warmup", **WARM, "warmup_steps": 0}, 0) == 1


def test_what_is_not_known_is_said():
    with pytest.raises(KeyError, match="made up"):
        learning_rates({"kind": "made up"}, [0])
    with pytest.raises(KeyError, match="decay_steps"):
        learning_rates({"kind": "cosine", "peak": 1.0, "end": 0.0}, [0])
