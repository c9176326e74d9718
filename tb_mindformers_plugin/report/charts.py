"""What a chart of a report shows: windows of curves, and the scale that fits them."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Optional, Sequence, Tuple

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.health import Finding
from tb_mindformers_plugin.language import Text, number
from tb_mindformers_plugin.roles import ROLES
from tb_mindformers_plugin.runs.contents import RunContents
from tb_mindformers_plugin.runs.window import Window, window

Floats = npt.NDArray[np.float64]

#: Most runs in one chart: there are so many colours.
MOST_RUNS = 12
# Points of a curve, at most: one a pixel or two.
_BUCKETS = 360
# Decay of the average that is drawn within the band of a noisy role.
_SMOOTHING = 0.97
_NOISY = ("loss", "grad_norm", "throughput", "step_time", "reward", "kl", "clip_fraction")
_LOG10, _LOG2 = ("grad_norm",), ("loss_scale",)
# From such a spread on a chart of positive values is logarithmic.
_SPREAD = 20.0
# This part of the points, at either end, may lie outside of what is shown, if it is further out than so many times
# what the others span. A spike is what a chart is for; 1e23 would leave nothing else of it.
_OUTSIDE = 0.03
_FAR = {"linear": 4.0, "log10": 0.5, "log2": 0.5}


@dataclasses.dataclass(frozen=True, eq=False)
class Line:
    """A run's series in a chart.

    Attributes:
      run: its name.
      current: its curve.
      superseded: what restarts left behind.
      findings: what was found in it.
      slot: which of the colours is the run's.
    """

    run: str
    current: Window
    superseded: Tuple[Window, ...] = ()
    findings: Tuple[Finding, ...] = ()
    slot: int = 0


@dataclasses.dataclass(frozen=True)
class Scale:
    """How values become heights.

    Attributes:
      kind: "linear", "log10" or "log2".
      low, high: the values at the bottom and at the top.
    """

    kind: str
    low: float
    high: float

    def place(self, values: npt.NDArray[Any]) -> Floats:
        """Returns heights, 0 at the bottom and 1 at the top; NaN for what has none, such as a 0 on a log scale."""
        with np.errstate(all="ignore"):
            at = self._transformed(np.asarray(values, np.float64))
            low, high = self._transformed(np.array([self.low, self.high]))
            return (at - low) / (high - low)

    def _transformed(self, values: Floats) -> Floats:
        if self.kind == "linear":
            return values
        return np.log10(np.where(values > 0, values, np.nan))

    def ticks(self) -> list[float]:
        """Returns values to be written at the axis, ascending."""
        if self.kind == "linear":
            return _linear_ticks(self.low, self.high)
        base = 2 if self.kind == "log2" else 10
        first, last = math.ceil(math.log(self.low, base) - 1e-9), math.floor(math.log(self.high, base) + 1e-9)
        every = max(1, -(-(last - first + 1) // 6))
        found = [float(base) ** power for power in range(first, last + 1, every)]
        return found if len(found) > 1 else _linear_ticks(self.low, self.high)


@dataclasses.dataclass(frozen=True, eq=False)
class Chart:
    """Series of one kind, of some runs.

    Attributes:
      name: of its file.
      title: its heading.
      unit: of its values, "" for none.
      lines: the series.
      scale: that fits them.
      first, last: steps at the ends of the x axis.
      notes: what a reader must know.
      limit: a value to be marked, such as a tolerance, or None.
    """

    name: str
    title: Text
    unit: str
    lines: Tuple[Line, ...]
    scale: Scale
    first: float
    last: float
    notes: Tuple[Text, ...]
    limit: Optional[float] = None


def role_line(name: str, run: RunContents, role: str, findings: Sequence[Finding]) -> Optional[Line]:
    """Returns a run's series of a role, at full resolution in windows; None where it logs none."""
    match = run.roles.get(role)
    if match is None:
        return None
    windows: list[Tuple[bool, Window]] = []
    for place, segment in enumerate(run.segments(match.tag)):
        if len(segment):
            smooth = role in _NOISY and segment.current and len(segment) > _BUCKETS
            smoothed = run.smoothed(match.tag, place, _SMOOTHING) if smooth else None
            windows.append((segment.current, window(segment.step, segment.value, smoothed, None, None, _BUCKETS)))
    if not windows or not windows[0][0]:
        return None
    here = tuple(finding for finding in findings if finding.role == role)
    return Line(name, windows[0][1], tuple(part for _, part in windows[1:]), here)


def role_chart(role: str, unit: str, lines: Sequence[Line]) -> Chart:
    """Returns the chart of a role."""
    kind = "log10" if role in _LOG10 else "log2" if role in _LOG2 else "linear"
    title = Text(ROLES[role].title, _ZH.get(role, ROLES[role].title))
    return chart(role, title, unit, lines, kind)


