from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tb_mindformers_plugin.runs.window import window


def test_few_points_are_all_there():
    x, value = np.arange(10.0), np.arange(10, dtype=np.float32) / 3
    found = window(x, value, None, None, None, 10)
    assert found.raw
    assert found.x.tolist() == x.tolist()
    assert found.minimum.tolist() == found.maximum.tolist() == found.last.tolist() == value.tolist()


def test_a_one_step_spike_is_there_at_any_zoom():
    x = np.arange(1_000_000, dtype=np.float64)
    value = np.full(len(x), 2.0, np.float32)
    value[333_333] = 1234.5
    for buckets in (8, 100, 1000, 5000):
        found = window(x, value, None, None, None, buckets)
        assert found.maximum.max() == 1234.5
        assert len(found.x) <= buckets


def test_a_window_has_a_neighbour_on_either_side():
    x = np.arange(100.0)
    found = window(x, x.astype(np.float32), None, 10.5, 19.5, 50)
    assert found.x.tolist() == list(range(10, 21))


def test_a_window_between_two_points_has_both():
    found = window(np.array([0.0, 100.0]), np.array([1, 2], np.float32), None, 40, 60, 50)
    assert found.x.tolist() == [0.0, 100.0]


def test_a_window_outside_of_the_curve_has_its_nearest_point():
    found = window(np.arange(10.0), np.arange(10, dtype=np.float32), None, 100, 200, 50)
    assert found.x.tolist() == [9.0]


def test_values_that_are_not_finite_are_counted_and_never_drawn():
    value = np.array([1, np.nan, np.inf, -np.inf, 2], np.float32)
    found = window(np.arange(5.0), value, None, None, None, 10)
    assert found.nan.tolist() == [0, 1, 0, 0, 0]
    assert found.posinf.tolist() == [0, 0, 1, 0, 0]
    assert found.neginf.tolist() == [0, 0, 0, 1, 0]
    assert np.isnan(found.last[1:4]).all()


def test_non_finite_counts_of_buckets():
    value = np.ones(10_000, np.float32)
    value[::1000] = np.nan
    value[5] = np.inf
    found = window(np.arange(10_000.0), value, None, None, None, 100)
    assert found.nan.sum() == 10
    assert found.posinf.sum() == 1
    assert np.isfinite(found.minimum).all()


def test_a_double_beyond_float32_stays_a_number():
    found = window(np.arange(2.0), np.array([1e300, -1e300]), None, None, None, 8)
    assert found.last.tolist() == [np.finfo(np.float32).max, -np.finfo(np.float32).max]


def test_a_growing_curve_keeps_its_buckets():
    rng = np.random.default_rng(0)
    value = rng.normal(size=120_000).astype(np.float32)
    x = np.arange(len(value), dtype=np.float64)
    before = window(x[:100_000], value[:100_000], None, None, None, 1000)
    after = window(x[:100_500], value[:100_500], None, None, None, 1000)
    assert after.x[: len(before.x) - 1].tolist() == before.x[:-1].tolist()


def test_buckets_of_a_logarithmic_axis_are_of_equal_width_on_it():
    x = np.arange(1_000_000)
    value = np.full(len(x), 2.0, np.float32)
    value[[7, 20, 700_000]] = 50.0
    found = window(x, value, None, None, None, 600, log=True)
    assert not found.raw
    assert len(found.x) <= 600
    assert found.maximum[np.isin(found.x, [7, 20])].tolist() == [50.0, 50.0]  # each point by itself there
    assert found.maximum[np.searchsorted(found.x, 700_000)] == 50.0
    # What is at 0, which such an axis has no place for, is a bucket of its own.
    assert found.x[:3].tolist() == [0.0, 1.0, 2.0]
    wide = found.x[found.x > 1000]
    assert np.diff(np.log2(wide)).max() < 3 * np.log2(1e6) / 600


@pytest.mark.parametrize("last", [-1.0, 0.0])
def test_a_logarithmic_axis_without_a_place_for_any_point(last):
    x = np.linspace(-5.0, last, 1000)
    found = window(x, np.ones(1000, np.float32), None, None, None, 100, log=True)
    assert len(found.x) <= 100
    assert found.x[-1] == last


