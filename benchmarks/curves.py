"""Curves of healthy trainings, and faults put into them at a known step. Seeded: same name and number, same run.

A run is drawn in three moves: a family lays out the quantities of a healthy training (`Draft`), a fault may change
them from one point on, and `Draft.run` makes the series of them, as a framework would have logged them.

What is fair was settled before any rule was run on it, in these terms:

- noise of a loss is autocorrelated, multiplicative, and never further out than 5 sigma. What stands out by 8 sigma or
  more in one point, or by 3 sigma (2.5 at a join) for as long as the run lasts, is a fault; between is drawn neither
  in healthy runs nor as a fault. No fault is smaller than the kind's least strength either (a spike: 15 %).
- the norm of the gradients is heavy-tailed: single points up to 25x are healthy.
- data mixes shift a healthy loss by at most 8 %; warm-up bumps are below 25 %.
- no fault begins within 150 points of a join or of a rise of the lr: nobody could say which of the two it was.

Changed after rules had been run, where a run was not what it was called: swings that were of a fixed period in truth
(oscillation); two shifts of a data mix that added up to more than 8 %; fine-tuning at a constant lr that stood still
for half the run; explosions that the loss scaler skipped; overflows counted by logged points rather than by steps; a
scale that falls to where it had been before; a silence of days. And a gradient norm that is raised along with the loss
may saturate clipping: that is no false alarm. Strengths of faults and the noise of healthy runs were left as they were.
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from typing import Any, Callable, Mapping, Optional, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
#: (n,) steps, (n,) wall times in seconds, (n,) values.
Series = tuple[npt.NDArray[np.int64], Floats, Floats]

LEAST_POINTS, MOST_POINTS = 300, 50_000
_STARTED_AT = 1.7e9
_CLEAR = 150  # points without any other event around an onset
_FLOOR = 0.15


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


def run(name: str, number: int, seed: int = 0) -> Run:
    """Draws one run.

    Args:
      name: a fault of `FAULTS`, or a family of `FAMILIES` for a healthy run.
      number: which one.
      seed: of the whole set.
    """
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), number])
    if name in FAMILIES:
        return draft(rng, name).run()
    injected = FAULTS[name]
    while True:
        family = str(rng.choice(injected.families))
        drawn = draft(rng, family, least=injected.least_points, most=injected.most_points, wanted=injected.wanted)
        fault = injected.inject(drawn)
        # None: this run has no place for it.
        if fault is not None:
            return drawn.run(fault)


# ---------------------------------------------------------------------------------------------------------------------
# Noise


def noise(rng: np.random.Generator, size: int, rho: float, tail: float = 20.0) -> Floats:
    """(size,) autocorrelated noise of mean 0 and deviation 1: lag one `rho`, Student's t of `tail` degrees, to 5."""
    drawn = rng.standard_t(tail, size + 64) * math.sqrt((tail - 2) / tail)
    kernel = rho ** np.arange(64)
    kernel /= math.sqrt(float((kernel**2).sum()))
    return np.clip(np.convolve(drawn, kernel, mode="valid")[:size], -5.0, 5.0)


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))


def _lagged(value: Floats, points: float) -> Floats:
    """What follows `value` with a lag of about `points`."""
    size = max(1, round(points * 3))
    kernel = np.exp(-np.arange(size) / max(points, 1e-9))
    padded = np.concatenate((np.full(size - 1, value[0]), value))
    return np.convolve(padded, kernel / kernel.sum(), mode="valid")


# ---------------------------------------------------------------------------------------------------------------------
# A healthy training, before it is logged


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
            wall[index:] += _log_uniform(rng, 60, 40_000)
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


