"""Healthy trainings of five kinds."""

from __future__ import annotations

import math
from typing import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from curves.drafts import Draft
from curves.noise import Floats, lagged, log_uniform, noise
from curves.surroundings import add_epochs, add_evals, declare


def _lr(rng: np.random.Generator, n: int, kinds: Sequence[str], peak: float) -> tuple[str, Floats]:
    """A schedule's name and its (n,) values."""
    shape: Floats
    kind = str(rng.choice(kinds))
    warm = max(1, round(n * log_uniform(rng, 0.003, 0.1)))
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
    kind, lr = _lr(rng, n, kinds, log_uniform(rng, 1e-5, 2e-3))
    start = math.log(float(rng.choice([32_000, 50_304, 100_352, 151_936]))) * rng.uniform(0.98, 1.06)
    end = rng.uniform(1.4, 2.4)
    # The power law falls throughout; a constant lr that came to rest would be a plateau in truth.
    slope = rng.uniform(0.15, 0.3) if kind in ("constant", "inverse sqrt") else rng.uniform(0.15, 0.5)
    mean = end + (start - end) * (1 + step / log_uniform(rng, 20, 500)) ** -slope
    warm = int(np.argmax(lr))
    shape = lr / lr.max()
    shape[:warm] = 1.0
    # A lower lr settles lower: WSD's last drop, and the step up at a restart.
    mean *= 1 - rng.uniform(0.02, 0.1) * (1 - lagged(shape, max(2.0, 0.004 * n)))
    if warm >= 50 and rng.random() < 0.4:
        mean *= 1 + rng.uniform(0.05, 0.25) * np.exp(-(((np.arange(n) - 0.9 * warm) / (0.25 * warm)) ** 2))
    if rng.random() < 0.25:
        sign = rng.choice([-1, 1])
        for _ in range(int(rng.integers(1, 3))):
            mean[int(rng.integers(n // 5, n)) :] *= 1 + sign * rng.uniform(0.02, 0.08)
            sign = -sign
    sigma = log_uniform(rng, 0.004, 0.1) * np.linspace(1, rng.uniform(0.7, 1.3), n)
    drawn = _drafted(rng, "pretraining", every, step, mean, sigma, lr, kind)
    if rng.random() < 0.6:
        add_evals(drawn, int(rng.integers(4, 41)), rng.uniform(0.98, 1.05), log_uniform(rng, 0.001, 0.01))
    if kind == "cosine" and rng.random() < 0.4:
        declare(drawn)
    drawn.manifest["tokens_per_step"] = int(rng.choice([2**17, 2**20, 2**22]))
    drawn.manifest["total_steps"] = int(step[-1])
    add_epochs(drawn, rng.uniform(0.1, 4))
    return drawn


def _finetune(rng: np.random.Generator, n: int, every: int, wanted: frozenset[str]) -> Draft:
    step = (np.arange(n) + 1) * every
    kind, lr = _lr(rng, n, ["cosine", "linear", "constant"], log_uniform(rng, 5e-6, 3e-4))
    epochs = int(rng.integers(2, 6))
    x = step / step[-1] * epochs
    level = rng.uniform(0.9, 2.4) * np.concatenate(([1.0], np.cumprod(rng.uniform(0.5, 0.9, epochs - 1))))
    which = np.minimum(np.ceil(x).astype(int) - 1, epochs - 1)
    # Within an epoch the loss hardly falls; with the second look at a sample it does.
    least = 0.08 if kind == "constant" else 0.03
    mean = lagged(level[which], max(1.0, 0.002 * n)) * (1 - rng.uniform(least, 0.12) * (x - which))
    mean *= 1 + rng.uniform(0.1, 0.6) * np.exp(-x / 0.05)
    sigma = log_uniform(rng, 0.03, 0.3) * np.linspace(1, rng.uniform(0.8, 1.6), n)
    drawn = _drafted(rng, "fine-tuning", every, step, mean, sigma, lr, kind)
    if rng.random() < 0.7:
        add_evals(drawn, int(epochs * rng.integers(1, 7)), 1.0, log_uniform(rng, 0.002, 0.01))
        progress = drawn.step[drawn.evals] / step[-1]
        # It learns what there is to learn, and stays there.
        drawn.eval_loss = mean[0] * (rng.uniform(0.7, 0.85) + 0.15 * np.exp(-5 * progress))
        drawn.eval_loss *= np.exp(rng.normal(0, log_uniform(rng, 0.002, 0.01), progress.size))
    add_epochs(drawn, float(epochs))
    return drawn


def _dpo(rng: np.random.Generator, n: int, every: int, wanted: frozenset[str]) -> Draft:
    step = (np.arange(n) + 1) * every
    kind, lr = _lr(rng, n, ["cosine", "linear"], log_uniform(rng, 1e-7, 1e-5))
    x = np.arange(n) / n
    done = 1 - np.exp(-x * rng.uniform(1.5, 6))
    mean = math.log(2) - (math.log(2) - rng.uniform(0.3, 0.6)) * done
    drawn = _drafted(rng, "DPO", every, step, mean, log_uniform(rng, 0.06, 0.3) * np.linspace(0.3, 1, n), lr, kind)
    drawn.more["accuracy"] = np.clip(0.5 + 0.25 * done + 0.08 * noise(rng, n, 0.1), 0, 1)
    drawn.more["reward"] = 2 * done + 0.2 * noise(rng, n, 0.2)
    if rng.random() < 0.5:
        add_evals(drawn, int(rng.integers(4, 20)), 1.0, 0.01)
    add_epochs(drawn, float(rng.integers(1, 4)))
    return drawn


def _grpo(rng: np.random.Generator, n: int, every: int, wanted: frozenset[str]) -> Draft:
    step = (np.arange(n) + 1) * every
    kind, lr = _lr(rng, n, ["constant", "constant", "cosine", "linear"], log_uniform(rng, 1e-7, 1e-5))
    x = np.arange(n) / n
    sigma = np.full(n, log_uniform(rng, 3e-4, 0.05))
    beta = float(rng.choice([0.0, 0.001, 0.04]))
    kl = rng.uniform(0.02, 0.3) * (1 - np.exp(-x * rng.uniform(2, 6))) + 1e-4
    kl *= np.exp(0.15 * noise(rng, n, 0.3))
    drawn = _drafted(rng, "GRPO", every, step, beta * kl, sigma, lr, kind)
    drawn.ratio = False
    low, high = rng.uniform(0.1, 0.4), rng.uniform(0.5, 0.95)
    drawn.more["reward"] = low + (high - low) * (1 - np.exp(-x * 3)) + rng.uniform(0.02, 0.08) * noise(rng, n, 0.2)
    drawn.more["kl"] = kl
    drawn.more["clip_fraction"] = np.clip(rng.uniform(0.005, 0.1) * np.exp(0.4 * noise(rng, n, 0.3)), 0, 0.25)
    add_epochs(drawn, 1.0)
    return drawn


def _classify(rng: np.random.Generator, n: int, every: int, wanted: frozenset[str]) -> Draft:
    step = (np.arange(n) + 1) * every
    kind, lr = _lr(rng, n, ["steps"], log_uniform(rng, 0.01, 0.5))
    start = math.log(float(rng.choice([10, 100, 1000])))
    phase = np.round(np.log(lr / lr.max()) / math.log(lr[-1] / lr.max()) * 3).clip(0, 3)
    phase[: int(np.argmax(lr))] = 0
    level = start * rng.uniform(0.2, 0.4) * np.cumprod([1.0, *rng.uniform(0.5, 0.75, 3)])[phase.astype(int)]
    level = lagged(level, max(1.0, 0.004 * n))
    x = np.arange(n) / n
    mean = level * (1.1 - 0.1 * x) + (start - level[0]) * np.exp(-x / rng.uniform(0.02, 0.06))
    drawn = _drafted(rng, "classification", every, step, mean, np.full(n, log_uniform(rng, 0.02, 0.15)), lr, kind)
    right = 1 - 0.9 * mean / start
    drawn.more["accuracy"] = np.clip(right + 0.02 * noise(rng, n, 0.1), 0, 1)
    count = min(n // 10, int(rng.integers(15, 121)))
    add_evals(drawn, count, rng.uniform(1.0, 1.1), log_uniform(rng, 0.005, 0.03))
    drawn.eval_accuracy = np.clip(right[drawn.evals] - 0.01 + rng.normal(0, 0.004, drawn.evals.size), 0, 1)
    add_epochs(drawn, float(count))
    return drawn


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


#: Name -> how a healthy run of the family is drawn.
FAMILIES: Mapping[str, Callable[[np.random.Generator, int, int, frozenset[str]], Draft]] = {
    "pretraining": _pretrain,
    "fine-tuning": _finetune,
    "DPO": _dpo,
    "GRPO": _grpo,
    "classification": _classify,
}
