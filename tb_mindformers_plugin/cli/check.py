"""``tb-health check``: what is wrong with each run, where, and what to try."""

from __future__ import annotations

import json
import sys
import time
from typing import Any, Optional

import click
import numpy as np
from rich.console import Console
from rich.progress import Progress

from tb_mindformers_plugin.cli.doctor import escape
from tb_mindformers_plugin.health import Finding, diagnose, verdict
from tb_mindformers_plugin.health.finding import LANGUAGES, SEVERITIES, Text
from tb_mindformers_plugin.health.robust import number
from tb_mindformers_plugin.health.spike_score import spike_score
from tb_mindformers_plugin.runs import RunContents, open_logdir
from tb_mindformers_plugin.runs.ranks import fold_ranks

_COLOURS = {"critical": "bold red", "warning": "yellow", "info": "blue", "ok": "green"}
_SEVERITIES = {
    "critical": Text("critical", "严重"),
    "warning": Text("warning", "警告"),
    "info": Text("info", "提示"),
    "ok": Text("ok", "正常"),
}
_BARS = "▁▂▃▄▅▆▇█"
_NOT_FINITE = "×"
_COLUMNS = 60
# Points shown on either side of a stretch, at least, and as a part of it.
_AROUND_POINTS, _AROUND_PART = 12, 0.4
# Evidence that people read as numbers.
_MOST_NUMBERS = 6


@click.command()
@click.argument("logdir")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the report.")
@click.option(
    "--fail-on",
    type=click.Choice(["warning", "critical"]),
    default="warning",
    show_default=True,
    help="The severity from which on the exit status is 1.",
)
@click.option("--lang", type=click.Choice(LANGUAGES), default="en", show_default=True, help="Language of the findings.")
def check(logdir: str, as_json: bool, fail_on: str, lang: str) -> None:
    """Say what is wrong with each run of LOGDIR, where, and what to try.

    LOGDIR is what `tensorboard --logdir` (or --logdir_spec) takes. Exits with 0 where no finding
    reaches --fail-on, 1 where one does, 2 where LOGDIR cannot be read or holds no metric.
    """
    try:
        store = open_logdir(logdir)
        summaries = store.summaries()
    except OSError as error:
        click.echo(f"tb-health check: {error}", err=True)
        sys.exit(2)
    jobs = fold_ranks([summary for summary in summaries if summary.roles or summary.has_manifest])
    if not jobs:
        click.echo(
            f"tb-health check: there is no run with a known metric in {logdir}; try `tb-health doctor`", err=True
        )
        sys.exit(2)
    console = Console(highlight=False, soft_wrap=True)
    worst: list[str] = []
    answers = []
    errors = Console(stderr=True)
    with Progress(console=errors, transient=True, disable=len(jobs) < 2 or not errors.is_terminal) as progress:
        for job in progress.track(jobs, description="Checking"):
            run = job.shown.name
            contents = store.load([run])[run]
            findings = diagnose(contents, now=time.time())
            scores = {role: _score(contents, role) for role in ("loss", "grad_norm")}
            worst.append(verdict(findings))
            if as_json:
                found = [finding.to_dict(run, lang) for finding in findings]
                answers.append({"run": run, "verdict": worst[-1], "spike_score": scores, "findings": found})
            else:
                _print_run(console, run, contents, findings, scores, lang)
    if as_json:
        click.echo(json.dumps({"runs": answers}, allow_nan=False, ensure_ascii=lang == "en"))
    failing = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    sys.exit(1 if any(found in failing for found in worst) else 0)


def _score(contents: RunContents, role: str) -> Optional[float]:
    curve = contents.current(role)
    score = None if curve is None else spike_score(curve.value.astype(np.float64))
    return None if score is None else round(score, 4)


