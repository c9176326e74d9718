"""Tells files that one process wrote one after the other from files that several wrote at the same time."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from tb_mindformers_plugin.eventfile import Column
from tb_mindformers_plugin.runs.files import FileContents

# Files with fewer points of a series than this are no sign of a second process.
_FEWEST_POINTS = 8
# Two files that overlap in time by more than this part of the shorter one were written by two processes;
# a training that is resumed overlaps with what was killed by seconds at most.
_OVERLAP = 0.2
# So many earlier files of a writer are compared with a new one.
_LOOK_BACK = 8


def writers(files: Sequence[FileContents]) -> list[int]:
    """Returns which writer each file, in reading order, belongs to: 0 for the run's first, 1 for a second one, ..."""
    if len(files) < 2:
        return [0 for _ in files]
    spans = [(*file.walls(), max(map(len, file.columns.values()), default=0)) for file in files]
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


def _clash(files: Sequence[FileContents], spans: Sequence[tuple[float, float, int]], a: int, b: int) -> bool:
    (low_a, high_a, points_a), (low_b, high_b, points_b) = spans[a], spans[b]
    if min(points_a, points_b) < _FEWEST_POINTS:
        return False
    overlap = min(high_a, high_b) - max(low_a, low_b)
    # Infinite for a file without a clock, and then below anything: it clashes with none.
    if not overlap > _OVERLAP * min(high_a - low_a, high_b - low_b):
        return False
    mine, other = files[a].columns, files[b].columns
    shared = mine.keys() & other.keys()
    if not shared:
        return False
    longest = max(shared, key=lambda tag: (len(mine[tag]), tag))
    return not _same_clock(mine[longest], other[longest])


def _same_clock(a: Column, b: Column) -> bool:
    """Whether all steps that both files hold have the same wall time in both.

    Two processes never manage that: such a clock was made from the steps and proves nothing.
    """
    _, at_a, at_b = np.intersect1d(a.step, b.step, return_indices=True)
    return len(at_a) > 0 and bool((a.wall[at_a] == b.wall[at_b]).all())
