"""The command ``tb-health check``: its options, and what it does in which order."""

from __future__ import annotations

import math
import sys
import time
from functools import partial
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, TypeVar

import click
from rich.console import Console
from rich.progress import Progress

from tb_mindformers_plugin.cli.check import report as terminal
from tb_mindformers_plugin.cli.check.cluster import ClusterError, over_cluster
from tb_mindformers_plugin.cli.check.ending import Ending
from tb_mindformers_plugin.cli.check.examine import RunReport, absolute, check_in, check_run, failed
from tb_mindformers_plugin.cli.check.news import JsonLines, Terminal
from tb_mindformers_plugin.cli.check.processes import in_turn, over_processes, worthwhile
from tb_mindformers_plugin.cli.check.watch import watch
from tb_mindformers_plugin.cli.choice import chosen_runs, complain, fail, rule_options
from tb_mindformers_plugin.cli.printable import json_line
from tb_mindformers_plugin.health.diagnoses import Diagnoses
from tb_mindformers_plugin.health.finding import LANGUAGES, SEVERITIES
from tb_mindformers_plugin.health.parameters import Change, Parameters, changed
from tb_mindformers_plugin.runs import open_logdir
from tb_mindformers_plugin.runs.ranks import fold_ranks
from tb_mindformers_plugin.runs.store import RunStore

_INTERRUPTED = 130  # as a shell has it

_Value = TypeVar("_Value")


def _finite(context: click.Context, parameter: click.Parameter, value: float) -> float:
    if math.isnan(value):
        raise click.BadParameter("nan is no number of seconds")
    return value


@click.command()
@click.argument("logdir")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the report.")
@click.option(
    "--fail-on",
    type=click.Choice(["warning", "critical"]),
    default="warning",
    show_default=True,
    help="The severity from which on the exit status is 1.",
)
@click.option("--lang", type=click.Choice(LANGUAGES), default="en", show_default=True, help="Language of the findings.")
@rule_options
@click.option("--baseline", metavar="RUN", help="Compare the others with this run: rule baseline_divergence.")
@click.option("--watch", "watching", is_flag=True, help="Follow LOGDIR and tell each new finding once; Ctrl-C ends it.")
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    default=10.0,
    show_default=True,
    callback=_finite,
    help="Seconds between two looks of --watch.",
)
@click.option("--jobs", type=click.IntRange(1, 1024), help="Processes to use  [default: as many as is fastest].")
@click.option("--scheduler", metavar="ADDRESS", help="Check over the Dask cluster of this scheduler.")
def check(
    logdir: str,
    as_json: bool,
    fail_on: str,
    lang: str,
    settings: List[Change],
    rules: List[Change],
    baseline: Optional[str],
    watching: bool,
    interval: float,
    jobs: Optional[int],
    scheduler: Optional[str],
) -> None:
    """Say what is wrong with each run of LOGDIR, where, and what to try.

    LOGDIR is what `tensorboard --logdir` (or --logdir_spec) takes. Exits with 0 where no finding
    reaches --fail-on, 1 where one does, 2 where LOGDIR or a run cannot be read or there is no metric.
    """
    if watching and (jobs or scheduler is not None):
        raise click.UsageError("--watch follows the runs in this process: leave out --jobs and --scheduler")
    if jobs and scheduler is not None:
        raise click.UsageError("give --jobs or --scheduler, not both")
    parameters = changed([*rules, *settings])
    try:
        store = open_logdir(logdir)
        _check_baseline(store, baseline, logdir)
        if watching:
            verdicts = _watch(store, parameters, interval, as_json, lang, baseline)
            errors = 0
        else:
            reports = _check(store, parameters, lang, baseline, jobs, scheduler)
            _print(reports, as_json, lang)
            verdicts = [report.verdict for report in reports if report.verdict]
            errors = sum(bool(report.error) for report in reports)
    except (OSError, ClusterError) as error:
        fail("check", str(error))
    except KeyboardInterrupt:
        click.echo("tb-health check: interrupted", err=True)
        sys.exit(_INTERRUPTED)
    if not verdicts and not errors:
        fail("check", f"there is no run with a known metric in {logdir}; try `tb-health doctor`")
    failing = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    sys.exit(2 if errors else 1 if any(found in failing for found in verdicts) else 0)


def _check_baseline(store: RunStore, baseline: Optional[str], logdir: str) -> None:
    if baseline is None:
        return
    try:
        chosen_runs(store, [baseline], logdir)
    except ValueError as error:
        fail("check", str(error))


def _check(
    store: RunStore,
    parameters: Parameters,
    lang: str,
    baseline: Optional[str],
    jobs: Optional[int],
    scheduler: Optional[str],
) -> List[RunReport]:
    """Checks all runs; returns their reports in the order of a listing, those that nothing is known of at the end."""
    for problem in store.discovery.problems:
        complain("check", problem)
    summaries = store.summaries()
    shown = fold_ranks([summary for summary in summaries if summary.roles or summary.has_manifest])
    runs = [job.shown.name for job in shown]
    wanted: Dict[str, Any] = {"parameters": parameters, "lang": lang, "now": time.time(), "baseline": baseline}
    elsewhere = partial(check_run, absolute(store), **wanted)
    processes = jobs or worthwhile([store.runs[run].size for run in runs])
    if scheduler is not None:
        done = over_cluster(elsewhere, runs, scheduler)
    elif min(processes, len(runs)) > 1:
        done = over_processes(elsewhere, runs, min(processes, len(runs)))
    else:
        done = in_turn(partial(check_in, store, **wanted), runs)
    reports = {report.run: report for report in _tracked(done, len(runs))}
    unknown = [summary for summary in summaries if summary.unreadable and not (summary.roles or summary.has_manifest)]
    return [*(reports[run] for run in runs), *(failed(run.name, "; ".join(run.unreadable)) for run in unknown)]


def _tracked(done: Iterable[_Value], total: int) -> Iterator[_Value]:
    """Passes on what is done, with a progress bar on a terminal."""
    errors = Console(stderr=True)
    with Progress(console=errors, transient=True, disable=total < 2 or not errors.is_terminal) as progress:
        yield from progress.track(done, total=total, description="Checking")


def _print(reports: Sequence[RunReport], as_json: bool, lang: str) -> None:
    checked = [report for report in reports if report.verdict]
    errors = [report for report in reports if report.error]
    if as_json:
        answer: Dict[str, Any] = {"runs": [report.to_dict() for report in checked]}
        if errors:
            answer["errors"] = [{"run": report.run, "error": report.error} for report in errors]
        click.echo(json_line(answer, lang))
    else:
        console = Console(highlight=False, soft_wrap=True)
        for report in terminal.worst_first(checked, lambda report: report.verdict or ""):
            terminal.print_report(console, report, lang)
        if len(checked) > 1:
            terminal.print_count(console, [report.verdict or "" for report in checked], lang)
    for report in errors:
        how = "was checked in part only" if report.verdict else "was not checked"
        complain("check", f"{report.run} {how}: {report.error}")


def _watch(
    store: RunStore, parameters: Parameters, interval: float, as_json: bool, lang: str, baseline: Optional[str]
) -> List[str]:
    """Follows the runs until it is interrupted; returns their verdicts."""
    with Ending() as ending:
        tells = JsonLines(lang) if as_json else Terminal(lang, interval)
        verdicts = watch(store, Diagnoses(parameters), interval, tells, ending.sleep, baseline)
    tells.end(verdicts)
    return list(verdicts.values())