@pytest.mark.parametrize("stop", [5e-324, 0.5, 1.0, 1.5])
def test_a_logarithmic_window_that_ends_near_0(stop):
    x = np.arange(-100, 100)
    found = window(x, x.astype(np.float32), None, None, stop, 20, log=True)
    assert len(found.x) <= 20
    assert found.minimum.min() == -100
    assert stop <= found.x[-1] <= 3  # a neighbour, and what its bucket holds


@given(st.integers(8, 60), st.integers(100, 500), st.floats(-50, 1e5), st.floats(1e-3, 1e6))
@example(8, 100, -1.0, 2.0)  # half of the points are below 0
def test_a_logarithmic_window_keeps_its_bounds(buckets, points, begin, width):
    x = np.sort(np.random.default_rng(0).uniform(begin, begin + width, points))
    value = np.random.default_rng(1).normal(size=points).astype(np.float32)
    found = window(x, value, None, None, None, buckets, log=True)
    assert len(found.x) <= buckets
    assert found.maximum.max() == value.max()
    assert found.minimum.min() == value.min()


def test_one_position_for_all():
    found = window(np.full(1000, 5.0), np.arange(1000, dtype=np.float32), None, None, None, 10)
    assert found.x.tolist() == [5.0]
    assert (found.minimum[0], found.maximum[0]) == (0, 999)


def test_no_points():
    assert len(window(np.empty(0), np.empty(0, np.float32), None, 0, 1, 10).x) == 0


@given(st.data())
def test_extremes_counts_and_positions_are_exact(data):
    n = data.draw(st.integers(1, 400))
    gaps = data.draw(st.lists(st.integers(1, 50), min_size=n, max_size=n))
    x = np.cumsum(gaps).astype(np.float64)
    value = np.array(data.draw(st.lists(st.floats(width=32) | st.just(np.nan), min_size=n, max_size=n)), np.float32)
    smoothed = np.arange(n, dtype=np.float64)
    low = data.draw(st.none() | st.floats(0, x[-1]))
    high = data.draw(st.none() | st.floats(low or 0, x[-1]))
    buckets = data.draw(st.integers(8, 60))
    found = window(x, value, smoothed, low, high, buckets)
    assert len(found.x) <= buckets
    assert np.isin(found.x, x).all()
    assert (np.diff(found.x) > 0).all()
    inside = (x >= (low if low is not None else x[0])) & (x <= (high if high is not None else x[-1]))
    finite = value[inside & np.isfinite(value)]
    if len(finite):
        assert np.nanmin(found.minimum) <= finite.min()
        assert np.nanmax(found.maximum) >= finite.max()
    assert found.nan.sum() >= np.isnan(value[inside]).sum()
    assert found.smoothed.tolist() == smoothed[np.searchsorted(x, found.x)].tolist()
    again = window(x, value, smoothed, low, high, buckets)
    assert again.x.tobytes() == found.x.tobytes()
    assert again.maximum.tobytes() == found.maximum.tobytes()


@pytest.mark.parametrize("first", [2**63 - 3000, 2**62 + 1, 2**53 + 1, -(2**63)])
@pytest.mark.parametrize("log", [False, True])
def test_steps_that_no_float_tells_apart(first, log):
    x = first + np.arange(3000)
    value = np.zeros(3000, np.float32)
    value[[0, 1, 1234, 2998, 2999]] = [5, 7, 11, 13, 17]
    everything = window(x, value, None, None, None, 3000, log)
    assert everything.raw
    assert everything.last.tolist() == value.tolist()
    found = window(x, value, None, None, None, 1000, log)
    assert len(found.x) <= 1000
    assert (found.maximum.max(), found.last[-1]) == (17, 17)
    assert found.x[-1] == float(x[-1])
    few = window(x[-5:], value[-5:], None, None, None, 8, log)
    assert few.last.tolist() == value[-5:].tolist()


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e12])
def test_any_scale_of_x(scale):
    x = (1.7e9 if scale == 1.0 else 0) + np.arange(10_000) * scale
    found = window(x, np.ones(10_000, np.float32), None, None, None, 100)
    assert 50 <= len(found.x) <= 100
