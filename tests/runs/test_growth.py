"""A run that is read while it grows is what a fresh look at the same files finds, and costs what is new."""

from __future__ import annotations

import dataclasses
import itertools
import tempfile
from pathlib import Path

import event_bytes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tb_mindformers_plugin.health import diagnose
from tb_mindformers_plugin.runs import open_logdir, series
from tb_mindformers_plugin.runs.growing import Growing
from tb_mindformers_plugin.runs.segments import segment
from tb_mindformers_plugin.runs.smoothing import BEGIN, ema, ema_from

DECAYS = (0.0, 0.99)
KEPT = 0.6
TAGS = ("train/loss", "eval/loss", "train/lr")
NOW = 1e6


class Growth:
    """Event files that are written piece by piece."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.step, self.wall, self.files = 0, 1000.0, 0
        self.rng = np.random.default_rng(0)
        self.path = directory
        self.new_file()

    def new_file(self) -> None:
        self.files += 1
        self.path = event_bytes.write(self.directory, name=f"events.out.tfevents.{self.files}.host.1.0")

    def log(self, count: int, stride: int = 1, tags=TAGS, wide: bool = False) -> None:
        records = []
        for _ in range(count):
            self.step += stride
            self.wall += 0.5
            value = float(
                self.rng.choice([2.0, 2.5, self.rng.normal(2, 1), np.nan, np.inf], p=[0.3, 0.3, 0.3, 0.05, 0.05])
            )
            # Overflown as a writer would that keeps steps in 32 bits.
            step = (self.step + 2**31) % 2**32 - 2**31
            if wide:
                records.extend(event_bytes.value_event(step, double(tag, value), self.wall) for tag in tags)
            else:
                records.append(event_bytes.scalars(step, wall=self.wall, **dict.fromkeys(tags, value)))
        self.append(b"".join(records))

    def append(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def do(self, action: str, amount: int) -> None:
        if action == "log":
            self.log(amount)
        elif action == "log one":
            self.log(amount, tags=TAGS[amount % 3 :][:1])
        elif action == "strides":
            self.log(amount, stride=1 + amount % 7)
        elif action == "same step":
            self.log(1 + amount % 3, stride=0)
        elif action == "wide":
            self.log(1 + amount % 9, wide=True)
        elif action == "back":
            self.step -= amount
            self.log(1 + amount % 11)
        elif action == "back with one":  # the other series are silent for now
            self.step -= amount
            self.log(2, tags=TAGS[:1])
        elif action == "leap":
            self.step += 10 * amount
            self.log(amount)
        elif action == "stray":
            kept = self.step
            self.step -= amount
            self.log(1)
            self.step = kept
        elif action == "shuffled":
            self.log(amount, stride=-1)
            self.step += amount
        elif action == "resume":
            self.new_file()
            self.step -= amount
            self.log(amount // 2)
        elif action == "new file":
            self.new_file()
        elif action == "negative":
            self.step = -amount
            self.log(amount % 5)
        elif action == "overflow":
            self.step = 2**31 - 1 - amount // 2
            self.log(amount)
        elif action == "late":  # the process before this one flushes what it had
            kept, self.path = self.path, sorted(self.directory.iterdir())[0]
            self.log(1 + amount % 5)
            self.path = kept
        elif action == "both":
            self.do("late", amount)
            self.log(amount)
        elif action == "second writer":
            kept, step, wall = self.path, self.step, self.wall
            self.new_file()
            self.step, self.wall = max(step - amount, 0), wall - amount / 2
            self.log(amount)
            self.path, self.step, self.wall = kept, step, wall
        elif action == "half a record":
            self.append(b"\x18")
            self.new_file()
        elif action == "anew":
            event_bytes.write(self.directory, name=self.path.name)
            self.log(amount)
        elif action == "anew and longer":
            event_bytes.write(self.directory, name=self.path.name)
            self.log(amount + 400)
        else:
            raise ValueError(action)


def double(tag, value):
    from tensorboard.compat.proto import summary_pb2
    from tensorboard.util import tensor_util

    return summary_pb2.Summary.Value(tag=tag, tensor=tensor_util.make_tensor_proto(value + 1e-12, dtype=np.float64))


def whole(store):
    """All that can be told of the one run."""
    store.refresh()
    (contents,) = store.load(store.runs).values()
    (summary,) = store.summaries(read_all=True)
    told = dataclasses.asdict(summary)
    told["first_wall"], told["second_writers"] = contents.first_wall, contents.second_writers
    for tag in contents.tags:
        told[f"breaks {tag}"] = contents.segmentation(tag)
        for place, part in enumerate(contents.segments(tag)):
            told[f"{tag} {place}"] = (
                part.current,
                *((array.dtype.str, array.tobytes()) for array in (part.step, part.wall, part.value)),
            )
            # Of each segment the average last asked for is kept: it is asked for first.
            for decay in (KEPT, *DECAYS, KEPT):
                smoothed = contents.smoothed(tag, place, decay)
                told.setdefault(f"{tag} {place} {decay}", []).append((smoothed.dtype.str, smoothed.tobytes()))
    with np.errstate(all="ignore"):
        told["findings"] = [repr(finding) for finding in diagnose(contents, now=NOW)]
    return repr(told), contents


def frozen(contents):
    """The points of a snapshot, as bytes."""
    return [
        (part.current, part.step.tobytes(), part.wall.tobytes(), part.value.tobytes())
        for tag in contents.tags
        for part in contents.segments(tag)
    ]


ACTIONS = [
    *["log"] * 6,
    *["log one", "strides", "same step", "wide", "back", "stray", "shuffled", "resume", "new file", "negative"],
    *["overflow", "late", "second writer", "half a record", "anew", "back with one", "leap", "both", "anew and longer"],
]
# Whether it is looked at after an action, and by which decay.
GROWTHS = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.integers(1, 150), st.sampled_from([None, KEPT, KEPT, 0.99])),
    min_size=2,
    max_size=12,
)


@settings(max_examples=30, deadline=None)
@given(GROWTHS)
def test_growth_is_what_a_fresh_look_finds(actions):
    with tempfile.TemporaryDirectory() as directory:
        growth = Growth(Path(directory) / "run")
        growth.log(20)
        store = open_logdir(directory)
        seen = []
        for action, amount, decay in actions:
            growth.do(action, amount)
            if decay is None:
                continue
            store.refresh()
            contents = store.load(["run"])["run"]
            # Not all is asked for at each look, and never in one order.
            for tag in contents.tags[amount % 2 :]:
                for place in range(len(contents.segments(tag))):
                    contents.smoothed(tag, place, decay)
            seen.append((contents, frozen(contents)))
        grown, contents = whole(store)
        assert grown == whole(open_logdir(directory))[0]
        # What was handed out before is as it was.
        for earlier, points in seen:
            assert frozen(earlier) == points


def assert_grows(growth, actions):
    """After each action the run as it was followed is what a fresh look finds."""
    store = open_logdir(str(growth.directory.parent))
    whole(store)
    for action, amount in actions:
        growth.do(action, amount)
        assert whole(store)[0] == whole(open_logdir(str(growth.directory.parent)))[0], action


@pytest.mark.parametrize("action", sorted(set(ACTIONS)))
@pytest.mark.parametrize("amount", [3, 70])
def test_each_kind_of_growth(tmp_path, action, amount):
    growth = Growth(tmp_path / "run")
    growth.log(150)
    assert_grows(growth, [(action, amount), *[("log", 7)] * 2])


@pytest.mark.parametrize(
    "actions",
    [
        # What looks like a restart turns out to be a stray once the writer is back where it was.
        [("back", 100), ("leap", 50)],
        # The silent series are superseded as well from when one of them goes back.
        [("new file", 0), ("leap", 5), ("new file", 0), ("back with one", 30), ("log", 5)],
        # An earlier file and the last one gain points between two looks.
        [("resume", 8), ("both", 2), ("log", 3)],
        # It becomes clear later that two processes write.
        [("second writer", 6), ("second writer", 100), ("log", 5)],
        # Other bytes under the same name, and more of them.
        [("anew and longer", 10), ("log", 5)],
        [("log", 5), ("anew", 30), ("anew and longer", 10)],
        [("overflow", 40), ("log", 5), ("resume", 20), ("log", 5)],
        [("wide", 3), ("same step", 2), ("wide", 3)],
        [("shuffled", 90), ("leap", 5), ("log", 5)],
    ],
)
def test_growth_that_changes_what_was_taken_for_granted(tmp_path, actions):
    growth = Growth(tmp_path / "run")
    growth.log(150)
    assert_grows(growth, actions)


def test_two_processes_show_only_with_time(tmp_path):
    """The second file is too short at first to be told from a resumed run."""
    paths = [
        event_bytes.write(
            tmp_path / "run", *(event_bytes.scalars(s, s + offset, loss=1.0) for s in steps), name=f"tfevents.{n}"
        )
        for n, (steps, offset) in enumerate([(range(300), 0.0), (range(200, 204), 0.5)])
    ]
    store = open_logdir(str(tmp_path))
    assert [part.current for part in store.load(["run"])["run"].segments("loss")] == [True, False]
    with paths[1].open("ab") as file:
        file.write(b"".join(event_bytes.scalars(s, s + 0.5, loss=1.0) for s in range(204, 290)))
    store.refresh()
    contents = store.load(["run"])["run"]
    assert [part.current for part in contents.segments("loss")] == [True, True]
    assert contents.second_writers == ["tfevents.1"]


def test_steps_are_as_they_were_meant_once_they_tell(tmp_path):
    path = event_bytes.write(tmp_path / "run", *(event_bytes.scalars(s, loss=1.0) for s in (-5, -(3 * 10**9))))
    store = open_logdir(str(tmp_path))
    store.load(["run"])["run"].segments("loss")
    for step in (5, 6):
        with path.open("ab") as file:
            file.write(event_bytes.scalars(step, loss=1.0))
        store.refresh()
        grown, fresh = (some.load(["run"])["run"].segments("loss") for some in (store, open_logdir(str(tmp_path))))
        assert [part.step.tolist() for part in grown] == [part.step.tolist() for part in fresh]


def test_a_resumed_run_that_overflowed(tmp_path):
    growth = Growth(tmp_path / "run")
    growth.step = 2**31 - 100
    growth.log(200)
    store = open_logdir(str(tmp_path))
    store.load(["run"])["run"].segments("train/loss")
    growth.new_file()
    growth.step -= 50
    growth.log(20, tags=TAGS[:1])
    store.refresh()
    contents = store.load(["run"])["run"]
    assert contents.segmentation("train/loss").restarts == (2**31 + 51,)
    curve, left = contents.segments("train/loss")
    assert curve.step.tolist() == list(range(2**31 - 99, 2**31 + 71))
    assert left.step.tolist() == list(range(2**31 + 51, 2**31 + 101))
    # A series that has not logged since was taken back all the same.
    assert contents.segments("eval/loss")[0].step.tolist() == list(range(2**31 - 99, 2**31 + 51))


def test_a_run_that_goes_on_is_cut_once(tmp_path, monkeypatch):
    looked_at = []
    monkeypatch.setattr(series, "segment", lambda step, *more: looked_at.append(len(step)) or segment(step, *more))
    smoothed = []
    monkeypatch.setattr(
        series,
        "ema_from",
        lambda state, value, decay: smoothed.append(len(value) - state.start) or ema_from(state, value, decay),
    )
    growth = Growth(tmp_path / "run")
    growth.log(1000)
    growth.do("resume", 200)  # two files, and a curve that is no file's column
    growth.log(1000)
    store = open_logdir(str(tmp_path))
    before = store.load(["run"])["run"]
    curves = [before.segments(tag)[0] for tag in before.tags]
    before.smoothed("train/loss", 0, 0.9)
    assert len(looked_at) == len(TAGS)
    looked_at.clear(), smoothed.clear()
    for look in range(20):
        growth.log(5)
        store.refresh()
        contents = store.load(["run"])["run"]
        grown = [len(contents.segments(tag)[0]) for tag in contents.tags]
        assert grown == [len(curve) + 5 * (look + 1) for curve in curves]
        contents.smoothed("train/loss", 0, 0.9)
    assert looked_at == []
    assert len(smoothed) == 20
    assert max(smoothed) < 300  # of two thousand: the last block of the average, and what is new


def test_memory_of_a_run_that_grew(tmp_path):
    growth = Growth(tmp_path / "run")
    growth.log(5000)
    store = open_logdir(str(tmp_path))
    for _ in range(30):
        growth.log(100)
        store.refresh()
        contents = store.load(["run"])["run"]
        points = sum(len(contents.segments(tag)[0]) for tag in contents.tags)
        assert contents.nbytes <= 22 * points


def test_adding_leaves_what_was_there():
    first = Growing((np.arange(3),))
    second = first.longer((np.array([3, 4]),))
    third = second.longer((np.array([5]),))
    other = second.longer((np.array([-1]),))  # a second way to go on: it does not overwrite the first
    assert [g.arrays[0].tolist() for g in (first, second, third, other)] == [
        [0, 1, 2],
        [0, 1, 2, 3, 4],
        [0, 1, 2, 3, 4, 5],
        [0, 1, 2, 3, 4, -1],
    ]
    assert np.shares_memory(second.arrays[0], third.arrays[0])
    assert not np.shares_memory(third.arrays[0], other.arrays[0])
    wider = third.longer((np.array([0.5]),))
    assert wider.arrays[0].tolist() == [0, 1, 2, 3, 4, 5, 0.5]
    assert third.arrays[0].dtype == np.int64


def test_points_added_one_by_one_are_copied_seldom():
    grown = Growing((np.zeros(0, np.float32),))
    rooms = set()
    for n in range(20_000):
        grown = grown.longer((np.array([n], np.float32),))
        rooms.add(id(grown._room))
        assert grown.nbytes <= 4 * (len(grown) + max(len(grown) / 16, 32))
    assert grown.arrays[0].tolist() == list(range(20_000))
    assert len(rooms) < 120


@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=8),
    st.sampled_from([0.0, 0.3, 0.9, 0.9999]),
    st.floats(0, 1),
    st.integers(0, 99),
)
def test_smoothing_goes_on_bit_for_bit(lengths, decay, bad, seed):
    rng = np.random.default_rng(seed)
    values = np.where(rng.random(sum(lengths)) < bad * rng.integers(0, 2), np.nan, rng.normal(2, 1, sum(lengths)))
    state, found = BEGIN, np.empty(0)
    for stop in itertools.accumulate(lengths):
        known, start = found, state.start
        more, state = ema_from(state, values[:stop], decay)
        np.testing.assert_array_equal(more[: len(known) - start], known[start:])
        found = np.concatenate([known[:start], more])
    assert found.tobytes() == ema(values, decay).tobytes()


STRETCHES = st.lists(st.tuples(st.integers(-40, 5), st.integers(1, 40)), min_size=1, max_size=8)


@settings(max_examples=400)
@given(
    STRETCHES,
    st.lists(st.sampled_from([1, 1, 1, 3, 200]), min_size=1, max_size=60),
    st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_a_settled_order_is_only_lengthened(stretches, strides, in_new_file):
    step = 100
    steps, starts, restarts = [], [], []
    for (jump, count), new in zip(stretches, [True, *in_new_file]):
        step += jump
        if new:
            starts.append(len(steps))
            restarts.append(step if jump < 0 and steps else None)
        steps.extend(range(step, step + count))
        step += count
    before = segment(np.array(steps), starts, restarts)
    after = segment(np.array([*steps, *(steps[-1] + np.cumsum(strides))]), starts, restarts)
    if before.settled:
        assert list(after.current) == [*before.current, *range(len(steps), len(steps) + len(strides))]
        for name in ("repeated", "stray"):
            assert getattr(before, name).tolist() == getattr(after, name).tolist()
        assert [s.tolist() for s in before.superseded] == [s.tolist() for s in after.superseded]
        assert before.restarts == after.restarts
        assert after.settled


def test_a_stretch_of_damage_that_grows_is_one(tmp_path):
    path = event_bytes.write(tmp_path / "run", event_bytes.scalars(1, loss=1.0))
    begin = path.stat().st_size
    store = open_logdir(str(tmp_path))
    for _ in range(5):
        with path.open("ab") as file:
            file.write(bytes(1000))
        store.refresh()
        contents = store.load(["run"])["run"]
    ((_, damage),) = contents.damage
    assert (damage.start, damage.stop) == (begin, begin + 5000 - 11)  # a length may begin in the last bytes
