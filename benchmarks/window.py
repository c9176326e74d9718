"""P3: one window query on a series of a million points."""

from __future__ import annotations

import json
import pathlib
import time
import urllib.parse
from typing import Any, Callable, Iterator

import numpy as np
from generate import SHAPES, Written, written
from measure import Table, at_most, interleaved, median, megabytes, spread
from rivals import TensorBoard, tensorboard
from tensorboard.plugins import base_plugin
from werkzeug.test import Client

from tb_mindformers_plugin.plugin import TrainingHealthLoader

GOAL_MS = 10.0
BUCKETS, SMOOTHING = 2000, 0.9


def tables(directory: pathlib.Path, scale: float, repeat: int) -> list[Table]:
    """Measures and returns the table."""
    one = written(SHAPES["A"].scaled(scale), directory)
    table = Table(
        "P3",
        f"one window of {BUCKETS:,} buckets, smoothing {SMOOTHING}, of a series of {one.shape.steps:,} points, warm",
        ("query", "median (range)", "bytes", "goal"),
        (
            "Server side: the route itself, called in this process. Over HTTP: from the request to the last byte.",
            "Zoomed: another window each time; smoothed anew: another smoothing each time, as of a slider that moves.",
            "TensorBoard sends 1,000 points of its sample, not smoothed.",
        ),
    )
    run = one.run_paths[0].name
    # Many more turns than of a load: they cost little.
    turns = max(20, 4 * repeat)
    # One of its own for each kind: what the plugin keeps of one query must not be pushed out by another.
    route, route_of_slider = _route(one.path), _route(one.path)
    zooms, smoothings = _zooms(one, run), _smoothings()
    with tensorboard(one.path) as server:
        server.wait_loaded()
        scalars = "scalars/scalars?" + urllib.parse.urlencode({"run": run, "tag": one.tag})
        contenders: dict[str, Callable[[], dict[str, Any]]] = {
            "whole series, server side": lambda: route(_body(run)),
            "zoomed, server side": lambda: route(next(zooms)),
            "whole series smoothed anew, server side": lambda: route_of_slider(_body(run, smoothing=next(smoothings))),
            "whole series, over HTTP": lambda: _post(server, _body(run)),
            "zoomed, over HTTP": lambda: _post(server, next(zooms)),
            "TensorBoard's scalars route, over HTTP": lambda: _sample(server.request(scalars)),
        }
        for contender in contenders.values():
            contender()  # warm
        found = interleaved(contenders, turns)
    for title, samples in found.items():
        goal = at_most(median(samples) * 1000, GOAL_MS, " ms") if "server side" in title else None
        table.add(title, spread(samples), megabytes(median(samples, "bytes")), goal)
    return [table]


def _body(run: str, start: float | None = None, stop: float | None = None, smoothing: float = SMOOTHING) -> bytes:
    asked = {"runs": [run], "roles": ["loss"], "buckets": BUCKETS, "smoothing": smoothing, "from": start, "to": stop}
    return json.dumps(asked).encode()


def _zooms(one: Written, run: str) -> Iterator[bytes]:
    rng = np.random.default_rng(0)
    while True:
        width = one.shape.steps * rng.uniform(0.05, 0.5)
        start = rng.uniform(0, one.shape.steps - width)
        yield _body(run, start, start + width)


def _smoothings() -> Iterator[float]:
    rng = np.random.default_rng(0)
    while True:
        yield rng.uniform(0.5, 0.99)


def _route(logdir: str) -> Callable[[bytes], dict[str, Any]]:
    """The plugin's route as TensorBoard calls it, without the way through sockets."""
    plugin = TrainingHealthLoader().load(base_plugin.TBContext(logdir=logdir))
    client = Client(plugin.get_plugin_apps()["/series"])

    def call(body: bytes) -> dict[str, Any]:
        begin = time.perf_counter()
        answer = client.post("/series", data=body)
        content = answer.get_data()
        seconds = time.perf_counter() - begin
        if answer.status_code != 200:
            raise RuntimeError(f"the series route says {answer.status_code}: {content[:500]!r}")
        return {"seconds": seconds, "bytes": len(content)}

    return call


def _post(server: TensorBoard, body: bytes) -> dict[str, Any]:
    return _sample(server.request("training_health/series", body, {"Content-Type": "application/json"}))


def _sample(answer: tuple[float, bytes]) -> dict[str, Any]:
    seconds, content = answer
    return {"seconds": seconds, "bytes": len(content)}
