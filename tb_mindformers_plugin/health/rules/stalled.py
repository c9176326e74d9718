"""Rule `stalled`: no news from a run that has not ended.

Definition: no record for max(30 minutes, 10 times the median time between points), and the run has not
said that it ended. Warning for a run of this package's writers, which would have said so; info for
another, and for a log that was last written more than a day ago.

Source: the same bounds as the run's status in the listing.

Quiet when: the run ended; the current time is unknown; another framework's log older than a day. In the tab it
is the run's status, not a finding.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.series import RunSeries

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

    seconds: float = 1800.0
    intervals: float = 10.0


def stalled(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns at most one finding, at the last point.

    >>> from tb_mindformers_plugin.health.series import of_arrays
    >>> from tb_mindformers_plugin.metadata import RunManifest
    >>> loss = (np.arange(100), 1e9 + np.arange(100), np.ones(100))
    >>> [f.severity for f in stalled(of_arrays({"loss": loss}, RunManifest(), now=1e9 + 10_000))]
    ['warning']
    """
    if run.now is None or run.ended or run.last_wall is None or not run.curves:
        return []
    curve = run.curves.get("loss") or max(run.curves.values(), key=len)
    gaps = np.diff(curve.wall)
    gaps = gaps[np.isfinite(gaps)]
    usual = float(np.median(gaps)) if len(gaps) else 0.0
    silent = run.now - run.last_wall
    archived = silent > _DAY
    if silent <= max(parameters.seconds, parameters.intervals * usual) or (archived and not run.has_manifest):
        return []
    last = len(curve) - 1
    step = int(curve.step[last])
    for_en, for_zh = _duration(silent)
    return [
        curve.finding(
            RULE.id,
            "warning" if run.has_manifest and not archived else "info",
            (last, last, last),
            Text(
                f"No record for {for_en} since step {step:,}, and the run has not said that it ended.",
                f"自第 {step:,} 步起已 {for_zh}没有新记录，且训练没有结束标记。",
            ),
            _ADVICE["stalled"],
            {"silent_seconds": silent, "usual_seconds": usual, "archived": archived},
        )
    ]


def _duration(seconds: float) -> tuple[str, str]:
    if seconds >= 2 * _DAY:
        return f"{seconds / _DAY:.0f} days", f"{seconds / _DAY:.0f} 天"
    if seconds >= 2 * 3600:
        return f"{seconds / 3600:.0f} hours", f"{seconds / 3600:.0f} 小时"
    return f"{seconds / 60:.0f} minutes", f"{seconds / 60:.0f} 分钟"


RULE = Rule(
    id="stalled",
    title=Text("no news", "长时间没有新记录"),
    function=stalled,
    parameters=Parameters,
    reads=(),
    severities=("warning", "info"),
    advice=_ADVICE,
)
