"""What ``GET findings`` says of a run."""

from __future__ import annotations

from typing import Any, Mapping

from tb_mindformers_plugin.health import diagnose
from tb_mindformers_plugin.health.diagnoses import Diagnoses
from tb_mindformers_plugin.health.finding import Finding
from tb_mindformers_plugin.http_api.request import BadRequestError, check_known, parse_language
from tb_mindformers_plugin.runs.axes import available, positions_of_steps
from tb_mindformers_plugin.runs.contents import RunContents
from tb_mindformers_plugin.runs.store import Store

PARAMETERS = ("run", "lang")


def parse_findings_request(arguments: Mapping[str, str]) -> tuple[str, str]:
    """Returns the run's name and the language that are asked for.

    Raises:
      BadRequestError: a parameter is missing, unknown or wrong.
    """
    check_known(arguments, PARAMETERS)
    run = arguments.get("run")
    if run is None:
        raise BadRequestError("parameter 'run' is missing", "ask for findings?run=NAME, a name that GET runs lists")
    return run, parse_language(arguments)


def run_findings(store: Store, diagnoses: Diagnoses, run: str, language: str) -> dict[str, Any]:
    """Returns the answer to ``GET findings`` (docs/http-api.md), of the store as last refreshed.

    Raises:
      KeyError: there is no such run.
    """
    contents = store.load([run])[run]
    # Read now, it is known exactly; it was diagnosed already where it was listed so.
    summary = next((summary for summary in store.summaries() if summary.name == run), None)
    found = diagnoses.of(store, summary) if summary is not None else None
    if found is None:
        found = diagnose(contents, diagnoses.parameters)
    return {"findings": [{**one.to_dict(run, language), "at": _places(contents, one)} for one in found]}


def _places(contents: RunContents, finding: Finding) -> dict[str, list[float]]:
    """Axis -> where the finding's first, last and peak step lie on it: every axis that the run has but step."""
    steps = (finding.first_step, finding.last_step, finding.peak_step)
    known = {
        axis: positions_of_steps(contents, finding.role, steps, axis) for axis in available(contents) if axis != "step"
    }
    return {axis: places for axis, places in known.items() if places is not None}
