"""Rule `two_writers`: several processes write one directory.

Definition: event files whose wall times overlap and that hold the same tags, as the reading of the run
tells them apart. Warning.

Source: measured definition of this project.

Quiet when: one file follows the other, as after a restart.
"""

from __future__ import annotations

import dataclasses

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.series import RunSeries

_ADVICE = {
    "writers": Text(
        "Give every process a directory of its own, or let one rank write: these curves mix several trainings.",
        "为每个进程指定单独的目录，或只让一个 rank 写日志：当前曲线混合了多个训练。",
    )
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """`two_writers` has no parameters."""


def two_writers(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns at most one finding.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> run = dataclasses.replace(of_values(loss=[2.0, 1.0]), second_writers=("events.2",))
    >>> [found.severity for found in two_writers(run)]
    ['warning']
    """
    if not run.second_writers or not run.curves:
        return []
    curve = run.curves.get("loss") or max(run.curves.values(), key=len)
    files = ", ".join(run.second_writers)
    return [
        curve.finding(
            RULE.id,
            "warning",
            (0, len(curve) - 1, 0),
            Text(
                f"Several processes wrote this run at the same time: {files} beside the first.",
                f"多个进程同时写入此训练的目录：除第一个文件外还有 {files}。",
            ),
            _ADVICE["writers"],
            {"files": len(run.second_writers) + 1},
        )
    ]


RULE = Rule(
    id="two_writers",
    title=Text("several processes write one directory", "多个进程写入同一目录"),
    function=two_writers,
    parameters=Parameters,
    reads=(),
    severities=("warning",),
    advice=_ADVICE,
)
