"""``tb-health layout``: charts for TensorBoard's Custom Scalars tab."""

from __future__ import annotations

import os
from typing import Any, Optional, Sequence

import click
from google.protobuf import json_format, text_format
from rich.console import Console

from tb_mindformers_plugin.cli.choice import fail, tracked
from tb_mindformers_plugin.cli.printable import escape
from tb_mindformers_plugin.layout import LayoutError, place
from tb_mindformers_plugin.layout.making import Made, Wanted, held, make_layout
from tb_mindformers_plugin.runs import open_logdir
from tb_mindformers_plugin.whole_file import whole_file

# Run names of one chart that are printed.
_MOST_RUNS = 6


@click.command("layout")
@click.argument("logdir")
@click.option("--roles", metavar="ROLE,ROLE", help="Roles to draw, in this order; all that the runs have by default.")
@click.option(
    "--tag",
    "patterns",
    multiple=True,
    metavar="[TITLE=]REGEX",
    help="One more chart, of the scalar tags in which REGEX is found. May be given more than once.",
)
@click.option(
    "--group-by",
    metavar="REGEX",
    help="A category a group of runs, the group being what REGEX finds in their names: 'lr[0-9.e-]+'.",
)
@click.option(
    "--aggregate",
    metavar="REGEX",
    help="Sum up runs whose names differ only in what REGEX finds ('seed([0-9]+)'): mean, extremes, median, quartiles.",
)
@click.option(
    "--from",
    "source",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="A layout by hand, in YAML, instead of one made from roles. It is checked first.",
)
@click.option("--out", metavar="PATH", help="Write into this directory instead of LOGDIR; with --format, to this file.")
@click.option("--dry-run", is_flag=True, help="Say what would be written, and write nothing.")
@click.option(
    "--format",
    "text_format_",
    type=click.Choice(["json", "pbtxt"]),
    help="Print the layout as text instead of writing it for TensorBoard.",
)
@click.option("--remove", is_flag=True, help="Remove what this command wrote into LOGDIR (or --out).")
def layout_command(
    logdir: str,
    roles: Optional[str],
    patterns: Sequence[str],
    group_by: Optional[str],
    aggregate: Optional[str],
    source: Optional[str],
    out: Optional[str],
    dry_run: bool,
    text_format_: Optional[str],
    remove: bool,
) -> None:
    """Write a layout for TensorBoard's Custom Scalars tab that compares the runs of LOGDIR.

    A chart a role over all runs, whatever each framework calls its series, by exact tags. The layout goes into LOGDIR
    itself, which TensorBoard then lists as the run `.`; writing again replaces it, also under a TensorBoard that is
    running. Exits with 0, or with 2 where nothing was written.
    """
    if source is not None and (roles is not None or patterns):
        raise click.UsageError("--from has its own charts: leave out --roles and --tag")
    wanted = Wanted(
        roles=None if roles is None else [role.strip() for role in roles.split(",") if role.strip()],
        patterns=patterns,
        group_by=group_by,
        aggregate=aggregate,
        text=None if source is None else _read(source),
    )
    try:
        store = open_logdir(logdir)
        if remove:
            _remove(place.directory_for(store.searched) if out is None else os.path.abspath(out), dry_run)
            return
        top = _directory(store.searched, out, text_format_ or dry_run)
        made = make_layout(store, held(store, lambda names: tracked(names, "Reading")), wanted)
        if text_format_:
            _write_text(made, text_format_, None if dry_run else out)
            return
        console = Console(highlight=False, soft_wrap=True)
        _describe(console, made)
        if not dry_run:
            written = place.replace(top, made.files(place.layout_directory(top)))
            _say_where(console, top, written)
        elif top:
            console.print(f"\nNothing was written. It would go into {escape(top)}.")
    except LayoutError as error:
        fail("layout", f"{source}: {error}" if source is not None else str(error))
    except OSError as error:
        where = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        written_to = "; nothing was written: give a directory that can be written with --out" if not remove else ""
        fail("layout", where + (written_to if error.filename else ""))


def _directory(searched: Any, out: Optional[str], only_looks: Any) -> str:
    if out is not None:
        return os.path.abspath(out)
    try:
        return place.directory_for(searched)
    except LayoutError:
        if only_looks:
            return ""
        raise


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        fail("layout", f"{path} cannot be read: {error}")


def _write_text(made: Made, form: str, out: Optional[str]) -> None:
    text = (
        json_format.MessageToJson(made.layout, indent=2)
        if form == "json"
        else text_format.MessageToString(made.layout, as_utf8=True)
    )
    if out is None:
        click.echo(text.rstrip("\n"))
    else:
        with whole_file(out) as file:
            file.write((text.rstrip("\n") + "\n").encode("utf-8", "backslashreplace"))


def _describe(console: Console, made: Made) -> None:
    for category in made.preview():
        console.print(f"[bold]{escape(str(category['title']))}[/]")
        for chart in category["charts"]:  # type: ignore[attr-defined]
            console.print(f"  {escape(chart['title'])}  [dim]{escape(', '.join(chart['tags']))}[/]")
            console.print(f"    {_names(chart['runs'])}")
            if chart["strangers"]:
                console.print(
                    f"    [yellow]![/] also in it, where the tag means something else: {_names(chart['strangers'])}"
                )
    for note in made.notes:
        console.print(f"[yellow]![/] {escape(note)}")


def _names(runs: Sequence[str]) -> str:
    names = list(runs)
    more = f" and {len(names) - _MOST_RUNS} more" if len(names) > _MOST_RUNS else ""
    count = f"{len(names)} run{'' if len(names) == 1 else 's'}: "
    return escape(count + ", ".join(names[:_MOST_RUNS]) + more)


def _say_where(console: Console, top: str, written: Sequence[str]) -> None:
    console.print(f"\nWritten: {escape(written[0])}")
    if len(written) > 1:
        more = len(written) - 1
        console.print(f"and {more} run{'' if more == 1 else 's'} beside it, with series of groups.")
    console.print("Open the Custom Scalars tab of TensorBoard (or reload it).")


def _remove(top: str, dry_run: bool) -> None:
    found = place.generated_files(top) if dry_run else place.remove(top)
    for path in found:
        click.echo(("would remove " if dry_run else "removed ") + path)
    if not found:
        click.echo(f"there is no layout of this command in {top}")
    elif not dry_run:
        click.echo("A TensorBoard that is running may show it until it is started again.")
