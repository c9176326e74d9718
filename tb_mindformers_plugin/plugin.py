"""The TensorBoard plugin: routes, nothing else.

This module is imported by TensorBoard at start, where an import error ends it, so it imports little
and never a training framework.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gzip
import json
import logging
import mimetypes
import pathlib
import re
from typing import Any, Callable, Iterator, Mapping, Optional, cast

from tensorboard.backend import http_util
from tensorboard.plugins import base_plugin
from werkzeug import Request, Response
from werkzeug.datastructures import MultiDict

from tb_mindformers_plugin import metadata
from tb_mindformers_plugin.health.diagnoses import Diagnoses
from tb_mindformers_plugin.health.parameters import ParameterError, Parameters, changed, read_rules
from tb_mindformers_plugin.http_api.compare import parse_compare_request, run_comparison
from tb_mindformers_plugin.http_api.encode import encode_binary, encode_json
from tb_mindformers_plugin.http_api.export import MEDIA_TYPES, export, file_name, parse_export_request
from tb_mindformers_plugin.http_api.findings import parse_findings_request, run_findings
from tb_mindformers_plugin.http_api.layout import layout_preview, parse_layout_request
from tb_mindformers_plugin.http_api.listing import list_runs
from tb_mindformers_plugin.http_api.readers import Readers
from tb_mindformers_plugin.http_api.request import (
    BadRequestError,
    check_known,
    parse_given,
    parse_language,
    parse_series_request,
)
from tb_mindformers_plugin.http_api.series import query
from tb_mindformers_plugin.http_api.tags import tags_without_role
from tb_mindformers_plugin.runs.discovery import roots
from tb_mindformers_plugin.runs.provider import ProviderStore
from tb_mindformers_plugin.runs.store import DEFAULT_MEMORY, RunStore, Store

logger = logging.getLogger("tb_mindformers_plugin")

STATIC_DIR = pathlib.Path(__file__).with_name("static")

MEMORY_FLAG = "training_health_memory"
RULES_FLAG = "training_health_rules"

# The tab asks for the list and then for series; one look at the disk serves both.
_FRESH_SECONDS = 1.0

_BINARY = "application/octet-stream"
# Columns smaller than this are one packet or two.
_COMPRESS_BYTES = 2048

_Handler = Callable[["TrainingHealthPlugin", Request], Response]

# Shown in the tab where the package was run from a checkout that was never built.
_NOT_BUILT = """export function render() {
  document.body.textContent =
    "Training Health was installed without its tab. Install it again from its directory: pip install .";
}
"""


class TrainingHealthLoader(base_plugin.TBLoader):  # type: ignore[misc]  # TensorBoard has no types
    """Loads the plugin (the entry point of the ``tensorboard_plugins`` group)."""

    def define_flags(self, parser: argparse.ArgumentParser) -> None:
        """Adds the plugin's flags to TensorBoard's."""
        group = parser.add_argument_group("Training Health plugin")
        group.add_argument(
            f"--{MEMORY_FLAG}",
            metavar="SIZE",
            type=parse_size,
            default=DEFAULT_MEMORY,
            help="Memory for the points of runs, in bytes or as 500MB, 2GB (the default). Past it the runs that "
            "were not looked at for longest are dropped, and read again when they are.",
        )
        group.add_argument(
            f"--{RULES_FLAG}",
            metavar="FILE",
            type=rules_of,
            default=None,
            help="A TOML file of changes to the rules' parameters, a table a rule, read at start (see docs/rules.md).",
        )

    def load(self, context: base_plugin.TBContext) -> base_plugin.TBPlugin:
        """Returns the plugin of a TensorBoard that serves `context`."""
        return TrainingHealthPlugin(context)


class _NoSuchRunError(Exception):
    """A request is about a run that is not there."""


@contextlib.contextmanager
def _named_runs() -> Iterator[None]:
    """Around what looks up the runs that a request names."""
    try:
        yield
    except KeyError as error:
        raise _NoSuchRunError(f"there is no run {error.args[0]!r}") from error


def _route(*methods: str) -> Callable[[_Handler], _Handler]:
    """Checks a route's method and turns its errors into JSON."""

    def decorate(handler: _Handler) -> _Handler:
        @functools.wraps(handler)
        def checked(plugin: TrainingHealthPlugin, request: Request) -> Response:
            if request.method not in methods:
                response = _error(request, 405, f"{request.method} is not allowed here", f"use {' or '.join(methods)}")
                response.headers["Allow"] = ", ".join(methods)
                return response
            try:
                return handler(plugin, request)
            except BadRequestError as error:
                return _error(request, 400, str(error), error.hint)
            except _NoSuchRunError as error:
                return _error(request, 404, str(error), "GET runs lists the names")
            except Exception as error:  # what a person sees must never be a stack trace
                logger.exception("%s %s failed", request.method, request.path)
                return _error(
                    request, 500, f"{type(error).__name__}: {error}", "TensorBoard's terminal has the details"
                )

        return checked

    return decorate


