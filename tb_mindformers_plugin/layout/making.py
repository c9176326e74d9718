"""A whole layout of a logdir: its charts, and the runs that are written beside it."""

from __future__ import annotations

import dataclasses
import time
from typing import Callable, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from tensorboard.plugins.custom_scalar import layout_pb2

from tb_mindformers_plugin.layout import groups
from tb_mindformers_plugin.layout.charts import Category, HasTag, LayoutError, Runs, layout_of, preview
from tb_mindformers_plugin.layout.comparison import comparison_categories, compiled
from tb_mindformers_plugin.layout.event_file import layout_file, series_file
from tb_mindformers_plugin.layout.groups import Generated
from tb_mindformers_plugin.layout.handmade import parse_layout
from tb_mindformers_plugin.roles import ROLES
from tb_mindformers_plugin.runs.store import Store


@dataclasses.dataclass(frozen=True)
class Held:
    """What a run holds.

    Attributes:
      roles: role -> the series that plays it.
      tags: all scalar tags.
    """

    roles: Mapping[str, HasTag]
    tags: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What a layout is to show.

    Attributes:
      roles: roles to draw, in this order; None: all that a run has.
      patterns: regular expressions of more tags.
      group_by: regular expression of what in a run's name says its group; None: no groups.
      aggregate: regular expression of what in a run's name tells it from the repetitions of the same; None: none.
      text: a layout by hand as YAML, instead of roles and patterns; None: none.
    """

    roles: Optional[Sequence[str]] = None
    patterns: Sequence[str] = ()
    group_by: Optional[str] = None
    aggregate: Optional[str] = None
    text: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class Made:
    """A layout that is ready to be written.

    Attributes:
      categories: its charts.
      generated: runs to be written beside it.
      runs: what the runs of the logdir and those beside it hold.
      notes: what is to be said of it, each a sentence.
    """

    categories: Tuple[Category, ...]
    generated: Tuple[Generated, ...]
    runs: Runs
    notes: Tuple[str, ...]

    @property
    def layout(self) -> layout_pb2.Layout:
        """The layout as TensorBoard reads it."""
        return layout_of(self.categories)

    def preview(self) -> list[dict[str, object]]:
        """What each chart will show (`tb_mindformers_plugin.layout.charts.preview`)."""
        return preview(self.categories, self.runs)

    def files(self, layout_directory: str, now: Optional[float] = None) -> dict[str, bytes]:
        """Returns directory -> bytes of its event file: that of the layout, and those of the runs beside it."""
        at = time.time() if now is None else now
        files = {run.directory: series_file(run.series, at) for run in self.generated}
        return {layout_directory: layout_file(self.layout, at), **files}


def held(store: Store, tracked: Callable[[Sequence[str]], Iterable[str]] = iter) -> dict[str, Held]:
    """Returns what each run with a scalar holds. Reads all of them, one by one, so that memory is bounded.

    Args:
      store: the runs.
      tracked: goes through a list of names, and may show how far it is.
    """
    found = {}
    for name in tracked(list(store.runs)):
        run = store.load([name])[name]
        if run.tags:
            found[name] = Held(run.roles, run.tags)
    return found


def make_layout(store: Store, runs: Mapping[str, Held], wanted: Wanted) -> Made:
    """Returns the layout of a logdir that shows what is wanted.

    Args:
      store: the runs.
      runs: what they hold.
      wanted: what is to be shown.

    Raises:
      LayoutError: something that is wanted is not there, or makes no sense.
    """
    if not runs:
        raise LayoutError("there is no scalar in any run; `tb-health doctor` says what was found")
    for role in wanted.roles or ():
        if role not in ROLES:
            raise LayoutError(f"there is no role {role!r}; known: {', '.join(ROLES)}")
    beside = [
        *([] if wanted.group_by is None else [_grouped(store, runs, wanted.group_by, wanted.roles)]),
        *([] if wanted.aggregate is None else [_aggregated(store, runs, wanted.aggregate, wanted.roles)]),
    ]
    generated = [run for part in beside for run in part.generated]
    directories = [run.directory for run in generated]
    for directory in directories:
        if directories.count(directory) > 1 or directory in runs:
            raise LayoutError(f"two runs would lie in {directory}: change the regular expression of the groups")
    shown = {**runs, **{run.directory: Held({}, [points.tag for points in run.series]) for run in generated}}
    if wanted.text is not None:
        categories = parse_layout(wanted.text, shown)
    else:
        categories = comparison_categories(runs, wanted.roles, wanted.patterns)
    categories = [*categories, *(category for part in beside for category in part.categories)]
    return Made(tuple(categories), tuple(generated), shown, tuple(note for part in beside for note in part.notes))


class _Beside(NamedTuple):
    """Charts of groups, and the runs and notes that go with them."""

    categories: List[Category]
    generated: List[Generated]
    notes: List[str]


def _grouped(store: Store, runs: Runs, pattern: str, roles: Optional[Sequence[str]]) -> _Beside:
    found = groups.named_groups(runs, compiled(pattern, "regular expression of --group-by"))
    if not found:
        raise LayoutError(f"no run's name has {pattern!r} in it; the runs are: {', '.join(runs)}")
    made = _Beside([], [], [])
    for group, names in found.items():
        copied: List[Generated] = []
        for name in names:
            member = store.load([name])
            copied += groups.copies(group, member, groups.roles_of(member, roles))
        if copied:
            made.categories.append(groups.group_category(group, copied))
            made.generated.extend(copied)
        else:
            made.notes.append(f"group {group} has no series with a known role")
    left = len(runs) - sum(map(len, found.values()))
    if left:
        made.notes.append(f"{left} of {len(runs)} runs are in no group")
    return made


def _aggregated(store: Store, runs: Runs, pattern: str, roles: Optional[Sequence[str]]) -> _Beside:
    found = groups.repeated_runs(runs, compiled(pattern, "regular expression of --aggregate"))
    several = {group: names for group, names in found.items() if len(names) > 1}
    if not several:
        said = "is in no run's name" if not found else "tells no two runs apart that are the same otherwise"
        raise LayoutError(f"{pattern!r} {said}; the runs are: {', '.join(runs)}")
    made = _Beside([], [], [])
    for group, names in several.items():
        members = store.load(names)
        summed, notes = groups.aggregate(group, members, groups.roles_of(members, roles))
        made.generated.append(summed)
        made.notes.extend(notes)
    alone = [names[0] for names in found.values() if len(names) == 1]
    if alone:
        made.notes.append(f"not aggregated, for want of another one: {', '.join(alone)}")
    made.categories.append(groups.aggregate_category(pattern, made.generated))
    return made
