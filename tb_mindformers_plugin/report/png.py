"""Charts as PNG, through matplotlib."""

from __future__ import annotations

from typing import IO, Any

import numpy as np

from tb_mindformers_plugin.report.charts import Chart, Line
from tb_mindformers_plugin.report.style import RUN_COLOURS


class PlotError(ValueError):
    """A plot that cannot be drawn; the message says why and what to do."""


def write_png(file: IO[bytes], chart: Chart) -> None:
    """Draws a chart.

    Raises:
      PlotError: matplotlib is not installed.
      OSError: the file cannot be written.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PlotError(
            "PNG plots need matplotlib, which is not installed: pip install 'tb-mindformers-plugin[png]'"
        ) from error
    figure = Figure(figsize=(9, 4.5), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for line in chart.lines:
        _draw(axes, line)
    if chart.limit is not None:
        axes.axhline(chart.limit, color="#454e59", linewidth=1, linestyle="--")
    if chart.scale.kind != "linear":
        axes.set_yscale("log", base=2 if chart.scale.kind == "log2" else 10)
    axes.set_ylim(chart.scale.low, chart.scale.high)
    axes.set_xlim(chart.first, chart.last)
    axes.set_xlabel("step")
    axes.set_ylabel(chart.unit)
    axes.set_title(chart.title.en, loc="left", fontsize="medium")
    axes.grid(color="#e9ecef")
    axes.set_axisbelow(True)
    axes.legend(fontsize="small", frameon=False)
    figure.savefig(file, format="png")


def _draw(axes: Any, line: Line) -> None:
    colour, part = RUN_COLOURS[line.slot], line.current
    for left in line.superseded:
        axes.plot(left.x, left.last, color=colour, linewidth=0.8, alpha=0.5)
    if not part.raw:
        axes.vlines(part.x, part.minimum, part.maximum, color=colour, linewidth=0.8, alpha=0.25)
    values = part.last if part.smoothed is None else np.where(np.isnan(part.last), np.nan, part.smoothed)
    # A name is text: neither a formula ($) nor hidden (_).
    name = line.run.encode("utf-8", "backslashreplace").decode("utf-8").replace("$", r"\$")
    axes.plot(part.x, values, color=colour, linewidth=1.2, label=f" {name}")
