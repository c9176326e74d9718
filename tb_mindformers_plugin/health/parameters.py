"""Changes to the rules' parameters: from the command line, and from a TOML file."""

from __future__ import annotations

import difflib
import os
import sys
from typing import Any, Iterable, List, Mapping, NamedTuple, Optional, Union

from tb_mindformers_plugin.health.limits import limits_of
from tb_mindformers_plugin.health.registry import Rule, registry

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Rule id -> its parameters dataclass where they are not the defaults, None where the rule is off.
Parameters = Mapping[str, Optional[Any]]

_ON = {"on": True, "true": True, "off": False, "false": False}


class ParameterError(ValueError):
    """A change that names no rule or parameter, or a value that is not allowed; says what is."""


class Change(NamedTuple):
    """One parameter that is not the default.

    Attributes:
      rule: id of the rule.
      name: of the parameter; None: `value` says whether the rule is asked at all.
      value: the parameter's.
    """

    rule: str
    name: Optional[str]
    value: Union[bool, int, float]


def parse_setting(text: str) -> Change:
    """Returns the change that ``RULE.PARAMETER=VALUE`` or ``RULE=off`` means.

    Raises:
      ParameterError: it means none.

    >>> parse_setting("loss_spike.z=8")
    Change(rule='loss_spike', name='z', value=8)
    >>> parse_setting("loss_plateau=off")
    Change(rule='loss_plateau', name=None, value=False)
    """
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not key:
        raise ParameterError(f"{text!r} is no setting: give RULE.PARAMETER=VALUE, or RULE=off")
    rule, dot, name = key.partition(".")
    if not dot:
        return _switch(_rule(rule), _ON.get(value.lower(), value), "on or off")
    return _change(_rule(rule), name, _number(value))


def read_rules(path: str) -> List[Change]:
    """Returns the changes that a TOML file makes: a table a rule, or ``rule = false``.

    Raises:
      ParameterError: the file cannot be read or is no TOML, or something in it is no change; begins with
        the file's name.
    """
    try:
        # Editors on Windows begin a file with a byte order mark.
        with open(os.path.expanduser(path), encoding="utf-8-sig", newline="") as file:
            content = tomllib.loads(file.read())
    except OSError as error:
        raise ParameterError(f"{path} cannot be read: {error.strerror or error}") from error
    except RecursionError as error:
        raise ParameterError(f"{path} is no TOML of rules: it is nested too deeply") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ParameterError(f"{path} is no TOML: {error}") from error
    try:
        return changes_in(content)
    except ParameterError as error:
        raise ParameterError(f"{path}: {error}") from error


def changes_in(content: Mapping[str, Any]) -> List[Change]:
    """Returns the changes that rule -> table of parameters, or False, makes; as a TOML file holds them.

    Raises:
      ParameterError: something in it is no change.

    >>> changes_in({"loss_spike": {"z": 8}, "loss_plateau": False})[0]
    Change(rule='loss_spike', name='z', value=8)
    """
    return [change for rule, table in content.items() for change in _table(_rule(rule), table)]


def changed(changes: Iterable[Change]) -> Parameters:
    """Returns the parameters after all `changes`, of which a later one wins.

    >>> changed([Change("loss_spike", "z", 8), Change("loss_plateau", None, False)])["loss_spike"].z
    8
    """
    values: dict[str, dict[str, Any]] = {}
    on: dict[str, bool] = {}
    for rule, name, value in changes:
        told = values.setdefault(rule, {})
        if name is None:
            on[rule] = bool(value)
        else:
            told[name] = value
    rules = registry()
    return {rule: rules[rule].parameters(**told) if on.get(rule, True) else None for rule, told in values.items()}


def unknown_rule(name: str) -> ParameterError:
    """Returns the error that says which rules there are."""
    return ParameterError(f"there is no rule {name!r}; known: {', '.join(registry())}{_meant(name, registry())}")


def _rule(name: str) -> Rule:
    rule = registry().get(name)
    if rule is None:
        raise unknown_rule(name)
    return rule


def _table(rule: Rule, table: Any) -> List[Change]:
    if not isinstance(table, dict):
        return [_switch(rule, table, "true, false or a table of parameters")]
    return [_change(rule, name, value) for name, value in table.items()]


def _switch(rule: Rule, value: Any, allowed: str) -> Change:
    if not isinstance(value, bool):
        raise ParameterError(f"{rule.id} is {value!r}: allowed is {allowed}")
    return Change(rule.id, None, value)


def _change(rule: Rule, name: str, value: Any) -> Change:
    limits = limits_of(rule.parameters)
    if name not in limits:
        known = f"known: {', '.join(limits)}" if limits else "it has none, and can only be switched off"
        also = f". ({name} is a rule: write it above the first table.)" if name in registry() else ""
        raise ParameterError(f"{rule.id} has no parameter {name!r}; {known}{_meant(name, limits) or also}")
    if not limits[name].allow(value):
        default = getattr(rule.parameters(), name)
        raise ParameterError(f"{rule.id}.{name} is {value!r}: allowed is {limits[name]} (default {default:g})")
    return Change(rule.id, name, value)


def _number(text: str) -> Union[int, float, str]:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _meant(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), 1)
    return f". Did you mean {near[0]!r}?" if near else ""
