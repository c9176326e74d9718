"""Groups of runs: told apart by their names, copied under tags of their own, or summed up in statistics.

A chart of Custom Scalars takes series by tag, of whatever runs. Charts of some runs therefore need series with tags
of their own, which are written as runs beside the layout.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Tuple

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.export.table import as_utf8
from tb_mindformers_plugin.layout.charts import Category, Chart, LayoutError, Margin
from tb_mindformers_plugin.roles import ROLES
from tb_mindformers_plugin.runs import axes
from tb_mindformers_plugin.runs.contents import RunContents, Segment

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

#: Directories, and beginnings of the tags, of what is written beside a layout.
AGGREGATE, GROUP = "aggregate", "group"

# TensorBoard keeps 1,000 points of a series: two of each of so many stretches.
_STRETCHES = 500

STATISTICS: Mapping[str, Callable[[Floats], Floats]] = {
    "mean": lambda values: values.mean(axis=0),
    "min": lambda values: values.min(axis=0),
    "max": lambda values: values.max(axis=0),
    "median": lambda values: np.median(values, axis=0),
    "lower_quartile": lambda values: np.quantile(values, 0.25, axis=0),
    "upper_quartile": lambda values: np.quantile(values, 0.75, axis=0),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Points:
    """A series to be written.

    Attributes:
      tag: its tag.
      step: (n,) int64, ascending.
      wall: (n,) float64 seconds since the Unix epoch.
      value: (n,) numbers.
    """

    tag: str
    step: Indices
    wall: Floats
    value: npt.NDArray[Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Generated:
    """What is to be written beside a layout.

    Attributes:
      directory: of the run, relative to where the layout is written.
      series: what it holds.
    """

    directory: str
    series: Tuple[Points, ...]


def named_groups(names: Iterable[str], regex: re.Pattern[str]) -> dict[str, list[str]]:
    """Returns group -> runs, a group being what `regex` finds in their names: its parts in parentheses, or all of it.

    >>> named_groups(["a_lr1", "b_lr1", "a_lr2", "c"], re.compile("lr[0-9]"))
    {'lr1': ['a_lr1', 'b_lr1'], 'lr2': ['a_lr2']}
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        found = regex.search(name)
        if found is not None:
            group = "_".join(filter(None, found.groups())) or found.group()
            if group:  # "(lr1)?" is found in every name, most often as nothing
                groups.setdefault(as_utf8(group), []).append(name)
    return groups


