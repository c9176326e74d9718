"""Prints what is in runs: points, ranges and health events, read with TensorBoard's own reader."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from pathlib import Path
from typing import Iterator

from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto import event_pb2

_TOLD = ("kind", "id", "status", "severity", "action", "cause", "old_lr", "new_lr", "resumed_from", "error", "reason")


def read_events(run_dir: Path) -> Iterator[event_pb2.Event]:
    """Yields the events of a run, file after file."""
    for path in sorted(run_dir.glob("*tfevents*")):
        for record in RawEventFileLoader(str(path)).Load():
            yield event_pb2.Event.FromString(record)


def summarise(run_dir: Path) -> None:
    """Prints one run."""
    series: dict[str, list[tuple[int, float]]] = {}
    kinds: Counter = Counter()
    others: list[str] = []
    for event in read_events(run_dir):
        for value in event.summary.value:
            if value.HasField("simple_value"):
                series.setdefault(value.tag, []).append((event.step, value.simple_value))
            elif value.tag == "training_health/events":
                fields = json.loads(value.tensor.string_val[0])
                kinds[fields["kind"]] += 1
                if fields["kind"] != "overflow":
                    # An alert's words and numbers are for its reader.
                    known = {name: fields[name] for name in _TOLD if name in fields}
                    others.append(f"{event.step}: {known}")
    size = sum(path.stat().st_size for path in run_dir.iterdir())
    print(f"{run_dir.name}: {size / 1e3:.0f} kB, health events {dict(kinds)} {others}")
    for tag, points in series.items():
        values = [value for _, value in points]
        finite = [value for value in values if math.isfinite(value)] or [math.nan]
        at = [points[round(k * (len(points) - 1) / 8)] for k in range(9)]
        print(
            f"  {tag:18s} {len(points):5d} points, steps {points[0][0]}-{points[-1][0]}, "
            f"min {min(finite):.4g} max {max(finite):.4g}, {len(values) - len(finite)} non-finite; "
            + " ".join(f"{step}:{value:.3g}" for step, value in at)
        )


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        summarise(Path(argument))
