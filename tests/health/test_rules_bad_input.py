"""Whatever is logged: no exception, and no finding without evidence."""

from __future__ import annotations

import dataclasses
import importlib
import logging
import warnings

import healthy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tb_mindformers_plugin.health import diagnose_arrays
from tb_mindformers_plugin.health.diagnose import findings
from tb_mindformers_plugin.health.finding import Text
from tb_mindformers_plugin.health.registry import Rule, registry
from tb_mindformers_plugin.health.series import of_arrays
from tb_mindformers_plugin.metadata import RunManifest
from tb_mindformers_plugin.roles import ROLES

MANIFEST = RunManifest(
    steps_per_epoch=100,
    grad_clip=1.0,
    schedule={"kind": "cosine_warmup", "peak": "high"},
    loss_scale={"kind": "dynamic"},
)
NOT_FINITE = {"non_finite", "zero_loss"}


def told(series, **run):
    """The findings; a rule that fails is logged, and fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return diagnose_arrays(series, **run)


@pytest.fixture(autouse=True)
def _no_rule_fails(request, caplog):
    yield
    if request.node.get_closest_marker("parametrize") or "logged_every" in request.node.name:
        assert [r for r in caplog.records if r.levelno >= logging.ERROR] == []


def all_roles(value, step=None):
    value = np.asarray(value, float)
    step = np.arange(len(value)) if step is None else step
    return dict.fromkeys(ROLES, (step, 1000000000.0 + step, value))


@pytest.mark.parametrize("manifest", [None, MANIFEST])
@pytest.mark.parametrize("restarts", [(), (0,), (1, 500), (10**9,)])
@pytest.mark.parametrize("value", [[], [0.0], [2.0], [2.0, 1.0], [0.0, 0.0], [1e308, -1e308], [np.nan], [np.nan, 1.0]])
def test_short(value, manifest, restarts):
    found = told(
        {**all_roles(value), "epoch": (np.arange(len(value)), None, np.zeros(len(value)))},
        manifest=manifest,
        restarts=restarts,
    )
    if np.isfinite(value).all():
        assert found == []
    else:
        assert {f.rule for f in found} <= NOT_FINITE


@pytest.mark.parametrize("role", list(ROLES))
def test_one_role_alone(role):
    (series,) = [series for name, series in healthy.run().items() if name == "loss"]
    found = told({role: series})
    # A loss as a learning rate or as a KL is nonsense, and may be told.
    assert all(f.role == role for f in found)


@pytest.mark.parametrize("n", [3, 64, 65, 128, 129, 160, 200, 500, 1000, 1001])
@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 1e-320, 1e38, 1e308, np.nan, np.inf])
def test_constant(n, value):
    found = told({**all_roles(np.full(n, value)), "epoch": (np.arange(n), None, np.arange(n) / 100)}, manifest=MANIFEST)
    # Constants that are a fault in themselves: NaN, a clip fraction of 1, an overflow at each step, a grad norm
    # near 0, a loss that never moves.
    told_of_constants = {"clip_fraction_high", "frequent_overflow", "clip_saturation", "grad_vanishing"}
    if n >= 500:
        told_of_constants.add("loss_plateau")
    assert {f.rule for f in found if f.severity != "info"} <= NOT_FINITE | told_of_constants


@pytest.mark.parametrize("seed", range(6))
def test_noise_of_any_size(seed):
    random = np.random.default_rng(seed)
    for n in (5, 70, 300, 1500):
        told(
            all_roles(random.standard_cauchy(n) * 10.0 ** random.integers(-300, 300, n)),
            manifest=MANIFEST,
            restarts=(n // 2,),
        )
        told(all_roles(np.where(random.random(n) < 0.5, np.nan, random.standard_normal(n))), manifest=MANIFEST)


@pytest.mark.parametrize("stop", [70, 230, 300, 800])
@pytest.mark.parametrize("rest", [0.0, np.nan, -1.0, 1e300])
def test_a_loss_that_ends_in_something_else(stop, rest):
    loss = healthy.loss(1500)
    loss[stop:] = rest
    found = told(healthy.run(1500, loss=loss, grad_norm=None))
    assert all(f.last_step >= stop for f in found if f.severity != "info")


@settings(max_examples=60, deadline=None)
@given(
    roles=st.sets(st.sampled_from(sorted(ROLES)), min_size=1, max_size=5),
    values=st.lists(st.floats(width=32), max_size=400),
    repeat=st.integers(1, 8),
    every=st.sampled_from([1, 10, 500]),
    restarts=st.lists(st.integers(-10, 2000), max_size=3),
)
def test_whatever_is_logged(roles, values, repeat, every, restarts):
    value = np.tile(np.asarray(values, float), repeat)
    series = {role: (np.arange(len(value)) * every, None, np.roll(value, k)) for k, role in enumerate(sorted(roles))}
    logged = _Errors()
    logging.getLogger("tb_mindformers_plugin").addHandler(logged)
    try:
        found = told(series, manifest=MANIFEST, restarts=restarts)
    finally:
        logging.getLogger("tb_mindformers_plugin").removeHandler(logged)
    assert logged.records == []
    for finding in found:
        assert finding.role in roles
        assert finding.first_step <= finding.peak_step <= finding.last_step
        assert finding.evidence


class _Errors(logging.Handler):
    """Keeps what a rule that fails logs."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.records = []

    def emit(self, record):
        self.records.append(record.exc_info)


