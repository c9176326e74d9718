from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tb_mindformers_plugin.runs import segments
from tb_mindformers_plugin.runs.segments import segment


def cut(steps, **kwargs):
    steps = np.asarray(steps, np.int64)
    found = segment(steps, **kwargs)
    return found, steps[found.current].tolist()


def test_steps_that_only_grow_are_one_curve():
    found, current = cut([1, 2, 5, 9])
    assert current == [1, 2, 5, 9]
    assert found.superseded == ()
    assert found.restarts == ()


def test_restart_from_a_checkpoint():
    steps = [*range(151), *range(100, 201)]
    found, current = cut(steps, file_starts=(0, 151), file_restarts=(None, 100))
    assert current == list(range(201))
    assert [np.array(steps)[s].tolist() for s in found.superseded] == [list(range(100, 151))]
    assert found.current[100] == 151  # the newer of the two
    assert found.restarts == (100,)


def test_restart_inside_one_file():
    found, current = cut([*range(151), *range(100, 201)])
    assert current == list(range(201))
    assert len(found.superseded) == 1
    assert found.restarts == (100,)


def test_restart_that_has_not_caught_up():
    found, current = cut([*range(151), *range(100, 110)])
    assert current == list(range(110))
    assert len(found.superseded[0]) == 51


def test_two_restarts():
    found, current = cut([*range(10), *range(5, 12), *range(3, 20)])
    assert current == list(range(20))
    assert [len(s) for s in found.superseded] == [5, 9]
    assert found.restarts == (5, 3)


def test_a_restart_counts_for_a_series_that_has_not_logged_since():
    found, current = cut([20, 40, 60, 80], file_starts=(0, 4), file_restarts=(None, 60))
    assert current == [20, 40]
    assert np.array([20, 40, 60, 80])[found.superseded[0]].tolist() == [60, 80]


def test_resume_without_overlap_is_a_restart_that_supersedes_nothing():
    found, current = cut([1, 2, 3, 4], file_starts=(0, 2), file_restarts=(None, 3))
    assert current == [1, 2, 3, 4]
    assert found.superseded == ()
    assert found.restarts == (3,)


def test_stray_point():
    steps = [*range(100), 3, *range(100, 110)]
    found, current = cut(steps)
    assert current == list(range(110))
    assert found.stray.tolist() == [100]
    assert found.restarts == ()


def test_stray_point_at_the_end_waits_for_more():
    found, current = cut([*range(100), 3])
    assert current == list(range(100))
    assert found.stray.tolist() == [100]


def test_repeated_steps_later_one_wins():
    found, current = cut([1, 2, 2, 3, 3, 3, 4])
    assert current == [1, 2, 3, 4]
    assert found.current.tolist() == [0, 2, 5, 6]
    assert found.repeated.tolist() == [1, 3, 4]


def test_steps_in_no_order(monkeypatch):
    monkeypatch.setattr(segments, "_MOST_STRETCHES", 2)
    found, current = cut([5, 1, 4, 2, 3, 1, 5])
    assert current == [1, 2, 3, 4, 5]
    assert found.current.tolist() == [5, 3, 4, 2, 6]
    assert sorted(found.repeated.tolist()) == [0, 1]


def test_steps_as_far_apart_as_numbers_go():
    low, high = -(2**63), 2**63 - 1
    found, current = cut([high, low, 5, high, low, 6])
    assert current == [low, 6]
    assert [len(s) for s in found.superseded] == [1, 3]


def test_no_points():
    assert cut([])[1] == []


@given(st.lists(st.integers(0, 30), max_size=60), st.data())
def test_nothing_is_lost_and_the_curve_ascends(steps, data):
    starts = sorted(data.draw(st.lists(st.integers(0, len(steps)), max_size=3)))
    restarts = data.draw(st.lists(st.none() | st.integers(0, 30), min_size=len(starts), max_size=len(starts)))
    array = np.array(steps, np.int64)
    found = segment(array, [0, *starts], [None, *restarts])
    every = np.concatenate([found.current, *found.superseded, found.repeated, found.stray])
    assert sorted(every.tolist()) == list(range(len(steps)))
    for indices in (found.current, *found.superseded):
        assert (np.diff(array[indices]) > 0).all()
