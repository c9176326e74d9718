"""A spike of one step in a run of a million: who still has it."""

from __future__ import annotations

import json
import pathlib
import urllib.parse

import numpy as np
from event_records import Layout, encoded, file_version
from measure import Goal, Table
from rivals import tensorboard

STEP, VALUE = 567_891, 9.875
BUCKETS = 1000


def tables(directory: pathlib.Path, scale: float, repeat: int) -> list[Table]:
    """Asks both; nothing is timed."""
    steps = max(10_000, int(1_000_000 * scale))
    at = int(STEP * steps / 1_000_000)
    logdir = directory / f"spike-{steps}"
    _write(logdir / "gpt" / "events.out.tfevents.1", steps, at)
    body = json.dumps({"runs": ["gpt"], "roles": ["loss"], "buckets": BUCKETS, "format": "json"}).encode()
    scalars = "scalars/scalars?" + urllib.parse.urlencode({"run": "gpt", "tag": "train/loss"})
    with tensorboard(str(logdir)) as server:
        server.wait_loaded()
        segment = json.loads(server.request("training_health/series", body)[1])["series"][0]["segments"][0]
        sampled = json.loads(server.request(scalars)[1])
    table = Table(
        "spike",
        f"a loss of {VALUE} at step {at:,} alone, in {steps:,} steps",
        ("asked", "points sent", "largest loss after the first tenth", "the spike", "goal"),
        ("Training Health is asked for the whole run at once, TensorBoard for what its Scalars tab draws.",),
    )
    ours = [y for x, y in zip(segment["x"], segment["max"]) if x > steps / 10]
    theirs = [y for _, x, y in sampled if x > steps / 10]
    for title, sent, values in (
        (f"POST series, {BUCKETS:,} buckets", len(segment["x"]), ours),
        ("TensorBoard's scalars route", len(sampled), theirs),
    ):
        there = max(values) == VALUE
        goal = Goal(f"{VALUE} exactly", there) if values is ours else None
        table.add(title, f"{sent:,}", f"{max(values):.4g}", "there" if there else "LOST", goal)
    return [table]


def _write(path: pathlib.Path, steps: int, at: int) -> None:
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    step = np.arange(1, steps + 1)
    value = 2 + 3 * (1 + step / 3000) ** -0.4 + rng.normal(0, 0.05, steps)
    value[at - 1] = VALUE
    which = np.zeros(steps, np.int64)
    blocks = encoded([Layout(("train/loss",))], which, step, 1.7e9 + step * 0.5, value[:, None].astype(np.float32))
    path.write_bytes(file_version() + b"".join(blocks))
