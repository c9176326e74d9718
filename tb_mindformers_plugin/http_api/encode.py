"""Lays out series windows: binary columns for the tab, JSON for people.

Binary: ``"THB1"``, a little-endian uint32 header length, a UTF-8 JSON header padded with spaces so
that the body begins at a multiple of 8, then all float64 columns, all float32, all uint32. Offsets
in the header are bytes from the body's beginning, so a client makes typed-array views without
copying.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any, Dict, Optional

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.http_api.series import SeriesAnswer, SeriesWindow
from tb_mindformers_plugin.runs.window import Window

MAGIC = b"THB1"


class _Body:
    """Collects columns by width and gives each its place; the same array is stored once."""

    def __init__(self) -> None:
        self._columns: dict[str, list[bytes]] = {"<f8": [], "<f4": [], "<u4": []}
        self._sizes = {"<f8": 0, "<f4": 0, "<u4": 0}
        self._seen: dict[tuple[str, bytes], int] = {}

    def add(self, dtype: str, column: npt.NDArray[Any]) -> tuple[str, int]:
        """Stores a column; returns its dtype and its offset among the columns of that dtype."""
        data = np.ascontiguousarray(column, dtype).tobytes()
        key = (dtype, data)
        if key not in self._seen:
            self._seen[key] = self._sizes[dtype]
            self._columns[dtype].append(data)
            self._sizes[dtype] += len(data)
        return dtype, self._seen[key]

    def offset(self, place: tuple[str, int]) -> int:
        """The offset from the body's beginning, once all columns are in."""
        dtype, offset = place
        before = {"<f8": 0, "<f4": self._sizes["<f8"], "<u4": self._sizes["<f8"] + self._sizes["<f4"]}
        return before[dtype] + offset

    def chunks(self) -> list[bytes]:
        return [data for columns in self._columns.values() for data in columns]


def encode_binary(answer: SeriesAnswer) -> bytes:
    """Returns `answer` in the binary layout (media type application/octet-stream)."""
    body = _Body()
    placed = [_place(body, shown) for shown in answer.windows]
    segments = [_located(body, entry) for entry in placed]
    header = _dumps({"segments": segments, "missing": list(answer.missing)}).encode("utf-8")
    header += b" " * (-len(header) % 8)
    return b"".join([MAGIC, struct.pack("<I", len(header)), header, *body.chunks()])


def encode_json(answer: SeriesAnswer) -> bytes:
    """Returns `answer` as JSON; what is not finite is null there, and counted beside."""
    series: dict[tuple[str, str], dict[str, Any]] = {}
    for shown in answer.windows:
        entry = series.setdefault(
            (shown.run, shown.role),
            {"run": shown.run, "role": shown.role, "tag": shown.tag, "unit": shown.unit, "segments": []},
        )
        points = shown.points
        entry["segments"].append(
            {
                "current": shown.current,
                "raw": points.raw,
                "x": numbers(points.x),
                "min": numbers(points.minimum),
                "max": numbers(points.maximum),
                "last": numbers(points.last),
                "smoothed": None if points.smoothed is None else numbers(points.smoothed),
                "nan": points.nan.tolist(),
                "posinf": points.posinf.tolist(),
                "neginf": points.neginf.tolist(),
            }
        )
    return _dumps({"series": list(series.values()), "missing": list(answer.missing)}).encode("utf-8")


_Entry = Dict[str, Any]


def _place(body: _Body, shown: SeriesWindow) -> _Entry:
    points = shown.points
    entry: _Entry = {
        "run": shown.run,
        "role": shown.role,
        "tag": shown.tag,
        "unit": shown.unit,
        "current": shown.current,
        "raw": points.raw,
        "n": len(points.x),
        **_extents(points),
        "x": body.add("<f8", points.x),
        "min": body.add("<f4", points.minimum),
        "max": body.add("<f4", points.maximum),
        "last": body.add("<f4", points.last),
        "smoothed": None if points.smoothed is None else body.add("<f4", points.smoothed),
        "nonfinite": None,
    }
    index = np.flatnonzero(points.nan + points.posinf + points.neginf)
    if len(index):
        entry["nonfinite"] = {
            "n": len(index),
            "idx": body.add("<u4", index),
            "nan": body.add("<u4", points.nan[index]),
            "posinf": body.add("<u4", points.posinf[index]),
            "neginf": body.add("<u4", points.neginf[index]),
        }
    return entry


def _located(body: _Body, entry: _Entry) -> _Entry:
    """Replaces the places in `entry` by offsets."""
    located: _Entry = {}
    for name, value in entry.items():
        if isinstance(value, tuple):
            value = body.offset(value)
        elif isinstance(value, dict):
            value = _located(body, value)
        located[name] = value
    return located


def _extents(points: Window) -> dict[str, Optional[float]]:
    """Exact extremes of the window, and the 1st and 99th percentile of its last values."""
    lowest = points.minimum[np.isfinite(points.minimum)]
    highest = points.maximum[np.isfinite(points.maximum)]
    last = points.last[np.isfinite(points.last)]
    p1, p99 = _percentiles(last) if len(last) else (None, None)
    return {
        "ymin": float(lowest.min()) if len(lowest) else None,
        "ymax": float(highest.max()) if len(highest) else None,
        "p1": p1,
        "p99": p99,
    }


def _percentiles(values: npt.NDArray[Any]) -> tuple[float, float]:
    """The values at 1 % and 99 % of the order (the nearest there is)."""
    order = np.sort(values)
    last = len(order) - 1
    return float(order[round(0.01 * last)]), float(order[round(0.99 * last)])


def numbers(column: npt.NDArray[Any]) -> list[Optional[float]]:
    """Returns a column for JSON: null where it is not finite."""
    return [number if math.isfinite(number) else None for number in column.tolist()]


def _dumps(value: Any) -> str:
    # In ASCII: the name of a run may hold bytes that are no UTF-8.
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
