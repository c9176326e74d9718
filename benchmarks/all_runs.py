"""P4: one role of all runs over HTTP."""

from __future__ import annotations

import gzip
import json
import pathlib
from typing import Any

from generate import SHAPES, Written, written
from measure import Table, at_most, interleaved, median, megabytes, spread
from rivals import TensorBoard, tensorboard

TIME, BYTES = 0.1, 0.1
# As the tab does it (frontend/src/session.ts): a budget of points for 5 roles of all runs that are
# drawn, no less than 200 a series and no more than there are pixels.
_POINT_BUDGET, _ROLES, _FEWEST, _PIXELS = 400_000, 5, 200, 1200
_ENCODINGS = {"": "identity", ", gzip": "gzip"}


def tables(directory: pathlib.Path, scale: float, repeat: int) -> list[Table]:
    """Measures and returns the table."""
    table = Table(
        "P4",
        "the loss of all runs over HTTP, warm",
        ("set", "runs", "request", "median (range)", "bytes", "time goal", "bytes goal"),
        (
            "Both from one server. As the tab asks: as many buckets as it asks for with all runs drawn.",
            "TensorBoard sends up to 1,000 sampled points a run; 1000 buckets is as many of ours.",
            "gzip: with Accept-Encoding: gzip, as a browser asks.",
        ),
    )
    for name in "BC":
        _measure(table, written(SHAPES[name].scaled(scale), directory), repeat)
    return [table]


def tab_buckets(runs: int) -> int:
    """Buckets that the tab asks for with so many runs drawn."""
    return max(_FEWEST, min(_PIXELS, _POINT_BUDGET // (runs * _ROLES)))


def series(server: TensorBoard, one: Written, buckets: int, encoding: str = "identity") -> dict[str, Any]:
    """One request of ours, checked to be complete."""
    runs = [path.name for path in one.run_paths]
    body = json.dumps({"runs": runs, "roles": ["loss"], "buckets": buckets, "smoothing": 0.0}).encode()
    headers = {"Content-Type": "application/json", "Accept-Encoding": encoding}
    seconds, content = server.request("training_health/series", body, headers)
    plain = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    header = json.loads(plain[8 : 8 + int.from_bytes(plain[4:8], "little")])
    if plain[:4] != b"THB1" or len(header["segments"]) != len(runs):
        raise RuntimeError(f"the answer holds {len(header['segments'])} of {len(runs)} runs")
    return {"seconds": seconds, "bytes": len(content)}


def _time_series(server: TensorBoard, one: Written, encoding: str) -> dict[str, Any]:
    seconds, content = server.time_series(one.tag, {"Accept-Encoding": encoding})
    plain = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    (answer,) = json.loads(plain)
    if len(answer["runToSeries"]) != one.shape.runs:
        raise RuntimeError(f"the answer holds {len(answer['runToSeries'])} of {one.shape.runs} runs")
    return {"seconds": seconds, "bytes": len(content)}


def _measure(table: Table, one: Written, repeat: int) -> None:
    buckets = tab_buckets(one.shape.runs)
    with tensorboard(one.path) as server:
        server.wait_loaded()
        contenders = {}
        for words, encoding in _ENCODINGS.items():
            contenders[f"as the tab asks ({buckets} buckets){words}"] = (encoding, buckets)
            contenders[f"1000 buckets{words}"] = (encoding, 1000)
            contenders[f"TensorBoard timeSeries{words}"] = (encoding, None)
        calls = {
            title: (
                lambda encoding=encoding, buckets=buckets: (
                    _time_series(server, one, encoding) if buckets is None else series(server, one, buckets, encoding)
                )
            )
            for title, (encoding, buckets) in contenders.items()
        }
        series(server, one, buckets)  # warm
        found = interleaved(calls, repeat)
    for title, samples in found.items():
        sent = megabytes(median(samples, "bytes"))
        rival = found["TensorBoard timeSeries" + (", gzip" if title.endswith("gzip") else "")]
        if samples is rival:
            table.add(one.shape.name, one.shape.runs, title, spread(samples), sent, None, None)
            continue
        time, size = median(samples) / median(rival), median(samples, "bytes") / median(rival, "bytes")
        table.add(
            one.shape.name,
            one.shape.runs,
            title,
            f"{spread(samples)} = {time:.2g}x",
            f"{sent} = {size:.2g}x",
            at_most(time, TIME),
            at_most(size, BYTES),
        )
