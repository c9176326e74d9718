"""What is logged beside the loss: schedules, evaluations, loss scale, gradient norm, speed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from curves.drafts import Draft
from curves.noise import Floats, log_uniform, noise


def declare(run: Draft) -> None:
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


def add_evals(run: Draft, count: int, factor: float, spread: float) -> None:
    """So many evaluations, at `factor` of the level, with noise."""
    run.evals = np.unique(np.linspace(run.points / count, run.points - 1, count).astype(np.int64))
    run.eval_loss = run.mean[run.evals] * factor * np.exp(run.rng.normal(0, spread, run.evals.size))


def add_epochs(run: Draft, epochs: float) -> None:
    """So many epochs; mostly the manifest knows their length."""
    per_epoch = max(1, round(run.step[-1] / epochs))
    run.epoch = run.step / per_epoch
    if run.rng.random() < 0.6:
        run.manifest["steps_per_epoch"] = per_epoch


def draw_precision(run: Draft, wanted: frozenset[str]) -> None:
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


def draw_norm(run: Draft) -> None:
    """Gradient norm: falls at first, autocorrelated, heavy-tailed."""
    rng, n = run.rng, run.points
    norm = log_uniform(rng, 0.05, 3) * (1 + rng.uniform(0, 8) * np.exp(-np.arange(n) / max(5.0, 0.01 * n)))
    norm *= np.exp(log_uniform(rng, 0.05, 0.4) * noise(rng, n, float(rng.choice([0, 0.3, 0.6])), 8))
    if rng.random() < 0.5:
        outliers = rng.random(n) < log_uniform(rng, 2e-4, 5e-3)
        norm[outliers] *= np.minimum(1 + 2 * rng.pareto(1.8, int(outliers.sum())), 25.0)
    if run.family == "GRPO":
        norm[rng.random(n) < rng.choice([0.0, 0.03])] = 0.0  # a group without any spread of rewards
    if rng.random() < 0.4:
        run.manifest["grad_clip"] = float(np.median(norm) * log_uniform(rng, 1.1, 5))
    if run.overflow is not None and run.every == 1 and rng.random() < 0.5:
        norm[run.overflow > 0] = np.inf
    run.norm = norm


def draw_speed(run: Draft) -> None:
    """Seconds a step: slow first steps, pauses for evaluations and checkpoints, stragglers."""
    rng, n = run.rng, run.points
    seconds = log_uniform(rng, 0.1, 20) * np.exp(log_uniform(rng, 0.005, 0.06) * noise(rng, n, 0.3, 8))
    seconds[: int(rng.integers(1, 6))] *= rng.uniform(2, 30)
    if rng.random() < 0.5:
        seconds[:: int(rng.integers(20, 400))] *= rng.uniform(1.2, 4)
    stragglers = rng.random(n) < log_uniform(rng, 5e-4, 1e-2)
    seconds[stragglers] *= rng.uniform(1.2, 4, int(stragglers.sum()))
    run.seconds = seconds * np.linspace(1, rng.uniform(0.97, 1.03), n)
