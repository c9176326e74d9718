"""What ``GET layout`` previews."""

from __future__ import annotations

import base64
import shlex
from typing import Any, Mapping, Optional, Sequence

from google.protobuf import json_format

from tb_mindformers_plugin.http_api.request import BadRequestError, check_known, check_roles
from tb_mindformers_plugin.layout import LayoutError
from tb_mindformers_plugin.layout.making import Wanted, held, make_layout
from tb_mindformers_plugin.layout.place import file_name
from tb_mindformers_plugin.runs.discovery import Root
from tb_mindformers_plugin.runs.store import Store

PARAMETERS = ("roles", "tag")


def parse_layout_request(arguments: Mapping[str, Sequence[str]]) -> Wanted:
    """Returns what the layout is to show.

    Args:
      arguments: parameter -> its values, of a query string.

    Raises:
      BadRequestError: a parameter is unknown or wrong.
    """
    check_known(arguments, PARAMETERS)
    roles: Optional[list[str]] = None
    if "roles" in arguments:
        roles = [role for text in arguments["roles"] for role in text.split(",") if role]
        check_roles(roles)
    return Wanted(roles=roles, patterns=tuple(arguments.get("tag", ())))


def layout_preview(store: Store, wanted: Wanted) -> dict[str, Any]:
    """Returns the answer to ``GET layout`` (docs/http-api.md), of the store as last refreshed.

    Raises:
      BadRequestError: what is wanted is not there.
    """
    runs = held(store)
    try:
        made = make_layout(store, runs, wanted)
    except LayoutError as error:
        raise BadRequestError("there is no such layout", str(error)) from error
    return {
        "categories": made.preview(),
        "layout": json_format.MessageToDict(made.layout),
        "file": {"name": file_name(), "base64": base64.b64encode(made.files("")[""]).decode("ascii")},
        "command": _command(store.searched, wanted) if store.searched else None,
    }


def _command(searched: Sequence[Root], wanted: Wanted) -> str:
    """What to type for the layout to be written."""
    logdir = ",".join(f"{root.name}:{root.path}" if root.name else root.path for root in searched)
    words = ["tb-health", "layout", logdir]
    if wanted.roles is not None:
        words += ["--roles", ",".join(wanted.roles)]
    for pattern in wanted.patterns:
        words += ["--tag", pattern]
    if len(searched) > 1:
        words += ["--out", searched[0].path]
    return shlex.join(words)