@pytest.mark.parametrize("every", [1, 10, 500])
def test_a_healthy_run_logged_every_so_often(every):
    for n in (20, 100, 700, 3000):
        assert [f for f in told(healthy.run(n, every, seed=n)) if f.severity != "info"] == []


@pytest.mark.parametrize("every", [1, 10, 500])
def test_a_fault_logged_every_so_often(every):
    loss = healthy.loss()
    loss[1500] *= 3
    (found,) = told(healthy.run(every=every, loss=loss))
    assert (found.rule, found.first_step) == ("loss_spike", 1501 * every)


@pytest.mark.parametrize("order", ["backwards", "shuffled", "repeated"])
def test_unsorted_steps(order):
    step, wall, value = healthy.run()["loss"]
    place = {
        "backwards": np.arange(3000)[::-1],
        "shuffled": np.random.default_rng(0).permutation(3000),
        "repeated": np.repeat(np.arange(3000), 2),
    }[order]
    assert told({"loss": (step[place], wall[place], value[place])}) == []


@pytest.mark.parametrize("offset", [-(2**40), 2**53, 2**62])
def test_steps_far_away(offset):
    step, wall, value = healthy.run()["loss"]
    assert told({"loss": (step + offset, wall, value)}) == []


@pytest.mark.parametrize("wall", [np.nan, -1.0, 0.0, np.inf])
def test_clocks_that_tell_nothing(wall):
    run = {role: (step, np.full(len(step), wall), value) for role, (step, _, value) in healthy.run().items()}
    assert told(run, now=2e9) == []


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="no role 'los'; known: loss, "):
        diagnose_arrays({"los": ([0], None, [1.0])})
    with pytest.raises(ValueError, match="loss: 2 steps, 2 wall times, 1 values"):
        diagnose_arrays({"loss": ([0, 1], None, [1.0])})
    with pytest.raises(ValueError, match="no rule 'loss_spikes'; known: baseline_divergence, "):
        diagnose_arrays({}, parameters={"loss_spikes": None})


def test_parameters_can_be_changed():
    loss = healthy.loss()
    loss[1500] *= 1.5
    rule = registry()["loss_spike"]
    lenient = dataclasses.replace(rule.parameters(), rise=0.8)
    assert diagnose_arrays(healthy.run(loss=loss))
    assert diagnose_arrays(healthy.run(loss=loss), parameters={"loss_spike": lenient}) == []


def test_a_rule_that_fails_costs_no_other_its_findings(monkeypatch, caplog):
    def broken(run, parameters):
        raise RuntimeError("a bug")

    rules = dict(registry())
    rules["loss_spike"] = Rule("loss_spike", Text("", ""), broken, rules["loss_spike"].parameters, ("loss",), (), {})
    module = importlib.import_module("tb_mindformers_plugin.health.diagnose")
    monkeypatch.setattr(module, "registry", lambda: rules)
    run = healthy.run(loss=np.where(np.arange(3000) == 5, np.nan, healthy.loss()))
    assert [f.rule for f in findings(of_arrays(run))] == ["non_finite"]
    assert "rule loss_spike failed" in caplog.text


def test_a_growing_run_never_changes_its_past():
    loss = healthy.loss()
    loss[700] *= 2
    loss[1500:] *= 1.9
    run = healthy.run(loss=loss)
    seen = {}
    for n in range(400, 3001, 100):
        for f in told({role: tuple(part[:n] for part in series) for role, series in run.items()}):
            seen.setdefault((f.rule, f.first_step), n)
    assert [step for rule, step in seen if rule == "loss_spike"] == [701]
    divergences = [(step, n) for (rule, step), n in seen.items() if rule == "loss_divergence"]
    assert len(divergences) == 1
    assert divergences[0][1] <= 1700
