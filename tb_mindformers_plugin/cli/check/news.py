"""How `tb-health check --watch` tells its news: as text, or as JSON lines."""

from __future__ import annotations

import time
from typing import Any, Mapping, Sequence

import click
from rich.console import Console

from tb_mindformers_plugin.cli.check import report
from tb_mindformers_plugin.cli.check.examine import drawn
from tb_mindformers_plugin.cli.check.watch import UPDATE, News
from tb_mindformers_plugin.cli.printable import escape, json_line
from tb_mindformers_plugin.runs import RunContents

# More runs that appear at once are counted, not named.
_MOST_NAMES = 8


class Terminal:
    """Tells people.

    Args:
      lang: language of the findings.
      interval: seconds between looks.
    """

    def __init__(self, lang: str, interval: float) -> None:
        self._lang = lang
        self._console = Console(highlight=False, soft_wrap=True)
        english = lang == "en"
        self._say(
            f"Watching, a look every {interval:g} s; Ctrl-C ends it."
            if english
            else f"持续监视中，每 {interval:g} 秒查看一次；按 Ctrl-C 结束。"
        )

    def runs(self, names: Sequence[str]) -> None:
        """Says which runs are followed from now on."""
        english = self._lang == "en"
        words = "following" if english else "开始监视"
        for name in names if len(names) <= _MOST_NAMES else ():
            self._say(f"{_clock()}  {words} [bold]{escape(name)}[/]")
        if len(names) > _MOST_NAMES:
            self._say(f"{_clock()}  {words} {len(names):,} {'runs' if english else '个运行'}")

    def news(self, run: str, contents: RunContents, news: Sequence[News]) -> None:
        """Prints what is new in a run."""
        for kind, finding in news:
            said = finding.to_dict(run, self._lang)
            update = ("update: " if self._lang == "en" else "更新：") if kind == UPDATE else ""
            severity = report.severity(finding.severity, self._lang)
            self._say(
                f"{_clock()}  [bold]{escape(run)}[/]  {update}{severity}  {escape(finding.rule)}  "
                f"{report.steps(said, self._lang)}"
            )
            report.print_details(self._console, said, drawn(contents, finding))

    def end(self, verdicts: Mapping[str, str]) -> None:
        """Prints how the runs are by now, worst first."""
        self._console.print()
        for run, verdict in report.worst_first(verdicts.items(), lambda item: item[1]):
            self._say(f"[bold]{escape(run)}[/]  {report.severity(verdict, self._lang)}")
        if verdicts:
            report.print_count(self._console, list(verdicts.values()), self._lang)

    def _say(self, text: str) -> None:
        self._console.print(text)


class JsonLines:
    """Tells programs: a JSON object a line (docs/cli.md).

    Args:
      lang: language of the findings.
    """

    def __init__(self, lang: str) -> None:
        self._lang = lang

    def runs(self, names: Sequence[str]) -> None:
        """Says nothing: a run is told of when there is something to tell."""

    def news(self, run: str, contents: RunContents, news: Sequence[News]) -> None:
        """Prints what is new in a run."""
        for kind, finding in news:
            self._say({"event": kind, "finding": finding.to_dict(run, self._lang)})

    def end(self, verdicts: Mapping[str, str]) -> None:
        """Prints how the runs are by now."""
        self._say({"event": "end", "runs": [{"run": run, "verdict": verdicts[run]} for run in sorted(verdicts)]})

    def _say(self, line: Any) -> None:
        click.echo(json_line(line, self._lang))


def _clock() -> str:
    return time.strftime("%H:%M:%S")
