"""Tables as CSV and as JSON, piece by piece: a run of millions of points is never one string."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence, Tuple

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.export.table import COLUMNS, SeriesPoints, points_of, printable
from tb_mindformers_plugin.runs.contents import RunContents

# Rows made into text at a time.
_BLOCK = 50_000


def csv_text(series: Iterable[SeriesPoints], header: bool = True) -> Iterator[str]:
    """Yields a CSV table (RFC 4180) with the columns `COLUMNS`.

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


def json_text(
    runs: Iterable[Tuple[str, RunContents]], roles: Optional[Sequence[str]] = None, superseded: bool = True
) -> Iterator[str]:
    """Yields one JSON object: ``{"runs": [{"run", "manifest": {}, "events": [], "series": []}]}``.

    A series is ``{"role", "tag", "unit", "current", "step": [], "wall_time": [], "value": []}``, an event
    ``{"kind", "step", "wall_time", …}``. What is not finite is the string "NaN", "Infinity" or "-Infinity".

    Args:
      runs: (name, what was read of it) of each run.
      roles: the roles that are wanted; None: every series.
      superseded: whether what restarts superseded is wanted, too.
    """
    yield '{"runs": ['
    for i, (name, run) in enumerate(runs):
        events = [{"kind": e.kind, "step": e.step, "wall_time": e.wall_time, **e.fields} for e in run.events]
        head = {"run": name, "manifest": run.manifest.to_dict() if run.has_manifest else {}, "events": events}
        yield (", " if i else "") + _dumps(head)[:-1] + ', "series": ['
        for j, points in enumerate(points_of(name, run, roles, superseded)):
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
    csv.writer(line, lineterminator="").writerow([printable(cell) for cell in cells])
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
            said[i] = json.dumps(_word(float(part[i])))
        yield ("," if start else "") + ",".join(said)


def _dumps(value: Any) -> str:
    # In ASCII: the name of a run may hold bytes that are no UTF-8.
    return json.dumps(_strict(value), allow_nan=False)


def _strict(value: Any) -> Any:
    """A value as strict JSON can say it: Python's own parser lets NaN into a manifest."""
    if isinstance(value, Mapping):
        return {name: _strict(item) for name, item in value.items()}
    if isinstance(value, list):
        return value if all(isinstance(item, int) for item in value) else [_strict(item) for item in value]
    return _word(value) if isinstance(value, float) and not math.isfinite(value) else value


def _word(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
