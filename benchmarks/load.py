"""Loads a logdir once and prints what that took, as JSON. A program of its own: each load is cold.

python benchmarks/load.py eventfile|logdir|tbparse|tblike LOGDIR
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile
import time
from typing import Any, Callable

from measure import peak_bytes


def eventfile() -> Callable[[str], dict[str, Any]]:
    """Every file to columns, every CRC verified."""
    from tb_mindformers_plugin.eventfile import EventFile

    def load(logdir: str) -> dict[str, Any]:
        chunks = [EventFile(str(path)).read() for path in sorted(pathlib.Path(logdir).rglob("*tfevents*"))]
        columns = [column for chunk in chunks for column in chunk.columns.values()]
        return {"keep": chunks, "points": sum(map(len, columns)), "columns": _column_bytes(columns)}

    return load


def logdir() -> Callable[[str], dict[str, Any]]:
    """Runs with every curve at hand: found, read, cut into segments."""
    from tb_mindformers_plugin.runs import open_logdir

    def load(logdir: str) -> dict[str, Any]:
        store = open_logdir(logdir)
        runs = store.load(store.runs)
        curves = [run.segments(tag)[0] for run in runs.values() for tag in run.tags]
        return {"keep": (store, runs, curves), "points": sum(map(len, curves)), "columns": _column_bytes(curves)}

    return load


def tbparse() -> Callable[[str], dict[str, Any]]:
    """One table of all scalars, as its README has it."""
    from tbparse import SummaryReader

    def load(logdir: str) -> dict[str, Any]:
        reader = SummaryReader(logdir, extra_columns={"dir_name", "wall_time"})
        # What TensorFlow 2 writes is a tensor to it.
        return {"keep": reader, "points": len(reader.scalars) + len(reader.tensors)}

    return load


def tblike() -> Callable[[str], dict[str, Any]]:
    """Each run converted to Parquet, which is what its server does before it shows a run."""
    from tblike.convert import convert_run

    def load(logdir: str) -> dict[str, Any]:
        points = 0
        with tempfile.TemporaryDirectory() as cache:
            for run in sorted(path for path in pathlib.Path(logdir).iterdir() if path.is_dir()):
                points += convert_run(str(run), f"{cache}/{run.name}", run.name).total_rows
        return {"keep": None, "points": points}

    return load


def _column_bytes(columns: list[Any]) -> int:
    """Bytes of the arrays, each buffer counted once."""
    buffers: dict[int, int] = {}
    for column in columns:
        for array in (column.step, column.wall, column.value):
            whole = array
            while getattr(whole, "base", None) is not None and hasattr(whole.base, "nbytes"):
                whole = whole.base
            buffers[id(whole)] = whole.nbytes
    return sum(buffers.values())


WAYS = {"eventfile": eventfile, "logdir": logdir, "tbparse": tbparse, "tblike": tblike}


def main(way: str, directory: str) -> None:
    """Imports what it takes, then measures the load."""
    load = WAYS[way]()
    before, cpu, begin = peak_bytes(), time.process_time(), time.perf_counter()
    result = load(directory)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    result.pop("keep")
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": peak_bytes(), "before": before, **result}))


if __name__ == "__main__":
    main(*sys.argv[1:])
