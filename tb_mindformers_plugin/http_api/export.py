"""Every point of runs as CSV or JSON, for ``GET export``: written run by run while it is sent."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
from typing import Iterator, Sequence
from urllib.parse import quote

from werkzeug.datastructures import MultiDict

from tb_mindformers_plugin.http_api.listing import json_number
from tb_mindformers_plugin.http_api.request import BadRequestError, check_known, check_roles
from tb_mindformers_plugin.runs.contents import RunContents, Segment
from tb_mindformers_plugin.runs.store import Store

FORMATS = ("csv", "json")
MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "json": "application/json"}
CSV_COLUMNS = ("run", "role", "tag", "unit", "segment", "current", "step", "wall_time", "value")

# Points that are turned into text at a time: a stream of a long run must not become one long string.
_BLOCK = 20_000


@dataclasses.dataclass(frozen=True)
class ExportRequest:
    """What is asked for; fields as in docs/http-api.md. No roles: all that a run has."""

    runs: Sequence[str]
    roles: Sequence[str]
    format: str


def parse_export_request(arguments: MultiDict[str, str]) -> ExportRequest:
    """Returns what a query string asks for.

    Raises:
      BadRequestError: a parameter is missing, unknown or wrong.
    """
    check_known(arguments, ("run", "role", "format"))
    runs = list(dict.fromkeys(arguments.getlist("run")))
    if not runs:
        raise BadRequestError("parameter 'run' is missing", "ask for export?run=NAME, a name that GET runs lists")
    roles = list(dict.fromkeys(arguments.getlist("role")))
    check_roles(roles)
    kind = arguments.get("format", "csv")
    if kind not in FORMATS:
        raise BadRequestError(f"parameter 'format' is {kind!r}", f"allowed: {', '.join(FORMATS)}")
    return ExportRequest(runs, roles, kind)


def file_name(request: ExportRequest) -> str:
    """Returns the ``Content-Disposition`` that saves the answer under the name of its run."""
    name = request.runs[0] if len(request.runs) == 1 else f"{len(request.runs)} runs"
    name = re.sub(r"[^\w.+=@ -]+", "_", name)[-80:].strip(". ") or "run"
    plain = name.encode("ascii", "replace").decode().replace("?", "_")
    return f"attachment; filename=\"{plain}.{request.format}\"; filename*=UTF-8''{quote(name)}.{request.format}"


def export(store: Store, request: ExportRequest) -> Iterator[bytes]:
    """Returns the answer in pieces. Only one run at a time is in memory for it.

    Raises:
      KeyError: there is no such run (before the first piece).
    """
    for name in request.runs:
        if name not in store.runs:
            raise KeyError(name)
    write = _csv if request.format == "csv" else _json
    return (text.encode("utf-8", "backslashreplace") for text in write(store, request))


def _csv(store: Store, request: ExportRequest) -> Iterator[str]:
    yield ",".join(CSV_COLUMNS) + "\r\n"
    for name, run in _loaded(store, request):
        for role in _roles(run, request):
            match = run.roles[role]
            for place, segment in enumerate(run.segments(match.tag)):
                current = "true" if segment.current else "false"
                head = _csv_fields(name, role, match.tag, match.unit, str(place), current)
                for block in _blocks(segment):
                    yield "".join(
                        f"{head},{step},{wall!r},{value!r}\r\n"
                        for step, wall, value in zip(block.step.tolist(), block.wall.tolist(), block.value.tolist())
                    )


def _csv_fields(*fields: str) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()


def _json(store: Store, request: ExportRequest) -> Iterator[str]:
    yield '{"runs": ['
    for i, (name, run) in enumerate(_loaded(store, request)):
        yield f'{", " if i else ""}{{"run": {json.dumps(name)}, "series": ['
        for j, role in enumerate(_roles(run, request)):
            match = run.roles[role]
            head = json.dumps({"role": role, "tag": match.tag, "unit": match.unit})[:-1]
            yield f'{", " if j else ""}{head}, "segments": ['
            for k, segment in enumerate(run.segments(match.tag)):
                yield f'{", " if k else ""}{{"current": {json.dumps(segment.current)}'
                for field, column in (
                    ("step", segment.step),
                    ("wall_time", segment.wall),
                    ("value", segment.value),
                ):
                    yield f', "{field}": ['
                    for start in range(0, len(column), _BLOCK):
                        numbers = (json_number(number) for number in column[start : start + _BLOCK].tolist())
                        yield (", " if start else "") + ", ".join(json.dumps(number) for number in numbers)
                    yield "]"
                yield "}"
            yield "]}"
        yield "]}"
    yield "]}\n"


def _loaded(store: Store, request: ExportRequest) -> Iterator[tuple[str, RunContents]]:
    for name in request.runs:
        try:
            yield name, store.load([name])[name]
        except KeyError:  # gone since the answer began; what is left is still worth sending
            continue


def _roles(run: RunContents, request: ExportRequest) -> list[str]:
    return [role for role in run.roles if not request.roles or role in request.roles]


def _blocks(segment: Segment) -> Iterator[Segment]:
    for start in range(0, len(segment), _BLOCK):
        part = slice(start, start + _BLOCK)
        yield Segment(segment.current, segment.step[part], segment.wall[part], segment.value[part])
