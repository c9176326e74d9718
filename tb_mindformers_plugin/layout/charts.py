"""What a layout is made of, and what TensorBoard will show of it."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Mapping, Protocol, Sequence, Tuple, Union

from tensorboard.plugins.custom_scalar import layout_pb2


class LayoutError(ValueError):
    """A layout that cannot be made; the message says why and what to do."""


class HasTag(Protocol):
    """A series that plays a role."""

    @property
    def tag(self) -> str:
        """Its tag, as logged."""

    @property
    def unit(self) -> str:
        """Its unit, "" for none."""


class HasSeries(Protocol):
    """What a layout asks of a run; `Run`, `RunContents` and `RunSummary` have it."""

    @property
    def roles(self) -> Mapping[str, HasTag]:
        """Role -> the series that plays it."""

    @property
    def tags(self) -> Sequence[str]:
        """All scalar tags."""


#: Run name -> the run.
Runs = Mapping[str, HasSeries]


@dataclasses.dataclass(frozen=True)
class Chart:
    """Series drawn together.

    Attributes:
      title: its heading.
      tags: the series, by their exact tags.
      roles: what the series are meant to be; empty where they were asked for by their tags.
    """

    title: str
    tags: Tuple[str, ...]
    roles: Tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Margin:
    """A line with a band around it.

    Attributes:
      title: its heading.
      value, lower, upper: exact tags of the line and of the band's edges.
    """

    title: str
    value: str
    lower: str
    upper: str

    @property
    def tags(self) -> Tuple[str, ...]:
        """All three tags."""
        return self.value, self.lower, self.upper


@dataclasses.dataclass(frozen=True)
class Category:
    """Charts under a heading; `closed` says whether the tab begins with it folded."""

    title: str
    charts: Tuple[Union[Chart, Margin], ...]
    closed: bool = False


def layout_of(categories: Sequence[Category]) -> layout_pb2.Layout:
    """Returns the layout as TensorBoard's Custom Scalars tab reads it.

    TensorBoard takes for a chart every tag that a regular expression matches from its beginning, so that
    `train/loss` would take `train/loss_ema` along: each tag is escaped, and ended with ``$``.
    """
    return layout_pb2.Layout(
        category=[
            layout_pb2.Category(
                title=category.title, closed=category.closed, chart=[_chart(chart) for chart in category.charts]
            )
            for category in categories
        ]
    )


def _chart(chart: Union[Chart, Margin]) -> layout_pb2.Chart:
    if isinstance(chart, Chart):
        exact = [re.escape(tag) + "$" for tag in chart.tags]
        return layout_pb2.Chart(title=chart.title, multiline=layout_pb2.MultilineChartContent(tag=exact))
    series = layout_pb2.MarginChartContent.Series(value=chart.value, lower=chart.lower, upper=chart.upper)
    return layout_pb2.Chart(title=chart.title, margin=layout_pb2.MarginChartContent(series=[series]))


def preview(categories: Sequence[Category], runs: Runs) -> list[dict[str, Any]]:
    """Returns what each chart will show, as JSON types.

    ``[{"title", "closed", "charts": [{"title", "kind": "lines" | "margin", "roles": [], "tags": [], "runs": {run:
    [tags]}, "strangers": {run: [tags]}}]}]``. Strangers are series that a chart of roles gets because TensorBoard
    takes series by tag alone: in that run the tag plays another role, or none.
    """
    return [
        {
            "title": category.title,
            "closed": category.closed,
            "charts": [_preview(chart, runs) for chart in category.charts],
        }
        for category in categories
    ]


def _preview(chart: Union[Chart, Margin], runs: Runs) -> dict[str, Any]:
    roles = chart.roles if isinstance(chart, Chart) else ()
    shown: dict[str, list[str]] = {}
    strangers: dict[str, list[str]] = {}
    for name, run in runs.items():
        there = set(run.tags)
        for tag in chart.tags:
            if tag in there:
                meant = not roles or any(role in run.roles and run.roles[role].tag == tag for role in roles)
                (shown if meant else strangers).setdefault(name, []).append(tag)
    return {
        "title": chart.title,
        "kind": "lines" if isinstance(chart, Chart) else "margin",
        "roles": list(roles),
        "tags": list(chart.tags),
        "runs": shown,
        "strangers": strangers,
    }
