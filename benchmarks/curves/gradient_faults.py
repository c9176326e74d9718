"""Faults of the gradient norm, its clipping and the loss scale."""

from __future__ import annotations

import math
from typing import Optional

import numpy as np

from curves.drafts import Draft, Fault
from curves.injection import ALL, RATIO, explode, fault, follow, made, overflows
from curves.noise import fading_out, log_uniform


@fault(ALL, ["grad_norm"])
def _grad_explosion(run: Draft) -> Optional[Fault]:
    """60x in a point, or 30x in several; the loss does not feel it."""
    rng, onset = run.rng, run.onset()
    if onset is None or overflows(run, onset):
        return None
    long = rng.random() < 0.5
    times, end = (log_uniform(rng, 40, 3000), onset + int(rng.integers(2, 7))) if long else (0.0, onset + 1)
    times = times or log_uniform(rng, 80, 1e5)
    explode(run, onset, end, times)
    return made("grad_explosion", onset, end, f"{times:.0f}x for {end - onset} points")


@fault(RATIO, ["grad_norm"])
def _grad_explosion_and_loss(run: Draft) -> Optional[Fault]:
    """From 12x; the loss jumps after it for tens of points or for good, or is lost."""
    rng, onset = run.rng, run.onset(left=150)
    if onset is None or overflows(run, onset):
        return None
    times, after = log_uniform(rng, 15, 1e4), int(rng.integers(1, 5))
    explode(run, onset, onset + int(rng.integers(1, 6)), times)
    what = str(rng.choice(["jumps", "leaves its level", "is lost"]))
    excess = max(0.4, 8 * run.sigma[onset]) * math.exp(rng.uniform(0, math.log(4)))
    since = run.from_(onset + after)
    if what == "is lost":
        run.extra[onset + after :] = np.nan
        run.norm[onset + after + 3 :] = np.nan
        excused = ["non_finite"]
    else:
        fading = rng.uniform(15, 60) if what == "jumps" else 50.0 * run.points
        run.mean = run.mean * (1 + excess * fading_out(since, fading))
        excused = ["loss_spike", "loss_divergence"]
    # One fault, one finding: whichever takes it up says that the norm led.
    rules = ["grad_explosion", "loss_spike", "loss_divergence", "non_finite"]
    strength = f"{times:.0f}x, the loss {what}" + ("" if what == "is lost" else f" by {excess:.0%}")
    return made("grad_explosion_and_loss", onset, run.points, strength, rules, excused)


@fault(RATIO, ["grad_norm"])
def _grad_explosion_climbing(run: Draft) -> Optional[Fault]:
    """It climbs to 15x and more within 5 to 20 points; then the loss leaves its level, or is lost."""
    rng, onset = run.rng, run.onset(left=150)
    if onset is None or overflows(run, onset):
        return None
    times, length = log_uniform(rng, 15, 3000), int(rng.integers(5, 21))
    up = onset + length
    explode(run, onset, up, 1.0)
    run.norm[onset:up] *= times ** (np.arange(1, length + 1) / length)
    lost = rng.random() < 0.5
    if lost:
        run.extra[up:] = np.nan
        run.norm[up:] = np.nan
    else:
        run.mean = run.mean * (1 + max(0.4, 8 * run.sigma[onset]) * fading_out(run.from_(up), 50.0 * run.points))
        run.norm[up:] *= times
    strength = f"{times:.0f}x in {length} points, the loss {'is lost' if lost else 'leaves its level'}"
    rules = ["grad_explosion"] if lost else ["grad_explosion", "loss_spike", "loss_divergence"]
    excused = ["non_finite"] if lost else ["loss_spike", "loss_divergence", "clip_saturation"]
    return made("grad_explosion_climbing", onset, run.points, strength, rules, excused)


@fault(("pretraining", "fine-tuning", "classification"), ["grad_norm"])
def _grad_vanishing(run: Draft) -> Optional[Fault]:
    """The gradients all but vanish, and with them all progress."""
    onset = run.onset(0.3, 0.75, left=120)
    if onset is None:
        return None
    factor = log_uniform(run.rng, 1e-9, 2e-4)
    run.norm[onset:] *= factor
    run.mean[onset:] = run.mean[onset]
    follow(run, onset)
    return made("grad_vanishing", onset, run.points, f"{factor:.0e}x", excused=["loss_plateau"])


@fault(RATIO, ["grad_norm"], least=1000)
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
    return made("clip_saturation", onset, run.points, f"norm {factor:.1f}x")


@fault(("pretraining", "fine-tuning", "DPO"), ["loss_scale"])
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
    return made("loss_scale_collapse", onset, run.points, f"{before:.0f} to {scales[-1]:.0f}", excused=excused)


@fault(("pretraining", "fine-tuning"), ["loss_scale"], least=1000, most=20_000)
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
    return made("frequent_overflow", onset, run.points, f"{share:.0%}", excused=["loss_scale_collapse", "non_finite"])
