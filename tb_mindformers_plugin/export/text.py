"""Tables as CSV and as JSON, piece by piece: a run of millions of points is never one string."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any, Iterable, Iterator, Mapping, Tuple

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.export.table import COLUMNS, SeriesPoints

# Rows made into text at a time.
_BLOCK = 50_000


def csv_text(series: Iterable[SeriesPoints], header: bool = True) -> Iterator[str]:
    """Yields a CSV table (RFC 4180, UTF-8) with the columns `COLUMNS`.

    Numbers have as many digits as tell them from the next; what is not finite is nan, inf or -inf; current is 1 or 0.

    Args:
      series: the rows.
      header: whether it begins with the names of the columns.
    """
    if header:
        yield ",".join(COLUMNS) + "\r\n"
    for points in series:
        before = _cells(points.run, points.role, points.tag, points.unit)
        after = f",{int(points.current)}\r\n"
        for start in range(0, len(points), _BLOCK):
            part = slice(start, start + _BLOCK)
            columns = (points.step[part].tolist(), _digits(points.wall_time[part]), _digits(points.value[part]))
            yield "".join(f"{before},{step},{wall},{value}{after}" for step, wall, value in zip(*columns))


def json_text(runs: Iterable[Tuple[str, Mapping[str, Any], Iterable[SeriesPoints]]]) -> Iterator[str]:
    """Yields one JSON object: ``{"runs": [{"run", "manifest", "series": [...]}]}``.

    A series is ``{"role", "tag", "unit", "current", "step": [], "wall_time": [], "value": []}``. What is not finite
    is the string "NaN", "Infinity" or "-Infinity".

    Args:
      runs: (name, fields of the manifest, rows) of each run.
    """
    yield '{"runs": ['
    for i, (name, manifest, series) in enumerate(runs):
        yield f'{", " if i else ""}{{"run": {_dumps(name)}, "manifest": {_dumps(dict(manifest))}, "series": ['
        for j, points in enumerate(series):
            fields = {"role": points.role, "tag": points.tag, "unit": points.unit, "current": points.current}
            yield f"{', ' if j else ''}{_dumps(fields)[:-1]}"
            yield f', "step": {_dumps(points.step.tolist())}, "wall_time": ['
            yield from _numbers(points.wall_time)
            yield '], "value": ['
            yield from _numbers(points.value)
            yield "]}"
        yield "]}"
    yield "]}\n"


def _cells(*cells: str) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([cell.encode("utf-8", "backslashreplace").decode() for cell in cells])
    return line.getvalue()


def _digits(values: npt.NDArray[Any]) -> list[str]:
    """The shortest text of each number that reads back as it (of a float32 as float32)."""
    text: list[str] = values.astype("U32").tolist()
    return text


def _numbers(values: npt.NDArray[Any]) -> Iterator[str]:
    for start in range(0, len(values), _BLOCK):
        part = values[start : start + _BLOCK]
        said = _digits(part)
        for i in np.flatnonzero(~np.isfinite(part)).tolist():
            value = float(part[i])
            said[i] = '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
        yield ("," if start else "") + ",".join(said)


def _dumps(value: Any) -> str:
    # In ASCII: the name of a run may hold bytes that are no UTF-8.
    return json.dumps(value, allow_nan=False)
