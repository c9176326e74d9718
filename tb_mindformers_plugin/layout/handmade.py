"""Layouts that people write by hand, checked against what the runs hold."""

from __future__ import annotations

import difflib
from typing import Any, List, Mapping, Sequence, Union

from tb_mindformers_plugin.layout.charts import Category, Chart, LayoutError, Margin, Runs
from tb_mindformers_plugin.layout.comparison import pattern_chart, role_charts

_CATEGORY = ("title", "closed", "charts")
_CHART = ("title", "roles", "tags", "pattern", "margin")
_MARGIN = ("value", "lower", "upper")


def parse_layout(text: str, runs: Runs) -> list[Category]:
    """Returns the categories that a YAML (or JSON) text describes (docs/cli.md has the form).

    Raises:
      LayoutError: it is no YAML, a field is unknown, missing or of the wrong type, a role is unknown, no run has a
        role or a tag that is named, or a pattern is no regular expression. The message says at which place.
    """
    import yaml  # only here: TensorBoard, which imports this module at its start, does not need it

    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, AttributeError, RecursionError) as error:  # 2020-13-45 is a date to it
        raise LayoutError(f"it is not YAML: {' '.join(str(error).split())}") from error
    fields = _object(content, "the file", ("categories",))
    return [
        _category(category, f"category {i}", runs)
        for i, category in enumerate(_list(fields.get("categories"), "categories"), start=1)
    ]


def _category(content: Any, place: str, runs: Runs) -> Category:
    fields = _object(content, place, _CATEGORY)
    title = _text(fields.get("title"), f"{place}: title")
    closed = fields.get("closed", False)
    if not isinstance(closed, bool):
        raise LayoutError(f"{place}: closed is true or false, not {closed!r}")
    charts = _list(fields.get("charts"), f"{place} ({title}): charts")
    return Category(
        title, tuple(_chart(chart, f"{place} ({title}), chart {i}", runs) for i, chart in enumerate(charts, 1)), closed
    )


def _chart(content: Any, place: str, runs: Runs) -> Union[Chart, Margin]:
    fields = _object(content, place, _CHART)
    title = _text(fields.get("title"), f"{place}: title")
    place = f"{place} ({title})"
    if "margin" in fields:
        if len(fields) > 2:
            raise LayoutError(f"{place}: a margin chart has a title and a margin, nothing else")
        margin = _object(fields["margin"], f"{place}: margin", _MARGIN)
        return Margin(title, *(_tag(margin.get(name), f"{place}: {name}", runs) for name in _MARGIN))
    try:
        roles = [_text(role, f"{place}: a role") for role in _list(fields.get("roles", ()), f"{place}: roles", 0)]
        charts = [chart for role in roles for chart in role_charts(runs, role)]
        if "pattern" in fields:
            charts.append(pattern_chart(runs, "tags=" + _text(fields["pattern"], f"{place}: pattern")))
    except LayoutError as error:
        raise error if str(error).startswith(place) else LayoutError(f"{place}: {error}") from error
    named = [_tag(tag, f"{place}: tags", runs) for tag in _list(fields.get("tags", ()), f"{place}: tags", 0)]
    tags = tuple(dict.fromkeys([*(tag for chart in charts for tag in chart.tags), *named]))
    if not tags:
        raise LayoutError(f"{place}: it names nothing to draw; give roles, tags, a pattern or a margin")
    # What is named by its tag is meant, whatever role it plays.
    return Chart(title, tags, tuple(roles) if not named and "pattern" not in fields else ())


def _object(value: Any, place: str, known: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise LayoutError(f"{place} is an object with {', '.join(known)}, not {_shown(value)}")
    for name in value:
        if name not in known:
            raise LayoutError(f"{place}: there is no field {name!r}; known: {', '.join(known)}")
    return value


def _list(value: Any, place: str, least: int = 1) -> Sequence[Any]:
    if not isinstance(value, (list, tuple)) or len(value) < least:
        raise LayoutError(f"{place} is a list{' that is not empty' if least else ''}, not {_shown(value)}")
    return value


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise LayoutError(f"{place} is text, not {_shown(value)}")
    return value


def _tag(value: Any, place: str, runs: Runs) -> str:
    tag = _text(value, place)
    tags: List[str] = sorted({t for run in runs.values() for t in run.tags})
    if tag not in tags:
        near = difflib.get_close_matches(tag, tags, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "`tb-health doctor` lists what there is"
        raise LayoutError(f"{place}: no run has the tag {tag!r}; {hint}")
    return tag


def _shown(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