class TrainingHealthPlugin(base_plugin.TBPlugin):  # type: ignore[misc]  # TensorBoard has no types
    """Serves the tab and its data.

    Args:
      context: TensorBoard's; its flags say where the logs are.
    """

    plugin_name = metadata.PLUGIN_NAME

    def __init__(self, context: base_plugin.TBContext) -> None:
        flags = context.flags or argparse.Namespace()
        logdir = getattr(flags, "logdir", "") or ""
        logdir_spec = getattr(flags, "logdir_spec", "") or ""
        if not logdir and not logdir_spec:
            logdir = context.logdir or ""
        memory = getattr(flags, MEMORY_FLAG, None)
        searched = roots(logdir, logdir_spec)
        self._store: Store
        if searched or context.data_provider is None:
            self._store = RunStore(searched, DEFAULT_MEMORY if memory is None else memory)
        else:
            self._store = ProviderStore(context.data_provider)
        self._readers = Readers(self._store, getattr(flags, RULES_FLAG, None))

    def get_plugin_apps(self) -> Mapping[str, Any]:
        """Returns path -> handler."""
        return {
            "/runs": functools.partial(_application, self.runs_route),
            "/series": functools.partial(_application, self.series_route),
            "/findings": functools.partial(_application, self.findings_route),
            "/compare": functools.partial(_application, self.compare_route),
            "/layout": functools.partial(_application, self.layout_route),
            "/tags": functools.partial(_application, self.tags_route),
            "/export": functools.partial(_application, self.export_route),
            "/static/*": functools.partial(_application, self.static_route),
        }

    def is_active(self) -> bool:
        """Whether any run has a manifest or a series with a known role."""
        return self._store.is_active()

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        """Returns how TensorBoard loads the tab."""
        return base_plugin.FrontendMetadata(es_module_path="/static/index.js", tab_name="Training Health")

    def _asked(self, request: Request) -> tuple[Store, Diagnoses, MultiDict[str, str]]:
        """The runs as of now with the roles that the reader gave to tags, and the request's other parameters."""
        arguments = MultiDict(request.args)
        store, diagnoses = self._readers.of(parse_given(arguments.poplist("given")))
        store.refresh(_FRESH_SECONDS)
        return store, diagnoses, arguments

    @_route("GET")
    def runs_route(self, request: Request) -> Response:
        """``GET runs``."""
        store, diagnoses, arguments = self._asked(request)
        return _json(request, list_runs(store, diagnoses=diagnoses, language=parse_language(arguments)))

    @_route("POST")
    def series_route(self, request: Request) -> Response:
        """``POST series``."""
        asked = parse_series_request(request.get_data())
        store, _ = self._readers.of(asked.given)
        store.refresh(_FRESH_SECONDS)
        answer = query(store, asked)
        if asked.format == "json":
            return _respond(request, encode_json(answer), "application/json")
        return _respond(request, encode_binary(answer), _BINARY)

    @_route("GET")
    def findings_route(self, request: Request) -> Response:
        """``GET findings``."""
        store, diagnoses, arguments = self._asked(request)
        asked = parse_findings_request(arguments)
        with _named_runs():
            return _json(request, run_findings(store, diagnoses, asked))

    @_route("GET")
    def compare_route(self, request: Request) -> Response:
        """``GET compare``."""
        store, _, arguments = self._asked(request)
        asked = parse_compare_request(arguments)
        with _named_runs():
            return _json(request, run_comparison(store, asked))

    @_route("GET")
    def layout_route(self, request: Request) -> Response:
        """``GET layout``."""
        store, _, arguments = self._asked(request)
        answer = layout_preview(store, parse_layout_request(arguments.to_dict(flat=False)))
        if store is not self._store:
            answer["command"] = None  # which knows nothing of the roles that were given here
        return _json(request, answer)

    @_route("GET")
    def tags_route(self, request: Request) -> Response:
        """``GET tags``."""
        store, _, arguments = self._asked(request)
        check_known(arguments, ())
        return _json(request, tags_without_role(store))

    @_route("GET")
    def export_route(self, request: Request) -> Response:
        """``GET export``."""
        store, _, arguments = self._asked(request)
        asked = parse_export_request(arguments)
        with _named_runs():
            pieces = export(store, asked)
        headers = {
            "Content-Disposition": file_name(asked),
            "Cache-Control": "no-cache, must-revalidate",
            "X-Content-Type-Options": "nosniff",
        }
        return Response(pieces, content_type=MEDIA_TYPES[asked.format], headers=headers)

    @_route("GET")
    def static_route(self, request: Request) -> Response:
        """``GET static/*``: the built tab."""
        name = request.path.rsplit("/static/", 1)[-1]
        found = static_file(name)
        if found is None:
            if name == "index.js":
                return _respond(request, _NOT_BUILT.encode(), "text/javascript")
            return _error(request, 404, f"there is no static file {name!r}", "reload the page")
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return _respond(request, found, "text/javascript" if name.endswith(".js") else kind)


