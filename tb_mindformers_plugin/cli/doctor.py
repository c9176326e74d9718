"""``tb-health doctor``: what was read of a logdir, what was skipped, and why."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.console import Console

from tb_mindformers_plugin.cli.choice import fail
from tb_mindformers_plugin.cli.printable import escape, printable
from tb_mindformers_plugin.http_api.listing import list_runs
from tb_mindformers_plugin.roles import ROLES
from tb_mindformers_plugin.runs import open_logdir


@click.command()
@click.argument("logdir")
def doctor(logdir: str) -> None:
    """Say for every run of LOGDIR what was read, what was skipped, and what is missing.

    LOGDIR is what `tensorboard --logdir` (or --logdir_spec) takes. Exits with 0 where there is a
    metric to show, 1 where there is none, 2 where LOGDIR cannot be read.
    """
    console = Console(highlight=False)
    try:
        store = open_logdir(logdir)
    except OSError as error:
        fail("doctor", str(error))
    listing = list_runs(store, read_all=True)
    searched = listing["searched"]
    console.print(
        f"Looked in {escape(searched['logdir'])}: {_count(searched['directories'], 'directory', 'directories')}, "
        f"{_count(searched['event_files'], 'event file')}, {_count(searched['tags'], 'scalar tag')}.",
        soft_wrap=True,
    )
    for problem in searched["problems"]:
        console.print(f"[yellow]![/] {escape(problem)}", soft_wrap=True)
    for run in listing["runs"]:
        console.print()
        told = "by its manifest" if run["source"] == "manifest" else "by the names of its tags"
        console.print(f"[bold]{escape(run['run'])}[/]  {run['status']}, roles known {told}", soft_wrap=True)
        for line in _roles(run["roles"]):
            console.print(escape(line), soft_wrap=True)
        for note in run["notes"]:
            console.print(f"  [yellow]![/] {escape(note)}", soft_wrap=True)
        for missing in run["missing"]:
            console.print(f"  [blue]i[/] no {ROLES[missing['role']].title}: {escape(missing['hint'])}", soft_wrap=True)
    for name in listing["without_metrics"]:
        tags = store.runs[name].summary().tags
        shown = ", ".join(tags[:8]) + (" …" if len(tags) > 8 else "") if tags else "none"
        console.print(f"\n[bold]{escape(name)}[/]  no known metric; scalar tags: {escape(shown)}", soft_wrap=True)
    if not searched["event_files"]:
        console.print(
            "There is no event file. Give the directory that holds the run directories (TrainingHealthCallback's "
            "log_dir, or its parent).",
            soft_wrap=True,
        )
    if not listing["runs"]:
        sys.exit(1)


def _count(n: int, one: str, many: str = "") -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _roles(roles: dict[str, dict[str, Any]]) -> list[str]:
    """The series as lines in columns, which a narrow terminal wraps but never cuts."""
    rows = [("role", "tag", "points", "steps", "last value", "unit")]
    for role, series in roles.items():
        last = series["last_value"]
        rows.append(
            (
                ROLES[role].title,
                printable(str(series["tag"])),
                f"{series['points']:,}",
                f"{series['first_step']:,}-{series['last_step']:,}",
                f"{last:.6g}" if isinstance(last, float) else str(last),
                str(series["unit"]),
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
