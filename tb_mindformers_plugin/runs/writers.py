"""Tells files that one process wrote one after the other from files that several wrote at the same time."""

from __future__ import annotations

from typing import Mapping, Sequence

import numpy as np

from tb_mindformers_plugin.eventfile import Column

# Files with fewer points of a series than this are no sign of a second process.
_FEWEST_POINTS = 8
# Two files that overlap in time by more than this part of the shorter one were written by two processes;
# a training that is resumed overlaps with what was killed by seconds at most.
_OVERLAP = 0.2
# So many earlier files of a writer are compared with a new one.
_LOOK_BACK = 8

Columns = Mapping[str, Sequence[Column]]


def writers(files: Sequence[Columns]) -> list[int]:
    """Returns for each file which writer it belongs to: 0 for the run's first, 1 for a second one, ...

    Args:
      files: for each file, in reading order, its columns by tag.
    """
    if len(files) < 2:
        return [0 for _ in files]
    spans = [_span(columns) for columns in files]
    groups: list[list[int]] = []
    found: list[int] = []
    for file in range(len(files)):
        # Files come in the order in which they were begun: one that overlaps with this is among the last.
        fits = next(
            (
                g
                for g, group in enumerate(groups)
                if not any(_clash(files, spans, file, o) for o in group[-_LOOK_BACK:])
            ),
            None,
        )
        if fits is None:
            groups.append([])
            fits = len(groups) - 1
        groups[fits].append(file)
        found.append(fits)
    return found


def _span(columns: Columns) -> tuple[float, float, int]:
    """First and last finite wall time, and the points of the longest series."""
    walls = [part.wall for parts in columns.values() for part in parts]
    walls = [wall[np.isfinite(wall)] for wall in walls]
    low = min((float(wall.min()) for wall in walls if len(wall)), default=np.nan)
    high = max((float(wall.max()) for wall in walls if len(wall)), default=np.nan)
    return low, high, max((sum(len(part) for part in parts) for parts in columns.values()), default=0)


def _clash(files: Sequence[Columns], spans: Sequence[tuple[float, float, int]], a: int, b: int) -> bool:
    (low_a, high_a, points_a), (low_b, high_b, points_b) = spans[a], spans[b]
    if min(points_a, points_b) < _FEWEST_POINTS:
        return False
    overlap = min(high_a, high_b) - max(low_a, low_b)
    # NaN compares false: a file without a clock clashes with none.
    if not overlap > _OVERLAP * min(high_a - low_a, high_b - low_b):
        return False
    shared = files[a].keys() & files[b].keys()
    return bool(shared) and not _same_clock(files[a], files[b], max(shared, key=lambda tag: len(files[a][tag])))


def _same_clock(a: Columns, b: Columns, tag: str) -> bool:
    """Whether all steps that both files hold have the same wall time in both.

    Two processes never manage that: such a clock was made from the steps and proves nothing.
    """
    (step_a, wall_a), (step_b, wall_b) = (
        (np.concatenate([part.step for part in parts]), np.concatenate([part.wall for part in parts]))
        for parts in (a[tag], b[tag])
    )
    _, at_a, at_b = np.intersect1d(step_a, step_b, return_indices=True)
    return len(at_a) > 0 and bool((wall_a[at_a] == wall_b[at_b]).all())
