"""Side-by-side measurements and the tables that say what came out."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any, Callable, Mapping, Optional, Sequence

# A child that takes longer than this is broken.
_LONGEST_SECONDS = 1800


def interleaved(contenders: Mapping[str, Callable[[], Any]], repeat: int) -> dict[str, list[Any]]:
    """What each contender gave, in turn: A, B, A, B and so on.

    The machine is noisy, and noise that lasts longer than one turn meets all of them.
    """
    results: dict[str, list[Any]] = {name: [] for name in contenders}
    for turn in range(repeat):
        for name, measure in contenders.items():
            results[name].append(measure())
            print(f"\r  {turn + 1}/{repeat} {name:40.40}", end="", file=sys.stderr, flush=True)
    print(f"\r{'':60}\r", end="", file=sys.stderr, flush=True)
    return results


def fresh(program: str, *arguments: str) -> dict[str, Any]:
    """Runs a program of this directory in a new Python process and returns the JSON that it prints."""
    command = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), program), *arguments]
    # Away from the checkout, so that an installed package is what is imported.
    done = subprocess.run(command, capture_output=True, cwd=tempfile.gettempdir(), timeout=_LONGEST_SECONDS)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr.decode(errors='replace')[-2000:]}")
    # What a rival prints of its own comes before.
    return json.loads(done.stdout.splitlines()[-1])


def peak_bytes(pid: object = "self") -> int:
    """The most memory that a process has had resident."""
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("/proc has no VmHWM: memory is measured on Linux only")


def median(samples: Sequence[Mapping[str, Any]], field: str = "seconds") -> float:
    """Median of one field."""
    return statistics.median(sample[field] for sample in samples)


def spread(samples: Sequence[Mapping[str, Any]], field: str = "seconds") -> str:
    """Median, and in brackets the least and the most, in seconds or milliseconds."""
    values = [sample[field] for sample in samples]
    middle = statistics.median(values)
    unit, factor = ("s", 1) if middle >= 1 else ("ms", 1000)
    least, middle, most = (_digits(value * factor) for value in (min(values), middle, max(values)))
    return f"{middle} {unit} ({least}–{most})"


def ratio(value: float) -> str:
    """A ratio in two digits."""
    return f"{value:.2g}x" if value < 10 else f"{value:.0f}x"


def _digits(value: float) -> str:
    # Three digits are more than a noisy machine can tell.
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def megabytes(count: float) -> str:
    """A size in words."""
    if count < 1e5:
        return f"{count / 1e3:.3g} kB"
    return f"{count / 1e6:.3g} MB" if count < 1e9 else f"{count / 1e9:.3g} GB"


@dataclasses.dataclass(frozen=True)
class Goal:
    """A goal and whether a figure reaches it.

    Attributes:
      text: the goal, in words.
      reached: whether it is.
    """

    text: str
    reached: bool

    def __str__(self) -> str:
        return f"{self.text}: {'reached' if self.reached else 'NOT reached'}"


def at_least(value: float, least: float, what: str = "x") -> Goal:
    """A goal that a figure be no smaller."""
    return Goal(f">= {least:g}{what}", value >= least)


def at_most(value: float, most: float, what: str = "x") -> Goal:
    """A goal that a figure be no larger."""
    return Goal(f"<= {most:g}{what}", value <= most)


@dataclasses.dataclass
class Table:
    """What one question came to.

    Attributes:
      question: P1 …
      title: what was measured.
      columns: names.
      notes: what a reader must know, a sentence each.
    """

    question: str
    title: str
    columns: Sequence[str]
    notes: Sequence[str] = ()
    rows: list[list[str]] = dataclasses.field(default_factory=list)

    def add(self, *cells: Optional[object]) -> None:
        """Adds a row; None is an empty cell."""
        self.rows.append(["" if cell is None else str(cell) for cell in cells])

    def __str__(self) -> str:
        lines = [list(self.columns), *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        laid = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines]
        laid.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        return "\n".join([f"### {self.question}: {self.title}", "", *laid, "", *(f"- {note}" for note in self.notes)])
