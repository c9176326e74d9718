"""What a listing says of a run."""

from __future__ import annotations

import dataclasses
import math
from typing import Iterator, Optional

import numpy as np

from tb_mindformers_plugin.language import Text
from tb_mindformers_plugin.metadata import HealthEvent, RunManifest
from tb_mindformers_plugin.roles import ROLES
from tb_mindformers_plugin.runs import axes
from tb_mindformers_plugin.runs.contents import RunContents, Segment
from tb_mindformers_plugin.runs.silence import usual_interval

# Sentences of one kind: whoever reads twenty has understood.
_MOST_NOTES = 20

# The largest whole number that a browser, which has float64 alone, tells from the next.
_EXACT_STEPS = 2**53


@dataclasses.dataclass(frozen=True)
class SeriesSummary:
    """One series of a run.

    Attributes:
      tag, unit: as logged.
      points: how many, superseded ones included; None where the run was only peeked into.
      first_step, last_step, last_value: of the curve.
    """

    tag: str
    unit: str
    points: Optional[int]
    first_step: int
    last_step: int
    last_value: float


@dataclasses.dataclass(frozen=True)
class RunSummary:
    """One run.

    Attributes:
      name: TensorBoard's name of the run.
      exact: whether all of the run was read; else its beginning and its end were.
      has_manifest: whether it has a manifest that could be read.
      manifest: the newest one; an empty one where there is none.
      roles: role -> series.
      framework: whose names the tags follow, where that can be told.
      tags: scalar tags.
      ended: the ``end`` event of the newest start.
      last_wall: latest finite wall time of any record.
      interval: median seconds between logged points, of the last 10,000.
      seconds_per_step: median of late; None where there are no two steps with a clock that goes forward.
      axes: x axes that it can be drawn on.
      restarts: steps at which it was taken up again.
      events: its health events but overflows (those are a series as well), in the order of writing.
      notes: what a reader of its curves should know, each a sentence.
      unreadable: what of it cannot be read at this moment, each a sentence; among the notes, too.
    """

    name: str
    exact: bool
    has_manifest: bool
    manifest: RunManifest
    roles: dict[str, SeriesSummary]
    framework: Optional[str]
    tags: tuple[str, ...]
    ended: Optional[HealthEvent]
    last_wall: Optional[float]
    interval: float
    seconds_per_step: Optional[float]
    axes: tuple[str, ...]
    restarts: tuple[int, ...]
    events: tuple[HealthEvent, ...]
    notes: tuple[Text, ...]
    unreadable: tuple[str, ...] = ()


def summarise(name: str, contents: RunContents, exact: bool) -> RunSummary:
    """Returns the summary of a run of which `contents` were read: all (`exact`), or the ends."""
    first_role = next(iter(contents.roles), None)
    restarts = contents.segmentation(contents.roles[first_role].tag).restarts if first_role else ()
    return RunSummary(
        name=name,
        exact=exact,
        has_manifest=contents.has_manifest,
        manifest=contents.manifest,
        roles={role: _series(contents, role, exact) for role in contents.roles},
        framework=contents.framework,
        tags=tuple(contents.tags),
        ended=contents.ended,
        last_wall=contents.last_wall,
        interval=_interval(contents, first_role),
        seconds_per_step=_seconds_per_step(contents.current(first_role)) if first_role else None,
        axes=tuple(axes.available(contents)),
        restarts=restarts,
        events=tuple(event for event in contents.events if event.kind != "overflow"),
        notes=tuple(_notes(contents)),
        unreadable=tuple(contents.unreadable),
    )


def unreadable(name: str, note: str) -> RunSummary:
    """Returns the summary of a run of which nothing is known but why."""
    contents = RunContents([])
    return dataclasses.replace(summarise(name, contents, exact=False), notes=(_untranslated(note),), unreadable=(note,))


def _series(contents: RunContents, role: str, exact: bool) -> SeriesSummary:
    match = contents.roles[role]
    segments = contents.segments(match.tag)
    curve = segments[0]
    return SeriesSummary(
        tag=match.tag,
        unit=match.unit,
        points=sum(len(segment) for segment in segments) if exact else None,
        first_step=int(curve.step[0]),
        last_step=int(curve.step[-1]),
        last_value=float(curve.value[-1]),
    )


def _interval(contents: RunContents, role: Optional[str]) -> float:
    curve = contents.current(role) if role else None
    return 0.0 if curve is None else usual_interval(curve.wall)


