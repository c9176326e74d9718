from __future__ import annotations

import numpy as np
import pytest

from tb_mindformers_plugin.health import Finding, verdict
from tb_mindformers_plugin.health.rules.non_finite import non_finite

NAN, INF = np.nan, np.inf


def find(values, role="loss"):
    return non_finite(np.arange(0, 10 * len(values), 10), np.array(values, np.float32), role, "tag")


@pytest.mark.parametrize(
    ("values", "role", "severity"),
    [
        ([1, NAN, 1, 1], "loss", "warning"),
        ([1, NAN, INF, NAN, 1], "loss", "critical"),
        ([1, 1, NAN], "loss", "critical"),
        ([1, NAN, 1], "grad_norm", "info"),
        ([1, NAN, NAN, NAN, 1], "grad_norm", "critical"),
        ([1, INF], "grad_norm", "critical"),
    ],
)
def test_severity(values, role, severity):
    assert find(values, role).severity == severity


@pytest.mark.parametrize("values", [[], [1], [0, 0, 0], [1e38, -1e38]])
def test_quiet_when_all_is_finite(values):
    assert find(values) is None


def test_it_says_where_and_how_much():
    found = find([1, NAN, 1, INF, INF])
    assert (found.first_step, found.last_step) == (10, 40)
    assert found.message == "Loss was NaN and +Inf at 3 of 5 logged steps from step 10 to 40, and has not come back."
    assert find([1, NAN, 1]).message == "Loss was NaN at step 10."
    assert found.evidence["points"] == 3
    assert found.advice


def test_verdict_is_the_worst():
    def finding(severity):
        return Finding("rule", severity, "loss", "t", 0, 0, 0, "", "", {})

    assert verdict([]) == "ok"
    assert verdict([finding("info"), finding("critical"), finding("warning")]) == "critical"
