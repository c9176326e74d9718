"""One fault, one finding: what is a consequence of another finding is not told beside it."""

from __future__ import annotations

import dataclasses
from typing import Mapping, Sequence

from tb_mindformers_plugin.health.finding import SEVERITIES, Finding
from tb_mindformers_plugin.health.series import RunSeries, Series
from tb_mindformers_plugin.language import times

#: Rule -> the rules that it hides where both speak of the same steps.
HIDES: Mapping[str, Sequence[str]] = {
    "loss_oscillation": ("loss_spike", "loss_divergence", "loss_rising", "loss_plateau", "resume_discontinuity"),
    "loss_periodic": ("loss_divergence", "loss_rising", "loss_oscillation", "resume_discontinuity"),
    "resume_discontinuity": ("loss_divergence", "loss_rising"),
    "loss_divergence": ("loss_rising", "loss_spike", "loss_oscillation", "loss_plateau", "clip_saturation"),
    "non_finite": ("loss_plateau",),
    "zero_loss": ("non_finite", "loss_plateau", "grad_vanishing"),
}

#: Points that a rise of the grad norm may lie before the jump of the loss that it caused.
LEAD_POINTS = 64
# Points behind a join in which a level is the join's doing.
_JOIN_POINTS = 64


def without_consequences(run: RunSeries, findings: Sequence[Finding]) -> list[Finding]:
    """Returns the findings without those that another explains.

    Oscillation hides spikes, rise, plateau, and a divergence that went no further than it swings (one that
    did hides it); a period hides divergence, rise and oscillation; a join hides divergence and rise just
    behind it; divergence takes up the rise that became it, and hides the spikes in it, and clipping that is
    saturated since; a spike
    or a divergence takes up the explosion of the grad norm before it ("grad norm led its peak by 5 steps");
    a loss that is no number hides a plateau, and the grad norm that is none with it; a loss of exactly 0
    hides both, too.
    """
    if not findings:
        return []
    hiding = [f for f in findings if f.rule in HIDES]
    kept = [f for f in findings if not any(_hides(run, other, f) for other in hiding if other is not f)]
    rises = [f for f in findings if f.rule == "loss_rising" and f not in kept]
    return _with_leads(run, [_since_it_rose(f, rises) if f.rule == "loss_divergence" else f for f in kept])


def _since_it_rose(divergence: Finding, rises: Sequence[Finding]) -> Finding:
    """A divergence that a slow rise became, told from the beginning of the rise."""
    rise = min((r for r in rises if _overlap(divergence, r, 0)), key=lambda r: r.first_step, default=None)
    if rise is None or rise.first_step >= divergence.first_step:
        return divergence
    return dataclasses.replace(
        divergence,
        first_step=rise.first_step,
        message=divergence.message + f" It had been rising since step {rise.first_step:,}.",
        message_zh=divergence.message_zh + f" 从第 {rise.first_step:,} 步起它就在上升。",
        evidence={**divergence.evidence, "rising_since": rise.first_step},
    )


def _hides(run: RunSeries, other: Finding, finding: Finding) -> bool:
    if other.rule == "non_finite" == finding.rule:
        return other.role == "loss" and finding.role == "grad_norm" and _overlap(other, finding, _points(run, 16))
    if finding.rule not in HIDES.get(other.rule, ()):
        return False
    if other.rule == "resume_discontinuity":
        near = _points(run, _JOIN_POINTS)
        return other.severity != "info" and abs(finding.first_step - other.first_step) <= near
    if finding.rule == "resume_discontinuity" and finding.role != "loss":
        return False
    if {other.rule, finding.rule} == {"loss_oscillation", "loss_divergence"} and _overlap(other, finding, 0):
        swings, leaves = (other, finding) if other.rule == "loss_oscillation" else (finding, other)
        # A saw-tooth moves the medians by as much as it swings; what went further away has left.
        left = float(leaves.evidence["ratio"]) - 1 > 3 * float(swings.evidence["relative"])
        return left == (other is leaves)
    if other.rule == "loss_divergence" and finding.rule in ("loss_spike", "clip_saturation"):
        return other.first_step - _points(run, 32) <= finding.first_step <= other.last_step
    if finding.rule == "loss_plateau" and other.rule == "loss_divergence":
        return other.severity != "info" and finding.last_step > other.first_step
    if other.rule == "non_finite":
        return other.role == "loss" and finding.last_step >= other.first_step
    # An oscillation is dated by blocks, so its first swing may lie before it.
    return _overlap(other, finding, _points(run, 100) if other.rule == "loss_oscillation" else 0)


