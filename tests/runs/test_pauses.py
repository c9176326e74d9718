"""Time without pauses."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_mindformers_plugin.runs import axes, open_logdir, pauses
from tb_mindformers_plugin.runs.pauses import find_pauses
from tb_mindformers_plugin.writer import HealthWriter


def active(walls, starts=()):
    return find_pauses(np.asarray(walls), starts).without(np.asarray(walls)).tolist()


def test_doctests():
    assert doctest.testmod(pauses).failed == 0


def test_a_pause_is_as_long_as_the_interval_before_it():
    walls = [0.0, 2.0, 4.0, 104.0, 106.0, 1106.0]
    assert active(walls) == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]


def test_a_minute_is_no_pause_nor_is_what_is_usual():
    assert active([0.0, 1.0, 2.0, 62.0, 63.0]) == [0.0, 1.0, 2.0, 62.0, 63.0]
    hourly = [3600.0 * i for i in range(5)]
    assert active(hourly) == hourly


def test_where_a_process_began_a_shorter_one_is_a_pause():
    # Logged every minute, killed, and taken up again five minutes later.
    walls = [0.0, 60.0, 120.0, 180.0, 480.0, 540.0]
    assert active(walls) == walls
    assert active(walls, [480.0]) == active(walls, [400.0]) == [0.0, 60.0, 120.0, 180.0, 240.0, 300.0]
    # A writer that begins a file each time is no new process.
    assert active(walls[:4], walls[1:4]) == walls[:4]


def test_what_is_logged_in_a_pause_lies_between_its_ends():
    found = find_pauses(np.array([0.0, 1.0, 2.0, 3.0, 103.0]), [])
    assert found.without(np.array([3.0, 53.0, 103.0, 104.0])).tolist() == pytest.approx([3.0, 3.5, 4.0, 5.0])


@pytest.mark.parametrize("walls", [[], [5.0], [np.nan, 1.0], [np.inf, 1.0, 2.0]])
def test_little_or_damaged(walls):
    found = find_pauses(np.asarray(walls, np.float64), [3.0, 1.0])
    assert len(found.ends) == 0


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60), st.lists(st.floats(0, 1e6), max_size=3))
def test_time_never_goes_back_and_never_grows(walls, starts):
    at = np.sort(np.asarray(walls))
    got = np.asarray(active(at, starts))
    assert (np.diff(got) >= -1e-6).all()
    assert (np.diff(got) <= np.diff(at) + 1e-6).all()
    assert got[0] == at[0]


def test_a_run_that_was_taken_up_again(tmp_path):
    for first, wall in ((100, 1.8e9), (150, 1.8e9 + 86_400)):
        with HealthWriter(tmp_path / "run", {"resumed_from": first - 1} if first > 100 else {}) as writer:
            for step in range(first, first + 50):
                writer.log(step, loss=1.0, lr=0.1, wall_time=wall + step - first)
    run = open_logdir(str(tmp_path)).load(["run"])["run"]
    assert {"from_start", "active"} <= set(axes.available(run))
    for role in ("loss", "lr"):
        (curve, *_) = run.segments(run.roles[role].tag)
        assert axes.positions(run, curve, "relative")[-1] == 86_400 + 49
        assert axes.positions(run, curve, "active").tolist() == list(range(100))
        assert axes.positions(run, curve, "from_start").tolist() == list(range(100))
    assert axes.positions_of_steps(run, "loss", [149, 150], "active") == [49, 50]
