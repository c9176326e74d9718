"""Six public rules that flag a step of a training run, written anew from their published definitions.

Each takes series of one run and returns which points it would flag, as it would have while the run went on: no flag
depends on a later point. NaN and infinite points are skipped, except where a definition says what to do with them.

| rule | flags a point when |
|---|---|
| OLMo-core, SkipStepOptimizer | loss or grad norm > mean + 6 standard deviations of the 128 before (64 at least) |
| ZClip | its z-score against exponential averages (alpha 0.97) of mean and variance is > 2.5; 25 points of warm-up |
| Lightning, SpikeDetection | the distance upwards from the mean of the 10 before is at least twice that mean |
| llm-foundry, KillLossSpike | loss >= twice the mean of the 100 before, five times in a row |
| Megatron-LM, rerun state machine | loss >= 10 times the largest of the first 100 |
| InternLM, loss spike alert | loss > 1.5 times the one before |
"""

from __future__ import annotations

import math
from typing import Callable, Mapping, Optional

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def skip_step(value: Floats, window: int = 128, sigmas: float = 6.0) -> Flags:
    """OLMo-core: more than `sigmas` standard deviations above the mean of the last `window` values."""
    flags = np.zeros(value.size, dtype=bool)
    kept, where = _finite(value)
    mean, deviation, count = _trailing(kept, window)
    with np.errstate(invalid="ignore"):
        flags[where] = (count >= window // 2) & (kept - mean > sigmas * deviation)
    return flags


def zclip(value: Floats, alpha: float = 0.97, threshold: float = 2.5, warm_up: int = 25) -> Flags:
    """ZClip: z-score against exponential averages; what it clips enters the averages clipped."""
    flags = np.zeros(value.size, dtype=bool)
    kept, where = _finite(value)
    if kept.size <= warm_up:
        return flags
    mean, variance = float(kept[:warm_up].mean()), float(kept[:warm_up].var())
    for i, x in enumerate(kept[warm_up:].tolist(), warm_up):
        z = (x - mean) / (math.sqrt(variance) + 1e-6)
        if z > threshold:
            flags[where[i]] = True
            # As published: the larger the z-score, the nearer to the mean it is clipped.
            x = mean + threshold**2 / z * math.sqrt(variance)
        variance = alpha * variance + (1 - alpha) * (x - mean) ** 2
        mean = alpha * mean + (1 - alpha) * x
    return flags


def spike_detection(value: Floats, window: int = 10, relative: float = 2.0) -> Flags:
    """Lightning: away from the mean of the last `window` by `relative` times that mean; not finite counts too."""
    kept, where = _finite(value)
    mean, _, count = _trailing(kept, window)
    flags = ~np.isfinite(value)
    with np.errstate(invalid="ignore"):
        # A loss that falls is no spike, whatever the distance.
        flags[where] = (count >= 1) & (kept > mean) & (np.abs(kept - mean) >= np.abs(relative * mean))
    return flags


def kill_loss_spike(value: Floats, window: int = 100, times: float = 2.0, in_a_row: int = 5) -> Flags:
    """llm-foundry: `in_a_row` values of at least `times` the mean of the `window` before."""
    flags = np.zeros(value.size, dtype=bool)
    kept, where = _finite(value)
    mean, _, count = _trailing(kept, window)
    with np.errstate(invalid="ignore"):
        high = (count >= window) & (kept >= times * mean)
    run = 0
    for i in np.flatnonzero(high):
        run = run + 1 if run and high[i - 1] else 1
        flags[where[i]] = run >= in_a_row
    return flags


def rerun_test(value: Floats, first: int = 100, times: float = 10.0) -> Flags:
    """Megatron-LM: at least `times` the largest of the `first` values; not finite counts too."""
    kept, _ = _finite(value)
    flags = ~np.isfinite(value)
    if kept.size > first:
        flags[first:] |= value[first:] >= times * kept[:first].max()
    return flags


def loss_spike_alert(value: Floats, times: float = 1.5) -> Flags:
    """InternLM: more than `times` the value before."""
    flags = np.zeros(value.size, dtype=bool)
    with np.errstate(invalid="ignore"):
        flags[1:] = value[1:] > times * value[:-1]
    return flags


def _of_loss(rule: Callable[[Floats], Flags]) -> Callable[[Mapping[str, Floats]], Optional[Flags]]:
    return lambda run: rule(run["loss"])


def _olmo(run: Mapping[str, Floats]) -> Flags:
    flags = skip_step(run["loss"])
    return flags | skip_step(run["grad_norm"]) if "grad_norm" in run else flags


def _zclip_norm(run: Mapping[str, Floats]) -> Optional[Flags]:
    return zclip(run["grad_norm"]) if "grad_norm" in run else None


#: Name -> what it flags of a run's series (role -> values at the same points); None without the series that it reads.
PUBLIC_RULES: Mapping[str, Callable[[Mapping[str, Floats]], Optional[Flags]]] = {
    "OLMo-core SkipStep (loss, grad norm)": _olmo,
    "OLMo-core SkipStep (loss alone)": _of_loss(skip_step),
    "ZClip (grad norm)": _zclip_norm,
    "ZClip's test on the loss": _of_loss(zclip),
    "Lightning SpikeDetection": _of_loss(spike_detection),
    "llm-foundry KillLossSpike": _of_loss(kill_loss_spike),
    "Megatron-LM rerun test": _of_loss(rerun_test),
    "InternLM loss spike alert": _of_loss(loss_spike_alert),
}


def _finite(value: Floats) -> tuple[Floats, npt.NDArray[np.intp]]:
    """The finite values and where they stand."""
    where = np.flatnonzero(np.isfinite(value))
    return value[where], where


def _trailing(value: Floats, window: int) -> tuple[Floats, Floats, npt.NDArray[np.intp]]:
    """Mean, standard deviation (n - 1) and number of the up to `window` values before each."""
    end = np.arange(value.size)
    start = np.maximum(0, end - window)
    count = end - start
    # About the overall mean, so that the difference of two sums of squares keeps its digits.
    centre = value.mean() if value.size else 0.0
    about = value - centre
    sums = np.concatenate(([0.0], np.cumsum(about)))
    squares = np.concatenate(([0.0], np.cumsum(about**2)))
    total, total_squares = sums[end] - sums[start], squares[end] - squares[start]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / count
        variance = (total_squares - count * mean**2) / (count - 1)
    return mean + centre, np.sqrt(np.maximum(variance, 0.0)), count
