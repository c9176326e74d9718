"""P5: refresh of a logdir of which a few runs grew, and of one long run.

python benchmarks/refresh.py LOGDIR          one measurement, printed as JSON
python benchmarks/refresh.py LOGDIR long     the same of a logdir with one run that is looked at again and again
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time
from typing import Any

from generate import SHAPES, Written, one_layout_a_role, points_of, written
from measure import Table, at_most, fresh, interleaved, median, megabytes, spread

from tb_mindformers_plugin.health import diagnose
from tb_mindformers_plugin.runs import RunStore, Segment, open_logdir

GOAL_MS = 100.0
# "Bytes read about as many as are new": no more than so many times as many.
GOAL_BYTES = 2.0
RUNS, STEPS = 20, 10
# A run of so many times the points takes no longer to refresh, but for noise.
TIMES, GOAL_RATIO = 16, 2.0
# Looks at a long run after it grew.
LOOKS = 20


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
    return [table, _long_run(directory, scale, repeat)]


def _long_run(directory: pathlib.Path, scale: float, repeat: int) -> Table:
    long = written(SHAPES["A"].scaled(scale), directory)
    short = written(SHAPES["A"].scaled(scale / TIMES), directory)
    table = Table(
        "P5",
        f"refresh of one run that grew by {STEPS} steps",
        ("points", "cold", "first look after growth", "later looks", "all rules: cold", "later looks", "goal"),
        (
            f"Processor time in one fresh process each, of a cold load and of {LOOKS} looks: each finds the files, "
            "reads what is new, and makes the summary, all curves and the smoothed loss.",
            "The first look after growth makes room for more, once: it copies the points.",
            "All rules are asked behind each look, and timed apart.",
        ),
    )
    found = interleaved({str(one.points): lambda one=one: _fresh_copy(one, "long") for one in (short, long)}, repeat)
    later = {one.points: median(found[str(one.points)], "later") for one in (short, long)}
    times = later[long.points] / later[short.points]
    for one in (short, long):
        samples = found[str(one.points)]
        goal = at_most(times, GOAL_RATIO, f"x that of {short.points:,}") if one is long else None
        fields = ("cold", "first", "later", "rules_cold", "rules_later")
        table.add(f"{one.points:,}", *(spread(samples, field) for field in fields), goal)
    return table


def _fresh_copy(one: Written, *more: str) -> dict[str, Any]:
    """Measures on a copy: links to the files, but real copies of those that will grow."""
    with tempfile.TemporaryDirectory(dir=pathlib.Path(one.path).parent) as copy:
        for number, run in enumerate(one.run_paths):
            (pathlib.Path(copy) / run.name).mkdir()
            for file in run.iterdir():
                (shutil.copyfile if number < RUNS else os.link)(file, pathlib.Path(copy) / run.name / file.name)
        return fresh("refresh.py", copy, *more)


def main(logdir: str, which: str = "") -> None:
    """Loads, grows and refreshes `logdir`."""
    if which == "long":
        return _one_run(pathlib.Path(logdir))
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
    lasts = [int(curves[path.name].step[-1]) for path in growing]
    result["new_bytes"] = sum(_grow(path, number, last) for number, (path, last) in enumerate(zip(growing, lasts)))

    begin, read = _now()
    store.refresh()
    curves = _losses(store)
    result["seconds"], result["bytes"] = _since(begin, read)
    reached = [int(curves[path.name].step[-1]) for path in growing]
    if reached != [last + STEPS for last in lasts]:
        raise RuntimeError(f"after the refresh the runs end at {reached}")
    print(json.dumps(result))


def _one_run(logdir: pathlib.Path) -> None:
    (path,) = logdir.iterdir()
    begin = time.process_time()
    store = open_logdir(str(logdir))
    last = _look_at_all(store)
    spent, rules = [time.process_time() - begin], [_diagnosed(store)]
    for look in range(LOOKS):
        _grow(path, 0, last + look * STEPS)
        begin = time.process_time()
        store.refresh()
        reached = _look_at_all(store)
        spent.append(time.process_time() - begin)
        rules.append(_diagnosed(store))
        if reached != last + (look + 1) * STEPS:
            raise RuntimeError(f"after look {look} the run ends at {reached}")
    later, rules_later = statistics.median(spent[2:]), statistics.median(rules[2:])
    result = {"cold": spent[0], "first": spent[1], "later": later, "rules_cold": rules[0], "rules_later": rules_later}
    print(json.dumps(result))


def _diagnosed(store: RunStore) -> float:
    """Processor time of all rules over the run."""
    (contents,) = store.load(store.runs).values()
    begin = time.process_time()
    diagnose(contents)
    return time.process_time() - begin


def _look_at_all(store: RunStore) -> int:
    """What a page that shows the run asks for; returns its last step."""
    (contents,) = store.load(store.runs).values()
    store.summaries()
    for tag in contents.tags:
        contents.segments(tag)
    contents.smoothed(contents.roles["loss"].tag, 0, 0.9)
    return int(contents.current("loss").step[-1])


def _grow(path: pathlib.Path, number: int, last: int) -> int:
    """Lets a run that has come to step `last` log more; returns how many bytes."""
    (file,) = path.iterdir()
    with open(file, "ab") as appended:
        return appended.write(b"".join(points_of(number, last + 1, STEPS, one_layout_a_role())))


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
