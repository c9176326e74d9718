"""The points that the rules look back on: all of a run's newest, in bounds."""

from __future__ import annotations

from array import array
from typing import Mapping, Optional

import numpy as np

from tb_mindformers_plugin.health.series import RunSeries, Series
from tb_mindformers_plugin.metadata import RunManifest
from tb_mindformers_plugin.roles import ROLES

#: Points of a role that are kept, at most; then the older half goes. 16 B a point.
MOST_POINTS = 65_536


class History:
    """Columns of points that grow.

    Args:
      roles: those that are kept.
      manifest: what the run says of itself.
      most_points: of each role, at least 2.
    """

    def __init__(self, roles: tuple[str, ...], manifest: RunManifest, most_points: int = MOST_POINTS) -> None:
        self._columns = {role: (array("q"), array("d")) for role in roles}
        self._manifest = manifest
        self._most_points = most_points
        self._cut: set[str] = set()

    def add(self, step: int, values: Mapping[str, Optional[float]]) -> None:
        """Takes in the values of one step by role, None being absent; of an unknown role, nothing."""
        for role, (steps, column) in self._columns.items():
            value = values.get(role)
            if value is not None:
                steps.append(step)
                column.append(value)
                if len(steps) > self._most_points:
                    del steps[: self._most_points // 2], column[: self._most_points // 2]
                    self._cut.add(role)

    def first_step(self, role: str) -> int:
        """The earliest step that is kept of a role that has points."""
        return self._columns[role][0][0]

    def judged_from(self, role: str) -> int:
        """The earliest step that is judged as before: just behind a cut, what was before it is missing."""
        steps = self._columns[role][0]
        return steps[min(self._most_points // 4, len(steps) - 1)] if role in self._cut else steps[0]

    def series(self, running: bool = True) -> RunSeries:
        """What the rules get, of a run that goes on or is over. It is a copy, which stays as it is."""
        curves = {}
        for role, (steps, column) in self._columns.items():
            if steps:
                # No rule here reads the time.
                wall = np.broadcast_to(np.nan, len(steps))
                curves[role] = Series(
                    role,
                    self._manifest.roles.get(role) or ROLES[role].tag,
                    np.array(steps, np.int64),
                    wall,
                    np.array(column, np.float64),
                )
        return RunSeries(curves=curves, manifest=self._manifest, has_manifest=True, running=running)
