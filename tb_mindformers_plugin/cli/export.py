"""``tb-health export``: what was logged, in the formats of other tools."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import IO, Iterable, Iterator, Optional, Sequence, Tuple

import click

from tb_mindformers_plugin.cli.choice import chosen_runs, fail, tracked
from tb_mindformers_plugin.export import ExportError, csv_text, json_text, points_of
from tb_mindformers_plugin.export.mlflow import MlflowExport
from tb_mindformers_plugin.export.parquet import write_parquet
from tb_mindformers_plugin.roles import ROLES
from tb_mindformers_plugin.runs import RunContents, RunStore, open_logdir
from tb_mindformers_plugin.whole_file import whole_file

FORMATS = ("csv", "json", "parquet", "mlflow")


@click.command("export")
@click.argument("logdir")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--format", "form", type=click.Choice(FORMATS), default="csv", show_default=True, help="Of what.")
@click.option(
    "--out", "-o", metavar="PATH", help="File to write, or with --split directory; standard output by default."
)
@click.option("--split", is_flag=True, help="One file a run, in the directory --out.")
@click.option("--role", "roles", multiple=True, type=click.Choice(list(ROLES)), help="Only this role; repeatable.")
@click.option("--curves-only", is_flag=True, help="Leave out what restarts superseded.")
@click.option("--tracking-uri", metavar="URI", help="MLflow: where it is; by default as MLFLOW_TRACKING_URI says.")
@click.option("--experiment", metavar="NAME", help="MLflow: into which experiment; by default the name of LOGDIR.")
def export_command(
    logdir: str,
    runs: Sequence[str],
    form: str,
    out: Optional[str],
    split: bool,
    roles: Sequence[str],
    curves_only: bool,
    tracking_uri: Optional[str],
    experiment: Optional[str],
) -> None:
    """Write what runs of LOGDIR logged (all where none is named): every point, with its step and wall time.

    LOGDIR is what `tensorboard --logdir` takes. A file is there as a whole or not at all. Exits with 0, or with 2 where
    something cannot be read or written.
    """
    _check_options(form, out, split, tracking_uri, experiment)
    try:
        store = open_logdir(logdir)
        runs_there = _with_series(store, chosen_runs(store, runs, logdir), roles)
        if form == "mlflow":
            _to_mlflow(runs_there, roles, tracking_uri, experiment or os.path.basename(store.searched[0].path))
        elif split:
            taken: set[str] = set()
            for name, run in runs_there:
                path = os.path.join(out or "", _file_name(name, form, taken))
                os.makedirs(os.path.dirname(path), exist_ok=True)
                _write([(name, run)], form, roles, not curves_only, path)
        else:
            _write(runs_there, form, roles, not curves_only, out)
    except BrokenPipeError:
        raise  # whoever reads our output has read enough
    except ValueError as error:
        fail("export", str(error))
    except OSError as error:
        fail("export", f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _check_options(
    form: str, out: Optional[str], split: bool, tracking_uri: Optional[str], experiment: Optional[str]
) -> None:
    if form != "mlflow" and (tracking_uri is not None or experiment is not None):
        raise click.UsageError("--tracking-uri and --experiment are for --format mlflow")
    if form == "mlflow" and (out is not None or split):
        raise click.UsageError("--format mlflow writes no file: leave out --out and --split")
    if split and out is None:
        raise click.UsageError("--split needs a directory: give it with --out")
    if form == "parquet" and out is None:
        raise click.UsageError("Parquet is written to a file: give it with --out")


def _with_series(store: RunStore, names: Sequence[str], roles: Sequence[str]) -> Iterator[Tuple[str, RunContents]]:
    """Reads one run after the other, so that memory is bounded. Raises ExportError where none has what is wanted."""
    empty = True
    for name in tracked(names, "Exporting"):
        run = store.load([name])[name]
        if any(role in run.roles for role in roles) if roles else run.tags:
            empty = False
            yield name, run
    if empty:
        said = f"with the role {' or '.join(roles)}" if roles else "at all"
        raise ExportError(f"there is no series {said}; `tb-health doctor` lists what there is")


def _write(
    runs: Iterable[Tuple[str, RunContents]], form: str, roles: Sequence[str], superseded: bool, path: Optional[str]
) -> None:
    wanted = list(roles) or None
    rows = (points for name, run in runs for points in points_of(name, run, wanted, superseded))
    with contextlib.ExitStack() as stack:
        file: IO[bytes] = sys.stdout.buffer if path is None else stack.enter_context(whole_file(path))
        if form == "parquet":
            write_parquet(file, rows)
            return
        for piece in csv_text(rows) if form == "csv" else json_text(runs, wanted, superseded):
            file.write(piece.encode("utf-8"))
        file.flush()


def _file_name(run: str, form: str, taken: set[str]) -> str:
    """The file of a run, relative to where files go, and none of those `taken`, to which it is added."""
    stem = os.path.join(*(part if part.strip(".") else "_" for part in run.replace(os.sep, "/").split("/")))
    while stem in taken:  # "." and "_" are two runs
        stem += "_"
    taken.add(stem)
    return f"{stem}.{form}"


def _to_mlflow(
    runs: Iterable[Tuple[str, RunContents]], roles: Sequence[str], tracking_uri: Optional[str], experiment: str
) -> None:
    target = MlflowExport(tracking_uri, experiment)
    for name, run in runs:
        click.echo(f"{name}: run {target.add(name, run, list(roles) or None)} of experiment {experiment}")
