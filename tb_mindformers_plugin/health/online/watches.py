"""When a rule has something to look at: one small class a rule.

A watch sees every point as it comes, in constant time and memory. It decides nothing: it says when the rule
itself, the same function that reads a whole run, could find something new. So there is one definition
of each rule, and what is found during a training is what is found in its log afterwards. All that a watch
has to be is sensitive: its test is weaker than the rule's, with the rule's own parameters.
"""

from __future__ import annotations

import math
from typing import Mapping, Optional, Protocol

from tb_mindformers_plugin.health.finding import Finding
from tb_mindformers_plugin.health.online.window import SortedWindow
from tb_mindformers_plugin.health.robust import IQR_OF_NORMAL, WARMUP_POINTS
from tb_mindformers_plugin.health.rolling import LEAST
from tb_mindformers_plugin.health.rules import (
    grad_explosion,
    loss_divergence,
    loss_spike,
    non_finite,
)

# Points of the window that knows the newest level.
_FEW = 32
# Points of the loss behind an explosion that `grad_explosion` takes for its consequence.
_LOOKS_AHEAD = 50

Values = Mapping[str, Optional[float]]


class Watch(Protocol):
    """What a rule has a watch for."""

    def update(self, values: Values) -> bool:
        """Takes in the values of one logged step by role; returns whether the rule should look now."""

    def settled(self, finding: Finding) -> str:
        """The severity of a finding as far as it is certain by now."""


class _Certain:
    def settled(self, finding: Finding) -> str:
        """What is found is certain."""
        return finding.severity


class Pace(_Certain):
    """For rules of levels, which take their time: a look each `least` points, later each 64th of those so far.

    So all looks of a run of n points cost about 64 times what one look at n points costs: some microseconds
    a point. They come at most 1.6 % of the run late.
    """

    least = 32
    part = 64

    def __init__(self, parameters: object = None) -> None:
        self._points = 0
        self._next = self.least

    def update(self, values: Values) -> bool:
        """Whether it is time for a look."""
        self._points += 1
        if self._points < self._next:
            return False
        self._next = self._points + max(self.least, self._points // self.part)
        return True


class NonFinite:
    """For `non_finite`: a value that is no number, and the first that is one again."""

    def __init__(self, parameters: non_finite.Parameters) -> None:
        self._stretch = parameters.stretch
        self._in_a_row = {"loss": 0, "grad_norm": 0}

    def update(self, values: Values) -> bool:
        """Whether a stretch begins, becomes long, or ends."""
        look = False
        for role, before in self._in_a_row.items():
            value = values.get(role)
            if value is not None:
                now = 0 if math.isfinite(value) else before + 1
                self._in_a_row[role] = now
                look |= now <= self._stretch if now else before > 0
        return look

    def settled(self, finding: Finding) -> str:
        """The rule takes the last points for the end of the run; a stretch that is short may yet end."""
        if finding.severity == "critical" and 0 < self._in_a_row[finding.role] < self._stretch:
            return "warning" if finding.role == "loss" else "info"
        return finding.severity


class _Jump(_Certain):
    """A positive value far above the points before it: the 128 before, or the 32 where the level fell within those.

    Args:
      times: how many times the median.
      z: how far above the median, in sigmas of the logarithms; half of it is enough for a look.
    """

    def __init__(self, times: float, z: float) -> None:
        self._absolute, self._z = math.log(times), z / 2
        self._windows = SortedWindow(), SortedWindow(_FEW)

    def _jumped(self, value: float) -> bool:
        log = math.log(value)
        long, short = self._windows
        jumped = len(long) >= LEAST and (self._is_above(log, long) or self._is_above(log, short))
        long.add(log)
        short.add(log)
        return jumped

    def _is_above(self, log: float, window: SortedWindow) -> bool:
        up = log - window.quantile(0.5)
        if up <= self._absolute:
            return False
        return up > self._z * (window.quantile(0.75) - window.quantile(0.25)) / IQR_OF_NORMAL


class LossSpike(_Jump):
    """For `loss_spike`."""

    def __init__(self, parameters: loss_spike.Parameters) -> None:
        super().__init__(1 + parameters.rise, parameters.z)

    def update(self, values: Values) -> bool:
        """Whether the loss may have jumped."""
        loss = values.get("loss")
        return loss is not None and 0.0 < loss < math.inf and self._jumped(loss)


class GradExplosion(_Jump):
    """For `grad_explosion`."""

    def __init__(self, parameters: grad_explosion.Parameters) -> None:
        super().__init__(parameters.times, parameters.z)
        self._gap = parameters.gap
        self._points = self._began = 0
        self._jumped_at = -math.inf

    def update(self, values: Values) -> bool:
        """Whether the grad norm may have jumped."""
        self._points += 1
        norm = values.get("grad_norm")
        if norm is None or not 0.0 < norm < math.inf or not self._jumped(norm):
            return False
        if self._points - self._jumped_at > self._gap:
            self._began = self._points
        self._jumped_at = self._points
        return True

    def settled(self, finding: Finding) -> str:
        """Whether the loss rose to stay is known when the points are there that the rule looks ahead."""
        if finding.severity == "critical" and self._points - self._began < _LOOKS_AHEAD:
            return "warning"
        return finding.severity


class LossDivergence(Pace):
    """For `loss_divergence`: at its pace, and more often while the level is above its lowest."""

    least = 128
    _block = 32

    def __init__(self, parameters: loss_divergence.Parameters) -> None:
        super().__init__()
        self._rise = parameters.rise
        self._values: list[float] = []
        self._blocks = 0
        self._lowest = math.inf
        self._looked = 0

    def update(self, values: Values) -> bool:
        """Whether it is time for a look."""
        look = super().update(values)
        loss = values.get("loss")
        if loss is not None and math.isfinite(loss):
            self._values.append(loss)
            if len(self._values) == self._block:
                hurry = max(self._block, self._points // (8 * self.part))
                look |= self._is_away() and self._points - self._looked >= hurry
        if look:
            self._looked = self._points
        return look

    def _is_away(self) -> bool:
        self._values.sort()
        level = self._values[self._block // 2]
        self._values.clear()
        self._blocks += 1
        if self._blocks * self._block > WARMUP_POINTS:
            self._lowest = min(self._lowest, level)
        return level - self._lowest > self._rise * self._lowest


class LossRising(Pace):
    """For `loss_rising`: its shortest window has 200 points."""

    least = 100


class ThroughputDrop(Pace):
    """For `throughput_drop`: its shortest drop has 50 points."""

    least = 50


class LossScaleCollapse(Pace):
    """For `loss_scale_collapse`: each fall, and at its pace once there was one."""

    least = 50

    def __init__(self, parameters: object = None) -> None:
        super().__init__()
        self._scale = -math.inf
        self._fell = False

    def update(self, values: Values) -> bool:
        """Whether the scale fell, or it is time for a look."""
        due = super().update(values)
        scale = values.get("loss_scale")
        if scale is None:
            return False
        falls = scale < self._scale
        self._scale = scale
        self._fell |= falls
        return falls or (self._fell and due)
