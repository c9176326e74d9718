"""Tables as CSV and as JSON, piece by piece: a run of millions of points is never one string."""

from __future__ import annotations

import csv
import io
import itertools
import json
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence, Tuple

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.export.table import COLUMNS, SeriesPoints, as_utf8, points_of
from tb_mindformers_plugin.runs.contents import RunContents
from tb_mindformers_plugin.strict_json import json_value

# Rows made into text at a time.
_BLOCK = 50_000


def csv_text(series: Iterable[SeriesPoints], header: bool = True) -> Iterator[str]:
    """Yields a CSV table (RFC 4180) with the columns `COLUMNS`.

    Numbers are doubles, exactly as they were logged; what is not finite is nan, inf or -inf; current is true or false.

    Args:
      series: the rows.
      header: whether it begins with the names of the columns.
    """
    if header:
        yield ",".join(COLUMNS) + "\r\n"
    for points in series:
        current = "true" if points.current else "false"
        head = _cells(points.run, points.role, points.tag, points.unit, str(points.segment), current)
        for part in _blocks(len(points)):
            rows = zip(points.step[part].tolist(), points.wall_time[part].tolist(), points.value[part].tolist())
            yield "".join(f"{head},{step},{wall!r},{value!r}\r\n" for step, wall, value in rows)


def json_text(
    runs: Iterable[Tuple[str, RunContents]], roles: Optional[Sequence[str]] = None, superseded: bool = True
) -> Iterator[str]:
    """Yields one JSON object: ``{"runs": [{"run", "manifest": {}, "events": [], "series": []}]}``.

    A series is ``{"role", "tag", "unit", "segments": [{"current", "step": [], "wall_time": [], "value": []}]}``, an
    event ``{"kind", "step", "wall_time", …}``. What is not finite is the string "NaN", "Infinity" or "-Infinity".

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
        series = itertools.groupby(points_of(name, run, roles, superseded), key=lambda p: (p.role, p.tag, p.unit))
        for j, ((role, tag, unit), segments) in enumerate(series):
            fields = _dumps({"role": role, "tag": tag, "unit": unit})
            yield f'{", " if j else ""}{fields[:-1]}, "segments": ['
            for k, points in enumerate(segments):
                yield f'{", " if k else ""}{{"current": {_dumps(points.current)}'
                for field, column in (("step", points.step), ("wall_time", points.wall_time), ("value", points.value)):
                    yield f', "{field}": ['
                    yield from _numbers(column)
                    yield "]"
                yield "}"
            yield "]}"
        yield "]}"
    yield "]}\n"


def _cells(*cells: str) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([as_utf8(cell) for cell in cells])
    return line.getvalue()


def _numbers(values: npt.NDArray[Any]) -> Iterator[str]:
    for part in _blocks(len(values)):
        block = values[part]
        said = list(map(repr, block.tolist()))
        for i in np.flatnonzero(~np.isfinite(block)).tolist():
            said[i] = _dumps(float(block[i]))
        yield (", " if part.start else "") + ", ".join(said)


def _blocks(length: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK) for start in range(0, length, _BLOCK))


def _dumps(value: Any) -> str:
    # In ASCII: the name of a run may hold bytes that are no UTF-8.
    return json.dumps(_strict(value), allow_nan=False)


def _strict(value: Any) -> Any:
    """A value as strict JSON can say it: Python's own parser lets NaN into a manifest."""
    if isinstance(value, Mapping):
        return {name: _strict(item) for name, item in value.items()}
    if isinstance(value, list):
        return value if all(isinstance(item, int) for item in value) else [_strict(item) for item in value]
    return json_value(value)
