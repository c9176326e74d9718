"""``tb-health compare``: runs against a baseline, for the precision check after a move."""

from __future__ import annotations

import json
import sys
from typing import Any, List, Optional, Sequence, Tuple

import click
from rich.console import Console

from tb_mindformers_plugin.cli.choice import tolerance_option
from tb_mindformers_plugin.cli.doctor import escape
from tb_mindformers_plugin.compare import AlignmentError, Comparison, Tolerance, compare, wording
from tb_mindformers_plugin.compare.align import AXES
from tb_mindformers_plugin.language import LANGUAGES, Text, number, share
from tb_mindformers_plugin.roles import ROLES
from tb_mindformers_plugin.runs import RunContents, open_logdir

_COLOURS = {"same": "green", "ratio": "yellow", "offset": "yellow", "differs": "red"}
# Settings shown in the report; --json has all of them.
_MOST_SETTINGS = 20

Found = Tuple[str, Comparison]


@click.command("compare")
@click.argument("logdir")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--baseline", required=True, metavar="RUN", help="The run that the others are compared with.")
@click.option("--role", type=click.Choice(list(ROLES)), default="loss", show_default=True, help="What is compared.")
@click.option(
    "--x",
    "axis",
    type=click.Choice(AXES),
    help="Which points belong together; by default those of the same step, or of the same samples (tokens) where a "
    "step of one run is not a step of the other.",
)
@tolerance_option
@click.option("--absolute", type=float, default=0.0, help="Added to the tolerance, in the unit of the values.")
@click.option(
    "--points",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="The curves part where, from a point beyond the tolerance on, more than half of so many are.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the report.")
@click.option("--lang", type=click.Choice(LANGUAGES), default="en", show_default=True, help="Language of the words.")
def compare_command(
    logdir: str,
    runs: Sequence[str],
    baseline: str,
    role: str,
    axis: Optional[str],
    tolerance: float,
    absolute: float,
    points: int,
    as_json: bool,
    lang: str,
) -> None:
    """Compare runs of LOGDIR (all where none is named) with a baseline, point by point.

    LOGDIR is what `tensorboard --logdir` takes; two places at once go as `new:/path/a,old:/path/b`. Exits with 0 where
    every run is the same as the baseline within the tolerance, 1 where one is not, 2 where a named run cannot be
    compared, or none can.
    """
    try:
        allowed = Tolerance(tolerance, absolute, points)
        store = open_logdir(logdir)
    except (OSError, ValueError) as error:
        _fail(str(error))
    for name in (baseline, *runs):
        if name not in store.runs:
            _fail(f"there is no run {name!r} in {logdir}; its runs: {', '.join(store.runs) or 'none'}")
    chosen = list(runs) or [name for name in store.runs if name != baseline]
    reference = store.load([baseline])[baseline]
    found: List[Found] = []
    problems = []
    for name in chosen:
        try:
            found.append((name, compare(store.load([name])[name], reference, role, axis, allowed)))
        except AlignmentError as error:
            problems.append(f"{name}: {error}")
    for problem in problems:
        click.echo(f"tb-health compare: {problem}", err=True)
    if as_json:
        answers = [comparison.to_dict(name, baseline, lang) for name, comparison in found]
        click.echo(
            json.dumps({"comparisons": answers, "problems": problems}, allow_nan=False, ensure_ascii=lang == "en")
        )
    else:
        console = Console(highlight=False, soft_wrap=True)
        _print_baseline(console, baseline, reference, role, lang)
        for name, comparison in found:
            _print(console, name, comparison, lang)
    if not found or (runs and problems):
        sys.exit(2)
    sys.exit(1 if any(comparison.verdict != "same" for _, comparison in found) else 0)


def _fail(message: str) -> None:
    click.echo(f"tb-health compare: {message}", err=True)
    sys.exit(2)


def _print_baseline(console: Console, baseline: str, run: RunContents, role: str, lang: str) -> None:
    curve = run.current(role)
    points = f"{len(curve):,}" if curve is not None else "0"
    said = Text(f"{points} points of {ROLES[role].title}", f"{ROLES[role].title} 共 {points} 个点")
    console.print(
        f"[bold]{escape(baseline)}[/]  {Text('baseline', '基线').in_language(lang)}, {said.in_language(lang)}\n"
    )


def _print(console: Console, run: str, comparison: Comparison, lang: str) -> None:
    title = wording.title(comparison).in_language(lang)
    console.print(f"[bold]{escape(run)}[/]  [{_COLOURS[comparison.verdict]}]{escape(title)}[/]")
    console.print(f"  {escape(wording.message(comparison).in_language(lang))}")
    for note in wording.notes(comparison):
        console.print(f"  [yellow]![/] {escape(note.in_language(lang))}")
    rows = _rows(comparison)
    width = max(len(name.en) for name, _ in rows)
    for name, value in rows:
        console.print(f"  [dim]{name.in_language(lang).ljust(width if lang == 'en' else 0)}  {escape(value)}[/]")
    console.print()


def _rows(comparison: Comparison) -> List[Tuple[Text, str]]:
    errors = comparison.errors
    rows = [
        (
            Text("absolute error", "绝对误差"),
            f"mean {errors.mean_absolute:.4g}, RMS {errors.rms_absolute:.4g}, max {errors.max_absolute:.4g}",
        ),
        (
            Text("relative error", "相对误差"),
            f"mean {share(errors.mean_relative)}, RMS {share(errors.rms_relative)}, max {share(errors.max_relative)}, "
            f"signed mean {share(errors.bias)}",
        ),
        (
            Text("beyond", "超出容差"),
            f"{errors.beyond:,} / {errors.points:,}"
            + ("" if comparison.first_step_beyond is None else f", first at step {comparison.first_step_beyond:,}"),
        ),
    ]
    lr, pairs = comparison.lr, comparison.lr_pairs
    if lr is not None and pairs is not None:
        first = lr.first_beyond
        said = (
            "same"
            if first is None
            else f"differs from step {int(pairs.step[first]):,}: {number(float(pairs.value[first]))} against "
            f"{number(float(pairs.baseline[first]))}"
        )
        rows.append((Text("learning rate", "学习率"), said))
    if comparison.speed is not None:
        mine, theirs = comparison.speed
        rows.append((Text("step time", "单步耗时"), f"{mine:.4g} s against {theirs:.4g} s"))
    shown = comparison.settings[:_MOST_SETTINGS]
    rows.extend(
        (Text(setting.name, setting.name), f"{_said(setting.value)} against {_said(setting.baseline)}")
        for setting in shown
    )
    if len(comparison.settings) > len(shown):
        rows.append((Text("…", "…"), f"{len(comparison.settings) - len(shown)} more settings differ (--json has them)"))
    return rows


def _said(value: Any) -> str:
    return "not given" if value is None else json.dumps(value, ensure_ascii=False, default=str)
