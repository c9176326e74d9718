"""When a rule has something to look at: one small class a rule.

A watch sees every point as it comes, in constant time and memory. It decides nothing: it says when the rule
itself, the same function that reads a whole run, could find something new. So there is one definition
of each rule, and what is found during a training is what is found in its log then and afterwards: what the next
points may change is for the rule to say, which knows that the run goes on. All that a watch has to be is
sensitive: its test is weaker than the rule's, with the rule's own parameters.
"""

from __future__ import annotations

import math
from typing import Mapping, Optional, Protocol

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

Values = Mapping[str, Optional[float]]


class Watch(Protocol):
    """What a rule has a watch for."""

    def update(self, values: Values) -> bool:
        """Takes in the values of one logged step by role; returns whether the rule should look now."""


class Pace:
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


class _Jump:
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
    """For `grad_explosion`.

    A climb is measured against a level of some 100 points ago, which may have been lower than the window's: so three
    quarters of the rise, of its logarithm, are enough for a look.
    """

    def __init__(self, parameters: grad_explosion.Parameters) -> None:
        super().__init__(parameters.times**0.75, parameters.z)

    def update(self, values: Values) -> bool:
        """Whether the grad norm may have jumped or climbed."""
        norm = values.get("grad_norm")
        return norm is not None and 0.0 < norm < math.inf and self._jumped(norm)


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
