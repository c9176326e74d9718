"""What several commands have in common: options, which runs they are about, how far they are, what went wrong."""

from __future__ import annotations

import difflib
import sys
from typing import Any, Callable, Iterator, NoReturn, Optional, Sequence, TypeVar

import click
from rich.console import Console
from rich.progress import Progress

from tb_mindformers_plugin.cli.printable import printable
from tb_mindformers_plugin.compare import Tolerance
from tb_mindformers_plugin.health.parameters import ParameterError, parse_setting, read_rules
from tb_mindformers_plugin.runs.store import Store

_Command = TypeVar("_Command", bound=Callable[..., Any])


class RelativeTolerance(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A part of a value, as 0.01 or 1%."""

    name = "tolerance"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> float:
        """Returns the part."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        try:
            found = float(text[:-1]) / 100 if text.endswith("%") else float(text)
            return Tolerance(relative=found).relative
        except ValueError:
            self.fail(f"{value!r} is no tolerance; give it as 0.01 or 1%", param, ctx)


#: How far a value may be from the baseline's.
tolerance_option = click.option(
    "--tolerance",
    type=RelativeTolerance(),
    default=0.01,
    show_default=True,
    metavar="PART",
    help="How far a value may be from the baseline's, as a part of it: 0.01 or 1%.",
)


def _changes(read: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback that reads an option's text, whose errors are usage errors."""

    def callback(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        try:
            if isinstance(value, tuple):
                return [read(text) for text in value]
            return [] if value is None else read(value)
        except ParameterError as error:
            raise click.BadParameter(str(error)) from error

    return callback


def rule_options(command: _Command) -> _Command:
    """Gives a command the options that change rules: lists of changes, `settings` and `rules`."""
    setting = click.option(
        "--set",
        "settings",
        metavar="RULE.PARAMETER=VALUE",
        multiple=True,
        callback=_changes(parse_setting),
        help="Change a parameter of a rule, or switch a rule off (RULE=off). May be given more than once.",
    )
    file = click.option(
        "--rules",
        metavar="FILE",
        callback=_changes(read_rules),
        help="A TOML file of changes to rules, a table a rule; --set wins over it.",
    )
    return setting(file(command))


def chosen_runs(store: Store, names: Sequence[str], logdir: str) -> list[str]:
    """Returns the named runs, or all where none is named.

    Raises:
      ValueError: there is no such run, or none at all.
    """
    for name in names:
        if name not in store.runs:
            near = difflib.get_close_matches(name, store.runs, n=3) or list(store.runs)[:12]
            raise ValueError(f"there is no run {name!r} in {logdir}; there are: {', '.join(near) or 'none'}")
    found = list(dict.fromkeys(names)) or list(store.runs)
    if not found:
        raise ValueError(f"there is no run in {logdir}; try `tb-health doctor`")
    return found


def tracked(names: Sequence[str], doing: str) -> Iterator[str]:
    """Goes through names, and shows on a terminal how far it is."""
    errors = Console(stderr=True)
    with Progress(console=errors, transient=True, disable=len(names) < 2 or not errors.is_terminal) as progress:
        yield from progress.track(names, description=doing)


def fail(command: str, message: str) -> NoReturn:
    """Ends the process with status 2."""
    complain(command, message)
    sys.exit(2)


def complain(command: str, message: str) -> None:
    """Says on the standard error what a command could not do."""
    click.echo(printable(f"tb-health {command}: {message}"), err=True)
