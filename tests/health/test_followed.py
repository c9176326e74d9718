"""A run that is followed: what is found of it at each look is what a fresh look at all of it finds."""

from __future__ import annotations

import numpy as np
import pytest
from curves import FAMILIES, FAULTS
from curves import run as draw
from hypothesis import given, settings
from hypothesis import strategies as st

from tb_mindformers_plugin.eventfile import Chunk, Column
from tb_mindformers_plugin.health import points
from tb_mindformers_plugin.health.registry import registry
from tb_mindformers_plugin.health.rules import lr_schedule_mismatch
from tb_mindformers_plugin.health.series import of_run
from tb_mindformers_plugin.health.subsumption import without_consequences
from tb_mindformers_plugin.metadata import RunManifest
from tb_mindformers_plugin.roles import ROLES
from tb_mindformers_plugin.runs.contents import RunContents
from tb_mindformers_plugin.runs.files import FileContents

MOST_POINTS = 4000


@pytest.fixture(scope="module", autouse=True)
def _short_runs_are_long():
    """What is worked out of short runs is kept as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(points, "LONG", 1)
        yield


class Writing:
    """A run that is being written, and looked at from time to time."""

    def __init__(self, series, manifest, dtype):
        self.series, self.manifest, self.dtype = series, manifest, dtype
        self.files = []
        self.before = None

    def write(self, first, last, new_file=False, without=None):
        """Writes the steps [first, last]."""
        if new_file or not self.files:
            self.files.append(FileContents(f"events.out.tfevents.{1_700_000_000 + len(self.files)}.host"))
            self.files[-1].manifests.append(self.manifest)
        columns = {}
        for role, (step, wall, value) in self.series.items():
            part = slice(*np.searchsorted(step, [first, last + 1]))
            if role != without and part.stop > part.start:
                columns[ROLES[role].tag] = Column(
                    step[part].astype(np.int64), wall[part], value[part].astype(self.dtype)
                )
        self.files[-1].add(Chunk(columns=columns))

    def look(self):
        """Of the run that was followed, and afresh: what each rule finds, and what is told of all of it."""
        followed = RunContents([file.snapshot() for file in self.files], self.before)
        self.before = followed
        anew = []
        for file in self.files:
            copy = FileContents(file.name)
            copy.manifests = file.manifests
            copy.columns = {tag: Column(*(array.copy() for array in c.arrays)) for tag, c in file.columns.items()}
            anew.append(copy)
        return told(followed), told(RunContents(anew))


def told(contents):
    run, found = of_run(contents), []
    with np.errstate(all="ignore"):
        for rule in registry().values():
            if not rule.reads or any(role in run.curves for role in rule.reads):
                found.extend(rule.function(run, rule.parameters()))
        return [repr(finding) for finding in found], [repr(f) for f in without_consequences(run, found)]


def drawn(name, seed, damage):
    """The first run of a kind that is not too long, with values that are no numbers here and there."""
    run = next(run for run in (draw(name, number, seed) for number in range(100)) if run.points <= MOST_POINTS)
    random = np.random.default_rng(seed)
    series = {role: (step, wall, np.array(value, np.float64)) for role, (step, wall, value) in run.series.items()}
    for _, _, value in series.values():
        value[random.integers(0, len(value), damage)] = random.choice([np.nan, np.inf, 0.0, -1.0], damage)
    return series, RunManifest(**run.manifest)


@pytest.mark.parametrize("name", [*FAMILIES, *FAULTS])
def test_a_run_that_grows_in_parts(name):
    series, manifest = drawn(name, 5, 0)
    steps = np.unique(np.concatenate([step for step, _, _ in series.values()]))
    random = np.random.default_rng(len(steps))
    writing, first = Writing(series, manifest, np.float32), int(steps[0])
    for last in [*np.sort(steps[random.integers(0, len(steps), 8)]).tolist(), int(steps[-1])]:
        writing.write(first, last)
        first = last + 1
        followed, fresh = writing.look()
        assert followed == fresh


PARTS = st.lists(
    st.tuples(
        st.sampled_from(["on", "on", "on", "a few", "back", "new file", "a role is late"]),
        st.floats(0.0, 0.5),
        st.integers(1, 400),
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from([*FAMILIES, *FAULTS]),
    seed=st.integers(0, 50),
    damage=st.sampled_from([0, 0, 3]),
    dtype=st.sampled_from([np.float32, np.float64]),
    parts=PARTS,
)
def test_whatever_happens_to_a_run(name, seed, damage, dtype, parts):
    series, manifest = drawn(name, seed, damage)
    steps = np.unique(np.concatenate([step for step, _, _ in series.values()]))
    writing, at = Writing(series, manifest, dtype), 0
    for kind, part, few in parts:
        if kind in ("back", "new file"):
            at = max(at - few, 0)
        stop = min(at + (few % 12 + 1 if kind == "a few" else int(part * len(steps)) + 1), len(steps))
        if at == stop:
            break
        late = "overflow" if "overflow" in series else "loss"
        if kind == "a role is late":
            writing.write(int(steps[at]), int(steps[stop - 1]), without=late)
            followed, fresh = writing.look()
            assert followed == fresh
            rest = writing.series
            writing.series = {late: rest[late]}
            writing.write(int(steps[at]), int(steps[stop - 1]))
            writing.series = rest
        else:
            writing.write(int(steps[at]), int(steps[stop - 1]), new_file=kind == "new file")
        at = stop
        followed, fresh = writing.look()
        assert followed == fresh


def test_a_declared_schedule_is_asked_about_new_points_alone(monkeypatch):
    asked = []
    schedule = {"kind": "constant", "peak": 1e-3}

    def learning_rates(schedule, i):
        asked.append(len(i))
        return np.full(len(i), schedule["peak"])

    monkeypatch.setattr(lr_schedule_mismatch, "learning_rates", learning_rates)
    monkeypatch.setattr(points, "LONG", 500)
    step = np.arange(1, 1001)
    # Overflows are logged seldom: little is kept of them, and yet it is known that they are the same.
    seldom = step[9::10]
    series = {"lr": (step, step * 1.0, np.full(1000, 1e-3)), "overflow": (seldom, seldom * 1.0, seldom % 7 == 0)}
    writing = Writing(series, RunManifest(schedule=schedule), np.float32)
    writing.write(1, 900)
    writing.look()
    for first in (901, 911, 921):
        asked.clear()
        writing.write(first, first + 9)
        followed, fresh = writing.look()
        assert followed == fresh
        assert asked[0] <= 20
        assert max(asked) == first + 9


def test_of_a_healthy_run_that_grew_only_what_is_new_is_read():
    series, manifest = drawn("pretraining", 0, 0)
    steps = series["loss"][0]
    writing = Writing(series, manifest, np.float32)
    writing.write(int(steps[0]), int(steps[-20]))
    writing.look()
    writing.write(int(steps[-20]) + 1, int(steps[-1]))
    run = of_run(RunContents([file.snapshot() for file in writing.files], writing.before))
    with np.errstate(all="ignore"):
        for rule in registry().values():
            if not rule.reads or any(role in run.curves for role in rule.reads):
                rule.function(run, rule.parameters())
    # Single values are taken as they are stored; a whole curve of them would be here as float64.
    assert not [role for role, curve in run.curves.items() if "value" in curve.__dict__]
