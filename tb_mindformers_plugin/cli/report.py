"""``tb-health report``: a file to hand on."""

from __future__ import annotations

import dataclasses
import io
import os
from typing import List, Optional, Sequence

import click

from tb_mindformers_plugin.cli.choice import chosen_runs, fail, rule_options, tolerance_option, tracked
from tb_mindformers_plugin.compare import Tolerance
from tb_mindformers_plugin.health.parameters import Change, changed
from tb_mindformers_plugin.language import LANGUAGES
from tb_mindformers_plugin.report import Report, collect, html_page
from tb_mindformers_plugin.report.collect import MOST_CHOSEN
from tb_mindformers_plugin.report.png import PlotError, write_png
from tb_mindformers_plugin.runs import RunStore, open_logdir
from tb_mindformers_plugin.runs.ranks import fold_ranks
from tb_mindformers_plugin.whole_file import whole_file


@click.command("report")
@click.argument("logdir")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--out", "-o", metavar="FILE", help="The HTML file to write.")
@click.option("--png", metavar="DIR", help="Write the plots as PNG into this directory (needs matplotlib).")
@click.option("--baseline", metavar="RUN", help="Compare the others with this run.")
@tolerance_option
@rule_options
@click.option("--lang", type=click.Choice(LANGUAGES), default="en", show_default=True, help="Language of the report.")
def report_command(
    logdir: str,
    runs: Sequence[str],
    out: Optional[str],
    png: Optional[str],
    baseline: Optional[str],
    tolerance: float,
    settings: List[Change],
    rules: List[Change],
    lang: str,
) -> None:
    """Write a report of runs of LOGDIR (all where none is named) as one HTML file that needs nothing else.

    It has the findings with advice, the curves, the comparison with --baseline and the manifests, light and dark, and
    can be mailed. Exits with 0, or with 2 where something cannot be read or written.
    """
    if out is None and png is None:
        raise click.UsageError("say what to write: --out report.html, --png DIRECTORY or both")
    try:
        store = open_logdir(logdir)
        names, left_out = _names(store, runs, baseline, logdir)
        report = collect(
            store,
            names,
            logdir,
            baseline,
            Tolerance(tolerance),
            changed([*rules, *settings]),
            tracked=lambda some: tracked(some, "Reading"),
        )
        report = dataclasses.replace(report, left_out=left_out)
        if png is not None:
            _write_plots(report, png)
        if out is not None:
            with whole_file(out) as file:
                file.write(html_page(report, lang).encode("utf-8"))
            count = f"{len(report.runs)} run{'' if len(report.runs) == 1 else 's'}"
            click.echo(f"{out}: {os.path.getsize(out) / 1024:,.0f} kB, {count}")
    except (PlotError, ValueError) as error:
        fail("report", str(error))
    except OSError as error:
        fail("report", f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _names(store: RunStore, runs: Sequence[str], baseline: Optional[str], logdir: str) -> tuple[list[str], int]:
    """The runs of the report, and how many are left out: of a training's ranks one, and no more than can be read."""
    chosen_runs(store, [*runs, *([baseline] if baseline is not None else [])], logdir)
    if runs:
        found = list(runs)
    else:
        jobs = fold_ranks([summary for summary in store.summaries() if summary.roles or summary.has_manifest])
        newest = sorted(jobs, key=lambda job: job.shown.last_wall or 0.0, reverse=True)
        kept = {job.shown.name for job in newest[:MOST_CHOSEN]}
        found = [job.shown.name for job in jobs if job.shown.name in kept]
        if not found:
            raise ValueError(f"there is no run with a known metric in {logdir}; try `tb-health doctor`")
        return list(dict.fromkeys([*found, *([baseline] if baseline else [])])), len(jobs) - len(kept)
    return list(dict.fromkeys([*found, *([baseline] if baseline else [])])), 0


def _write_plots(report: Report, directory: str) -> None:
    """Draws all plots before the first is written."""
    drawn: list[tuple[str, bytes]] = []
    for chart in report.charts:
        names = [name for name, _ in drawn]
        name = next(n for i in range(1, 1000) for n in [chart.name + (f"_{i}" if i > 1 else "")] if n not in names)
        file = io.BytesIO()
        write_png(file, chart)
        drawn.append((name, file.getvalue()))
    os.makedirs(directory, exist_ok=True)
    for name, content in drawn:
        with whole_file(os.path.join(directory, f"{name}.png")) as target:
            target.write(content)
    click.echo(f"{directory}: {len(drawn)} plots")
