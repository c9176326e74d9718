"""Runs that are summed up or copied for charts of their own."""

from __future__ import annotations

import doctest
import re

import numpy as np
import pytest

from tb_mindformers_plugin.layout import LayoutError, groups
from tb_mindformers_plugin.runs import open_logdir
from tb_mindformers_plugin.writer import HealthWriter


def write(directory, steps, tags=None, manifest=None, **curves):
    with HealthWriter(directory, manifest) as writer:
        for i, step in enumerate(steps):
            writer.log(step, wall_time=1e9 + step, **{role: values[i] for role, values in curves.items()})
            if tags:
                writer.log_scalars(step, {tag: values[i] for tag, values in tags.items()}, wall_time=1e9 + step)


def loaded(logdir, names=None):
    store = open_logdir(str(logdir))
    return store.load(names or store.runs)


def test_doctests():
    assert doctest.testmod(groups).failed == 0


def test_groups_of_names():
    names = ["gpt/lr1/seed1", "gpt/lr1/seed2", "gpt/lr2/seed1", "other"]
    assert groups.repeated_runs(names, re.compile(r"seed\d+")) == {
        "gpt/lr1/N": names[:2],
        "gpt/lr2/N": names[2:3],
    }
    assert groups.repeated_runs(["a1b2", "a3b4"], re.compile(r"a(\d)b(\d)")) == {"aNbN": ["a1b2", "a3b4"]}
    assert groups.repeated_runs(["a1x", "a1"], re.compile(r"a(\d)(x)?")) == {"aNN": ["a1x"], "aN": ["a1"]}
    assert groups.named_groups(names, re.compile(r"(lr\d)/seed(\d)")) == {
        "lr1_1": names[:1],
        "lr1_2": names[1:2],
        "lr2_1": names[2:3],
    }


def test_statistics_are_numpys_at_the_common_steps(tmp_path):
    random = np.random.default_rng(0)
    curves = [random.standard_normal(50) for _ in range(5)]
    for i, curve in enumerate(curves):
        write(tmp_path / f"seed{i}", range(i, 50 + i), loss=curve)
    made, notes = groups.aggregate("seedN", loaded(tmp_path), ["loss"])
    assert (made.directory, notes) == ("aggregate/seedN", [])
    found = {points.tag: points for points in made.series}
    common = np.arange(4, 50)
    stacked = np.stack([curve[common - i] for i, curve in enumerate(curves)]).astype(np.float32).astype(float)
    for name, expected in {
        "mean": stacked.mean(0),
        "min": stacked.min(0),
        "max": stacked.max(0),
        "median": np.median(stacked, 0),
        "lower_quartile": np.quantile(stacked, 0.25, 0),
        "upper_quartile": np.quantile(stacked, 0.75, 0),
    }.items():
        points = found[f"aggregate/loss/{name}"]
        np.testing.assert_array_equal(points.step, common)
        np.testing.assert_allclose(points.value, expected)


def test_a_run_that_became_nan_is_seen_in_the_statistics(tmp_path):
    write(tmp_path / "a", range(4), loss=[1.0, 1.0, 1.0, 1.0])
    write(tmp_path / "b", range(4), loss=[3.0, 3.0, float("nan"), float("inf")])
    made, _ = groups.aggregate("g", loaded(tmp_path), ["loss"])
    mean = next(points for points in made.series if points.tag.endswith("mean")).value
    np.testing.assert_array_equal(mean, [2.0, 2.0, np.nan, np.inf])


def test_a_run_that_ended_early_is_named(tmp_path):
    write(tmp_path / "a", range(100), loss=range(100))
    write(tmp_path / "b", range(40), loss=range(40))
    made, notes = groups.aggregate("g", loaded(tmp_path), ["loss"])
    assert len(made.series[0].step) == 40
    assert notes == [
        "g: loss at 40 steps only, those that all its runs have: a logged it at 100, b at 40",
    ]


def test_what_cannot_be_summed_up(tmp_path):
    write(tmp_path / "early" / "a", range(5), loss=range(5))
    write(tmp_path / "early" / "b", range(100, 105), loss=range(5))
    with pytest.raises(
        LayoutError, match=r"group g: its runs have no common step \(a: steps 0 to 4; b: steps 100 to 104"
    ):
        groups.aggregate("g", loaded(tmp_path / "early"), ["loss"])
    write(tmp_path / "roles" / "a", range(5), loss=range(5))
    write(tmp_path / "roles" / "b", range(5), lr=range(5))
    with pytest.raises(LayoutError, match=r"no role is logged by two of its runs \(a, b\)"):
        groups.aggregate("g", loaded(tmp_path / "roles"), ["loss", "lr"])


def test_different_axes(tmp_path):
    with HealthWriter(tmp_path / "steps") as writer:
        writer.log(1, loss=1.0)
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    file = EventFileWriter(str(tmp_path / "samples"))
    values = [
        summary_pb2.Summary.Value(tag=tag, simple_value=1.0) for tag in ("Train/Samples/train_loss", "Train/Samples/lr")
    ]
    file.add_event(event_pb2.Event(wall_time=1e9, step=1, summary=summary_pb2.Summary(value=values)))
    file.close()
    with pytest.raises(LayoutError, match=r"different axes .*samples counts samples.*steps counts steps"):
        groups.aggregate("g", loaded(tmp_path), ["loss"])


def test_units_that_differ_and_roles_that_some_lack(tmp_path):
    write(tmp_path / "a", range(3), loss=[1, 2, 3], throughput=[1, 1, 1], lr=[1, 1, 1])
    write(
        tmp_path / "b",
        range(3),
        loss=[1, 2, 3],
        throughput=[1, 1, 1],
        lr=[1, 1, 1],
        manifest={"units": {"train/throughput": "x/s"}},
    )
    write(tmp_path / "c", range(3), loss=[1, 2, 3])
    made, notes = groups.aggregate("g", loaded(tmp_path), ["loss", "lr", "throughput"])
    assert {points.tag.split("/")[1] for points in made.series} == {"loss", "lr"}
    assert notes == [
        "g: learning rate of 2 of 3 runs, the others log none",
        "g: throughput left out, it is in tokens/s and x/s",
    ]


def test_copies_keep_every_extreme_of_a_long_curve(tmp_path):
    loss = np.random.default_rng(0).standard_normal(20_000)
    loss[12_345] = 99.0
    loss[777] = float("nan")
    from tb_mindformers_plugin.runs.contents import Segment

    steps = np.arange(20_000)

    class Run:
        def current(self, role):
            return Segment(True, steps, steps * 1.0, loss) if role == "loss" else None

    (made,) = groups.copies("lr1", {"x/../y": Run()}, ["loss", "lr"])
    (points,) = made.series
    assert (made.directory, points.tag) == ("group/lr1/x/_/y", "group/lr1/loss")
    assert len(points.step) <= 1000
    assert (np.diff(points.step) > 0).all()
    assert {777, 12_345} <= set(points.step.tolist())
    np.testing.assert_array_equal(points.value, loss[points.step])
