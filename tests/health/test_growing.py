"""Nothing depends on the final length: a growing run never changes its past."""

from __future__ import annotations

import dataclasses

import healthy
import numpy as np
import pytest
from curves import FAMILIES, FAULTS
from curves import run as draw
from hypothesis import given, settings
from hypothesis import strategies as st

from tb_mindformers_plugin.health.registry import registry
from tb_mindformers_plugin.health.series import Series, of_arrays
from tb_mindformers_plugin.metadata import RunManifest

MOST_POINTS = 4000


def told(series, stop, manifest=None, joins=(), superseded=None):
    """(rule, role, first step) -> finding, of every rule by itself, of a run up to the step `stop`."""
    seen = {role: tuple(part[: np.searchsorted(s[0], stop, "right")] for part in s) for role, s in series.items()}
    run = of_arrays(seen, manifest, [join for join in joins if join <= stop])
    run = dataclasses.replace(run, superseded=superseded or {})
    found = {}
    with np.errstate(all="ignore"):
        for rule in registry().values():
            if not rule.reads or any(role in run.curves for role in rule.reads):
                for finding in rule.function(run, rule.parameters()):
                    found[finding.rule, finding.role, finding.first_step] = finding
    return found


def assert_the_past_stands(series, stops, **run):
    """What was a warning at one stop is told at the next with the same first step.

    And what is a warning at the last and was over long before was told at the stop before.
    """
    looks = [(stop, told(series, stop, **run)) for stop in stops]
    for (_, before), (_, after) in zip(looks, looks[1:]):
        for key, finding in before.items():
            assert finding.severity == "info" or key in after, finding.message
    first = min(int(s[0][0]) for s in series.values())
    (stop, before), (_, after) = looks[-2:]
    for key, finding in after.items():
        seen_by = finding.last_step + 0.25 * (finding.last_step - first) + 0.1 * (stops[-1] - first)
        if finding.severity != "info" and seen_by < stop:
            assert key in before, finding.message


def drawn(name):
    """The first run of a kind that is not too long."""
    return next(run for run in (draw(name, number, seed=11) for number in range(100)) if run.points <= MOST_POINTS)


@pytest.mark.parametrize("name", [*FAMILIES, *FAULTS])
def test_the_past_of_a_run_stands(name):
    run = drawn(name)
    steps = run.series["loss"][0]
    at = np.sort(np.random.default_rng(run.points).integers(64, run.points - 1, 5))
    superseded = {role: tuple(Series(role, role, *one) for one in some) for role, some in run.superseded.items()}
    assert_the_past_stands(
        run.series,
        [*steps[at].tolist(), int(steps[-1])],
        manifest=RunManifest(**run.manifest),
        joins=run.joins,
        superseded=superseded,
    )


PART = st.floats(0.1, 0.99)
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["loss", "grad_norm", "throughput", "lr"]),
        st.floats(0.1, 0.95),
        st.sampled_from([1, 3, 30, 200, 10_000]),
        st.sampled_from([0.3, 0.7, 1.3, 2.0, 30.0, np.nan]),
    ),
    max_size=3,
)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(200, 2500), seed=st.integers(0, 1000), changes=CHANGES, cuts=st.tuples(*[st.floats(0.1, 0.99)] * 2)
)
def test_the_past_of_whatever_happens_stands(n, seed, changes, cuts):
    series = healthy.run(n, seed=seed)
    for role, begin, length, factor in changes:
        series[role][2][int(begin * n) : int(begin * n) + length] *= factor
    steps = series["loss"][0]
    assert_the_past_stands(series, [*sorted(int(steps[int(cut * n)]) for cut in cuts), int(steps[-1])])