def repeated_runs(names: Iterable[str], regex: re.Pattern[str]) -> dict[str, list[str]]:
    """Returns group -> runs whose names differ in nothing but what `regex` finds: its parts in parentheses, or all.

    >>> repeated_runs(["a_seed1", "a_seed2", "b_seed1"], re.compile(r"seed([0-9]+)"))
    {'a_seedN': ['a_seed1', 'a_seed2'], 'b_seedN': ['b_seed1']}
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        found = regex.search(name)
        if found is not None:
            groups.setdefault(as_utf8(_without(name, found)), []).append(name)
    return groups


def _without(name: str, found: re.Match[str]) -> str:
    parts = range(1, len(found.groups()) + 1) if found.groups() else (0,)
    spans = sorted(found.span(part) for part in parts if found.span(part) != (-1, -1))
    text, end = "", 0
    for start, stop in spans:
        if start >= end:  # a part within a part is gone with it
            text, end = text + name[end:start] + "N", stop
    return text + name[end:]


def aggregate(group: str, members: Mapping[str, RunContents], roles: Sequence[str]) -> Tuple[Generated, list[str]]:
    """Returns statistics over the runs of a group, at each step that all of them have, and what is to be said of them.

    Args:
      group: its name.
      members: run name -> run, at least two.
      roles: what to sum up; of each role the runs that log it.

    Raises:
      LayoutError: the steps of the runs do not count the same, or no role has a common step.
    """
    counts = {axes.steps_count(run) for run in members.values()}
    if len(counts) > 1:
        said = ", ".join(f"{name} counts {axes.steps_count(run)}" for name, run in members.items())
        raise LayoutError(
            f"group {group}: its runs are on different axes ({said}); group runs of one framework, with another regex"
        )
    series: list[Points] = []
    notes: list[str] = []
    apart: list[str] = []
    for role in roles:
        found = {name: curve for name, run in members.items() for curve in [run.current(role)] if curve is not None}
        if len(found) < 2:
            continue
        units = {members[name].roles[role].unit for name in found}
        if len(units) > 1:
            notes.append(f"{group}: {ROLES[role].title} left out, it is in {' and '.join(sorted(units))}")
            continue
        step = functools.reduce(np.intersect1d, [curve.step for curve in found.values()])
        if not len(step):
            apart.append(role)
            continue
        longest = max(found, key=lambda name: len(found[name]))
        if 2 * len(step) < len(found[longest]):
            few = min(found, key=lambda name: len(found[name]))
            notes.append(
                f"{group}: {ROLES[role].title} at {len(step):,} steps only, those that all its runs have: {longest} "
                f"logged it at {len(found[longest]):,}, {few} at {len(found[few]):,}"
            )
        if len(found) < len(members):
            notes.append(f"{group}: {ROLES[role].title} of {len(found)} of {len(members)} runs, the others log none")
        series.extend(_statistics(role, step, list(found.values())))
    if not series:
        raise LayoutError(
            f"group {group}: its runs have no common step ({_ranges(members, apart)}); log them at the same steps, or "
            "group other runs"
            if apart
            else f"group {group}: no role is logged by two of its runs ({', '.join(members)})"
        )
    notes += [f"{group}: {ROLES[role].title} left out, its runs have no common step" for role in apart]
    return Generated(f"{AGGREGATE}/{_path(group)}", tuple(series)), notes


def _statistics(role: str, step: Indices, curves: Sequence[Segment]) -> list[Points]:
    places = [np.searchsorted(curve.step, step) for curve in curves]
    values = np.stack([curve.value[place].astype(np.float64) for curve, place in zip(curves, places)])
    walls = np.stack([curve.wall[place] for curve, place in zip(curves, places)])
    wall = np.fmax.reduce(walls, axis=0)
    with np.errstate(all="ignore"):  # of infinities of both signs there is no mean
        return [Points(_statistic_tag(role, name), step, wall, of(values)) for name, of in STATISTICS.items()]


def _statistic_tag(role: str, statistic: str) -> str:
    return f"{AGGREGATE}/{role}/{statistic}"


def _ranges(members: Mapping[str, RunContents], roles: Sequence[str]) -> str:
    said = []
    for name, run in members.items():
        curve = run.current(roles[0])
        if curve is not None and len(curve):
            said.append(f"{name}: steps {int(curve.step[0]):,} to {int(curve.step[-1]):,}")
    return "; ".join(said[:4]) + (" …" if len(said) > 4 else "")


def aggregate_category(pattern: str, written: Sequence[Generated]) -> Category:
    """Returns margin charts of all statistics that were made: mean within extremes, median within quartiles."""
    tags = {points.tag for run in written for points in run.series}
    charts = []
    for role in ROLES:
        if _statistic_tag(role, "mean") in tags:
            title = ROLES[role].title
            named = {name: _statistic_tag(role, name) for name in STATISTICS}
            charts += [
                Margin(f"{title}: mean, min to max", named["mean"], named["min"], named["max"]),
                Margin(
                    f"{title}: median, quartiles", named["median"], named["lower_quartile"], named["upper_quartile"]
                ),
            ]
    return Category(f"Aggregated over {pattern}", tuple(charts))


def copies(group: str, members: Mapping[str, RunContents], roles: Sequence[str]) -> list[Generated]:
    """Returns the curves of a group's runs under tags of the group: at most 1,000 points each, with every extreme."""
    found = []
    for name, run in members.items():
        series = []
        for role in roles:
            curve = run.current(role)
            if curve is not None and len(curve):
                kept = _extremes(curve.value)
                series.append(Points(_group_tag(group, role), curve.step[kept], curve.wall[kept], curve.value[kept]))
        if series:
            found.append(Generated(f"{GROUP}/{_path(group)}/{_path(name)}", tuple(series)))
    return found


def group_category(group: str, written: Sequence[Generated]) -> Category:
    """Returns a chart a role of the copies of a group's runs."""
    tags = {points.tag for run in written for points in run.series}
    charts = [
        Chart(f"{ROLES[role].title}: {group}", (_group_tag(group, role),))
        for role in ROLES
        if _group_tag(group, role) in tags
    ]
    return Category(group, tuple(charts))


def _group_tag(group: str, role: str) -> str:
    return f"{GROUP}/{group}/{role}"


def _extremes(value: npt.NDArray[Any]) -> Indices:
    """Indices of the smallest and the largest of each stretch, ascending; what is no number counts as largest."""
    if len(value) <= 2 * _STRETCHES:
        return np.arange(len(value))
    number = np.where(np.isnan(value), np.inf, value)
    edges = np.linspace(0, len(value), _STRETCHES + 1).astype(int)
    kept = {
        start + int(place(number[start:stop]))
        for start, stop in zip(edges[:-1], edges[1:])
        for place in (np.argmin, np.argmax)
    }
    return np.array(sorted({*kept, 0, len(value) - 1}), np.int64)[: 2 * _STRETCHES]


def _path(name: str) -> str:
    """A name as a relative path that stays where it is put, and that TensorBoard can read."""
    parts = as_utf8(name).replace(os.sep, "/").split("/")
    return "/".join(part if part not in ("", ".", "..") else "_" for part in parts)


def roles_of(members: Mapping[str, RunContents], chosen: Optional[Sequence[str]]) -> list[str]:
    """Returns the roles to write of some runs: those chosen, or all that any has."""
    return [role for role in chosen or ROLES if any(role in run.roles for run in members.values())]
