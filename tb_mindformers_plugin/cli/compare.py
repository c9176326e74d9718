"""``tb-health compare``: runs against a baseline, for the precision check after a move."""

from __future__ import annotations

import json
import math
import sys
from typing import Any, List, Optional, Sequence, Tuple

import click
from rich.console import Console

from tb_mindformers_plugin.cli.choice import complain, fail, tolerance_option
from tb_mindformers_plugin.cli.printable import escape, json_line
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
        fail("compare", str(error))
    for name in (baseline, *runs):
        if name not in store.runs:
            fail("compare", f"there is no run {name!r} in {logdir}; its runs: {', '.join(store.runs) or 'none'}")
    chosen = list(runs) or [name for name in store.runs if name != baseline]
    if not chosen:
        fail(
            "compare",
            f"there is no other run than {baseline!r} in {logdir}; "
            "two directories are given as new:/path/a,old:/path/b",
        )
    reference = store.load([baseline])[baseline]
    found: List[Found] = []
    problems = []
    for name in chosen:
        try:
            found.append((name, compare(store.load([name])[name], reference, role, axis, allowed)))
        except AlignmentError as error:
            problems.append(f"{name}: {error}")
    for problem in problems:
        complain("compare", problem)
    if as_json:
        answers = [comparison.to_dict(name, baseline, lang) for name, comparison in found]
        click.echo(json_line({"comparisons": answers, "problems": problems}, lang))
    else:
        console = Console(highlight=False, soft_wrap=True)
        _print_baseline(console, baseline, reference, role, lang)
        for name, comparison in found:
            _print(console, name, comparison, lang)
    if not found or (runs and problems):
        sys.exit(2)
    sys.exit(1 if any(comparison.verdict != "same" for _, comparison in found) else 0)


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
        console.print(
            f"  [dim]{name.in_language(lang).ljust(width if lang == 'en' else 0)}  {escape(value.in_language(lang))}[/]"
        )
    console.print()


def _rows(comparison: Comparison) -> List[Tuple[Text, Text]]:
    return [*_error_rows(comparison), *_lr_and_speed_rows(comparison), *_settings_rows(comparison)]


def _error_rows(comparison: Comparison) -> List[Tuple[Text, Text]]:
    errors, first = comparison.errors, comparison.first_step_beyond
    mean, rms, largest = map(_amount, (errors.mean_absolute, errors.rms_absolute, errors.max_absolute))
    parts = map(share, (errors.mean_relative, errors.rms_relative, errors.max_relative, errors.bias))
    mean_part, rms_part, largest_part, bias = parts
    beyond = f"{errors.beyond:,} / {errors.points:,}"
    return [
        (
            Text("absolute error", "绝对误差"),
            Text(f"mean {mean}, RMS {rms}, max {largest}", f"平均 {mean}，均方根 {rms}，最大 {largest}"),
        ),
        (
            Text("relative error", "相对误差"),
            Text(
                f"mean {mean_part}, RMS {rms_part}, max {largest_part}, signed mean {bias}",
                f"平均 {mean_part}，均方根 {rms_part}，最大 {largest_part}，带符号平均 {bias}",
            ),
        ),
        (
            Text("beyond", "超出容差"),
            Text(beyond, beyond)
            if first is None
            else Text(f"{beyond}, first at step {first:,}", f"{beyond}，首次在第 {first:,} 步"),
        ),
    ]


def _lr_and_speed_rows(comparison: Comparison) -> List[Tuple[Text, Text]]:
    rows = []
    lr, pairs = comparison.lr, comparison.lr_pairs
    if lr is not None and pairs is not None:
        said = Text("same", "相同")
        if lr.first_beyond is not None:
            first = lr.first_beyond
            step, mine, theirs = pairs.step[first], float(pairs.value[first]), float(pairs.baseline[first])
            said = Text(
                f"differs from step {int(step):,}: {number(mine)} against {number(theirs)}",
                f"自第 {int(step):,} 步起不同：{number(mine)}，基线 {number(theirs)}",
            )
        rows.append((Text("learning rate", "学习率"), said))
    if comparison.speed is not None:
        mine, theirs = comparison.speed
        said = Text(f"{mine:.4g} s against {theirs:.4g} s", f"{mine:.4g} 秒，基线 {theirs:.4g} 秒")
        rows.append((Text("step time", "单步耗时"), said))
    return rows


def _settings_rows(comparison: Comparison) -> List[Tuple[Text, Text]]:
    shown = comparison.settings[:_MOST_SETTINGS]
    rows = []
    for setting in shown:
        mine, theirs = _said(setting.value), _said(setting.baseline)
        said = Text(f"{mine.en} against {theirs.en}", f"{mine.zh}，基线 {theirs.zh}")
        rows.append((Text(setting.name, setting.name), said))
    more = len(comparison.settings) - len(shown)
    if more:
        said = Text(f"{more} more settings differ (--json has them)", f"另有 {more} 项设置不同（见 --json）")
        rows.append((Text("…", "…"), said))
    return rows


def _amount(value: float) -> str:
    return "n/a" if math.isnan(value) else f"{value:.4g}"


def _said(value: Any) -> Text:
    if value is None:
        return Text("not given", "未给出")
    said = json.dumps(value, ensure_ascii=False, default=str)
    return Text(said, said)
