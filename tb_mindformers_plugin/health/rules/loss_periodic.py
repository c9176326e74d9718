"""Rule `loss_periodic`: the loss repeats with a fixed period.

Definition: without the first 5 % of the points, the logarithm of the loss, in bins of 1, 4, 16, … points
while there are at least 160; h = min(128, bins/5). The centred median of 2h + 1 bins is taken out, the
rest clipped at 4 sigma; c is its autocorrelation, m the bins. A local peak of c at p in 8..h counts when
c > max(0.2, 4/sqrt m), c - min(c[p/4..p]) > max(0.35, 6/sqrt m) and c[2p] > 0.12; a divisor of p that also
peaks is taken instead. Folded by p the rest must swing by at least 3 %, and with the trend restored it
must climb by at least half of that. Warning; info where the period is the manifest's epoch and the loss
has fallen below 0.08 of its level: samples that are learnt by heart make such a saw-tooth.

Source: periodicity by autocorrelation; thresholds measured by this project.

Quiet when: the loss fails the ratio gate; within a period it never climbs (the staircase of
fine-tuning for several epochs).
"""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple

import numpy as np

from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.robust import blocks, ratio_loss, sigma_iqr
from tb_mindformers_plugin.health.series import Floats, RunSeries

_ADVICE = {
    "periodic": Text(
        "Check how the data is ordered: a period of an epoch (or of a file) means that it is not shuffled.",
        "检查数据顺序：以一个 epoch（或一个数据文件）为周期，说明数据没有充分打乱。",
    )
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `loss_periodic`.

    Attributes:
      correlation: least autocorrelation at the period.
      contrast: least height of its peak over the valley before.
      again: least autocorrelation at twice the period.
      swing: least swing of the folded logarithm.
    """

    correlation: float = 0.2
    contrast: float = 0.35
    again: float = 0.12
    swing: float = 0.03


_FEWEST_BINS = 160
_LONGEST = 128


def loss_periodic(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns at most one finding.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> at = np.arange(3000.0)
    >>> (found,) = loss_periodic(of_values(loss=2 + 0.2 * np.sin(2 * np.pi * at / 50) + 0.02 * np.sin(at ** 2)))
    >>> found.severity, found.evidence["period_steps"]
    ('warning', 50)
    """
    loss = ratio_loss(run)
    if loss is None:
        return []
    skip = len(loss) // 20
    kept = loss.picked(slice(skip, None))
    kept = kept.picked(kept.value > 0)
    x = np.log(kept.value)
    size = 1
    while len(x) // size >= _FEWEST_BINS:
        bins = blocks(x, size).mean(axis=1) if size > 1 else x
        found = _period(bins, parameters)
        if found is not None:
            period, correlation, swing, worst = found
            per_point = (int(kept.step[-1]) - int(kept.step[0])) / (len(kept) - 1)
            steps = max(round(period * size * per_point), 1)
            epochs = steps / run.manifest.steps_per_epoch if run.manifest.steps_per_epoch else None
            by_heart = epochs is not None and abs(epochs - 1) < 0.02 and _fell(kept.value) < 0.08
            en = f" ({epochs:.2g} epochs)" if epochs else ""
            zh = f"（{epochs:.2g} 个 epoch）" if epochs else ""
            top = min(worst * size, len(kept) - 1)
            return [
                kept.finding(
                    RULE.id,
                    "info" if by_heart else "warning",
                    (0, len(kept) - 1, top),
                    Text(
                        f"Loss repeats every {steps:,} steps{en}: it swings by {np.expm1(swing):.0%} in each period "
                        f"(autocorrelation {correlation:.2f}).",
                        f"损失每 {steps:,} 步{zh}重复一次：每个周期内波动 {np.expm1(swing):.0%}（自相"
                        f"关 {correlation:.2f}）。",
                    ),
                    _ADVICE["periodic"],
                    {
                        "period_steps": steps,
                        "swing": float(np.expm1(swing)),
                        "autocorrelation": correlation,
                        **({"period_epochs": epochs} if epochs else {}),
                    },
                )
            ]
        size *= 4
    return []


def _fell(value: Floats) -> float:
    """The last level over the first."""
    part = max(len(value) // 20, 1)
    return float(np.median(value[-part:]) / np.median(value[:part]))


def _period(bins: Floats, p: Parameters) -> Optional[Tuple[float, float, float, int]]:
    """Period, autocorrelation, swing of the logarithm and place of the highest bin; None where there is no period."""
    m = len(bins)
    longest = min(_LONGEST, m // 5)
    base = _centred_median(bins, longest)
    rest = bins - base
    sigma = sigma_iqr(rest)
    if not sigma > 0:
        return None
    rest = np.clip(rest, -4 * sigma, 4 * sigma)
    rest -= rest.mean()
    c = _autocorrelation(rest, 2 * longest)
    root = np.sqrt(m)

    def peaks(lag: int) -> bool:
        if not 8 <= lag <= longest or c[lag] < c[lag - 1] or c[lag] < c[lag + 1]:
            return False
        valley = float(c[lag // 4 : lag].min())
        return bool(
            c[lag] > max(p.correlation, 4 / root)
            and c[lag] - valley > max(p.contrast, 6 / root)
            and c[2 * lag] > p.again
        )

    found = [lag for lag in range(8, longest + 1) if peaks(lag)]
    if not found:
        return None
    best = max(found, key=lambda lag: float(c[lag]))
    for parts in range(best // 8, 1, -1):
        near = [lag for lag in (best // parts, -(-best // parts)) if peaks(lag)]
        if near:
            best = max(near, key=lambda lag: float(c[lag]))
            break
    short = c[2:8][(c[2:8] > c[1:7]) & (c[2:8] >= c[3:9])]
    if short.max(initial=0) > max(0.8 * c[best], float(c[1:8].min()) + p.contrast):
        return None  # its period is shorter: a saw-tooth from point to point
    whole = m // best * best
    profile = rest[:whole].reshape(-1, best).mean(axis=0)
    swing = float(profile.max() - profile.min())
    if swing < np.log1p(p.swing):
        return None
    lowest = int(np.argmin(profile))
    trend = float(np.median(base[best:] - base[:-best])) / best
    restored = np.roll(profile, -lowest) + trend * np.arange(best)
    if float(restored.max() - restored[0]) < swing / 2:
        return None
    return _vertex(c, best), float(c[best]), swing, int(np.argmax(rest))


def _vertex(c: Floats, lag: int) -> float:
    """The top of the parabola through the neighbours of a peak, which noise moves less than the highest of them."""
    reach = max(lag // 8, 1)
    near = np.arange(-reach, reach + 1)
    bend, slope, _ = np.polyfit(near, c[lag - reach : lag + reach + 1], 2)
    return lag - slope / (2 * bend) if bend < 0 and abs(slope) < -2 * bend * reach else float(lag)


def _centred_median(x: Floats, half: int) -> Floats:
    """(m,) medians of the 2 half + 1 neighbours, exact at every quarter of half and linear between."""
    padded = np.concatenate([np.full(half, x[: half + 1].mean()), x, np.full(half, x[-half - 1 :].mean())])
    # The ends have no neighbours on one side: what is there stands for them.
    padded[:half], padded[-half:] = x[half:0:-1], x[-2 : -half - 2 : -1]
    stride = max(half // 4, 1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    at = np.unique(np.append(np.arange(0, len(x), stride), len(x) - 1))
    medians = np.concatenate([np.median(windows[at[i : i + 8192]], axis=1) for i in range(0, len(at), 8192)])
    return np.interp(np.arange(len(x)), at, medians)


def _autocorrelation(x: Floats, longest: int) -> Floats:
    """(longest + 2,) autocorrelation at lags from 0 on."""
    size = 1 << int(np.ceil(np.log2(len(x) + longest + 2)))
    spectrum = np.fft.rfft(x, size)
    full = np.fft.irfft(spectrum * spectrum.conj(), size)[: longest + 2]
    return full / full[0]


RULE = Rule(
    id="loss_periodic",
    title=Text("the loss repeats with a fixed period", "损失以固定周期重复"),
    function=loss_periodic,
    parameters=Parameters,
    reads=("loss",),
    severities=("warning", "info"),
    advice=_ADVICE,
)
