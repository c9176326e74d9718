"""What ``GET findings`` says of a run."""

from __future__ import annotations

import dataclasses
import time
from typing import Any, Mapping, Optional

from tb_mindformers_plugin.health import diagnose
from tb_mindformers_plugin.health.diagnoses import Diagnoses
from tb_mindformers_plugin.health.finding import Finding
from tb_mindformers_plugin.http_api.request import BadRequestError, check_known, parse_language
from tb_mindformers_plugin.runs.axes import available, positions_of_steps
from tb_mindformers_plugin.runs.contents import RunContents
from tb_mindformers_plugin.runs.store import Store

PARAMETERS = ("run", "baseline", "lang")


@dataclasses.dataclass(frozen=True)
class FindingsRequest:
    """Whose findings are asked for; fields as in docs/http-api.md."""

    run: str
    baseline: Optional[str]
    language: str


def parse_findings_request(arguments: Mapping[str, str]) -> FindingsRequest:
    """Returns what is asked for.

    Raises:
      BadRequestError: a parameter is missing, unknown or wrong.
    """
    check_known(arguments, PARAMETERS)
    run = arguments.get("run")
    if run is None:
        raise BadRequestError("parameter 'run' is missing", "ask for findings?run=NAME, a name that GET runs lists")
    return FindingsRequest(run, arguments.get("baseline"), parse_language(arguments))


def run_findings(
    store: Store, diagnoses: Diagnoses, asked: FindingsRequest, now: Optional[float] = None
) -> dict[str, Any]:
    """Returns the answer to ``GET findings`` (docs/http-api.md), of the store as last refreshed.

    Args:
      store: the runs.
      diagnoses: kept from one answer to the next, so that only runs that changed are diagnosed.
      asked: whose findings.
      now: seconds since the Unix epoch, for what is told from the run's age.

    Raises:
      KeyError: there is no such run.
    """
    at = time.time() if now is None else now
    run, baseline = asked.run, None if asked.baseline == asked.run else asked.baseline
    loaded = store.load([run] if baseline is None else [run, baseline])
    contents, reference = loaded[run], None if baseline is None else loaded[baseline]
    # Read now, they are known exactly; the run was diagnosed already where it was listed so.
    known = {summary.name: summary for summary in store.summaries()}
    found = None
    if run in known and (baseline is None or baseline in known):
        found = diagnoses.of(store, known[run], at, None if baseline is None else known[baseline])
    if found is None:
        found = diagnose(contents, diagnoses.parameters, at, reference)
    return {"findings": [{**one.to_dict(run, asked.language), "at": _places(contents, one)} for one in found]}


def _places(contents: RunContents, finding: Finding) -> dict[str, list[float]]:
    """Axis -> where the finding's first, last and peak step lie on it: every axis that the run has but step."""
    steps = (finding.first_step, finding.last_step, finding.peak_step)
    known = {
        axis: positions_of_steps(contents, finding.role, steps, axis) for axis in available(contents) if axis != "step"
    }
    return {axis: places for axis, places in known.items() if places is not None}