def _print_run(
    console: Console,
    run: str,
    contents: RunContents,
    findings: list[Finding],
    scores: dict[str, Optional[float]],
    lang: str,
) -> None:
    result = verdict(findings)
    colour = _COLOURS[result]
    parts = []
    if scores["loss"] is not None:
        parts.append(f"{'spike score: loss' if lang == 'en' else '尖峰得分：损失'} {scores['loss']:.2g} %")
    if scores["grad_norm"] is not None:
        parts.append(f"{'grad norm' if lang == 'en' else '梯度范数'} {scores['grad_norm']:.2g} %")
    told = f"  [dim]{', '.join(parts)}[/]" if parts else ""
    console.print(f"[bold]{escape(run)}[/]  [{colour}]{_SEVERITIES[result].in_language(lang)}[/]{told}")
    for finding in findings:
        said = finding.to_dict(run, lang)
        steps = _steps(finding, lang)
        severity = _SEVERITIES[finding.severity].in_language(lang)
        console.print(f"  [{_COLOURS[finding.severity]}]{severity}[/]  {escape(finding.rule)}  {steps}")
        console.print(f"    {escape(said['message'])}")
        curve = contents.segments(finding.tag)[0] if finding.tag in contents.tags else None
        if curve is not None and len(curve):
            drawn = sparkline(curve.step, curve.value.astype(np.float64), finding.first_step, finding.last_step)
            if drawn:
                console.print(f"    [cyan]{drawn}[/]")
        numbers = _numbers(said["evidence"])
        if numbers:
            console.print(f"    [dim]{escape(numbers)}[/]")
        console.print(f"    → {escape(said['advice'])}")
    console.print()


def _steps(finding: Finding, lang: str) -> str:
    first, last, peak = (f"{step:,}" for step in (finding.first_step, finding.last_step, finding.peak_step))
    if first == last:
        return f"step {first}" if lang == "en" else f"第 {first} 步"
    if lang == "en":
        return f"steps {first} to {last}" + (f", worst at {peak}" if peak not in (first, last) else "")
    return f"第 {first} 至 {last} 步" + (f"，第 {peak} 步最严重" if peak not in (first, last) else "")


def _numbers(evidence: dict[str, Any]) -> str:
    told = [
        f"{name} {number(float(value))}"
        for name, value in evidence.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    return ", ".join(told[:_MOST_NUMBERS])


def sparkline(step: Any, value: Any, first_step: int, last_step: int, columns: int = _COLUMNS) -> str:
    """Returns a stretch of a curve, with some points around it, as a line of bars.

    A column shows the value of its points that is furthest from the median; × where one is no number.

    >>> sparkline(np.arange(8), np.array([1.0, 1, 1, 5, 1, 1, np.nan, 1]), 0, 7)
    '▁▁▁█▁▁×▁'
    """
    inside = int(np.searchsorted(step, last_step, side="right")) - int(np.searchsorted(step, first_step))
    around = max(_AROUND_POINTS, int(_AROUND_PART * inside))
    first = max(int(np.searchsorted(step, first_step)) - around, 0)
    shown = value[first : int(np.searchsorted(step, last_step, side="right")) + around]
    finite = shown[np.isfinite(shown)]
    if not len(finite):
        return _NOT_FINITE * min(len(shown), columns)
    if finite.min() > 0 and finite.max() / 100 > finite.min():
        with np.errstate(invalid="ignore"):
            shown = np.log(np.where(np.isfinite(shown), shown, np.nan))
        finite = shown[np.isfinite(shown)]
    middle, low, span = float(np.median(finite)), float(finite.min()), float(finite.max() / 2 - finite.min() / 2)
    line = ""
    for points in np.array_split(shown, min(len(shown), columns)):
        if not np.isfinite(points).all():
            line += _NOT_FINITE
        else:
            far = float(points[np.argmax(np.abs(points / 2 - middle / 2))])
            place = (far / 2 - low / 2) / span if span > 0 else 0.0
            line += _BARS[min(int(place * len(_BARS)), len(_BARS) - 1)]
    return line
