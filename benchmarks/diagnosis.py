"""P10: all rules over all runs, against the time it takes to load them.

As a program: python benchmarks/diagnosis.py LOGDIR
"""

from __future__ import annotations

import json
import pathlib
import sys
import time
from typing import Any

from generate import SHAPES, Written, written
from measure import Table, at_most, fresh, interleaved, median, spread

GOAL = 1.0


def tables(directory: pathlib.Path, scale: float, repeat: int) -> list[Table]:
    """Measures and returns the table."""
    table = Table(
        "P10",
        "all rules over all runs",
        ("set", "runs", "points", "load", "all rules", "CPU: load, all rules", "goal"),
        (
            "In a fresh process each: open_logdir and every curve of every run, then all rules over each run.",
            "Goal: the rules take no longer than the load of what they look at.",
        ),
    )
    sets = [written(SHAPES[name].scaled(scale), directory) for name in "AC"]
    found = interleaved({one.shape.name: lambda one=one: diagnosed(one) for one in sets}, repeat)
    for one in sets:
        samples = found[one.shape.name]
        slower = median(samples) / median(samples, "load")
        table.add(
            one.shape.name,
            f"{one.shape.runs:,}",
            f"{one.points:,}",
            spread(samples, "load"),
            f"{spread(samples)} = {slower:.2g}x the load",
            f"{median(samples, 'load_cpu'):.3g} s, {median(samples, 'cpu'):.3g} s",
            at_most(slower, GOAL),
        )
    return [table]


def diagnosed(one: Written) -> dict[str, Any]:
    """Loads and diagnoses a set once; ``seconds`` is the time of the rules."""
    result = fresh("diagnosis.py", one.path)
    if result["points"] != one.points:
        raise RuntimeError(f"{result['points']} of {one.points} points of {one.path} were read")
    return result


def main(logdir: str) -> None:
    """Loads all runs of `logdir`, then lets all rules look at each."""
    from tb_mindformers_plugin.health import diagnose
    from tb_mindformers_plugin.runs import open_logdir

    begin, cpu = time.perf_counter(), time.process_time()
    store = open_logdir(logdir)
    runs = store.load(store.runs)
    points = sum(len(run.segments(tag)[0]) for run in runs.values() for tag in run.tags)
    result = {"load": time.perf_counter() - begin, "load_cpu": time.process_time() - cpu, "points": points}

    begin, cpu = time.perf_counter(), time.process_time()
    findings = [finding for run in runs.values() for finding in diagnose(run)]
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    print(json.dumps({**result, "seconds": seconds, "cpu": cpu, "findings": len(findings)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