def parse_size(text: str) -> int:
    """Returns a size in bytes, given as ``2GB``, ``500 MB``, ``1.5G`` or a plain number (of powers of 1024).

    Raises:
      argparse.ArgumentTypeError: no size, or less than 1 MB.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)I?B?\s*", text, re.IGNORECASE)
    size = int(float(match.group(1)) * 1024 ** " KMGT".index(match.group(2).upper() or " ")) if match else 0
    if size < 2**20:
        raise argparse.ArgumentTypeError(f"{text!r} is no size of at least 1MB; give it as 500MB or 2GB")
    return size


def rules_of(path: str) -> Parameters:
    """Returns the parameters of the rules that a TOML file says.

    Raises:
      argparse.ArgumentTypeError: something is wrong with it. TensorBoard then does not start, and says what:
        verdicts by other rules than those that were asked for would go unnoticed.
    """
    try:
        return changed(read_rules(path))
    except ParameterError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def static_file(name: str, directory: Optional[pathlib.Path] = None) -> Optional[bytes]:
    """Returns a file of the built tab, or None where there is none of that name.

    A name that leads out of the directory is none of its files.
    """
    top = (directory or STATIC_DIR).resolve()
    try:
        path = (top / name).resolve()
        return path.read_bytes() if top in path.parents and path.is_file() else None
    except (OSError, ValueError):  # a name that no file system takes
        return None


def _application(route: Callable[[Request], Response], environ: Any, start_response: Any) -> Any:
    return route(Request(environ))(environ, start_response)


def _json(request: Request, content: Any, code: int = 200) -> Response:
    text = json.dumps(content, allow_nan=False)  # in ASCII: a file name may hold bytes that are no UTF-8
    return _respond(request, text.encode("utf-8"), "application/json", code)


def _error(request: Request, code: int, message: str, hint: str) -> Response:
    return _json(request, {"error": message, "hint": hint}, code)


def _respond(request: Request, content: bytes, content_type: str, code: int = 200) -> Response:
    encoding = None
    if content_type == _BINARY and len(content) > _COMPRESS_BYTES and _is_remote(request):
        content, encoding = gzip.compress(content, compresslevel=1), "gzip"
    return cast(Response, http_util.Respond(request, content, content_type, code=code, content_encoding=encoding))


def _is_remote(request: Request) -> bool:
    """Whether the answer crosses a network, and its reader takes gzip: on this machine compressing costs more."""
    address = request.remote_addr or ""
    return "gzip" in str(request.accept_encodings) and not address.startswith(("127.", "::1"))
