"""Faults of the loss."""

from __future__ import annotations

import math
from typing import Optional

import numpy as np

from curves.drafts import Draft, Fault
from curves.injection import ALL, FLOOR, NORM_UP, RATIO, STEADY, fault, follow, lr_rises, made
from curves.noise import fading_out, log_uniform


@fault(ALL)
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
    return made("non_finite", onset, end, "to the end" if lasting else f"{end - onset} points")


@fault(ALL, ["grad_norm"])
def _non_finite_norm(run: Draft) -> Optional[Fault]:
    """NaN gradient norm for many points, the scaler not reacting, the loss still fine."""
    onset = run.onset()
    if onset is None or (run.scale is not None and np.ptp(run.scale) > 0):
        return None
    end = run.points if run.rng.random() < 0.5 else onset + int(run.rng.integers(5, 60))
    run.norm[onset:end] = np.nan
    return made("non_finite_norm", onset, end, f"{end - onset} points", ["non_finite"])


@fault(("pretraining", "fine-tuning"), ["grad_norm"])
def _zero_loss(run: Draft) -> Optional[Fault]:
    """Loss exactly 0, the gradients gone."""
    onset = run.onset()
    if onset is None:
        return None
    run.extra[onset:] = 0.0
    run.norm[onset:] = run.rng.choice([np.nan, 0.0])
    return made("zero_loss", onset, run.points, "to the end", excused=["non_finite", "grad_vanishing"])


@fault(RATIO)
def _loss_spike(run: Draft) -> Optional[Fault]:
    """Up at once and back within tens of points; the gradient norm may lead."""
    rng, onset = run.rng, run.onset(left=100)
    if onset is None:
        return None
    excess = max(FLOOR, 8 * run.sigma[onset]) * math.exp(rng.uniform(0, math.log(6)))
    fading = float(rng.choice([0.3, 1, 3, 8]))
    run.noise[onset] = 0.0
    run.mean = run.mean * (1 + excess * fading_out(run.from_(onset), fading))
    if rng.random() < 0.6:
        lead = int(rng.integers(0, 4))
        run.norm[onset - lead : onset + 3] *= log_uniform(rng, 2, 12)
    return made("loss_spike", onset, onset + round(5 * fading), f"+{excess:.0%}", excused=["grad_explosion"])


@fault(RATIO, least=600)
def _loss_divergence(run: Draft) -> Optional[Fault]:
    """Leaves its level within tens to hundreds of points, and stays away; some come back late."""
    rng, onset = run.rng, run.onset(0.25, left=max(300, run.points // 10))
    if onset is None:
        return None
    excess = max(0.3, 4 * run.sigma[onset]) * math.exp(rng.uniform(0, math.log(5)))
    since = run.from_(onset).clip(0)
    rise = excess * (1 - np.exp(-since / log_uniform(rng, 5, max(20, 0.03 * run.points))))
    back = rng.random() < 0.25
    if back:
        rise *= np.exp(-since / max(150.0, 0.1 * run.points))
    run.mean = np.where(since > 0, run.mean[onset], run.mean) * (1 + rise)
    run.norm[onset:] *= rng.uniform(1, 6)
    follow(run, onset)
    strength = f"+{excess:.0%}" + (", coming back" if back else "")
    return made("loss_divergence", onset, run.points, strength, excused=["loss_spike", *NORM_UP])


@fault(STEADY, least=600)
def _loss_rising(run: Draft) -> Optional[Fault]:
    """A slow rise over the rest of the run, a third of it at least; the lr does not rise meanwhile."""
    onset = run.onset(0.2, 0.65)
    if onset is None or lr_rises(run, onset):
        return None
    excess = max(0.12, 3 * run.sigma[onset]) * math.exp(run.rng.uniform(0, math.log(4)))
    since = run.from_(onset).clip(0) / (run.points - onset)
    run.mean = np.where(since > 0, run.mean[onset], run.mean) * (1 + excess * since)
    follow(run, onset)
    return made("loss_rising", onset, run.points, f"+{excess:.0%}", ["loss_rising", "loss_divergence"])


@fault(("pretraining",), ["constant", "lr", "no restarts"], least=600)
def _loss_plateau(run: Draft) -> Optional[Fault]:
    """Falls well, then not at all, the lr at its peak throughout."""
    onset = run.onset(0.25, 0.65)
    if onset is None:
        return None
    at = np.minimum(np.arange(run.points), onset)
    slope = run.rng.uniform(0.2, 0.5)
    run.mean = run.mean[0] * (1 + at / (0.05 * run.points)) ** -slope
    run.eval_loss = run.mean[run.evals] * np.exp(run.rng.normal(0, 0.004, run.evals.size))
    return made("loss_plateau", onset, run.points, f"from {1 - run.mean[-1] / run.mean[0]:.0%} down on")


@fault(("pretraining", "classification"), least=600)
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
    follow(run, onset)
    return made("loss_oscillation", onset, run.points, f"±{swing:.0%} {kind}", excused=NORM_UP)


@fault(STEADY, least=600)
def _loss_periodic(run: Draft) -> Optional[Fault]:
    """The data come in the same order each time: a swing of a fixed period."""
    rng = run.rng
    onset = 0 if rng.random() < 0.6 else round(0.2 * run.points)
    period = round(log_uniform(rng, 12, run.points / 8))
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
    return made("loss_periodic", onset, run.points, f"{swing:.0%} {shape} of {period} points", anywhere=True)