# So many of the newest points say how fast a run is now; a stretch before them may have been slower.
_RECENT = 64


def _seconds_per_step(curve: Optional[Segment]) -> Optional[float]:
    if curve is None or len(curve) < 2:
        return None
    with np.errstate(all="ignore"):  # a clock may be as wrong as numbers go
        steps, seconds = np.diff(curve.step[-_RECENT:]), np.diff(curve.wall[-_RECENT:])
        usable = (steps > 0) & (seconds > 0) & np.isfinite(seconds)
        median = float(np.median(seconds[usable] / steps[usable])) if usable.any() else math.inf
    return median if math.isfinite(median) else None


def _notes(contents: RunContents) -> list[Text]:
    said = [_untranslated(problem) for problem in dict.fromkeys([*contents.unreadable, *contents.problems])]
    if len(said) > _MOST_NOTES:
        more = f"{len(said) - _MOST_NOTES:,}"
        said[_MOST_NOTES:] = [Text(f"{more} more problems of this kind.", f"还有 {more} 个同类问题。")]
    return [
        *said,
        *_damage(contents),
        *_ending(contents),
        *_writers(contents),
        *_restarts(contents),
        *_points(contents),
    ]


def _untranslated(sentence: str) -> Text:
    """What a reader or the operating system says of a file."""
    return Text(sentence, sentence)


def _damage(contents: RunContents) -> Iterator[Text]:
    for file, damage in contents.damage[:_MOST_NOTES]:
        size = damage.stop - damage.start
        yield Text(
            f"{file}: {size} damaged bytes at byte {damage.start} were skipped: {damage.reason}.",
            f"{file}：跳过了第 {damage.start} 字节处的 {size} 个损坏字节：{damage.reason}。",
        )
    if len(contents.damage) > _MOST_NOTES:
        more = f"{len(contents.damage) - _MOST_NOTES:,}"
        yield Text(f"{more} more damaged stretches were skipped.", f"另外跳过了 {more} 处损坏。")


def _ending(contents: RunContents) -> Iterator[Text]:
    end = contents.ended
    if end is not None and end.fields.get("status") == "failed":
        error = end.fields.get("error")
        yield Text(
            f"The training failed at step {end.step:,}: {error or 'no error was given'}.",
            f"训练在第 {end.step:,} 步失败：{error or '没有给出错误'}。",
        )
    elif end is not None and end.fields.get("status") == "stopped":
        yield Text(f"The training was stopped at step {end.step:,}.", f"训练在第 {end.step:,} 步被停止。")
    if not contents.roles and contents.has_manifest:
        yield Text("The run has begun, but no metric is logged yet.", "运行已开始，但还没有记录指标。")


def _writers(contents: RunContents) -> Iterator[Text]:
    if contents.second_writers:
        files = ", ".join(contents.second_writers)
        yield Text(
            f"Several processes wrote this run at the same time ({files} beside the first): each has a curve of its "
            "own. Give every process its own directory.",
            f"多个进程同时写入该运行（除第一个外还有 {files}）：每个进程有自己的曲线。请为每个进程指定单独的目录。",
        )


def _restarts(contents: RunContents) -> Iterator[Text]:
    first = next(iter(contents.roles.values()), None)
    if first is None:
        return
    found = contents.segmentation(first.tag)
    for step in found.restarts:
        yield Text(f"The run was taken up again at step {step:,}.", f"该运行从第 {step:,} 步恢复训练。")
    if found.superseded:
        yield Text(
            f"What restarts left behind is shown faint: {found.superseded:,} points.",
            f"被重启取代的 {found.superseded:,} 个点以浅色显示。",
        )


def _points(contents: RunContents) -> Iterator[Text]:
    for role, match in contents.roles.items():
        title = ROLES[role].title
        stray = contents.segmentation(match.tag).stray
        if stray:
            many = f"{stray} points out of order are" if stray > 1 else "a point out of order is"
            yield Text(
                f"{title}: {many} shown apart from the curve.",
                f"{title}：{stray} 个乱序的点与曲线分开显示。",
            )
        if abs(int(contents.segments(match.tag)[0].step[-1])) > _EXACT_STEPS:
            yield Text(
                f"{title}: steps beyond 2^53 are rounded in the browser.",
                f"{title}：超过 2^53 的步数在浏览器中会被舍入。",
            )
