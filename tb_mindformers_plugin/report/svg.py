"""Charts as inline SVG. Colours are CSS variables of the page, so that they follow its theme."""

from __future__ import annotations

import json
from html import escape
from typing import Any, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.language import number
from tb_mindformers_plugin.report.charts import Chart, Line, Scale, _linear_ticks
from tb_mindformers_plugin.runs.window import Window

WIDTH, HEIGHT = 560, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 18, 18, 26


def chart_svg(chart: Chart, key: str, language: str) -> str:
    """Returns a chart as an SVG element, with what a pointer needs to read values in an attribute.

    Args:
      chart: the chart.
      key: tells it from the others of the page.
      language: one of `LANGUAGES`.
    """
    title = escape(chart.title.in_language(language))
    return "".join(
        [
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}" data-chart="{key}">',
            f'<clipPath id="clip-{key}"><rect x="{_LEFT}" y="{_TOP}" width="{WIDTH - _LEFT - _RIGHT}" '
            f'height="{HEIGHT - _TOP - _BOTTOM}"/></clipPath>',
            *_axes(chart),
            f'<g clip-path="url(#clip-{key})">',
            *(part for line in chart.lines for part in _line(chart, line)),
            "</g>",
            *(mark for line in chart.lines for mark in _marks(chart, line, language)),
            f'<line class="cursor" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}" hidden=""/>',
            "</svg>",
        ]
    )


def chart_values(chart: Chart) -> dict[str, Any]:
    """Returns what the page's script needs to say which values are at the pointer, as JSON types."""
    return {
        "first": chart.first,
        "last": chart.last,
        "left": _LEFT,
        "right": WIDTH - _RIGHT,
        "lines": [
            {
                "run": line.run,
                "slot": line.slot,
                "x": [int(x) for x in line.current.x],
                "y": [None if v != v else float(f"{v:.5g}") for v in line.current.last.tolist()],
            }
            for line in chart.lines
        ],
    }


def json_in_html(value: Any) -> str:
    """Returns JSON that nothing in it can take out of a script element."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _x(chart: Chart, steps: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    part = (np.asarray(steps, np.float64) - chart.first) / (chart.last - chart.first)
    return _LEFT + part * (WIDTH - _LEFT - _RIGHT)


def _y(scale: Scale, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    # What lies outside goes to just outside, where it is clipped: 1e23 is no coordinate.
    place = np.clip(scale.place(values), -0.5, 1.5)
    return HEIGHT - _BOTTOM - place * (HEIGHT - _TOP - _BOTTOM)


def _axes(chart: Chart) -> Iterator[str]:
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    for value in chart.scale.ticks():
        y = float(_y(chart.scale, np.array([value]))[0])
        if _TOP <= y <= bottom:
            yield f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield f'<text class="tick" x="{_LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{_tick(value, chart)}</text>'
    for step in _linear_ticks(chart.first, chart.last):
        x = float(_x(chart, np.array([step]))[0])
        yield f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 9}" text-anchor="middle">{_step(step)}</text>'
    if chart.limit is not None:
        y = float(_y(chart.scale, np.array([chart.limit]))[0])
        yield f'<line class="limit" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
    yield f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>'


def _tick(value: float, chart: Chart) -> str:
    if chart.scale.kind == "log2" and value >= 1:
        return f'2<tspan dy="-4" font-size="8">{round(np.log2(value))}</tspan>'
    return f"{value:.6g}" if 1e-3 <= abs(value) < 1e5 or value == 0 else f"{value:.2g}"


def _step(step: float) -> str:
    return f"{step / 1000:g}k" if abs(step) >= 10_000 else f"{step:g}"


def _line(chart: Chart, line: Line) -> Iterator[str]:
    style = f'style="--c:var(--run{line.slot})"'
    for part in line.superseded:
        yield f'<path class="faint" {style} d="{_path(_x(chart, part.x), _y(chart.scale, part.last))}"/>'
    part = line.current
    x = _x(chart, part.x)
    if not part.raw and np.any(part.minimum != part.maximum):
        yield f'<path class="band" {style} d="{_band(x, chart.scale, part)}"/>'
    values = part.last if part.smoothed is None else np.where(np.isnan(part.last), np.nan, part.smoothed)
    yield f'<path class="line" {style} d="{_path(x, _y(chart.scale, values))}"><title>{escape(line.run)}</title></path>'
    lost = np.flatnonzero(part.nan + part.posinf + part.neginf)
    if len(lost):
        places = np.unique(np.round(x[lost]).astype(int))
        low, high = HEIGHT - _BOTTOM, HEIGHT - _BOTTOM - 8
        yield f'<path class="lost" d="{"".join(f"M{at} {low}V{high}" for at in places.tolist())}"/>'


def _path(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> str:
    """A line through points, broken where there is none; a point alone is a dot."""
    good = np.isfinite(y)
    starts = good & ~np.concatenate([[False], good[:-1]])
    alone = starts & ~np.concatenate([good[1:], [False]])
    parts = [
        f"{'M' if start else 'L'}{a:.1f} {b:.1f}{'h.1' if dot else ''}"
        for a, b, start, dot in zip(x[good], y[good], starts[good], alone[good])
    ]
    return "".join(parts)


def _band(x: npt.NDArray[np.float64], scale: Scale, part: Window) -> str:
    """One stroke a bucket, from its smallest to its largest value."""
    low, high = _y(scale, part.minimum), _y(scale, part.maximum)
    # What a log scale has no place for reaches to the bottom.
    low = np.where(np.isnan(low) & np.isfinite(part.minimum), HEIGHT - _BOTTOM, low)
    good = np.isfinite(low) & np.isfinite(high) & (part.minimum != part.maximum)
    return "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in zip(x[good], low[good], high[good]))


def _marks(chart: Chart, line: Line, language: str) -> Iterator[str]:
    for finding in line.findings:
        x = float(np.clip(_x(chart, np.array([finding.peak_step]))[0], _LEFT + 4, WIDTH - _RIGHT - 4))
        said = f"{line.run}: {finding.to_dict(line.run, language)['message']}"
        yield (
            f'<path class="mark {finding.severity}" d="M{x - 4.5:.1f} 5h9l-4.5 8z"><title>{escape(said)}</title></path>'
        )


def legend(lines: Sequence[Line]) -> str:
    """Returns the runs of a chart with their colours and last values, as HTML."""
    items = []
    for line in lines:
        finite = line.current.last[np.isfinite(line.current.last)]
        last = f" <b>{number(float(finite[-1]))}</b>" if len(finite) else ""
        items.append(f'<li><i style="--c:var(--run{line.slot})"></i>{escape(line.run)}{last}</li>')
    return f'<ul class="legend">{"".join(items)}</ul>'
