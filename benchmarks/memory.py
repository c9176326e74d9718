"""P2: memory of the columns."""

from __future__ import annotations

import functools
import pathlib

from cold_load import load
from generate import SHAPES, written
from measure import Table, at_most, interleaved, median, megabytes
from rivals import rust_load

BYTES_A_POINT, PEAK = 24.0, 0.25


def tables(directory: pathlib.Path, scale: float, repeat: int) -> list[Table]:
    """Measures and returns the table."""
    table = Table(
        "P2",
        "memory with every point kept",
        ("set", "points", "reader", "peak memory", "of it before loading", "columns", "goal"),
        (
            "Peak resident memory of a fresh process, Python and its imports included.",
            "Columns: the arrays that hold the points, bytes a point.",
            "The Rust data server is told to keep all points (--samples-per-plugin scalars=all).",
        ),
    )
    for name in "AM":
        one = written(SHAPES[name].scaled(scale), directory)
        found = interleaved(
            {
                "EventFile.read of every file": functools.partial(load, "eventfile", one),
                "open_logdir and every curve": functools.partial(load, "logdir", one),
                "Rust data server, all points": lambda one=one: rust_load(one.path, keep_all=True),
            },
            repeat,
        )
        rival = median(found["Rust data server, all points"], "peak")
        for title, samples in found.items():
            peak = median(samples, "peak")
            if "columns" not in samples[0]:
                table.add(name, f"{one.points:,}", title, megabytes(peak), None, None, None)
                continue
            each = median(samples, "columns") / one.points
            goals = f"{at_most(each, BYTES_A_POINT, ' B a point')}; peak {at_most(peak / rival, PEAK)}"
            table.add(
                name,
                f"{one.points:,}",
                title,
                f"{megabytes(peak)} = {peak / rival:.2g}x Rust's",
                megabytes(median(samples, "before")),
                f"{each:.3g} B",
                goals,
            )
    return [table]
