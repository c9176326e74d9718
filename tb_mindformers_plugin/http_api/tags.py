"""What ``GET tags`` says of series whose names tell no role."""

from __future__ import annotations

import collections
from typing import Any, DefaultDict, Optional

from tb_mindformers_plugin.roles import on_another_axis, suggested
from tb_mindformers_plugin.runs.contents import RunContents
from tb_mindformers_plugin.runs.store import Store
from tb_mindformers_plugin.runs.summary import RunSummary
from tb_mindformers_plugin.strict_json import json_value


def tags_without_role(store: Store) -> dict[str, Any]:
    """Returns the answer to ``GET tags`` (docs/http-api.md), of the store as last refreshed."""
    holders: DefaultDict[str, list[RunSummary]] = collections.defaultdict(list)
    for summary in store.summaries():
        playing = {series.tag for series in summary.roles.values()}
        for tag in summary.tags:
            if tag not in playing and not on_another_axis(tag):
                holders[tag].append(summary)
    looked: dict[str, Optional[tuple[RunContents, bool]]] = {}
    found = []
    for tag in sorted(holders):
        newest = max(holders[tag], key=lambda summary: summary.last_wall or 0.0)
        known = _described(store, looked, tag, newest.name, len(holders[tag]))
        if known is not None:
            found.append(known)
    for role, described in _suggestions(found).items():
        described["suggested"] = role
    return {"tags": found}


def _described(
    store: Store, looked: dict[str, Optional[tuple[RunContents, bool]]], tag: str, run: str, runs: int
) -> Optional[dict[str, Any]]:
    """A tag as its newest run has it; None where that is gone since."""
    if run not in looked:
        try:
            looked[run] = store.glance(run)
        except KeyError:
            looked[run] = None
    seen = looked[run]
    if seen is None or tag not in seen[0].tags:
        return None
    contents, exact = seen
    segments = contents.segments(tag)
    return {
        "tag": tag,
        "runs": runs,
        "newest_run": run,
        "points": sum(len(segment) for segment in segments) if exact else None,
        "last_step": int(segments[0].step[-1]),
        "last_value": json_value(float(segments[0].value[-1])),
        "suggested": None,
    }


def _suggestions(tags: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """For each role the tag that speaks of it: of several the one that most runs log, and the shortest of those."""
    found: dict[str, dict[str, Any]] = {}
    for tag in sorted(tags, key=lambda tag: (-tag["runs"], len(tag["tag"]))):
        role = suggested(tag["tag"])
        if role is not None:
            found.setdefault(role, tag)
    return found
