"""What ``GET compare`` says of a run and its baseline."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Mapping, Optional

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.compare import AlignmentError, Tolerance, compare
from tb_mindformers_plugin.compare.align import AXES
from tb_mindformers_plugin.compare.errors import relative_error
from tb_mindformers_plugin.http_api.encode import numbers
from tb_mindformers_plugin.http_api.request import (
    FEWEST_BUCKETS,
    MOST_BUCKETS,
    BadRequestError,
    check_known,
    parse_language,
)
from tb_mindformers_plugin.roles import ROLES
from tb_mindformers_plugin.runs.smoothing import ema
from tb_mindformers_plugin.runs.store import Store
from tb_mindformers_plugin.runs.window import window

PARAMETERS = (
    "baseline",
    "run",
    "role",
    "x",
    "tolerance",
    "absolute",
    "points",
    "from",
    "to",
    "buckets",
    "smoothing",
    "lang",
)


@dataclasses.dataclass(frozen=True)
class CompareRequest:
    """What is to be compared, and which window of it is to be drawn; fields as in docs/http-api.md."""

    run: str
    baseline: str
    role: str
    axis: Optional[str]
    tolerance: Tolerance
    start: Optional[float]
    stop: Optional[float]
    buckets: int
    smoothing: float
    language: str


def parse_compare_request(arguments: Mapping[str, str]) -> CompareRequest:
    """Returns what is asked for.

    Raises:
      BadRequestError: a parameter is missing, unknown or wrong.
    """
    check_known(arguments, PARAMETERS)
    for name in ("baseline", "run"):
        if name not in arguments:
            raise BadRequestError(f"parameter {name!r} is missing", "ask for compare?baseline=NAME&run=NAME")
    start, stop = _number(arguments, "from"), _number(arguments, "to")
    if start is not None and stop is not None and start > stop:
        raise BadRequestError(f"from ({start:g}) is behind to ({stop:g})", "swap them")
    try:
        tolerance = Tolerance(
            _number(arguments, "tolerance", 0.01), _number(arguments, "absolute", 0.0), _whole(arguments, "points", 10)
        )
    except ValueError as error:
        raise BadRequestError(str(error), "0.01 is 1 %") from error
    buckets = _whole(arguments, "buckets", 2000)
    if not FEWEST_BUCKETS <= buckets <= MOST_BUCKETS:
        raise BadRequestError(f"parameter 'buckets' is {buckets}", f"it is from {FEWEST_BUCKETS} to {MOST_BUCKETS}")
    smoothing = _number(arguments, "smoothing", 0.0)
    if not 0 <= smoothing < 1:
        raise BadRequestError(f"parameter 'smoothing' is {smoothing:g}", "it is from 0 up to, but not including, 1")
    return CompareRequest(
        run=arguments["run"],
        baseline=arguments["baseline"],
        role=_one_of(arguments, "role", tuple(ROLES)) or "loss",
        axis=_one_of(arguments, "x", AXES),
        tolerance=tolerance,
        start=start,
        stop=stop,
        buckets=buckets,
        smoothing=smoothing,
        language=parse_language(arguments),
    )


def run_comparison(store: Store, request: CompareRequest) -> dict[str, Any]:
    """Returns the answer to ``GET compare`` (docs/http-api.md), of the store as last refreshed.

    Raises:
      KeyError: there is no such run.
      BadRequestError: the two cannot be laid side by side.
    """
    loaded = store.load(dict.fromkeys((request.run, request.baseline)))
    try:
        found = compare(loaded[request.run], loaded[request.baseline], request.role, request.axis, request.tolerance)
    except AlignmentError as error:
        raise BadRequestError(f"{request.run!r} cannot be compared with {request.baseline!r}", str(error)) from error
    pairs = found.pairs

    def column(values: npt.NDArray[np.float64]) -> dict[str, Any]:
        smoothed = ema(values, request.smoothing) if request.smoothing else None
        part = window(pairs.position, values, smoothed, request.start, request.stop, request.buckets)
        return {
            "raw": part.raw,
            "x": numbers(part.x),
            "min": numbers(part.minimum),
            "max": numbers(part.maximum),
            "last": numbers(part.last),
            "smoothed": None if part.smoothed is None else numbers(part.smoothed),
        }

    with np.errstate(all="ignore"):
        difference = pairs.value - pairs.baseline
    errors = found.errors
    places = {"first_beyond": errors.first_beyond, "parted": errors.parted, "worst": errors.worst}
    return {
        **found.to_dict(request.run, request.baseline, request.language),
        "at": {name: None if place is None else float(pairs.position[place]) for name, place in places.items()},
        "difference": column(difference),
        "relative_error": column(relative_error(pairs.value, pairs.baseline)),
    }


def _number(arguments: Mapping[str, str], name: str, default: Optional[float] = None) -> Any:
    text = arguments.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadRequestError(f"parameter {name!r} is {text[:80]!r}", "it is a finite number")
    return value


def _whole(arguments: Mapping[str, str], name: str, default: int) -> int:
    value = _number(arguments, name, default)
    if value != int(value):
        raise BadRequestError(f"parameter {name!r} is {value!r}", "it is a whole number")
    return int(value)


def _one_of(arguments: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> Optional[str]:
    value = arguments.get(name)
    if value is not None and value not in allowed:
        raise BadRequestError(f"parameter {name!r} is {value[:80]!r}", f"allowed: {', '.join(allowed)}")
    return value
