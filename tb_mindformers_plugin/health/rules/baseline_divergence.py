"""Rule `baseline_divergence`: the run left its baseline.

Definition: the loss of the run against that of the baseline at the steps (or samples, or tokens) that both logged,
as `tb-health compare` lays them side by side. From a point that is beyond the tolerance (1 % of the baseline's value),
more than half of the next 10 are. Warning where the run is worse than the baseline (the median of the relative
difference from there on is positive, or it is no number), also for a constant ratio or offset; info where it is better.

Source: measured definition of this project; the precision check of a model that was moved to another machine.

Quiet when: no baseline is chosen; the two have no point in common.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tb_mindformers_plugin.compare import Comparison, Tolerance, wording
from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.registry import Rule
from tb_mindformers_plugin.health.series import RunSeries

_ADVICE = {
    "parted": Text(
        "Compare what differs between the two (settings, data order, seed, precision), then the first step that is "
        "beyond the tolerance with the same weights and the same batch.",
        "对比两者的差异（配置、数据顺序、随机种子、精度），再用相同的权重和批次复现首个超出容差的步。",
    ),
    "constant": Text(
        "Look at how the loss is summed and averaged in both before comparing anything else.",
        "先检查两者的损失如何求和与取平均，再比较其他内容。",
    ),
}


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of `baseline_divergence`.

    Attributes:
      relative: tolerance, as a part of the baseline's value.
      absolute: tolerance in the unit of the loss, added to it.
      points: pairs from a point on of which more than half are beyond.
    """

    relative: float = 0.01
    absolute: float = 0.0
    points: int = 10


def baseline_divergence(run: RunSeries, parameters: Parameters = Parameters()) -> list[Finding]:
    """Returns one finding where the run left its baseline.

    >>> from tb_mindformers_plugin.health.series import of_values
    >>> baseline_divergence(of_values(loss=[2.0, 1.9]))
    []
    """
    p = parameters
    loss = run.curves.get("loss")
    if run.against is None or loss is None:
        return []
    found = run.against(Tolerance(p.relative, p.absolute, p.points))
    if found is None or found.errors.parted is None:
        return []
    return [_finding(run, found)]


def _finding(run: RunSeries, found: Comparison) -> Finding:
    pairs, parted = found.pairs, found.errors.parted
    value, base = pairs.value[parted:], pairs.baseline[parted:]
    with np.errstate(all="ignore"):
        change = (value - base) / np.abs(base)
    broken = np.isfinite(base) & ~np.isfinite(value)
    finite = change[np.isfinite(change)]
    worse = bool(broken.any()) or found.verdict != "differs" or (len(finite) > 0 and float(np.median(finite)) > 0)
    size = np.where(np.isfinite(change), np.abs(change), np.where(broken, np.inf, 0.0))
    loss = run.curves["loss"]
    place = np.searchsorted(loss.step, pairs.step[parted:])
    errors = found.errors
    return loss.finding(
        RULE.id,
        "warning" if worse else "info",
        (int(place[0]), int(place[-1]), int(place[np.argmax(size)])),
        wording.message(found),
        _ADVICE["parted" if found.verdict == "differs" else "constant"],
        {
            "points": errors.points,
            "beyond": errors.beyond,
            "mean_relative_error": errors.mean_relative,
            "max_relative_error": errors.max_relative,
            "constant": found.verdict if found.verdict != "differs" else None,
        },
    )


RULE = Rule(
    id="baseline_divergence",
    title=Text("the run left its baseline", "偏离基线"),
    function=baseline_divergence,
    parameters=Parameters,
    reads=("loss",),
    severities=("warning", "info"),
    advice=_ADVICE,
)