def draft(
    rng: np.random.Generator,
    family: str,
    *,
    least: int = LEAST_POINTS,
    most: int = MOST_POINTS,
    wanted: frozenset[str] = frozenset(),
) -> Draft:
    """Draws a healthy training.

    Args:
      rng: source of all that is random.
      family: one of `FAMILIES`.
      least: smallest number of points.
      most: largest number of points.
      wanted: roles that must be logged, or "constant" for a lr that is neither decayed nor restarted, "no restarts"
        for no restarts of the process.
    """
    n = round(_log_uniform(rng, least, most))
    every = int(rng.choice([1, 10, 100], p=[0.5, 0.35, 0.15]))
    drawn = FAMILIES[family](rng, n, every, wanted)
    drawn.extra = np.ones(n)
    _precision(drawn, wanted)
    _norm(drawn)
    _speed(drawn)
    if n >= 600 and "no restarts" not in wanted and rng.random() < 0.25:
        for _ in range(int(rng.integers(1, 4))):
            index = int(rng.integers(n // 5, n - 150))
            drawn.joins[index] = int(rng.integers(1, max(2, min(n - index, n // 20)))) if rng.random() < 0.5 else 0
        drawn.joins = dict(sorted(drawn.joins.items()))
    for role, share in (("lr", 0.15), ("grad_norm", 0.1), ("step_time", 0.4), ("throughput", 0.3), ("epoch", 0.3)):
        if role not in wanted and rng.random() < share:
            drawn.unlogged.add(role)
    if rng.random() < 0.3:
        drawn.silent = float(np.median(drawn.seconds)) * every * rng.uniform(0, 3)
    return drawn


def _lr(rng: np.random.Generator, n: int, kinds: Sequence[str], peak: float) -> tuple[str, Floats]:
    """A schedule's name and its (n,) values."""
    shape: Floats
    kind = str(rng.choice(kinds))
    warm = max(1, round(n * _log_uniform(rng, 0.003, 0.1)))
    at = np.arange(n)
    x = np.clip((at - warm) / max(1, n - warm), 0, 1)
    floor = float(rng.choice([0.0, 0.1]))
    if kind == "cosine":
        shape = floor + (1 - floor) * 0.5 * (1 + np.cos(np.pi * x))
    elif kind == "linear":
        shape = floor + (1 - floor) * (1 - x)
    elif kind == "wsd":
        shape = floor + (1 - floor) * np.clip((1 - x) / rng.uniform(0.08, 0.2), 0, 1)
    elif kind == "restarts":
        cycles = int(rng.integers(2, 6))
        low = 0.05
        shape = low + (1 - low) * 0.5 * (1 + np.cos(np.pi * np.minimum(x * cycles - np.floor(x * cycles), 1)))
        shape[-1] = low
    elif kind == "inverse sqrt":
        shape = (np.maximum(at, warm) / warm) ** -0.5
    elif kind == "steps":
        factor = float(rng.choice([0.1, 0.2]))
        drops = [0.3 + rng.uniform(0, 0.1), 0.6 + rng.uniform(0, 0.1), 0.88]
        shape = np.power(factor, np.searchsorted(drops, x, side="right").astype(np.float64))
    else:
        shape = np.ones(n)
    return kind, peak * shape * np.minimum(1.0, (at + 1) / warm)


def _pretrain(rng: np.random.Generator, n: int, every: int, wanted: frozenset[str]) -> Draft:
    step = (np.arange(n) + 1) * every
    kinds = ["constant"] if "constant" in wanted else ["cosine", "cosine", "linear", "wsd", "wsd", "restarts"]
    if not wanted:
        kinds += ["inverse sqrt", "constant"]
    kind, lr = _lr(rng, n, kinds, _log_uniform(rng, 1e-5, 2e-3))
    start = math.log(float(rng.choice([32_000, 50_304, 100_352, 151_936]))) * rng.uniform(0.98, 1.06)
    end = rng.uniform(1.4, 2.4)
    # The power law falls throughout; a constant lr that came to rest would be a plateau in truth.
    slope = rng.uniform(0.15, 0.3) if kind in ("constant", "inverse sqrt") else rng.uniform(0.15, 0.5)
    mean = end + (start - end) * (1 + step / _log_uniform(rng, 20, 500)) ** -slope
    warm = int(np.argmax(lr))
    shape = lr / lr.max()
    shape[:warm] = 1.0
    # A lower lr settles lower: WSD's last drop, and the step up at a restart.
    mean *= 1 - rng.uniform(0.02, 0.1) * (1 - _lagged(shape, max(2.0, 0.004 * n)))
    if warm >= 50 and rng.random() < 0.4:
        mean *= 1 + rng.uniform(0.05, 0.25) * np.exp(-(((np.arange(n) - 0.9 * warm) / (0.25 * warm)) ** 2))
    if rng.random() < 0.25:
        sign = rng.choice([-1, 1])
        for _ in range(int(rng.integers(1, 3))):
            mean[int(rng.integers(n // 5, n)) :] *= 1 + sign * rng.uniform(0.02, 0.08)
            sign = -sign
    sigma = _log_uniform(rng, 0.004, 0.1) * np.linspace(1, rng.uniform(0.7, 1.3), n)
    drawn = _drafted(rng, "pretraining", every, step, mean, sigma, lr, kind)
    if rng.random() < 0.6:
        _evals(drawn, int(rng.integers(4, 41)), rng.uniform(0.98, 1.05), _log_uniform(rng, 0.001, 0.01))
    if kind == "cosine" and rng.random() < 0.4:
        _declare(drawn)
    drawn.manifest["tokens_per_step"] = int(rng.choice([2**17, 2**20, 2**22]))
    drawn.manifest["total_steps"] = int(step[-1])
    _epochs(drawn, rng.uniform(0.1, 4))
    return drawn


def _finetune(rng: np.random.Generator, n: int, every: int, wanted: frozenset[str]) -> Draft:
    step = (np.arange(n) + 1) * every
    kind, lr = _lr(rng, n, ["cosine", "linear", "constant"], _log_uniform(rng, 5e-6, 3e-4))
    epochs = int(rng.integers(2, 6))
    x = step / step[-1] * epochs
    level = rng.uniform(0.9, 2.4) * np.concatenate(([1.0], np.cumprod(rng.uniform(0.5, 0.9, epochs - 1))))
    which = np.minimum(np.ceil(x).astype(int) - 1, epochs - 1)
    # Within an epoch the loss hardly falls; with the second look at a sample it does.
    least = 0.08 if kind == "constant" else 0.03
    mean = _lagged(level[which], max(1.0, 0.002 * n)) * (1 - rng.uniform(least, 0.12) * (x - which))
    mean *= 1 + rng.uniform(0.1, 0.6) * np.exp(-x / 0.05)
    sigma = _log_uniform(rng, 0.03, 0.3) * np.linspace(1, rng.uniform(0.8, 1.6), n)
    drawn = _drafted(rng, "fine-tuning", every, step, mean, sigma, lr, kind)
    if rng.random() < 0.7:
        _evals(drawn, int(epochs * rng.integers(1, 7)), 1.0, _log_uniform(rng, 0.002, 0.01))
        progress = drawn.step[drawn.evals] / step[-1]
        # It learns what there is to learn, and stays there.
        drawn.eval_loss = mean[0] * (rng.uniform(0.7, 0.85) + 0.15 * np.exp(-5 * progress))
        drawn.eval_loss *= np.exp(rng.normal(0, _log_uniform(rng, 0.002, 0.01), progress.size))
    _epochs(drawn, float(epochs))
    return drawn


def _dpo(rng: np.random.Generator, n: int, every: int, wanted: frozenset[str]) -> Draft:
    step = (np.arange(n) + 1) * every
    kind, lr = _lr(rng, n, ["cosine", "linear"], _log_uniform(rng, 1e-7, 1e-5))
    x = np.arange(n) / n
    done = 1 - np.exp(-x * rng.uniform(1.5, 6))
    mean = math.log(2) - (math.log(2) - rng.uniform(0.3, 0.6)) * done
    drawn = _drafted(rng, "DPO", every, step, mean, _log_uniform(rng, 0.06, 0.3) * np.linspace(0.3, 1, n), lr, kind)
    drawn.more["accuracy"] = np.clip(0.5 + 0.25 * done + 0.08 * noise(rng, n, 0.1), 0, 1)
    drawn.more["reward"] = 2 * done + 0.2 * noise(rng, n, 0.2)
    if rng.random() < 0.5:
        _evals(drawn, int(rng.integers(4, 20)), 1.0, 0.01)
    _epochs(drawn, float(rng.integers(1, 4)))
    return drawn


def _grpo(rng: np.random.Generator, n: int, every: int, wanted: frozenset[str]) -> Draft:
    step = (np.arange(n) + 1) * every
    kind, lr = _lr(rng, n, ["constant", "constant", "cosine", "linear"], _log_uniform(rng, 1e-7, 1e-5))
    x = np.arange(n) / n
    sigma = np.full(n, _log_uniform(rng, 3e-4, 0.05))
    beta = float(rng.choice([0.0, 0.001, 0.04]))
    kl = rng.uniform(0.02, 0.3) * (1 - np.exp(-x * rng.uniform(2, 6))) + 1e-4
    kl *= np.exp(0.15 * noise(rng, n, 0.3))
    drawn = _drafted(rng, "GRPO", every, step, beta * kl, sigma, lr, kind)
    drawn.ratio = False
    low, high = rng.uniform(0.1, 0.4), rng.uniform(0.5, 0.95)
    drawn.more["reward"] = low + (high - low) * (1 - np.exp(-x * 3)) + rng.uniform(0.02, 0.08) * noise(rng, n, 0.2)
    drawn.more["kl"] = kl
    drawn.more["clip_fraction"] = np.clip(rng.uniform(0.005, 0.1) * np.exp(0.4 * noise(rng, n, 0.3)), 0, 0.25)
    _epochs(drawn, 1.0)
    return drawn


def _classify(rng: np.random.Generator, n: int, every: int, wanted: frozenset[str]) -> Draft:
    step = (np.arange(n) + 1) * every
    kind, lr = _lr(rng, n, ["steps"], _log_uniform(rng, 0.01, 0.5))
    start = math.log(float(rng.choice([10, 100, 1000])))
    phase = np.round(np.log(lr / lr.max()) / math.log(lr[-1] / lr.max()) * 3).clip(0, 3)
    phase[: int(np.argmax(lr))] = 0
    level = start * rng.uniform(0.2, 0.4) * np.cumprod([1.0, *rng.uniform(0.5, 0.75, 3)])[phase.astype(int)]
    level = _lagged(level, max(1.0, 0.004 * n))
    x = np.arange(n) / n
    mean = level * (1.1 - 0.1 * x) + (start - level[0]) * np.exp(-x / rng.uniform(0.02, 0.06))
    drawn = _drafted(rng, "classification", every, step, mean, np.full(n, _log_uniform(rng, 0.02, 0.15)), lr, kind)
    right = 1 - 0.9 * mean / start
    drawn.more["accuracy"] = np.clip(right + 0.02 * noise(rng, n, 0.1), 0, 1)
    count = min(n // 10, int(rng.integers(15, 121)))
    _evals(drawn, count, rng.uniform(1.0, 1.1), _log_uniform(rng, 0.005, 0.03))
    drawn.eval_accuracy = np.clip(right[drawn.evals] - 0.01 + rng.normal(0, 0.004, drawn.evals.size), 0, 1)
    _epochs(drawn, float(count))
    return drawn


#: Name -> how a healthy run of the family is drawn.
FAMILIES: Mapping[str, Callable[[np.random.Generator, int, int, frozenset[str]], Draft]] = {
    "pretraining": _pretrain,
    "fine-tuning": _finetune,
    "DPO": _dpo,
    "GRPO": _grpo,
    "classification": _classify,
}


def _drafted(
    rng: np.random.Generator,
    family: str,
    every: int,
    step: npt.NDArray[np.int64],
    mean: Floats,
    sigma: Floats,
    lr: Floats,
    schedule: str,
) -> Draft:
    rho, tail = float(rng.choice([0.0, 0.2, 0.5, 0.7])), float(rng.choice([8, 20, 50]))
    drawn, blank = noise(rng, step.size, rho, tail) * sigma, np.ones(step.size)
    return Draft(rng, family, every, step, mean, drawn, sigma, lr, schedule, blank, blank.copy(), tail=tail)


def _declare(run: Draft) -> None:
    """Puts a schedule into the manifest, and its values into the lr."""
    warm = (int(np.argmax(run.lr)) + 1) * run.every
    total = int(run.step[-1])
    schedule = {
        "kind": "cosine_warmup",
        "peak": float(run.lr.max()),
        "end": 0.0,
        "warmup_init": 0.0,
        "warmup_steps": warm,
        "total_steps": total,
        "decay_steps": total - warm,
        "num_cycles": 0.5,
    }
    done = run.step - 1.0  # steps before this one
    after = np.clip((done - warm) / max(1, total - warm), 0, 1)
    run.lr = run.lr.max() * np.where(done < warm, done / warm, 0.5 * (1 + np.cos(np.pi * after)))
    run.manifest["schedule"] = schedule
    run.schedule = "cosine, declared"


def _evals(run: Draft, count: int, factor: float, spread: float) -> None:
    run.evals = np.unique(np.linspace(run.points / count, run.points - 1, count).astype(np.int64))
    run.eval_loss = run.mean[run.evals] * factor * np.exp(run.rng.normal(0, spread, run.evals.size))


def _epochs(run: Draft, epochs: float) -> None:
    per_epoch = max(1, round(run.step[-1] / epochs))
    run.epoch = run.step / per_epoch
    if run.rng.random() < 0.6:
        run.manifest["steps_per_epoch"] = per_epoch


def _precision(run: Draft, wanted: frozenset[str]) -> None:
    """Loss scale and overflow."""
    rng = run.rng
    kind = rng.choice(["bf16", "fixed", "dynamic", "not logged"], p=[0.25, 0.05, 0.4, 0.3])
    if "loss_scale" in wanted:
        kind = "dynamic"
    if kind == "bf16":
        run.scale = np.ones(run.points)
        run.overflow = np.zeros(run.points) if rng.random() < 0.3 else None
    elif kind == "fixed":
        run.scale = np.full(run.points, float(rng.choice([128.0, 1024.0, 65536.0])))
    elif kind == "dynamic":
        initial, window = 2.0 ** int(rng.choice([16, 24, 32])), int(rng.choice([1000, 2000]))
        at, scales = dynamic_scale(rng, int(run.step[-1]), initial, window, 2.0 ** rng.uniform(11, 18))
        log_scale(run, at, scales, initial, overflow=rng.random() < 0.6)
        run.manifest["loss_scale"] = {"kind": "dynamic", "initial": initial, "window": window, "factor": 2}


def dynamic_scale(
    rng: np.random.Generator, steps: int, initial: float, window: int, limit: float
) -> tuple[npt.NDArray[np.int64], Floats]:
    """A dynamic loss scale: steps at which it changes, and what it is from there.

    It halves when a step overflows, which it mostly does above `limit`, itself wandering, and seldom does below; it
    doubles after `window` steps without.
    """
    at, scales = [], []
    step, scale = 0, initial
    while step < steps:
        above = scale > limit
        gap = int(rng.geometric(0.9 if scale > 4 * limit else 0.3 if above else 5e-5))
        if gap < window:
            step, scale = step + gap, scale / 2
        else:
            step, scale = step + window, scale * 2
            limit = min(max(limit * 2 ** rng.normal(0, 0.2), 2.0**9), 2.0**20)
        at.append(step)
        scales.append(scale)
    return np.array(at, dtype=np.int64), np.array(scales)


def log_scale(run: Draft, at: npt.NDArray[np.int64], scales: Floats, initial: float, overflow: bool) -> None:
    """Logs a loss scale: its value after the step; the overflow flag goes to the next logged step."""
    before = np.concatenate(([initial], scales))
    run.scale = before[np.searchsorted(at, run.step, side="right")]
    fell = at[scales < before[:-1]]
    flags = np.diff(np.concatenate(([0], np.searchsorted(fell, run.step, side="right")))) > 0
    run.overflow = flags.astype(np.float64) if overflow else None


def _norm(run: Draft) -> None:
    """Gradient norm: falls at first, autocorrelated, heavy-tailed."""
    rng, n = run.rng, run.points
    norm = _log_uniform(rng, 0.05, 3) * (1 + rng.uniform(0, 8) * np.exp(-np.arange(n) / max(5.0, 0.01 * n)))
    norm *= np.exp(_log_uniform(rng, 0.05, 0.4) * noise(rng, n, float(rng.choice([0, 0.3, 0.6])), 8))
    if rng.random() < 0.5:
        outliers = rng.random(n) < _log_uniform(rng, 2e-4, 5e-3)
        norm[outliers] *= np.minimum(1 + 2 * rng.pareto(1.8, int(outliers.sum())), 25.0)
    if run.family == "GRPO":
        norm[rng.random(n) < rng.choice([0.0, 0.03])] = 0.0  # a group without any spread of rewards
    if rng.random() < 0.4:
        run.manifest["grad_clip"] = float(np.median(norm) * _log_uniform(rng, 1.1, 5))
    if run.overflow is not None and run.every == 1 and rng.random() < 0.5:
        norm[run.overflow > 0] = np.inf
    run.norm = norm


def _speed(run: Draft) -> None:
    """Seconds a step: slow first steps, pauses for evaluations and checkpoints, stragglers."""
    rng, n = run.rng, run.points
    seconds = _log_uniform(rng, 0.1, 20) * np.exp(_log_uniform(rng, 0.005, 0.06) * noise(rng, n, 0.3, 8))
    seconds[: int(rng.integers(1, 6))] *= rng.uniform(2, 30)
    if rng.random() < 0.5:
        seconds[:: int(rng.integers(20, 400))] *= rng.uniform(1.2, 4)
    stragglers = rng.random(n) < _log_uniform(rng, 5e-4, 1e-2)
    seconds[stragglers] *= rng.uniform(1.2, 4, int(stragglers.sum()))
    run.seconds = seconds * np.linspace(1, rng.uniform(0.97, 1.03), n)


# ---------------------------------------------------------------------------------------------------------------------
# Faults


@dataclasses.dataclass(frozen=True)
class Injected:
    """A kind of fault.

    Attributes:
      inject: changes a draft; None where that run has no place for it.
      families: that it occurs in.
      least_points, most_points: of runs that it is put into.
      wanted: see `draft`.
    """

    inject: Callable[[Draft], Optional[Fault]]
    families: tuple[str, ...]
    least_points: int = LEAST_POINTS
    most_points: int = MOST_POINTS
    wanted: frozenset[str] = frozenset()


#: Kind -> how it is made.
FAULTS: dict[str, Injected] = {}
# What may follow from a norm that goes up with the loss.
_NORM_UP = ("grad_explosion", "clip_saturation")
_RATIO = ("pretraining", "pretraining", "fine-tuning", "classification", "DPO")
_STEADY = ("pretraining", "pretraining", "classification")
_ALL = (*_RATIO, "GRPO")


def _fault(
    families: tuple[str, ...], wanted: Sequence[str] = (), least: int = LEAST_POINTS, most: int = MOST_POINTS
) -> Callable[[Callable[[Draft], Optional[Fault]]], Callable[[Draft], Optional[Fault]]]:
    def register(inject: Callable[[Draft], Optional[Fault]]) -> Callable[[Draft], Optional[Fault]]:
        kind = inject.__name__.strip("_")
        FAULTS[kind] = Injected(inject, families, least, most, frozenset(wanted))
        return inject

    return register


def _made(
    kind: str,
    onset: int,
    end: int,
    strength: str,
    rules: Sequence[str] = (),
    excused: Sequence[str] = (),
    anywhere: bool = False,
) -> Fault:
    return Fault(kind, tuple(rules) or (kind,), frozenset(excused), onset, end, strength, anywhere)


@_fault(_ALL)
def _non_finite(run: Draft) -> Optional[Fault]:
    """NaN or Inf in the loss: to the end, or a few points long and back."""
    onset = run.onset()
    if onset is None:
        return None
    lasting = run.rng.random() < 0.6
    end = run.points if lasting else onset + int(run.rng.integers(1, 8))
    run.extra[onset:end] = run.rng.choice([np.nan, np.inf])
    run.norm[onset:end] = np.nan
    if lasting and run.eval_loss.size:
        run.eval_loss[run.evals >= onset] = np.nan
    return _made("non_finite", onset, end, "to the end" if lasting else f"{end - onset} points")


@_fault(_ALL, ["grad_norm"])
def _non_finite_norm(run: Draft) -> Optional[Fault]:
    """NaN gradient norm for many points, the scaler not reacting, the loss still fine."""
    onset = run.onset()
    if onset is None or (run.scale is not None and np.ptp(run.scale) > 0):
        return None
    end = run.points if run.rng.random() < 0.5 else onset + int(run.rng.integers(5, 60))
    run.norm[onset:end] = np.nan
    return _made("non_finite_norm", onset, end, f"{end - onset} points", ["non_finite"])


@_fault(("pretraining", "fine-tuning"), ["grad_norm"])
def _zero_loss(run: Draft) -> Optional[Fault]:
    """Loss exactly 0, the gradients gone."""
    onset = run.onset()
    if onset is None:
        return None
    run.extra[onset:] = 0.0
    run.norm[onset:] = run.rng.choice([np.nan, 0.0])
    return _made("zero_loss", onset, run.points, "to the end", excused=["non_finite", "grad_vanishing"])


@_fault(_RATIO)
def _loss_spike(run: Draft) -> Optional[Fault]:
    """Up at once and back within tens of points; the gradient norm may lead."""
    rng, onset = run.rng, run.onset(left=100)
    if onset is None:
        return None
    excess = max(_FLOOR, 8 * run.sigma[onset]) * math.exp(rng.uniform(0, math.log(6)))
    fading = float(rng.choice([0.3, 1, 3, 8]))
    run.noise[onset] = 0.0
    run.mean = run.mean * (1 + excess * _fading(run.from_(onset), fading))
    if rng.random() < 0.6:
        lead = int(rng.integers(0, 4))
        run.norm[onset - lead : onset + 3] *= _log_uniform(rng, 2, 12)
    return _made("loss_spike", onset, onset + round(5 * fading), f"+{excess:.0%}", excused=["grad_explosion"])


@_fault(_RATIO, least=600)
def _loss_divergence(run: Draft) -> Optional[Fault]:
    """Leaves its level within tens to hundreds of points, and stays away; some come back late."""
    rng, onset = run.rng, run.onset(0.25, left=max(300, run.points // 10))
    if onset is None:
        return None
    excess = max(0.3, 4 * run.sigma[onset]) * math.exp(rng.uniform(0, math.log(5)))
    since = run.from_(onset).clip(0)
    rise = excess * (1 - np.exp(-since / _log_uniform(rng, 5, max(20, 0.03 * run.points))))
    back = rng.random() < 0.25
    if back:
        rise *= np.exp(-since / max(150.0, 0.1 * run.points))
    run.mean = np.where(since > 0, run.mean[onset], run.mean) * (1 + rise)
    run.norm[onset:] *= rng.uniform(1, 6)
    _follow(run, onset)
    strength = f"+{excess:.0%}" + (", coming back" if back else "")
    return _made("loss_divergence", onset, run.points, strength, excused=["loss_spike", *_NORM_UP])


@_fault(_STEADY, least=600)
def _loss_rising(run: Draft) -> Optional[Fault]:
    """A slow rise over the rest of the run, a third of it at least; the lr does not rise meanwhile."""
    onset = run.onset(0.2, 0.65)
    if onset is None or _lr_rises(run, onset):
        return None
    excess = max(0.12, 3 * run.sigma[onset]) * math.exp(run.rng.uniform(0, math.log(4)))
    since = run.from_(onset).clip(0) / (run.points - onset)
    run.mean = np.where(since > 0, run.mean[onset], run.mean) * (1 + excess * since)
    _follow(run, onset)
    return _made("loss_rising", onset, run.points, f"+{excess:.0%}", ["loss_rising", "loss_divergence"])


@_fault(("pretraining",), ["constant", "lr", "no restarts"], least=600)
def _loss_plateau(run: Draft) -> Optional[Fault]:
    """Falls well, then not at all, the lr at its peak throughout."""
    onset = run.onset(0.25, 0.65)
    if onset is None:
        return None
    at = np.minimum(np.arange(run.points), onset)
    slope = run.rng.uniform(0.2, 0.5)
    run.mean = run.mean[0] * (1 + at / (0.05 * run.points)) ** -slope
    run.eval_loss = run.mean[run.evals] * np.exp(run.rng.normal(0, 0.004, run.evals.size))
    return _made("loss_plateau", onset, run.points, f"from {1 - run.mean[-1] / run.mean[0]:.0%} down on")


@_fault(("pretraining", "classification"), least=600)
def _loss_oscillation(run: Draft) -> Optional[Fault]:
    """Swings from one logged point to the next: to and fro, at random, or saw-toothed; never of a fixed period."""
    rng, onset = run.rng, run.onset(0.25, 0.75)
    if onset is None:
        return None
    swing = min(0.9, max(0.3, 5 * run.sigma[onset]) * rng.uniform(1, 1.8))
    kind = str(rng.choice(["to and fro", "at random", "saw-tooth"]))
    if kind == "to and fro":
        flips = np.where(rng.random(run.points) < 0.8, -1.0, 1.0)
        wave = np.cumprod(flips) * rng.uniform(0.5, 1, run.points)
    elif kind == "at random":
        wave = rng.uniform(-1, 1, run.points)
    else:
        period = rng.uniform(3, 8)
        wave = 2 * ((np.arange(run.points) / period + np.cumsum(rng.normal(0, 0.15, run.points))) % 1) - 1
    run.mean = run.mean * np.where(run.from_(onset) >= 0, 1 + swing * wave, 1)
    run.norm[onset:] *= np.exp(0.5 * rng.normal(size=run.points - onset)) * rng.uniform(1, 3)
    _follow(run, onset)
    return _made("loss_oscillation", onset, run.points, f"±{swing:.0%} {kind}", excused=_NORM_UP)


@_fault(_STEADY, least=600)
def _loss_periodic(run: Draft) -> Optional[Fault]:
    """The data come in the same order each time: a swing of a fixed period."""
    rng = run.rng
    onset = 0 if rng.random() < 0.6 else round(0.2 * run.points)
    period = round(_log_uniform(rng, 12, run.points / 8))
    swing = max(0.05, 2.5 * float(run.sigma.max())) * math.exp(rng.uniform(0, math.log(5)))
    phase = (np.arange(run.points) % period) / period
    shape = str(rng.choice(["sine", "ramp", "bump"]))
    if shape == "sine":
        wave = 0.5 * (1 + np.sin(2 * np.pi * phase))
    elif shape == "ramp":
        wave = phase
    else:
        wave = np.exp(-(((phase - 0.5) / 0.12) ** 2))
    run.mean = run.mean * (1 + swing * np.where(run.from_(onset) >= 0, wave, 0))
    if rng.random() < 0.7:
        run.epoch = run.step / (period * run.every)
        run.manifest["steps_per_epoch"] = period * run.every
    else:
        run.epoch = None
        run.manifest.pop("steps_per_epoch", None)
    return _made("loss_periodic", onset, run.points, f"{swing:.0%} {shape} of {period} points", anywhere=True)


@_fault(_ALL, ["grad_norm"])
def _grad_explosion(run: Draft) -> Optional[Fault]:
    """60x in a point, or 30x in several; the loss does not feel it."""
    rng, onset = run.rng, run.onset()
    if onset is None or _overflows(run, onset):
        return None
    long = rng.random() < 0.5
    times, end = (_log_uniform(rng, 40, 3000), onset + int(rng.integers(2, 7))) if long else (0.0, onset + 1)
    times = times or _log_uniform(rng, 80, 1e5)
    _explode(run, onset, end, times)
    return _made("grad_explosion", onset, end, f"{times:.0f}x for {end - onset} points")


@_fault(_RATIO, ["grad_norm"])
def _grad_explosion_and_loss(run: Draft) -> Optional[Fault]:
    """From 12x; the loss jumps after it for tens of points or for good, or is lost."""
    rng, onset = run.rng, run.onset(left=150)
    if onset is None or _overflows(run, onset):
        return None
    times, after = _log_uniform(rng, 15, 1e4), int(rng.integers(1, 5))
    _explode(run, onset, onset + int(rng.integers(1, 6)), times)
    what = str(rng.choice(["jumps", "leaves its level", "is lost"]))
    excess = max(0.4, 8 * run.sigma[onset]) * math.exp(rng.uniform(0, math.log(4)))
    since = run.from_(onset + after)
    if what == "is lost":
        run.extra[onset + after :] = np.nan
        run.norm[onset + after + 3 :] = np.nan
        excused = ["non_finite"]
    else:
        fading = rng.uniform(15, 60) if what == "jumps" else 50.0 * run.points
        run.mean = run.mean * (1 + excess * _fading(since, fading))
        excused = ["loss_spike", "loss_divergence"]
    # One fault, one finding: whichever takes it up says that the norm led.
    rules = ["grad_explosion", "loss_spike", "loss_divergence", "non_finite"]
    strength = f"{times:.0f}x, the loss {what}" + ("" if what == "is lost" else f" by {excess:.0%}")
    return _made("grad_explosion_and_loss", onset, run.points, strength, rules, excused)


@_fault(("pretraining", "fine-tuning", "classification"), ["grad_norm"])
def _grad_vanishing(run: Draft) -> Optional[Fault]:
    """The gradients all but vanish, and with them all progress."""
    onset = run.onset(0.3, 0.75, left=120)
    if onset is None:
        return None
    factor = _log_uniform(run.rng, 1e-9, 2e-4)
    run.norm[onset:] *= factor
    run.mean[onset:] = run.mean[onset]
    _follow(run, onset)
    return _made("grad_vanishing", onset, run.points, f"{factor:.0e}x", excused=["loss_plateau"])


@_fault(_RATIO, ["grad_norm"], least=1000)
def _clip_saturation(run: Draft) -> Optional[Fault]:
    """Above the threshold nearly always, from one point on."""
    onset = run.onset(0.2, 0.7, left=550)
    if onset is None:
        return None
    finite = run.norm[np.isfinite(run.norm) & (run.norm > 0)]
    run.norm[np.isinf(run.norm)] = finite.max()
    run.manifest["grad_clip"] = float(np.quantile(finite, 0.8))
    factor = run.manifest["grad_clip"] / float(np.quantile(run.norm[onset:], 0.02)) * run.rng.uniform(1.05, 2)
    if not np.isfinite(factor) or factor > 9:
        return None
    run.norm[onset:] *= factor
    return _made("clip_saturation", onset, run.points, f"norm {factor:.1f}x")


@_fault(("pretraining", "fine-tuning", "DPO"), ["loss_scale"])
def _loss_scale_collapse(run: Draft) -> Optional[Fault]:
    """The scale halves and halves: by some steps to below a sixteenth, or down to 1."""
    rng, onset = run.rng, run.onset(0.25, left=110)
    if onset is None or run.scale is None:
        return None
    start = int(run.step[onset])
    before = float(run.scale[onset - 1])
    if before < 64:
        return None
    to_floor = rng.random() < 0.6
    halvings = round(math.log2(before)) if to_floor else int(rng.integers(5, 9))
    # By steps; at most 100 points for all.
    gap = rng.uniform(1, max(1.5, min(12.0, 100 * run.every / halvings)))
    at = start + np.unique(np.round(np.arange(halvings) * gap).astype(np.int64))
    scales = np.maximum(1.0, before / 2.0 ** (np.arange(at.size) + 1))
    if scales[-1] > run.scale[run.points // 20 : onset].min() / 8:
        return None  # it has been about that low before
    fell = before / 2.0 ** np.arange(at.size + 1)
    had = run.overflow
    run.scale[onset:] = np.maximum(1.0, fell)[np.searchsorted(at, run.step[onset:], side="right")]
    if had is not None:
        counts = np.searchsorted(at, run.step[onset:], side="right")
        had[onset:] = np.diff(np.concatenate(([0], counts))) > 0
        if to_floor:
            # At the floor every step overflows.
            had[onset:][run.scale[onset:] <= 1] = 1.0
    if to_floor:
        run.norm[onset:][run.scale[onset:] <= 1] = np.inf
    excused = ["frequent_overflow", "non_finite"]
    return _made("loss_scale_collapse", onset, run.points, f"{before:.0f} to {scales[-1]:.0f}", excused=excused)


@_fault(("pretraining", "fine-tuning"), ["loss_scale"], least=1000, most=20_000)
def _frequent_overflow(run: Draft) -> Optional[Fault]:
    """From one point on 8 % of the steps and more overflow, the scale growing back in between."""
    rng, onset = run.rng, run.onset(0.25, 0.7, left=550)
    if onset is None or run.scale is None:
        return None
    share, left = rng.uniform(0.08, 0.3), run.points - onset
    falls = rng.binomial(run.every, share, left)
    # A short window: it grows about as often as it falls.
    moves = rng.binomial(run.every, share * 1.05, left) - falls
    level, levels = math.log2(float(run.scale[onset - 1])), []
    highest, lowest = level + 2, level - 4
    for move in moves.tolist():
        level = min(highest, max(lowest, level + move))
        levels.append(level)
    run.scale[onset:] = np.exp2(levels)
    # Without flags, the scale's own falls are all there is.
    if run.overflow is None and (run.every > 1 or rng.random() < 0.7):
        run.overflow = np.concatenate(([0.0], np.diff(run.scale) < 0))
    if run.overflow is not None:
        run.overflow[onset:] = falls > 0
    run.manifest.pop("loss_scale", None)
    return _made("frequent_overflow", onset, run.points, f"{share:.0%}", excused=["loss_scale_collapse", "non_finite"])


@_fault(("pretraining", "fine-tuning", "classification"), ["lr", "no restarts"])
def _lr_jump(run: Draft) -> Optional[Fault]:
    """The lr jumps above its earlier peak, or out of its decay and back; or it is 0 for a while."""
    rng, onset = run.rng, run.onset(0.2, 0.8)
    if onset is None:
        return None
    kind = str(rng.choice(["above its peak", "for a while", "zero"]))
    left = run.points - onset
    if kind == "above its peak":
        times = run.lr.max() / run.lr[onset] * rng.uniform(1.6, 10)
        end = run.points
    elif kind == "for a while":
        times, end = _log_uniform(rng, 2, 10), onset + int(rng.integers(3, max(4, min(left // 2, run.points // 6))))
    else:
        times, end = 0.0, onset + int(rng.integers(5, max(6, left // 2)))
    # A late stretch of zeros may be the schedule's own end.
    if end > 0.93 * run.points and kind != "above its peak":
        return None
    run.lr[onset:end] *= times
    run.manifest.pop("schedule", None)
    if times > 1:
        run.mean[onset:end] *= 1 + 0.03 * min(3.0, math.log(times))
    return _made("lr_jump", onset, end, f"{times:.1f}x, {kind}", ["lr_schedule_mismatch"])


@_fault(("pretraining",), ["lr", "no restarts"])
def _lr_not_as_declared(run: Draft) -> Optional[Fault]:
    """A declared schedule that the logged lr leaves by 3 % to half."""
    onset = run.onset(0.2, 0.8)
    if onset is None:
        return None
    _declare(run)
    times = 1 + run.rng.choice([-1, 1]) * _log_uniform(run.rng, 0.03, 0.5)
    run.lr[onset:] *= times
    return _made("lr_not_as_declared", onset, run.points, f"{times:.2f}x", ["lr_schedule_mismatch"])


@_fault(_ALL, ["throughput", "no restarts"])
def _throughput_drop(run: Draft) -> Optional[Fault]:
    """A third slower and more, to the end or for long; as throughput, as step time, or as both."""
    rng, n = run.rng, run.points
    onset = run.onset(0.2, 0.75, left=100)
    if onset is None:
        return None
    factor = rng.uniform(0.3, 0.72)
    length = max(220, round(0.06 * n))
    end = n if rng.random() < 0.6 or onset + length > n else int(rng.integers(onset + length, n + 1))
    run.seconds[onset:end] /= factor
    run.unlogged -= {"throughput", "step_time"}
    run.unlogged |= {str(rng.choice(["throughput", "step_time", "neither"]))}
    missing = sorted(run.unlogged & {"throughput", "step_time"})
    strength = f"{factor:.2f}x" + (f", no {missing[0]}" if missing else "")
    return _made("throughput_drop", onset, end, strength)


@_fault(_ALL, ["epoch"])
def _epoch_step_mismatch(run: Draft) -> Optional[Fault]:
    """The epoch advances at another pace than the manifest says, or goes back within a process."""
    rng = run.rng
    onset = run.onset()
    if onset is None or run.epoch is None:
        return None
    if rng.random() < 0.5:
        factor = float(rng.choice([0.125, 0.25, 0.5, 2, 4, 8]))
        run.manifest["steps_per_epoch"] = max(1, round(run.step[-1] / run.epoch[-1] * factor))
        return _made("epoch_step_mismatch", 0, run.points, f"{factor:g}x the declared pace", anywhere=True)
    run.manifest.pop("steps_per_epoch", None)
    back = run.epoch[onset] * rng.uniform(0.1, 1)
    run.epoch[onset:] -= back
    return _made("epoch_step_mismatch", onset, run.points, f"back by {back:.2g}")


@_fault(_ALL)
def _stalled(run: Draft) -> Optional[Fault]:
    """Nothing new for 45 minutes and 15 times its usual interval at least, while it is watched."""
    usual = float(np.median(run.seconds)) * run.every
    run.silent = max(2700.0, 15 * usual) * run.rng.uniform(1, 6)
    if run.silent > 20 * 3600:
        return None  # nobody watches that long
    return _made("stalled", run.points - 1, run.points, f"silent for {run.silent / 3600:.1f} h")


@_fault(("fine-tuning", "fine-tuning", "classification"), ["no restarts"])
def _overfitting(run: Draft) -> Optional[Fault]:
    """Eval loss turns and rises while the train loss goes on falling."""
    rng = run.rng
    count = int(rng.integers(8, 41))
    _evals(run, count, 1.0, 0.0)
    # Three evals that are worse are the fewest that say anything.
    turn = min(round(rng.uniform(0.2, 0.6) * count), run.evals.size - 5)
    spread = _log_uniform(rng, 0.002, 0.02)
    excess = max(0.12, 6 * spread) * math.exp(rng.uniform(0, math.log(8)))
    which = np.arange(run.evals.size)
    late = (which - turn).clip(0) / (run.evals.size - 1 - turn)
    early = 1 + 0.5 * np.exp(-4 * which / max(1, turn)) - 0.5 * math.exp(-4)
    run.eval_loss = rng.uniform(0.8, 1.5) * np.where(late > 0, 1.0, early) * (1 + excess * late)
    run.eval_loss *= np.exp(rng.normal(0, spread, which.size))
    # However it got there, it fits the training set ever better.
    run.mean = run.mean * (1 - 0.4 * np.linspace(0, 1, run.points))
    run.eval_accuracy = None
    run.more.pop("accuracy", None)
    return _made("overfitting", int(run.evals[turn]), run.points, f"+{excess:.0%} in {count} evals")


@_fault(("fine-tuning", "classification"), ["no restarts"])
def _overfitting_accuracy(run: Draft) -> Optional[Fault]:
    """Train accuracy goes on, eval accuracy falls behind: 8 points and more. No eval loss is logged."""
    rng = run.rng
    _evals(run, int(rng.integers(10, 41)), 1.0, 0.0)
    turn = rng.uniform(0.2, 0.5)
    x = np.arange(run.points) / run.points
    gap = rng.uniform(0.1, 0.3)
    both = rng.uniform(0.55, 0.7) * (1 - np.exp(-np.minimum(x, turn) / (0.4 * turn)))
    late = (x - turn).clip(0) / (1 - turn)
    run.more["accuracy"] = np.clip(both + 0.8 * gap * late + 0.01 * noise(rng, run.points, 0.2), 0, 1)
    run.eval_accuracy = np.clip(
        (both - 0.2 * gap * late)[run.evals] - 0.01 + rng.normal(0, 0.004, run.evals.size), 0, 1
    )
    run.eval_loss = np.zeros(0)
    run.unlogged.add("eval_loss")
    onset = round(turn * run.points)
    return _made("overfitting_accuracy", onset, run.points, f"gap {gap:.0%}", ["overfitting"])


@_fault(_STEADY, ["no restarts"], least=500)
def _resume_discontinuity(run: Draft) -> Optional[Fault]:
    """After a restart the loss stands higher: another order of the data, an optimizer state lost."""
    rng, onset = run.rng, run.onset(0.2, 0.8, left=150)
    if onset is None:
        return None
    excess = max(_FLOOR, 2.5 * run.sigma[onset]) * math.exp(rng.uniform(0, math.log(5)))
    fading = _log_uniform(rng, 80, 2 * run.points)
    since = run.from_(onset)
    old = run.points - onset
    run.joins = {onset: int(rng.integers(5, max(6, min(old, run.points // 20)))) if rng.random() < 0.5 else 0}
    run.mean = run.mean * (1 + excess * _fading(since, fading))
    strength = f"+{excess:.0%} for {fading:.0f} points, {'overlap' if run.joins[onset] else 'no overlap'}"
    return _made("resume_discontinuity", onset, run.points, strength)


@_fault(("pretraining", "fine-tuning"), ["lr", "no restarts"], least=500)
def _resume_lr(run: Draft) -> Optional[Fault]:
    """After a restart the lr stands 2x to 10x higher, and the loss hardly minds."""
    onset = run.onset(0.3, 0.8, left=150)
    if onset is None:
        return None
    times = _log_uniform(run.rng, 2, 10)
    run.joins = {onset: 0}
    run.lr[onset:] *= times
    run.manifest.pop("schedule", None)
    excused = ["lr_schedule_mismatch"]
    return _made("resume_lr", onset, run.points, f"lr {times:.1f}x", ["resume_discontinuity", *excused], excused)


@_fault(("GRPO",), least=500)
def _kl_blowup(run: Draft) -> Optional[Fault]:
    """The policy runs away: KL 20x and more."""
    onset = run.onset(0.3, 0.8, left=100)
    if onset is None:
        return None
    times = _log_uniform(run.rng, 20, 500)
    since = run.from_(onset).clip(0)
    run.more["kl"] *= 1 + times * (1 - np.exp(-since / _log_uniform(run.rng, 5, 0.05 * run.points)))
    return _made("kl_blowup", onset, run.points, f"{times:.0f}x", excused=["reward_collapse"])


@_fault(("GRPO",), least=500)
def _clip_fraction_high(run: Draft) -> Optional[Fault]:
    """Most updates clipped."""
    onset = run.onset(0.2, 0.8, left=100)
    if onset is None:
        return None
    level = run.rng.uniform(0.4, 0.8)
    run.more["clip_fraction"][onset:] = np.clip(level + 0.04 * noise(run.rng, run.points - onset, 0.3), 0, 1)
    return _made("clip_fraction_high", onset, run.points, f"{level:.2f}")


@_fault(("GRPO",), least=500)
def _reward_collapse(run: Draft) -> Optional[Fault]:
    """The reward falls by half and more within a twentieth of the run, and stays there."""
    onset = run.onset(0.3, 0.8, left=100)
    if onset is None:
        return None
    lost = run.rng.uniform(0.5, 1.0)
    since = run.from_(onset).clip(0)
    run.more["reward"] *= 1 - lost * (1 - np.exp(-since / _log_uniform(run.rng, 5, 0.05 * run.points)))
    return _made("reward_collapse", onset, run.points, f"-{lost:.0%}")


def _fading(since: npt.NDArray[np.int64], points: float) -> Floats:
    """0 before, 1 at 0, and back within about `points` by e."""
    return np.where(since >= 0, np.exp(-since.clip(0) / points), 0.0)


def _lr_rises(run: Draft, onset: int) -> bool:
    """Whether the lr is raised after `onset`, which raises a healthy loss as well."""
    return bool(np.any(np.diff(run.lr[onset:]) > 1e-3 * run.lr.max()))


def _overflows(run: Draft, onset: int) -> bool:
    """Whether the loss scaler may have skipped what begins at `onset`."""
    return run.scale is not None and bool(np.any(np.diff(run.scale[onset - 5 : onset + 15]) < 0))


def _explode(run: Draft, onset: int, end: int, times: float) -> None:
    level = float(np.median(run.norm[max(0, onset - 128) : onset][np.isfinite(run.norm[max(0, onset - 128) : onset])]))
    run.norm[onset:end] = level * times * np.exp(0.1 * run.rng.normal(size=end - onset))
    if run.overflow is not None:
        run.overflow[onset:end] = 0.0


def _follow(run: Draft, onset: int) -> None:
    """Evaluations after the onset see the level that training has."""
    late = run.evals >= onset
    if not late.any() or not run.eval_loss.size:
        return
    window = np.maximum(1, np.minimum(run.evals[late] - onset, 32))
    levels = [float(run.mean[at - size + 1 : at + 1].mean()) for at, size in zip(run.evals[late], window)]
    before = run.eval_loss[~late]
    factor = before[-1] / run.mean[run.evals[~late][-1]] if before.size else 1.0
    run.eval_loss[late] = np.array(levels) * factor * np.exp(run.rng.normal(0, 0.005, len(levels)))
