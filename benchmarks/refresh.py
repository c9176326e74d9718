"""P5: refresh of a logdir of which a few runs grew.

python benchmarks/refresh.py LOGDIR     one measurement, printed as JSON
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sys
import tempfile
import time
from typing import Any

from generate import SHAPES, Written, one_layout_a_role, points_of, written
from measure import Table, at_most, fresh, interleaved, median, megabytes, spread

from tb_mindformers_plugin.runs import RunStore, Segment, open_logdir

GOAL_MS = 100.0
# "Bytes read about as many as are new": no more than so many times as many.
GOAL_BYTES = 2.0
RUNS, STEPS = 20, 10


def tables(directory: pathlib.Path, scale: float, repeat: int) -> list[Table]:
    """Measures and returns the table."""
    one = written(SHAPES["C"].scaled(scale), directory)
    table = Table(
        "P5",
        f"refresh of {one.shape.runs:,} runs when {min(RUNS, one.shape.runs)} of them grew by {STEPS} steps",
        ("what", "median (range)", "bytes read", "goal"),
        (
            "In one fresh process each: the loss curves of all runs, the same again with nothing new, and once more "
            "after the runs grew. Each look finds the files, reads what is new, and makes the curves.",
            "Bytes read: what /proc/self/io counts between (rchar).",
        ),
    )
    samples = interleaved({"refresh": lambda: _fresh_copy(one)}, repeat)["refresh"]
    new = median(samples, "new_bytes")
    table.add("first load", spread(samples, "first"), megabytes(median(samples, "first_bytes")), None)
    table.add("nothing new", spread(samples, "idle"), megabytes(median(samples, "idle_bytes")), None)
    seconds, size = median(samples), median(samples, "bytes")
    goals = f"{at_most(seconds * 1000, GOAL_MS, ' ms')}; read/new {at_most(size / new, GOAL_BYTES)}"
    table.add(f"grown ({megabytes(new)} new)", spread(samples), f"{megabytes(size)} = {size / new:.2g}x new", goals)
    return [table]


def _fresh_copy(one: Written) -> dict[str, Any]:
    """Measures on a copy: links to the files, but real copies of those that will grow."""
    with tempfile.TemporaryDirectory(dir=pathlib.Path(one.path).parent) as copy:
        for number, run in enumerate(one.run_paths):
            (pathlib.Path(copy) / run.name).mkdir()
            for file in run.iterdir():
                (shutil.copyfile if number < RUNS else os.link)(file, pathlib.Path(copy) / run.name / file.name)
        return fresh("refresh.py", copy)


def main(logdir: str) -> None:
    """Loads, grows and refreshes `logdir`."""
    result: dict[str, Any] = {}
    begin, read = _now()
    store = open_logdir(logdir)
    curves = _losses(store)
    result["first"], result["first_bytes"] = _since(begin, read)

    begin, read = _now()
    store.refresh()
    curves = _losses(store)
    result["idle"], result["idle_bytes"] = _since(begin, read)

    growing = sorted(pathlib.Path(logdir).iterdir())[:RUNS]
    layouts = one_layout_a_role()
    result["new_bytes"] = 0
    for number, path in enumerate(growing):
        last = int(curves[path.name].step[-1])
        more = b"".join(points_of(number, last + 1, STEPS, layouts))
        (file,) = path.iterdir()
        with open(file, "ab") as appended:
            result["new_bytes"] += appended.write(more)

    begin, read = _now()
    store.refresh()
    curves = _losses(store)
    result["seconds"], result["bytes"] = _since(begin, read)
    reached = [int(curves[path.name].step[-1]) for path in growing]
    if reached != [last + STEPS] * len(growing):
        raise RuntimeError(f"after the refresh the runs end at {reached}")
    print(json.dumps(result))


def _losses(store: RunStore) -> dict[str, Segment]:
    return {name: run.current("loss") for name, run in store.load(store.runs).items()}


def _now() -> tuple[float, int]:
    return time.perf_counter(), _bytes_read()


def _since(begin: float, read: int) -> tuple[float, int]:
    return time.perf_counter() - begin, _bytes_read() - read


def _bytes_read() -> int:
    with open("/proc/self/io") as counters:
        return int(counters.readline().split()[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
