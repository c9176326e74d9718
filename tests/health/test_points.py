"""What is worked out of a series that grows is what it is of the whole, and takes the new points alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tb_mindformers_plugin.health.points import (
    Series,
    first_place,
    goes_down,
    goes_up,
    highest,
    is_positive,
    lowest,
    of_blocks,
    places,
)
from tb_mindformers_plugin.health.robust import block_levels, median, medians, pair_means
from tb_mindformers_plugin.health.rolling import noise_before, noise_so_far
from tb_mindformers_plugin.runs.growing import Kept

CUTS = st.lists(st.integers(1, 700), min_size=1, max_size=8)


def grown(values, lengths):
    """The series at each of its lengths, as a run that is followed has it."""
    kept = Kept()
    for n in sorted(lengths):
        kept = Kept(kept)
        step = np.arange(n)
        yield Series("loss", "loss", step, step * 1.0, values[:n], kept)


def fresh(series):
    return Series("loss", "loss", series.step, series.wall, series.stored)


def drawn(n, seed, odd):
    values = np.random.default_rng(seed).standard_normal(n).astype(np.float32)
    values[np.random.default_rng(seed + 1).random(n) < odd] = np.nan
    return values


def above(value, least):
    return value > least


def two_up(value):
    return (value[2:] > value[1:-1]) & (value[1:-1] > value[:-2])


@given(cuts=CUTS, seed=st.integers(0, 99))
def test_blocks_and_places(cuts, seed):
    for series in grown(drawn(700, seed, 0), cuts):
        value, n = series.stored.astype(np.float64), len(series)
        for size in (5, 32):
            (found,) = of_blocks(series, size, medians)
            np.testing.assert_array_equal(
                found, [np.median(row) for row in value[: n // size * size].reshape(-1, size)]
            )
        np.testing.assert_array_equal(places(series, above, 1.0), np.flatnonzero(value > 1))
        np.testing.assert_array_equal(places(series, above, 2.5), np.flatnonzero(value > 2.5))
        np.testing.assert_array_equal(places(series, goes_down, before=1), np.flatnonzero(np.diff(value) < 0) + 1)
        np.testing.assert_array_equal(places(series, goes_up, before=1), np.flatnonzero(np.diff(value) > 0) + 1)
        up = [i for i in range(2, n) if value[i] > value[i - 1] > value[i - 2]]
        assert places(series, two_up, before=2).tolist() == up
        assert first_place(series, two_up, before=2) == (up[0] if up else None)
        assert series.finite is series


@given(cuts=CUTS, seed=st.integers(0, 99), odd=st.sampled_from([0.0, 0.001, 0.1, 1.0]))
def test_some_of_the_points(cuts, seed, odd):
    for series in grown(drawn(700, seed, odd), cuts):
        finite, value = series.finite, series.stored
        good = np.isfinite(value)
        np.testing.assert_array_equal(finite.value, value[good])
        np.testing.assert_array_equal(finite.step, series.step[good])
        late = finite.cut(20).positive
        np.testing.assert_array_equal(late.value, value[good][20:][value[good][20:] > 0])
        for part in (finite, late, finite.cut(0, 100)):
            np.testing.assert_array_equal(block_levels(part).median, block_levels(fresh(part)).median)
            np.testing.assert_array_equal(places(part, is_positive), np.flatnonzero(part.value > 0))


@given(
    cuts=st.lists(st.integers(1, 9000), min_size=1, max_size=5),
    seed=st.integers(0, 9),
    ends=st.tuples(*[st.floats(0, 1)] * 2),
)
@settings(max_examples=30)
def test_extremes_and_noise(cuts, seed, ends):
    for series in grown(drawn(9000, seed, 0), cuts):
        first, stop = sorted(int(end * (len(series) - 1)) for end in ends)
        within = series.stored[first : stop + 1]
        assert highest(series, first, stop + 1) == within.max()
        assert lowest(series, first, stop + 1) == within.min()
        sigma = block_levels(series).sigma
        np.testing.assert_array_equal(noise_so_far(series, "sigma", sigma), noise_before(sigma))


def test_only_new_points_are_looked_at():
    seen = []

    def noted(rows):
        seen.append(rows.size)
        return (rows.max(axis=1),)

    for series in grown(drawn(700, 0, 0), [640, 650, 660, 672, 700]):
        of_blocks(series, 32, noted)
        of_blocks(series, 32, noted)
        assert "value" in series.__dict__ or seen[0] == 640
    assert seen == [640, 32]


def test_an_earlier_state_does_not_see_what_came_later():
    values = drawn(700, 3, 0)
    earlier = Series("loss", "loss", np.arange(300), np.zeros(300), values[:300])
    places(earlier, is_positive)
    later = Series("loss", "loss", np.arange(700), np.zeros(700), values, Kept(earlier.kept))
    assert len(places(later, is_positive)) > len(places(earlier, is_positive))
    assert later.kept.origin is earlier.kept.origin
    # Nor one that shares it.
    shared = Series("loss", "loss", np.arange(300), np.zeros(300), values[:300], later.kept)
    np.testing.assert_array_equal(places(shared, is_positive), np.flatnonzero(values[:300] > 0))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 9, 10])
def test_medians(n):
    values = np.random.default_rng(n).standard_normal(n)
    assert median(values) == (np.median(values) if n else 0)
    assert pair_means(values).tolist() == [(a + b) / 2 for a, b in zip(values[::2], values[1::2])]
