"""What a run logged as rows: one producer for every format."""

from __future__ import annotations

import dataclasses
from typing import Any, Iterator, Optional, Sequence

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.runs.contents import RunContents

#: Columns of a table, a row a logged point.
COLUMNS = ("run", "role", "tag", "unit", "segment", "current", "step", "wall_time", "value")


class ExportError(ValueError):
    """Something that cannot be exported; the message says why and what to do."""


@dataclasses.dataclass(frozen=True, eq=False)
class SeriesPoints:
    """The points of one segment of a series: rows of a table, of which six columns do not change.

    Attributes:
      run: TensorBoard's name of the run.
      role: role that the series plays, "" for none.
      tag, unit: the series, as logged; its unit, "" where there is none or it is not known.
      segment: place of the segment in the series, 0 for its curve.
      current: whether the points are a curve; else a restart superseded them.
      step: (n,) int64.
      wall_time: (n,) float64, seconds since the Unix epoch.
      value: (n,) float32 or float64, as logged; NaN and infinities included.
    """

    run: str
    role: str
    tag: str
    unit: str
    segment: int
    current: bool
    step: npt.NDArray[np.int64]
    wall_time: npt.NDArray[np.float64]
    value: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.step)


def points_of(
    name: str, run: RunContents, roles: Optional[Sequence[str]] = None, superseded: bool = True
) -> Iterator[SeriesPoints]:
    """Yields every series of a run, segment by segment: series with a role first, a curve before what it superseded.

    Args:
      name: TensorBoard's name of the run.
      run: what was read of it.
      roles: the roles that are wanted, in this order; None: all, and after them the series without one.
      superseded: whether what restarts superseded is wanted, too.
    """
    wanted = list(run.roles) if roles is None else [role for role in roles if role in run.roles]
    series = [(role, run.roles[role].tag, run.roles[role].unit) for role in wanted]
    if roles is None:
        known = {match.tag for match in run.roles.values()}
        series += [("", tag, run.manifest.units.get(tag, "")) for tag in run.tags if tag not in known]
    for role, tag, unit in series:
        for place, segment in enumerate(run.segments(tag)):
            if len(segment) and (superseded or segment.current):
                columns = segment.step, segment.wall, segment.value
                yield SeriesPoints(name, role, tag, unit, place, segment.current, *columns)


def as_utf8(text: str) -> str:
    """`text` as UTF-8 can hold it: the name of a directory may have bytes that are none."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
