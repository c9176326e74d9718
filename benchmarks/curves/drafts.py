"""A run as logged, and the quantities that it is made of."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Optional

import numpy as np
import numpy.typing as npt

from curves.noise import Floats, log_uniform, noise

#: (n,) steps, (n,) wall times in seconds, (n,) values.
Series = tuple[npt.NDArray[np.int64], Floats, Floats]

_STARTED_AT = 1.7e9
_CLEAR = 150  # points without any other event around an onset


@dataclasses.dataclass(frozen=True)
class Fault:
    """What was done to a run.

    Attributes:
      kind: one of `FAULTS`.
      rules: that name it; the first is the one that it is counted for.
      excused: rules that may well speak too, as of a consequence.
      onset: index of the first point that is wrong.
      end: index after the last point that is.
      strength: how much, in words.
      anywhere: it holds throughout the run: a finding may begin at any step.
    """

    kind: str
    rules: tuple[str, ...]
    excused: frozenset[str]
    onset: int
    end: int
    strength: str
    anywhere: bool = False


@dataclasses.dataclass(frozen=True)
class Run:
    """A training as logged.

    Attributes:
      series: role -> its current curve.
      superseded: role -> what each restart superseded: the points after the step it resumed from.
      joins: first steps after a restart.
      manifest: as the data contract has it.
      about: the run in a few words.
      points: points of the loss.
      every: steps from one logged point to the next.
      noise: standard deviation of the loss relative to its level, where it is largest; None where the level is 0.
      fault: what is wrong; None in a healthy run.
      now: wall time at which it is looked at, while it runs; None: long afterwards.
    """

    series: Mapping[str, Series]
    superseded: Mapping[str, tuple[Series, ...]]
    joins: tuple[int, ...]
    manifest: Mapping[str, Any]
    about: str
    points: int
    every: int
    noise: Optional[float]
    fault: Optional[Fault] = None
    now: Optional[float] = None


@dataclasses.dataclass
class Draft:
    """The quantities of a run, a value a point unless said otherwise. A fault changes them.

    Attributes:
      mean: level of the loss, and of eval.
      noise: of the loss, relative to `mean` (of its logarithm); absolute where `ratio` is false.
      sigma: its standard deviation.
      ratio: whether the loss has a level above 0 that ratios can be taken of.
      rng, family, every, step: where it comes from, and when it is logged.
      extra: factor on the logged loss alone; NaN and 0 are possible.
      lr, norm, scale, overflow, epoch: as logged; None: not logged.
      schedule: the lr's, in a word.
      seconds: of a step.
      evals: indices of the points with an evaluation; `eval_loss` and `eval_accuracy` have a value each.
      more: role -> values of other roles.
      joins: index of the first point after each restart -> points that it superseded.
      manifest: as the data contract has it.
      unlogged: roles that are left out.
      silent: seconds since its last point; None: long afterwards.
      tail: degrees of Student's t of the loss's noise.
    """

    rng: np.random.Generator
    family: str
    every: int
    step: npt.NDArray[np.int64]
    mean: Floats
    noise: Floats
    sigma: Floats
    lr: Floats
    schedule: str
    norm: Floats
    seconds: Floats
    ratio: bool = True
    extra: Floats = dataclasses.field(default_factory=lambda: np.ones(0))
    scale: Optional[Floats] = None
    overflow: Optional[Floats] = None
    evals: npt.NDArray[np.int64] = dataclasses.field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    eval_loss: Floats = dataclasses.field(default_factory=lambda: np.zeros(0))
    eval_accuracy: Optional[Floats] = None
    epoch: Optional[Floats] = None
    more: dict[str, Floats] = dataclasses.field(default_factory=dict)
    joins: dict[int, int] = dataclasses.field(default_factory=dict)
    manifest: dict[str, Any] = dataclasses.field(default_factory=dict)
    unlogged: set[str] = dataclasses.field(default_factory=set)
    silent: Optional[float] = None
    tail: float = 20.0

    @property
    def points(self) -> int:
        """Number of points."""
        return self.step.size

    def onset(self, first: float = 0.2, last: float = 0.85, left: int = 0) -> Optional[int]:
        """Draws an index between two shares of the run, away from joins and rises of the lr; None where there is none.

        At least `left` points come after it.
        """
        low, high = max(round(first * self.points), 110), min(round(last * self.points), self.points - left)
        if low >= high:
            return None
        rises = np.flatnonzero(np.diff(self.lr) > 1e-3 * self.lr.max()) + 1
        events = np.concatenate((rises, np.array(list(self.joins), dtype=np.int64)))
        for _ in range(50):
            index = int(self.rng.integers(low, high))
            if not np.any(np.abs(events - index) <= _CLEAR):
                return index
        return None

    def from_(self, index: int) -> npt.NDArray[np.int64]:
        """Points since `index`, below 0 before it."""
        return np.arange(self.points) - index

    def loss(self, noise: Floats) -> Floats:
        """The loss as logged."""
        level = self.mean * np.exp(noise - self.sigma**2 / 2) if self.ratio else self.mean + noise
        return level * self.extra

    def run(self, fault: Optional[Fault] = None) -> Run:
        """The series as logged."""
        rng, n, every = self.rng, self.points, self.every
        wall = _STARTED_AT + np.cumsum(self.seconds * every)
        for index in self.joins:
            wall[index:] += log_uniform(rng, 60, 40_000)
        values: dict[str, Floats] = {"loss": self.loss(self.noise), "grad_norm": self.norm, "lr": self.lr}
        if self.scale is not None:
            values["loss_scale"] = self.scale
        if self.overflow is not None:
            values["overflow"] = self.overflow
        tokens = self.manifest.get("tokens_per_step", 2**18)
        values["step_time"] = self.seconds
        values["throughput"] = tokens / self.seconds
        if self.epoch is not None:
            values["epoch"] = self.epoch
        values.update(self.more)
        for role in self.unlogged:
            values.pop(role, None)
        series = {role: _series(self.step, wall, value) for role, value in values.items()}
        if self.evals.size:
            at = self.evals
            if self.eval_loss.size:
                series["eval_loss"] = _series(self.step[at], wall[at], self.eval_loss)
            if self.eval_accuracy is not None:
                series["eval_accuracy"] = _series(self.step[at], wall[at], self.eval_accuracy)
        old = []
        for index, overlap in self.joins.items():
            # The old process went on from here: the level before any fault, noise of its own.
            span = slice(index, min(n, index + overlap))
            drawn = noise(rng, span.stop - index, 0.2) * self.sigma[span]
            level = self.mean[index - 1] * np.exp(drawn) if self.ratio else drawn
            went_on = wall[index - 1] + np.cumsum(self.seconds[span] * every)
            if overlap:
                old.append(_series(self.step[span], went_on, level))
        superseded = {"loss": tuple(old)} if old else {}
        relative = float(self.sigma.max()) if self.ratio else None
        known = "lr not logged" if "lr" in self.unlogged else f"lr {self.schedule}"
        about = f"{self.family}, {n} points every {every}, {known}" + (
            "" if relative is None else f", noise {relative:.1%}{' (heavy-tailed)' if self.tail < 10 else ''}"
        )
        about += f", joins at {[int(self.step[index]) for index in self.joins]}" if self.joins else ""
        joins = tuple(int(self.step[index]) for index in self.joins)
        now = None if self.silent is None else float(wall[-1]) + self.silent
        return Run(series, superseded, joins, self.manifest, about, n, every, relative, fault, now)


def _series(step: npt.NDArray[np.int64], wall: Floats, value: Floats) -> Series:
    # Event files hold float32.
    with np.errstate(over="ignore"):
        return step, wall, value.astype(np.float32).astype(np.float64)
