"""The body of ``POST series``, checked."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, Iterable, Mapping, Optional, Sequence

from tb_mindformers_plugin.language import LANGUAGES
from tb_mindformers_plugin.roles import ROLES, Given
from tb_mindformers_plugin.runs.axes import AXES

FORMATS = ("binary", "json")
FEWEST_BUCKETS, MOST_BUCKETS = 8, 100_000
MOST_SERIES = 100_000
MOST_GIVEN = 1000


class BadRequestError(ValueError):
    """A request that cannot be answered.

    Attributes:
      hint: what to do about it.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclasses.dataclass(frozen=True)
class SeriesRequest:
    """Which windows of which series are asked for; fields as in docs/http-api.md."""

    runs: Sequence[str]
    roles: Sequence[str]
    x: str = "step"
    start: Optional[float] = None
    stop: Optional[float] = None
    buckets: int = 2000
    smoothing: float = 0.0
    format: str = "binary"
    log_x: bool = False
    given: Given = ()


def parse_series_request(body: bytes) -> SeriesRequest:
    """Parses and checks the JSON body of ``POST series``.

    Raises:
      BadRequestError: the message names the parameter, its value and what is allowed.
    """
    try:
        fields = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"the body is not JSON: {error}", 'send {"runs": ["..."], "roles": ["loss"]}') from error
    if not isinstance(fields, dict):
        raise BadRequestError("the body is not a JSON object", 'send {"runs": ["..."], "roles": ["loss"]}')
    check_known(fields, ("runs", "roles", "x", "from", "to", "buckets", "log_x", "smoothing", "format", "given"))
    request = SeriesRequest(
        runs=_strings(fields, "runs"),
        roles=_strings(fields, "roles"),
        x=_one_of(fields, "x", "step", AXES),
        start=_optional_number(fields, "from"),
        stop=_optional_number(fields, "to"),
        buckets=_buckets(fields),
        log_x=_boolean(fields, "log_x"),
        smoothing=_smoothing(fields),
        format=_one_of(fields, "format", "binary", FORMATS),
        given=parse_given(_strings(fields, "given", [])),
    )
    check_roles(request.roles)
    if request.start is not None and request.stop is not None and request.start > request.stop:
        raise BadRequestError(f"from ({request.start:g}) is behind to ({request.stop:g})", "swap them")
    if len(request.runs) * len(request.roles) > MOST_SERIES:
        raise BadRequestError(
            f"{len(request.runs)} runs x {len(request.roles)} roles is more than {MOST_SERIES} series",
            "ask for fewer runs or roles at once",
        )
    return request


def check_known(names: Iterable[str], known: Sequence[str]) -> None:
    """Refuses parameters that are not among `known`.

    Raises:
      BadRequestError: there is one.
    """
    for name in names:
        if name not in known:
            raise BadRequestError(f"parameter {_shown(name)} is unknown", f"known parameters: {', '.join(known)}")


def check_roles(roles: Iterable[str]) -> None:
    """Refuses what is no role.

    Raises:
      BadRequestError: there is one.
    """
    for role in roles:
        if role not in ROLES:
            raise BadRequestError(f"role {_shown(role)} is unknown", f"known roles: {', '.join(ROLES)}")


def parse_given(pairs: Iterable[str]) -> Given:
    """Returns the roles that whoever looks gave to tags, told as ``role:tag`` each.

    Raises:
      BadRequestError: one is no such pair, or there are too many.
    """
    found = []
    for pair in pairs:
        role, colon, tag = pair.partition(":")
        if not colon or not tag:
            raise BadRequestError(
                f"parameter 'given' is {_shown(pair)}", "it is role:tag, such as loss:objective/total"
            )
        check_roles([role])
        found.append((role, tag))
    if len(found) > MOST_GIVEN:
        raise BadRequestError(f"{len(found)} tags are given roles", f"at most {MOST_GIVEN} can be")
    return tuple(found)


def parse_language(arguments: Mapping[str, str]) -> str:
    """Returns what ``lang`` asks for: one of `LANGUAGES`.

    Raises:
      BadRequestError: another one.
    """
    language = arguments.get("lang", "en")
    if language not in LANGUAGES:
        raise BadRequestError(f"parameter 'lang' is {_shown(language)}", f"allowed: {', '.join(LANGUAGES)}")
    return language


def _strings(fields: Mapping[str, Any], name: str, default: Optional[list[str]] = None) -> list[str]:
    value = fields.get(name, default)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadRequestError(f"parameter {name!r} is {_shown(value)}", "it is a list of strings")
    return list(dict.fromkeys(value))


def _one_of(fields: Mapping[str, Any], name: str, default: str, allowed: Sequence[str]) -> str:
    value = fields.get(name, default)
    if value not in allowed:
        raise BadRequestError(f"parameter {name!r} is {_shown(value)}", f"allowed: {', '.join(allowed)}")
    return str(value)


def _number(value: Any) -> Optional[float]:
    # JSON has no NaN, but Python's parser takes it; a whole number may be too large for a float.
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _optional_number(fields: Mapping[str, Any], name: str) -> Optional[float]:
    value = fields.get(name)
    if value is None:
        return None
    number = _number(value)
    if number is None:
        raise BadRequestError(f"parameter {name!r} is {_shown(value)}", "it is a finite number or null")
    return number


def _boolean(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise BadRequestError(f"parameter {name!r} is {_shown(value)}", "it is true or false")
    return value


def _buckets(fields: Mapping[str, Any]) -> int:
    value = fields.get("buckets", 2000)
    if isinstance(value, bool) or not isinstance(value, int) or not FEWEST_BUCKETS <= value <= MOST_BUCKETS:
        raise BadRequestError(
            f"parameter 'buckets' is {_shown(value)}", f"it is a whole number from {FEWEST_BUCKETS} to {MOST_BUCKETS}"
        )
    return value


def _smoothing(fields: Mapping[str, Any]) -> float:
    value = fields.get("smoothing", 0.0)
    number = _number(value)
    if number is None or not 0 <= number < 1:
        raise BadRequestError(f"parameter 'smoothing' is {_shown(value)}", "it is a number from 0 (off) to below 1")
    return number


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
