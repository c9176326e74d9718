"""Every point of runs as CSV or JSON, for ``GET export``: written run by run while it is sent."""

from __future__ import annotations

import dataclasses
import re
from typing import Iterator, Sequence
from urllib.parse import quote

from werkzeug.datastructures import MultiDict

from tb_mindformers_plugin.export import csv_text, json_text, points_of
from tb_mindformers_plugin.http_api.request import BadRequestError, check_known, check_roles
from tb_mindformers_plugin.runs.contents import RunContents
from tb_mindformers_plugin.runs.store import Store

FORMATS = ("csv", "json")
MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


@dataclasses.dataclass(frozen=True)
class ExportRequest:
    """What is asked for; fields as in docs/http-api.md. No roles: every series of a run."""

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
    roles = request.roles or None
    runs = _loaded(store, request)
    if request.format == "csv":
        text = csv_text(points for name, run in runs for points in points_of(name, run, roles))
    else:
        text = json_text(runs, roles)
    return (piece.encode("utf-8", "backslashreplace") for piece in text)


def _loaded(store: Store, request: ExportRequest) -> Iterator[tuple[str, RunContents]]:
    for name in request.runs:
        try:
            yield name, store.load([name])[name]
        except KeyError:  # gone since the answer began; what is left is still worth sending
            continue
