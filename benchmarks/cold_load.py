"""P1: cold load of every point, every CRC verified."""

from __future__ import annotations

import functools
import importlib.util
import pathlib
from typing import Any, Callable

from generate import SHAPES, Written, written
from measure import Goal, Table, at_least, fresh, interleaved, median, ratio, spread
from rivals import rust_load

# Times faster than the Rust data server, by set.
GOALS = {"A": 2.0, "B": 3.0, "C": 1.5, "M": 3.0, "I": 1.0, "D": 1.0, "G": None}
TBPARSE_GOAL = 50.0
# The slow rivals get a part of each set, and are compared by points a second.
SLICE = 1 / 50
OURS = {"eventfile": "EventFile.read of every file", "logdir": "open_logdir and every curve"}
# What users get, and what rivals are compared with; EventFile.read shows what one thread without the store takes.
PRODUCT = "logdir"


def tables(directory: pathlib.Path, scale: float, repeat: int) -> list[Table]:
    """Measures and returns the table."""
    table = Table(
        "P1",
        "cold load of every point",
        ("set", "points", "reader", "median (range)", "CPU", "points/s", "ours is", "goal"),
        (
            "Each load in a fresh process, imports and start not counted; the files are in the page cache.",
            "Ours verifies the CRC of every record (but of large records without a scalar); EventFile.read runs on one "
            "thread, open_logdir reads several runs at once.",
            "The Rust data server keeps 1,000 points a tag and verifies no payload, its defaults, on all cores; "
            "its time is what it logs itself, its CPU that of the whole process.",
            f"tbparse and tb-like (slow) read {SLICE:g} of the set, and are compared by points a second; "
            "tb-like also writes Parquet.",
        ),
    )
    for name, goal in GOALS.items():
        one = written(SHAPES[name].scaled(scale), directory)
        few = written(SHAPES[name].scaled(scale * SLICE), directory)
        _measure(table, one, few, goal, repeat)
    return [table]


def load(way: str, one: Written) -> dict[str, Any]:
    """One load of ours or of a Python rival, checked to be complete."""
    result = fresh("load.py", way, one.path)
    if result["points"] != one.points:
        raise RuntimeError(f"{way} read {result['points']} of {one.points} points of {one.path}")
    return result


def _measure(table: Table, one: Written, few: Written, goal: float | None, repeat: int) -> None:
    contenders: dict[str, Callable[[], dict[str, Any]]] = {
        **{way: functools.partial(load, way, one) for way in OURS},
        "rust": lambda: rust_load(one.path),
        "rust checked": lambda: rust_load(one.path, checksum=True),
    }
    slow = {}
    if one.shape.name != "G":
        slow["tbparse"] = functools.partial(load, "tbparse", few)
        if importlib.util.find_spec("tblike"):
            slow["tblike"] = functools.partial(load, "tblike", few)
    found = interleaved({**contenders, **slow}, repeat)
    ours = one.points / median(found[PRODUCT])
    for way, title in OURS.items():
        faster = median(found["rust"]) / median(found[way])
        less_work = median(found["rust"], "cpu") / median(found[way], "cpu")
        _row(table, one, title, found[way], None, goal and _against_rust(faster, less_work, goal))
    for way, title in (("rust", "Rust data server"), ("rust checked", "Rust data server --checksum")):
        _row(table, one, title, found[way], median(found[way]) / median(found[PRODUCT]), None)
    for way in slow:
        rate = few.points / median(found[way])
        faster = ours / rate
        reached = at_least(faster, TBPARSE_GOAL) if way == "tbparse" else None
        _row(table, few, {"tblike": "tb-like"}.get(way, way), found[way], faster, reached)


def _against_rust(faster: float, less_work: float, goal: float) -> Goal:
    found = at_least(faster, goal)
    return Goal(f"{found.text} Rust, is {ratio(faster)} (by CPU {ratio(less_work)})", found.reached)


def _row(table: Table, one: Written, title: str, samples: list, faster: float | None, goal: Goal | None) -> None:
    rate = one.points / median(samples)
    table.add(
        one.shape.name,
        f"{one.points:,}",
        title,
        spread(samples),
        f"{median(samples, 'cpu'):.3g} s",
        f"{rate:,.3g}" if rate < 1e3 else f"{rate / 1e3:,.0f}k",
        faster and f"{ratio(faster)} as fast",
        goal,
    )
