"""P11: how cold load (P1), the answer for all runs (P4) and all rules (P10) grow with the points."""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
from typing import Any, Callable, Sequence

from all_runs import series, tab_buckets
from cold_load import load
from diagnosis import diagnosed
from generate import SHAPES, Written, written
from measure import Table, at_most, interleaved, median, spread
from rivals import rust_load, tensorboard

TIMES = (1, 4, 16)
# Linear, and what noise may add to it.
EXPONENT = 1.05


def tables(directory: pathlib.Path, scale: float, repeat: int) -> list[Table]:
    """Measures and returns the table."""
    table = Table(
        "P11",
        "growth with the points",
        ("what", "grows", *(f"{times}x" for times in TIMES), "exponent", "goal"),
        ("The exponent is the slope of log time over log points, by least squares; 1 is linear.",),
    )
    for name, field in (("A", "steps"), ("C", "runs")):
        sets = _sets(directory, name, field, scale)
        for title, measure in (
            ("P1: EventFile.read", functools.partial(load, "eventfile")),
            ("P1: open_logdir and every curve", functools.partial(load, "logdir")),
            ("P1: Rust data server", lambda one: rust_load(one.path)),
            ("P10: all rules", diagnosed),
        ):
            calls = {str(times): functools.partial(measure, one) for times, one in zip(TIMES, sets)}
            _row(table, f"{title}, {name}", field, sets, interleaved(calls, repeat))
    for name, field in (("B", "steps"), ("C", "runs")):
        sets = _sets(directory, name, field, scale)
        # The same of all of them: how many buckets are asked for is no growth.
        buckets = tab_buckets(sets[-1].shape.runs)
        found = {str(times): _all_runs(one, buckets, repeat) for times, one in zip(TIMES, sets)}
        _row(table, f"P4: loss of all runs, {name}", field, sets, found)
    return [table]


def _sets(directory: pathlib.Path, name: str, field: str, scale: float) -> list[Written]:
    """The set at 1/16, 1/4 and all of its points."""
    largest = SHAPES[name].scaled(scale)
    size = getattr(largest, field)
    shapes = [dataclasses.replace(largest, **{field: max(1, size * times // TIMES[-1])}) for times in TIMES]
    return [written(shape, directory) for shape in shapes]


def _all_runs(one: Written, buckets: int, repeat: int) -> list[dict[str, Any]]:
    with tensorboard(one.path) as server:
        server.wait_loaded()
        ask: Callable[[], dict[str, Any]] = functools.partial(series, server, one, buckets)
        ask()  # warm
        return interleaved({"series": ask}, repeat)["series"]


def _row(table: Table, title: str, field: str, sets: Sequence[Written], found: dict[str, list[dict[str, Any]]]) -> None:
    samples = [found[str(times)] for times in TIMES]
    exponent = _exponent([one.points for one in sets], [median(some) for some in samples])
    goal = None if "Rust" in title else at_most(exponent, EXPONENT, "")
    table.add(title, field, *(spread(some) for some in samples), f"{exponent:.2f}", goal)


def _exponent(points: Sequence[int], seconds: Sequence[float]) -> float:
    x, y = [math.log(p) for p in points], [math.log(s) for s in seconds]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)
