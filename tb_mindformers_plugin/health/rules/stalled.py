"""Rule `stalled`: no news from a run that has not ended.

Definition: no record for max(30 minutes, 10 times the median time between points), and the run has not
said that it ended. Warning for a run of this package's writers, which would have said so; info for
another, and for a log that was last written more than a day ago.

Source: the same bounds as the run's status in the tab's list of runs.

Quiet when: the run ended; the current time is unknown; another framework's log older than a day.
"""

from __future__ import annotations

import dataclasses
import datetime

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.series import RunSeries, leading
from tb_mindformers_plugin.runs import silence

_ADVICE = {
    "stalled": Text(
        "Look whether the process is alive: a hung collective, a full disk and a killed job all look like this.",
        "确认训练进程是否仍在运行：集合通信挂起、磁盘写满或作业被杀都会如此。",
    )
}
_DAY = 86_400.0


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `stalled`.

    Attributes:
      seconds: least silence.
      intervals: least silence, in times between points.
    """

    seconds: float = silence.SECONDS
    intervals: float = silence.INTERVALS


def stalled(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns at most one finding, at the last point.

    >>> import numpy as np
    >>> from tb_mindformers_plugin.health.series import of_arrays
    >>> from tb_mindformers_plugin.metadata import RunManifest
    >>> loss = (np.arange(100), 1e9 + np.arange(100), np.ones(100))
    >>> [f.severity for f in stalled(of_arrays({"loss": loss}, RunManifest(), now=1e9 + 10_000))]
    ['warning']
    """
    if run.now is None or run.ended or run.last_wall is None or not run.curves:
        return []
    curve = leading(run.curves)
    usual = silence.usual_interval(curve.wall)
    silent = run.now - run.last_wall
    archived = silent > _DAY
    if silent <= max(parameters.seconds, parameters.intervals * usual) or (archived and not run.has_manifest):
        return []
    last = len(curve) - 1
    step = int(curve.step[last])
    since = _date(run.last_wall)
    return [
        curve.finding(
            RULE.id,
            "warning" if run.has_manifest and not archived else "info",
            (last, last, last),
            Text(
                f"No record since step {step:,}{since.en}, and the run has not said that it ended.",
                f"自第 {step:,} 步{since.zh}起没有新记录，且训练没有结束标记。",
            ),
            _ADVICE["stalled"],
            {"silent_seconds": silent, "usual_seconds": usual, "archived": archived},
        )
    ]


def _date(seconds: float) -> Text:
    """When that was: it stays true for as long as the run is silent."""
    try:
        at = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, OSError, ValueError):  # what a file says of its times may be anything
        return Text("", "")
    return Text(f" ({at})", f"（{at}）")


RULE = Rule(
    id="stalled",
    title=Text("no news", "长时间没有新记录"),
    function=stalled,
    parameters=Parameters,
    reads=(),
    severities=("warning", "info"),
    advice=_ADVICE,
)
