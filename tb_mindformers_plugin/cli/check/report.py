"""The reports of runs on a terminal."""

from __future__ import annotations

import collections
from typing import Any, Callable, Iterable, List, Mapping, Sequence, TypeVar

from rich.console import Console

from tb_mindformers_plugin.cli.check.examine import RunReport
from tb_mindformers_plugin.cli.printable import escape
from tb_mindformers_plugin.health.finding import SEVERITIES, VERDICT_NAMES, Text, few_of_each
from tb_mindformers_plugin.language import number

_VERDICTS = (*SEVERITIES, "ok")
_COLOURS = {"critical": "bold red", "warning": "yellow", "info": "blue", "ok": "green"}
_SCORES = {"loss": Text("spike score: loss", "尖峰得分：损失"), "grad_norm": Text("grad norm", "梯度范数")}
# Evidence that people read as numbers.
_MOST_NUMBERS = 6

_Thing = TypeVar("_Thing")


def worst_first(things: Iterable[_Thing], verdict: Callable[[_Thing], str]) -> List[_Thing]:
    """Returns things by their verdict, those of one verdict in the order in which they came."""
    return sorted(things, key=lambda thing: _VERDICTS.index(verdict(thing)))


def print_report(console: Console, report: RunReport, lang: str) -> None:
    """Prints what there is to say of one run."""
    english = lang == "en"
    parts = []
    for role, words in _SCORES.items():
        score = report.spike_score[role]
        if score is not None:
            parts.append(f"{words.in_language(lang)} {score:.2g} %")
    told = f"  [dim]{(', ' if english else '，').join(parts)}[/]" if parts else ""
    console.print(f"[bold]{escape(report.run)}[/]  {severity(report.verdict or '', lang)}{told}")
    drawn = zip(report.findings, report.sparklines)
    shown, left = few_of_each(drawn, lambda one: (one[0]["severity"], one[0]["rule"]))
    for finding, line in shown:
        console.print(f"  {severity(finding['severity'], lang)}  {escape(finding['rule'])}  {steps(finding, lang)}")
        print_details(console, finding, line)
    for (level, rule), count in left.items():
        more = f"{count:,} more, which --json lists" if english else f"另有 {count:,} 条，见 --json"
        console.print(f"  {severity(level, lang)}  {escape(rule)}  {more}")
    if report.findings:
        console.print()


def print_details(console: Console, finding: Mapping[str, Any], drawn: str) -> None:
    """Prints what there is to say of a finding below the line that names it."""
    console.print(f"    {escape(finding['message'])}")
    if drawn:
        console.print(f"    [cyan]{drawn}[/]")
    numbers = _numbers(finding["evidence"])
    if numbers:
        console.print(f"    [dim]{escape(numbers)}[/]")
    console.print(f"    → {escape(finding['advice'])}")


def print_count(console: Console, verdicts: Sequence[str], lang: str) -> None:
    """Prints how many runs there are of each verdict."""
    count = collections.Counter(verdicts)
    told = [f"{count[verdict]} {severity(verdict, lang)}" for verdict in _VERDICTS if count[verdict]]
    runs = len(verdicts)
    if lang == "en":
        console.print(f"{runs:,} run{'s' if runs != 1 else ''}: {', '.join(told)}")
    else:
        console.print(f"共 {runs:,} 个运行：{'，'.join(told)}")


def severity(name: str, lang: str) -> str:
    """Returns a severity or a verdict in its colour."""
    return f"[{_COLOURS[name]}]{VERDICT_NAMES[name].in_language(lang)}[/]"


def steps(finding: Mapping[str, Any], lang: str) -> str:
    """Returns which steps a finding spans."""
    first, last, peak = (f"{finding[name]:,}" for name in ("first_step", "last_step", "peak_step"))
    if first == last:
        return f"step {first}" if lang == "en" else f"第 {first} 步"
    if lang == "en":
        return f"steps {first} to {last}" + (f", worst at {peak}" if peak not in (first, last) else "")
    return f"第 {first} 至 {last} 步" + (f"，第 {peak} 步最严重" if peak not in (first, last) else "")


def _numbers(evidence: Mapping[str, Any]) -> str:
    told = [
        f"{name} {number(float(value))}"
        for name, value in evidence.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    return ", ".join(told[:_MOST_NUMBERS])
