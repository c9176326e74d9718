"""Faults of the learning rate, the speed, evaluations, joins and reinforcement learning."""

from __future__ import annotations

import math
from typing import Optional

import numpy as np

from curves.drafts import Draft, Fault
from curves.injection import ALL, FLOOR, STEADY, fault, made
from curves.noise import fading_out, log_uniform, noise
from curves.surroundings import add_evals, declare


@fault(("pretraining", "fine-tuning", "classification"), ["lr", "no restarts"])
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
        times, end = log_uniform(rng, 2, 10), onset + int(rng.integers(3, max(4, min(left // 2, run.points // 6))))
    else:
        times, end = 0.0, onset + int(rng.integers(5, max(6, left // 2)))
    # A late stretch of zeros may be the schedule's own end.
    if end > 0.93 * run.points and kind != "above its peak":
        return None
    run.lr[onset:end] *= times
    run.manifest.pop("schedule", None)
    if times > 1:
        run.mean[onset:end] *= 1 + 0.03 * min(3.0, math.log(times))
    return made("lr_jump", onset, end, f"{times:.1f}x, {kind}", ["lr_schedule_mismatch"])


@fault(("pretraining",), ["lr", "no restarts"])
def _lr_not_as_declared(run: Draft) -> Optional[Fault]:
    """A declared schedule that the logged lr leaves by 3 % to half."""
    onset = run.onset(0.2, 0.8)
    if onset is None:
        return None
    declare(run)
    times = 1 + run.rng.choice([-1, 1]) * log_uniform(run.rng, 0.03, 0.5)
    run.lr[onset:] *= times
    return made("lr_not_as_declared", onset, run.points, f"{times:.2f}x", ["lr_schedule_mismatch"])


@fault(ALL, ["throughput", "no restarts"])
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
    return made("throughput_drop", onset, end, strength)


@fault(ALL, ["epoch"])
def _epoch_step_mismatch(run: Draft) -> Optional[Fault]:
    """The epoch advances at another pace than the manifest says, or goes back within a process."""
    rng = run.rng
    onset = run.onset()
    if onset is None or run.epoch is None:
        return None
    if rng.random() < 0.5:
        factor = float(rng.choice([0.125, 0.25, 0.5, 2, 4, 8]))
        run.manifest["steps_per_epoch"] = max(1, round(run.step[-1] / run.epoch[-1] * factor))
        return made("epoch_step_mismatch", 0, run.points, f"{factor:g}x the declared pace", anywhere=True)
    run.manifest.pop("steps_per_epoch", None)
    back = run.epoch[onset] * rng.uniform(0.1, 1)
    run.epoch[onset:] -= back
    return made("epoch_step_mismatch", onset, run.points, f"back by {back:.2g}")


@fault(ALL)
def _stalled(run: Draft) -> Optional[Fault]:
    """Nothing new for 45 minutes and 15 times its usual interval at least, while it is watched."""
    usual = float(np.median(run.seconds)) * run.every
    run.silent = max(2700.0, 15 * usual) * run.rng.uniform(1, 6)
    if run.silent > 20 * 3600:
        return None  # nobody watches that long
    return made("stalled", run.points - 1, run.points, f"silent for {run.silent / 3600:.1f} h")


@fault(("fine-tuning", "fine-tuning", "classification"), ["no restarts"])
def _overfitting(run: Draft) -> Optional[Fault]:
    """Eval loss turns and rises while the train loss goes on falling."""
    rng = run.rng
    count = int(rng.integers(8, 41))
    add_evals(run, count, 1.0, 0.0)
    # Three evals that are worse are the fewest that say anything.
    turn = min(round(rng.uniform(0.2, 0.6) * count), run.evals.size - 5)
    spread = log_uniform(rng, 0.002, 0.02)
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
    return made("overfitting", int(run.evals[turn]), run.points, f"+{excess:.0%} in {count} evals")


@fault(("fine-tuning", "classification"), ["no restarts"])
def _overfitting_accuracy(run: Draft) -> Optional[Fault]:
    """Train accuracy goes on, eval accuracy falls behind: 8 points and more. No eval loss is logged."""
    rng = run.rng
    add_evals(run, int(rng.integers(10, 41)), 1.0, 0.0)
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
    return made("overfitting_accuracy", onset, run.points, f"gap {gap:.0%}", ["overfitting"])


@fault(STEADY, ["no restarts"], least=500)
def _resume_discontinuity(run: Draft) -> Optional[Fault]:
    """After a restart the loss stands higher: another order of the data, an optimizer state lost."""
    rng, onset = run.rng, run.onset(0.2, 0.8, left=150)
    if onset is None:
        return None
    excess = max(FLOOR, 2.5 * run.sigma[onset]) * math.exp(rng.uniform(0, math.log(5)))
    fading = log_uniform(rng, 80, 2 * run.points)
    since = run.from_(onset)
    old = run.points - onset
    run.joins = {onset: int(rng.integers(5, max(6, min(old, run.points // 20)))) if rng.random() < 0.5 else 0}
    run.mean = run.mean * (1 + excess * fading_out(since, fading))
    strength = f"+{excess:.0%} for {fading:.0f} points, {'overlap' if run.joins[onset] else 'no overlap'}"
    return made("resume_discontinuity", onset, run.points, strength)


@fault(("pretraining", "fine-tuning"), ["lr", "no restarts"], least=500)
def _resume_lr(run: Draft) -> Optional[Fault]:
    """After a restart the lr stands 2x to 10x higher, and the loss hardly minds."""
    onset = run.onset(0.3, 0.8, left=150)
    if onset is None:
        return None
    times = log_uniform(run.rng, 2, 10)
    run.joins = {onset: 0}
    run.lr[onset:] *= times
    run.manifest.pop("schedule", None)
    excused = ["lr_schedule_mismatch"]
    return made("resume_lr", onset, run.points, f"lr {times:.1f}x", ["resume_discontinuity", *excused], excused)


@fault(("GRPO",), least=500)
def _kl_blowup(run: Draft) -> Optional[Fault]:
    """The policy runs away: KL 20x and more."""
    onset = run.onset(0.3, 0.8, left=100)
    if onset is None:
        return None
    times = log_uniform(run.rng, 20, 500)
    since = run.from_(onset).clip(0)
    run.more["kl"] *= 1 + times * (1 - np.exp(-since / log_uniform(run.rng, 5, 0.05 * run.points)))
    return made("kl_blowup", onset, run.points, f"{times:.0f}x", excused=["reward_collapse"])


@fault(("GRPO",), least=500)
def _clip_fraction_high(run: Draft) -> Optional[Fault]:
    """Most updates clipped."""
    onset = run.onset(0.2, 0.8, left=100)
    if onset is None:
        return None
    level = run.rng.uniform(0.4, 0.8)
    run.more["clip_fraction"][onset:] = np.clip(level + 0.04 * noise(run.rng, run.points - onset, 0.3), 0, 1)
    return made("clip_fraction_high", onset, run.points, f"{level:.2f}")


@fault(("GRPO",), least=500)
def _reward_collapse(run: Draft) -> Optional[Fault]:
    """The reward falls by half and more within a twentieth of the run, and stays there."""
    onset = run.onset(0.3, 0.8, left=100)
    if onset is None:
        return None
    lost = run.rng.uniform(0.5, 1.0)
    since = run.from_(onset).clip(0)
    run.more["reward"] *= 1 - lost * (1 - np.exp(-since / log_uniform(run.rng, 5, 0.05 * run.points)))
    return made("reward_collapse", onset, run.points, f"-{lost:.0%}")
