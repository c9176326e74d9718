"""A run against its baseline: what is paired, what is measured, what it is called."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_mindformers_plugin.compare import AlignmentError, Tolerance, align, compare
from tb_mindformers_plugin.compare.constant import best_shift, constant
from tb_mindformers_plugin.compare.errors import measure
from tb_mindformers_plugin.runs import open_logdir
from tb_mindformers_plugin.writer import HealthWriter


def curve(n=400, seed=0, noise=0.02):
    random = np.random.default_rng(seed)
    return (2 + 3 * np.exp(-np.arange(n) / 100)) * np.exp(noise * random.standard_normal(n))


@pytest.fixture
def runs(tmp_path):
    """Writes runs (name -> dict(steps, manifest, role=values)) and returns their contents by name."""

    def written(**which):
        for name, fields in which.items():
            steps = fields.pop("steps", None)
            manifest = fields.pop("manifest", {})
            with HealthWriter(tmp_path / name, manifest) as writer:
                for i in range(len(next(iter(fields.values())))):
                    step = i if steps is None else int(steps[i])
                    writer.log(step, **{role: float(values[i]) for role, values in fields.items()})
        store = open_logdir(str(tmp_path))
        return store.load(list(which))

    return written


def test_the_same_run_is_the_same(runs):
    found = runs(a={"loss": curve()}, b={"loss": curve()})
    result = compare(found["a"], found["b"])
    assert result.verdict == "same"
    assert result.errors.max_relative == 0
    assert result.errors.points == 400
    assert result.to_dict("a", "b")["title"] == "Same within 1 %"


def test_steps_that_float64_cannot_tell_apart_are_told_apart(runs):
    steps = [2**62 + i for i in range(20)]
    fields = {"a": {"loss": curve(20), "steps": steps}, "b": {"loss": curve(20), "steps": steps}}
    pairs = align(*runs(**fields).values())
    assert pairs.step.tolist() == steps
    assert (pairs.only_run, pairs.only_baseline) == (0, 0)


def test_one_spike_is_no_divergence_but_is_counted(runs):
    spiked = curve()
    spiked[200] = 50
    result = compare(*runs(a={"loss": spiked}, b={"loss": curve()}).values())
    assert result.verdict == "same"
    assert result.errors.beyond == 1
    assert result.first_step_beyond == 200
    assert result.parted_step is None
    assert result.errors.worst == 200


def test_the_first_step_from_which_it_differs(runs):
    left = curve()
    left[250:] *= 1.05
    result = compare(*runs(a={"loss": left}, b={"loss": curve()}).values())
    assert result.verdict == "differs"
    assert result.parted_step == 250
    said = result.to_dict("a", "b")
    assert said["title"] == "Differs from step 250"
    assert said["errors"]["parted_step"] == 250
    assert said["errors"]["max_relative"] == pytest.approx(0.05, rel=1e-4)
    assert compare(*runs(c={"loss": left}, d={"loss": curve()}).values(), tolerance=Tolerance(0.06)).verdict == "same"


def test_t6_a_division_that_was_forgotten_is_a_ratio(runs):
    result = compare(*runs(a={"loss": 8 * curve()}, b={"loss": curve()}).values())
    assert result.verdict == "ratio"
    assert result.constant.amount == pytest.approx(8, rel=1e-6)
    assert result.constant.whole == 8
    said = result.to_dict("a", "b")
    assert said["title"] == "Constant ratio 8"
    assert "gradient accumulation" in said["message"]
    assert result.to_dict("a", "b", "zh")["title"] == "恒定比例 8"


def test_a_ratio_under_other_noise_is_still_named(runs):
    result = compare(*runs(a={"loss": 8 * curve(seed=1)}, b={"loss": curve(seed=2)}).values())
    assert (result.verdict, result.constant.whole) == ("ratio", 8)


def test_the_inverse_names_the_baseline(runs):
    result = compare(*runs(a={"loss": curve() / 4}, b={"loss": curve()}).values())
    assert result.constant.whole == -4
    assert "The baseline may sum over 4 parts" in result.to_dict("a", "b")["message"]


def test_bits_and_nats(runs):
    result = compare(*runs(a={"loss": curve() / math.log(2)}, b={"loss": curve()}).values())
    assert "nats" in result.to_dict("a", "b")["message"]


def test_an_offset(runs):
    result = compare(*runs(a={"loss": curve() + 0.35}, b={"loss": curve()}).values())
    assert result.verdict == "offset"
    assert result.constant.amount == pytest.approx(0.35, rel=1e-4)


def test_a_ratio_that_only_holds_at_the_beginning_is_told(runs):
    n = 400
    result = compare(
        *runs(
            a={"loss": 8 * curve() * np.exp(-0.004 * np.arange(n) * (np.arange(n) > 25))}, b={"loss": curve()}
        ).values()
    )
    assert result.verdict == "differs"
    assert result.constant.whole == 8
    assert "begin with a constant ratio of 8" in result.to_dict("a", "b")["message"]


def test_other_seeds_are_no_constant(runs):
    result = compare(*runs(a={"loss": curve(seed=1)}, b={"loss": curve(seed=2)}).values())
    assert result.verdict == "differs"
    assert result.constant is None


def test_nan_where_the_baseline_has_a_number(runs):
    broken = curve()
    broken[300:] = np.nan
    result = compare(*runs(a={"loss": broken}, b={"loss": curve()}).values())
    assert result.verdict == "differs"
    assert result.parted_step == 300
    assert result.errors.not_finite == 100
    assert json.loads(json.dumps(result.to_dict("a", "b"), allow_nan=False))["errors"]["max_relative"] == 0


def test_cadences_that_differ_pair_only_what_both_logged(runs):
    full = curve()
    found = runs(a={"loss": full[::10], "steps": range(0, 400, 10)}, b={"loss": full})
    result = compare(found["a"], found["b"])
    assert result.verdict == "same"
    assert result.errors.points == 40
    assert result.pairs.only_baseline == 351
    assert any("351 of the baseline" in note for note in result.to_dict("a", "b")["notes"])


def test_t8_steps_that_are_not_the_same_are_aligned_by_samples(runs):
    big, small = {"global_batch_size": 32}, {"global_batch_size": 8}
    full = curve()
    found = runs(
        a={"loss": full, "steps": range(4, 4 * 400 + 1, 4), "manifest": small},
        b={"loss": full, "steps": range(1, 401), "manifest": big},
    )
    result = compare(found["a"], found["b"])
    assert result.pairs.axis == "samples"
    assert result.verdict == "same"
    assert result.errors.points == 400
    assert any("Aligned by samples" in note for note in result.to_dict("a", "b")["notes"])


def test_t8_where_samples_are_not_known_it_is_said(runs):
    found = runs(a={"loss": curve(), "manifest": {"global_batch_size": 8}}, b={"loss": curve()})
    assert compare(found["a"], found["b"]).pairs.axis == "step"
    with pytest.raises(AlignmentError, match=r"the baseline does not know its samples.*global_batch_size"):
        compare(found["a"], found["b"], axis="samples")


def test_no_common_steps(runs):
    found = runs(a={"loss": curve(10), "steps": range(4049, 4059)}, b={"loss": curve(10), "steps": range(21, 31)})
    with pytest.raises(AlignmentError, match=r"4,049 to 4,058.*21 to 30"):
        compare(found["a"], found["b"])


def test_runs_that_begin_elsewhere_are_laid_side_by_side_from_their_first_step(runs):
    found = runs(
        a={"loss": curve(), "lr": np.full(400, 0.1), "steps": np.arange(400) + 12_000},
        b={"loss": curve(), "lr": np.full(400, 0.1)},
    )
    with pytest.raises(AlignmentError, match="try the axis from_start; log both at the same steps"):
        compare(found["a"], found["b"])
    result = compare(found["a"], found["b"], axis="from_start")
    assert (result.verdict, result.errors.points) == ("same", 400)
    assert (result.pairs.step[0], result.pairs.position[0], result.pairs.position[-1]) == (12_000, 0, 399)
    said = result.to_dict("a", "b")
    assert said["notes"] == ["Aligned at the first step: 12,000 here, 0 in the baseline."]
    assert said["lr"]["same"]
    # A point that only one of the two has is left out, and that is said.
    uneven = runs(
        c={"loss": curve(399), "steps": [*range(100, 300), *range(301, 500)]}, d={"loss": curve(), "steps": range(400)}
    )
    notes = compare(uneven["c"], uneven["d"], axis="from_start").to_dict("c", "d")["notes"]
    left = "Left out for want of a partner at the same step from the first: 0 points of the run, 1 of the baseline."
    assert left in notes


def test_large_steps_are_paired_exactly(runs):
    steps = np.arange(5_000_000, 5_000_400)
    found = runs(a={"loss": curve(), "steps": 2 * steps}, b={"loss": curve(), "steps": 2 * steps + 1})
    with pytest.raises(AlignmentError, match="no loss at the same step"):
        compare(found["a"], found["b"])


def test_samples_in_float32_are_paired_all_the_same(runs):
    samples = 1e9 + 4096.0 * np.arange(400)
    found = runs(a={"loss": curve(), "samples": samples}, b={"loss": curve(), "samples": samples + 30})
    assert compare(found["a"], found["b"], axis="samples").errors.points == 400


def test_samples_that_go_back(runs):
    samples = np.arange(400.0)
    samples[100] = 5
    found = runs(a={"loss": curve(), "samples": samples}, b={"loss": curve(), "samples": np.arange(400.0)})
    with pytest.raises(AlignmentError, match="the run logs samples that go back"):
        compare(found["a"], found["b"], axis="samples")


def test_a_role_that_is_not_there(runs):
    found = runs(a={"loss": curve(10)}, b={"lr": curve(10)})
    with pytest.raises(AlignmentError, match="the baseline logs no loss; it logs: lr"):
        compare(found["a"], found["b"])
    with pytest.raises(ValueError, match="role 'los' is unknown; known: loss"):
        compare(found["a"], found["b"], role="los")
    with pytest.raises(ValueError, match="axis 'wall' is unknown; known: step, from_start, tokens, samples"):
        compare(found["a"], found["b"], role="loss", axis="wall")


def test_t7_units_of_time_are_converted(runs):
    units = {"units": {"train/step_time": "ms"}}
    found = runs(
        a={"loss": curve(50), "step_time": [5200.0] * 50, "manifest": units},
        b={"loss": curve(50), "step_time": [5.2] * 50},
    )
    assert compare(found["a"], found["b"], role="step_time").verdict == "same"
    assert compare(found["a"], found["b"]).speed == pytest.approx((5.2, 5.2))


def test_units_that_cannot_be_converted(runs):
    units = {"units": {"train/throughput": "samples/s"}}
    found = runs(a={"throughput": curve(50), "manifest": units}, b={"throughput": curve(50)})
    with pytest.raises(AlignmentError, match="samples/s in the run and in tokens/s in the baseline"):
        align(found["a"], found["b"], "throughput")


def test_learning_rates_and_settings_that_differ(runs):
    lr = np.full(400, 3e-4)
    other = lr.copy()
    other[100:] *= 2
    found = runs(
        a={"loss": curve(), "lr": other, "manifest": {"hparams": {"seed": 1, "same": 2}}},
        b={"loss": curve(), "lr": lr, "manifest": {"hparams": {"seed": 2, "same": 2}}},
    )
    said = compare(found["a"], found["b"]).to_dict("a", "b")
    assert said["lr"]["first_step"] == 100
    assert said["lr"]["run"] == pytest.approx(6e-4)
    assert {"name": "hparams.seed", "value": 1, "baseline": 2} in said["settings"]
    assert not any(setting["name"] in ("hparams.same", "started_at") for setting in said["settings"])


def test_a_step_that_is_counted_from_0(runs):
    full = curve(noise=0.05)
    found = runs(a={"loss": full, "steps": range(1, 401)}, b={"loss": full, "steps": range(400)})
    result = compare(found["a"], found["b"])
    assert abs(result.shift) == 1
    assert any("counts its steps from 0" in note for note in result.to_dict("a", "b")["notes"])


@pytest.mark.parametrize("field", [{"relative": -1.0}, {"relative": math.nan}, {"absolute": math.inf}, {"points": 0}])
def test_a_tolerance_that_is_none(field):
    with pytest.raises(ValueError, match="tolerance"):
        Tolerance(**field)


numbers = st.one_of(st.floats(width=32), st.sampled_from([0.0, 1.0, -1.0, 3e38, 1e-38]))


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=40))
def test_any_values(pairs):
    value, base = np.array(pairs).T
    errors = measure(value, base, Tolerance())
    finite = np.isfinite(value) & np.isfinite(base)
    assert errors.not_finite + errors.both_not_finite + finite.sum() == len(value)
    expected = ~np.isclose(value, base, rtol=0.01, atol=0)[finite]
    assert errors.beyond == expected.sum() + errors.not_finite
    constant(value[finite], base[finite], 0.01)
    best_shift(value[finite], base[finite])
    if errors.parted is not None:
        assert errors.parted >= errors.first_beyond