def chart(name: str, title: Text, unit: str, lines: Sequence[Line], kind: str, limit: Optional[float] = None) -> Chart:
    """Returns a chart of lines with the scale that fits them: logarithmic if asked for, or if they span so much."""
    values = [_drawn(line.current) for line in lines]
    drawn = np.concatenate(values) if values else np.zeros(0)
    scale = fitting_scale(drawn, kind)
    ends = [(float(line.current.x[0]), float(line.current.x[-1])) for line in lines if len(line.current.x)]
    first, last = min((a for a, _ in ends), default=0.0), max((b for _, b in ends), default=1.0)
    last = last if last > first else first + 1
    return Chart(name, title, unit, tuple(lines), scale, first, last, tuple(_notes(lines, scale)), limit)


def fitting_scale(values: npt.NDArray[Any], kind: str = "linear") -> Scale:
    """Returns the scale for values, all but the outermost of them.

    >>> fitting_scale(np.array([1.0, 2.0, 3.0])).kind, fitting_scale(np.geomspace(1, 1e6, 50)).kind
    ('linear', 'log10')
    """
    finite = np.sort(np.asarray(values, np.float64)[np.isfinite(values)])
    positive = finite[finite > 0]
    if kind == "linear" and len(positive) == len(finite) > 0:
        middle, top = np.quantile(finite, [0.5, 1 - _OUTSIDE])
        kind = "log10" if top / middle > _SPREAD else kind
    if not len(positive):
        kind = "linear"
    if kind == "linear":
        return Scale(kind, *_padded(*_core(finite, kind))) if len(finite) else Scale(kind, 0.0, 1.0)
    low, high = (float(10**at) for at in _padded(*_core(np.log10(positive), kind)))
    return Scale(kind, low, high)


def _core(ordered: Floats, kind: str) -> Tuple[float, float]:
    """The ends of ascending values; without the outermost, where those are far out."""
    low, high = float(ordered[0]), float(ordered[-1])
    inner_low, inner_high = (float(at) for at in np.quantile(ordered, [_OUTSIDE, 1 - _OUTSIDE]))
    reach = _FAR[kind] * (inner_high - inner_low)
    if reach > 0:
        low, high = max(low, inner_low - reach), min(high, inner_high + reach)
    return low, high


def _padded(low: float, high: float) -> Tuple[float, float]:
    pad = (high - low) * 0.05 if high > low else abs(high) * 0.1 or 1.0
    return low - pad, high + pad


def _drawn(part: Window) -> npt.NDArray[Any]:
    return np.concatenate([part.minimum, part.maximum])


def _notes(lines: Sequence[Line], scale: Scale) -> list[Text]:
    found = []
    every = np.concatenate([_drawn(line.current) for line in lines]) if lines else np.zeros(0)
    finite = every[np.isfinite(every)].astype(np.float64)  # float32 has no number for some limits
    above, below = finite[finite > scale.high], finite[finite < scale.low]
    if len(above):
        found.append(
            Text(
                f"Cut off at the top: values up to {number(float(above.max()))}.",
                f"上方截断：最大值 {number(float(above.max()))}。",
            )
        )
    if len(below):
        found.append(
            Text(
                f"Cut off at the bottom: values down to {number(float(below.min()))}.",
                f"下方截断：最小值 {number(float(below.min()))}。",
            )
        )
    lost = sum(int((line.current.nan + line.current.posinf + line.current.neginf).sum()) for line in lines)
    if lost:
        found.append(
            Text(
                f"{lost:,} values are NaN or infinite: red marks at the bottom.",
                f"有 {lost:,} 个值为 NaN 或无穷：见底部红色标记。",
            )
        )
    if any(line.superseded for line in lines):
        found.append(Text("Faint: what a restart superseded.", "浅色：被断点续训取代的部分。"))
    if any(line.current.smoothed is not None for line in lines):
        found.append(
            Text(
                f"Line: moving average (decay {_SMOOTHING}) over all points; band: extremes.",
                f"线：全部点的滑动平均（衰减 {_SMOOTHING}）；带：极值。",
            )
        )
    return found


def _linear_ticks(low: float, high: float) -> list[float]:
    """About five round values between two."""
    span = high - low
    unit = 10 ** math.floor(math.log10(span / 5))
    step = next(unit * m for m in (1, 2, 5, 10) if span / (unit * m) <= 6)
    first = math.ceil(low / step)
    count = min(math.floor(high / step) - first + 1, 12)
    return [(first + i) * step for i in range(count)]


_ZH = {
    "loss": "损失",
    "loss_ema": "损失滑动平均",
    "eval_loss": "评估损失",
    "accuracy": "精度",
    "eval_accuracy": "评估精度",
    "lr": "学习率",
    "grad_norm": "梯度范数",
    "loss_scale": "损失缩放",
    "overflow": "溢出",
    "throughput": "吞吐",
    "step_time": "单步耗时",
    "reward": "奖励",
    "clip_fraction": "裁剪比例",
}
