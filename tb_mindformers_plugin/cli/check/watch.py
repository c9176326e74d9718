"""Follows a logdir that grows, and tells each finding once."""

from __future__ import annotations

import time
from typing import Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Set, Tuple

from tb_mindformers_plugin.health import Finding, verdict
from tb_mindformers_plugin.health.diagnoses import Diagnoses
from tb_mindformers_plugin.runs import RunContents
from tb_mindformers_plugin.runs.ranks import fold_ranks
from tb_mindformers_plugin.runs.store import Store

#: What a finding is told as.
NEW, UPDATE = "new", "update"

_Identity = Tuple[str, str, int]
_State = Tuple[str, object]


class News(NamedTuple):
    """A finding that is to be told.

    Attributes:
      kind: `NEW`, or `UPDATE` where it was told before with another severity, or has recovered since.
      finding: as it is now.
    """

    kind: str
    finding: Finding


class _Told:
    """A finding that was told, and in which states."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        self.states: Set[_State] = {_state(finding)}


class Followed:
    """What was told of each run."""

    def __init__(self) -> None:
        self._told: Dict[str, Dict[_Identity, _Told]] = {}

    def news(self, run: str, findings: Sequence[Finding]) -> List[News]:
        """Returns what was not told yet of a run in which `findings` are found by now.

        A finding is the same as one before if it is of the same rule and series and begins at the same step. Rules
        that reckon in blocks may move the beginning when more is known: one that takes the place of one
        that is no longer found, of the same rule and over some of the same steps, is that one, too.
        """
        told = self._told.setdefault(run, {})
        now = {_identity(finding) for finding in findings}
        news: List[News] = []
        for finding in findings:
            identity = _identity(finding)
            if identity not in told:
                moved = _moved(finding, (told[i] for i in told if i not in now))
                if moved is None:
                    told[identity] = _Told(finding)
                    news.append(News(NEW, finding))
                    continue
                del told[_identity(moved.finding)]
                told[identity] = moved
            known = told[identity]
            known.finding = finding
            if _state(finding) not in known.states:
                known.states.add(_state(finding))
                news.append(News(UPDATE, finding))
        return news


def _moved(finding: Finding, vanished: Iterable[_Told]) -> Optional[_Told]:
    for told in vanished:
        before = told.finding
        if (before.rule, before.role) == (finding.rule, finding.role) and (
            before.first_step <= finding.last_step and finding.first_step <= before.last_step
        ):
            return told
    return None


def _identity(finding: Finding) -> _Identity:
    return finding.rule, finding.role, finding.first_step


def _state(finding: Finding) -> _State:
    return finding.severity, finding.evidence.get("recovered")


class Tells(Protocol):
    """Where news goes."""

    def runs(self, names: Sequence[str]) -> None:
        """Runs that are followed from now on."""

    def news(self, run: str, contents: RunContents, news: Sequence[News]) -> None:
        """What is new in a run."""


def watch(
    store: Store,
    diagnoses: Diagnoses,
    interval: float,
    tells: Tells,
    sleep: Callable[[float], bool],
    baseline: Optional[str] = None,
) -> Mapping[str, str]:
    """Tells what is new, until it is to end.

    Args:
      store: the runs.
      diagnoses: of them, with the parameters that are wanted.
      interval: seconds between looks.
      tells: where news goes.
      sleep: waits so many seconds; says whether to go on.
      baseline: name of the run that the others are compared with, if any.

    Returns:
      run -> verdict, as last looked at.
    """
    followed = Followed()
    verdicts: Dict[str, str] = {}
    _look(store, diagnoses, followed, verdicts, tells, baseline)
    while sleep(interval):
        store.refresh()
        _look(store, diagnoses, followed, verdicts, tells, baseline)
    return verdicts


def _look(
    store: Store,
    diagnoses: Diagnoses,
    followed: Followed,
    verdicts: Dict[str, str],
    tells: Tells,
    baseline: Optional[str],
) -> None:
    summaries = store.summaries(read_all=True)
    jobs = fold_ranks([summary for summary in summaries if summary.roles or summary.has_manifest])
    names = [job.shown.name for job in jobs]
    diagnoses.forget_others(names)
    for gone in set(verdicts) - set(names):
        del verdicts[gone]
    reference = next((summary for summary in summaries if summary.name == baseline), None)
    fresh = [name for name in names if name not in verdicts]
    if fresh:
        tells.runs(fresh)
    for job in jobs:
        name = job.shown.name
        found = diagnoses.of(store, job.shown, time.time(), reference)
        if found is None:
            continue
        verdicts[name] = verdict(found)
        news = followed.news(name, found)
        if news and name in store.runs:
            tells.news(name, store.load([name])[name], news)