def _overlap(a: Finding, b: Finding, reach: int) -> bool:
    return a.first_step <= b.last_step + reach and b.first_step <= a.last_step + reach


def _points(run: RunSeries, points: int) -> int:
    """Steps that so many points of the loss (or of the longest series) take."""
    curve = run.curves.get("loss") or max(run.curves.values(), key=len, default=None)
    return points * interval(curve) if curve is not None else 0


def interval(curve: Series) -> int:
    """Steps between points, as a rule."""
    return max(int((curve.step[-1] - curve.step[0]) // max(len(curve) - 1, 1)), 1)


def _with_leads(run: RunSeries, findings: Sequence[Finding]) -> list[Finding]:
    explosions = [f for f in findings if f.rule == "grad_explosion" and "groups" not in f.evidence]
    jumps = [f for f in findings if f.rule in ("loss_spike", "loss_divergence")]
    near = _points(run, LEAD_POINTS)
    taken: dict[int, Finding] = {}
    absorbed: set[int] = set()
    for explosion in explosions:
        jump = next((j for j in jumps if j.first_step - near <= explosion.first_step <= j.last_step), None)
        if jump is None:
            continue
        absorbed.add(id(explosion))
        if id(jump) not in taken:
            taken[id(jump)] = _led(run, jump, explosion)
    return [taken.get(id(f), f) for f in findings if id(f) not in absorbed]


def _led(run: RunSeries, jump: Finding, explosion: Finding) -> Finding:
    """The jump, with what the grad norm did before it."""
    ratio = float(explosion.evidence["ratio"])
    began = _rise_began(run, explosion)
    steps = jump.peak_step - began
    evidence = {**jump.evidence, "grad_norm_ratio": ratio}
    if steps > _points(run, LEAD_POINTS):  # the peak of a divergence is not the jump's doing
        evidence["grad_norm_jumped_at"] = began
        en = f" The grad norm jumped at step {began:,}, to {times(ratio)} its level."
        zh = f" 梯度范数在第 {began:,} 步跳升至平时的 {times(ratio)}。"
    elif steps > 0:
        evidence["grad_norm_led_steps"] = steps
        plural = "s" if steps != 1 else ""
        en = f" The grad norm led its peak by {steps:,} step{plural}, up to {times(ratio)} its level."
        zh = f" 梯度范数先于峰值 {steps:,} 步上升，最高达平时的 {times(ratio)}。"
    else:
        evidence["grad_norm_led_steps"] = 0
        en = f" The grad norm jumped with it, to {times(ratio)} its level."
        zh = f" 梯度范数同时跳升至平时的 {times(ratio)}。"
    severity = min(jump.severity, explosion.severity, key=SEVERITIES.index)
    if severity == "critical" and jump.evidence.get("recovered"):
        severity = "warning"
    return dataclasses.replace(
        jump,
        severity=severity,
        message=jump.message + en,
        message_zh=jump.message_zh + zh,
        evidence=evidence,
    )


def _rise_began(run: RunSeries, explosion: Finding) -> int:
    """The step at which the grad norm, before it jumped, left twice its level."""
    norm = run.finite("grad_norm")
    if norm is None:
        return explosion.first_step
    i = norm.at_or_after(explosion.first_step)
    earliest = max(i - LEAD_POINTS, 0)
    while i > earliest and norm.value[i - 1] > 2 * float(explosion.evidence["before"]):
        i -= 1
    return int(norm.step[i])
