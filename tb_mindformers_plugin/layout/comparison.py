"""A layout that compares runs: a chart a role, in categories by purpose."""

from __future__ import annotations

import re
from typing import Iterable, Mapping, Optional, Sequence, Tuple

from tensorboard.plugins.custom_scalar import layout_pb2

from tb_mindformers_plugin.layout.charts import Category, Chart, LayoutError, Runs, layout_of
from tb_mindformers_plugin.roles import ROLES

# Category -> its roles.
_PURPOSES: Mapping[str, Tuple[str, ...]] = {
    "Loss": ("loss", "loss_ema", "eval_loss"),
    "Quality": ("accuracy", "eval_accuracy", "reward"),
    "Optimizer": ("lr", "grad_norm", "kl", "clip_fraction"),
    "Mixed precision": ("loss_scale", "overflow"),
    "Speed": ("throughput", "step_time"),
    "Progress": ("epoch", "tokens", "samples"),
}
# What nobody compares is folded.
_CLOSED = ("Progress",)

_PAIRS = (("loss", "eval_loss"), ("accuracy", "eval_accuracy"))

_TITLED = re.compile(r"([\w ]+)=(.+)", re.DOTALL)


def comparison_layout(
    runs: Runs, roles: Optional[Sequence[str]] = None, patterns: Sequence[str] = ()
) -> layout_pb2.Layout:
    """Returns a Custom Scalars layout that compares `runs`.

    Args:
      runs: run name -> run, as `open_logdir(...).runs` has them. A run is asked for its `roles` and `tags`.
      roles: roles to draw, in this order; None: all that a run has.
      patterns: regular expressions of more tags, each a chart, as ``moe/.*`` or with a title ``router=moe/.*``.

    Raises:
      LayoutError: an unknown role, one that no run has, a pattern that is none or matches nothing, or no run has
        anything to draw.
    """
    return layout_of(comparison_categories(runs, roles, patterns))


def comparison_categories(
    runs: Runs, roles: Optional[Sequence[str]] = None, patterns: Sequence[str] = ()
) -> list[Category]:
    """Returns the categories of `comparison_layout`; it has the arguments and the errors."""
    chosen = _checked(runs, roles)
    found = [
        Category(title, tuple(charts), title in _CLOSED)
        for title, members in _by_purpose(chosen)
        for charts in [[chart for role in members for chart in role_charts(runs, role)]]
    ]
    against = [pair for pair in _PAIRS if all(role in chosen for role in pair)]
    if against:
        found.append(Category("Train against eval", tuple(_against(runs, pair) for pair in against)))
    if patterns:
        found.append(Category("More series", tuple(pattern_chart(runs, pattern) for pattern in patterns)))
    if not found:
        if roles is not None:
            raise LayoutError(f"no role is named; the runs have: {', '.join(_checked(runs, None)) or 'none'}")
        raise LayoutError(
            "no run has a series with a known role: name tags with --tag REGEX, or see `tb-health doctor` for what "
            "there is"
        )
    return found


def role_charts(runs: Runs, role: str) -> list[Chart]:
    """Returns the charts of a role over all runs: one, or one a unit where runs log it in different ones.

    Raises:
      LayoutError: an unknown role, or no run has it.
    """
    by_unit: dict[str, set[str]] = {}
    for run in runs.values():
        match = run.roles.get(role)
        if match is not None:
            by_unit.setdefault(match.unit, set()).add(match.tag)
    if not by_unit:
        _checked(runs, [role])
    # One tag in two units cannot be told apart by tag: those units share a chart, whose title names them.
    charts: list[Tuple[list[str], set[str]]] = []
    for unit, tags in sorted(by_unit.items()):
        joined = [chart for chart in charts if chart[1] & tags]
        charts = [chart for chart in charts if not chart[1] & tags]
        charts.append(([*(u for units, _ in joined for u in units), unit], tags.union(*(t for _, t in joined))))
    return [Chart(_title(role, units), tuple(sorted(tags)), (role,)) for units, tags in charts]


def pattern_chart(runs: Runs, pattern: str) -> Chart:
    """Returns a chart of the tags in which `pattern` (``REGEX`` or ``TITLE=REGEX``) is found, by their exact names.

    Raises:
      LayoutError: it is no regular expression, or is found in no tag.
    """
    titled = _TITLED.fullmatch(pattern)
    title, text = titled.groups() if titled else (pattern, pattern)
    regex = compiled(text, "tag pattern")
    tags = sorted({tag for run in runs.values() for tag in run.tags if regex.search(tag)})
    if not tags:
        raise LayoutError(f"no scalar tag of any run has {text!r} in it; the tags there are: {_some(_tags(runs))}")
    return Chart(title, tuple(tags))


def compiled(pattern: str, what: str) -> re.Pattern[str]:
    """Compiles a regular expression. Raises LayoutError."""
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise LayoutError(f"the {what} {pattern!r} is no regular expression: {error}") from error


def _checked(runs: Runs, roles: Optional[Sequence[str]]) -> list[str]:
    held = [role for role in ROLES if any(role in run.roles for run in runs.values())]
    if roles is None:
        return held
    for role in roles:
        if role not in ROLES:
            raise LayoutError(f"there is no role {role!r}; known: {', '.join(ROLES)}")
        if role not in held:
            raise LayoutError(f"no run has a {ROLES[role].title} ({role}); the runs have: {', '.join(held) or 'none'}")
    return list(dict.fromkeys(roles))


def _by_purpose(roles: Iterable[str]) -> list[Tuple[str, list[str]]]:
    """Categories in the order of their first role, each with its roles in the order given."""
    found: dict[str, list[str]] = {}
    for role in roles:
        purpose = next(title for title, members in _PURPOSES.items() if role in members)
        found.setdefault(purpose, []).append(role)
    return list(found.items())


def _against(runs: Runs, pair: Tuple[str, str]) -> Chart:
    tags = {tag for role in pair for chart in role_charts(runs, role) for tag in chart.tags}
    return Chart(" and ".join(ROLES[role].title for role in pair), tuple(sorted(tags)), pair)


def _title(role: str, units: Sequence[str]) -> str:
    said = [unit or "no unit" for unit in units] if len(units) > 1 else [unit for unit in units if unit]
    return ROLES[role].title + (f" ({' or '.join(said)})" if said else "")


def _tags(runs: Runs) -> list[str]:
    return sorted({tag for run in runs.values() for tag in run.tags})


def _some(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "") or "none"
