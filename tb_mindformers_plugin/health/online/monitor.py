"""HealthMonitor: the cheap rules over a training that is going on."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any, Callable, Mapping, Optional, Sequence

import numpy as np

from tb_mindformers_plugin.health.finding import SEVERITIES, Finding
from tb_mindformers_plugin.health.online import watches
from tb_mindformers_plugin.health.online.history import MOST_POINTS, History
from tb_mindformers_plugin.health.parameters import Parameters, unknown_rule
from tb_mindformers_plugin.health.registry import Rule, registry
from tb_mindformers_plugin.health.series import RunSeries
from tb_mindformers_plugin.metadata import RunManifest

logger = logging.getLogger("tb_mindformers_plugin")

#: Rule -> its watch. What is not here needs a whole run, other series, or seconds.
WATCHES: Mapping[str, Callable[[Any], watches.Watch]] = {
    "non_finite": watches.NonFinite,
    "loss_spike": watches.LossSpike,
    "grad_explosion": watches.GradExplosion,
    "loss_divergence": watches.LossDivergence,
    "loss_rising": watches.LossRising,
    "loss_scale_collapse": watches.LossScaleCollapse,
    "throughput_drop": watches.ThroughputDrop,
}

#: The roles that these rules read.
ROLES = ("loss", "grad_norm", "lr", "loss_scale", "overflow", "throughput", "step_time")

# Points behind a look that found something at which the rule looks again: whether it came back, what followed.
_AGAIN = (5, 10, 16, 25, 35, 50, 75, 100, 150, 200)
# Later ones, as a part of the points so far: a rule may wait for 1 % of them.
_AGAIN_PART = 0.02

NEW, CHANGED, WITHDRAWN = "new", "changed", "withdrawn"


@dataclasses.dataclass(frozen=True)
class Alert:
    """News of a finding.

    Attributes:
      id: of the fault; an alert with the id of an earlier one replaces it. Rule, role and the first step
        as it was when it was found (a rule may date its onset better later).
      status: ``new``, ``changed``, or ``withdrawn``: with later points the rule no longer holds.
      finding: as it is now.
      worse: whether it is new, or more severe than at any time before.
    """

    id: str
    status: str
    finding: Finding
    worse: bool

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields of an ``alert`` event, as JSON types; both languages."""
        fields = self.finding.to_dict(run="")
        del fields["run"]
        words = {"message_zh": self.finding.message_zh, "advice_zh": self.finding.advice_zh}
        return {"id": self.id, "status": self.status, **fields, **words}


class HealthMonitor:
    """Watches a training, logged step by logged step, and tells what the rules find.

    The rules are the ones that read a whole run (`health.rules`), with the same definitions; the points that
    they look back on begin with this monitor and are the newest 32,768 to 65,536 of each series. After a
    restart a new monitor warms up anew: rules of the loss begin to speak behind 64 points.

    A point costs some microseconds; a look of a rule at its history, which a watch asks for where
    something could be new, some milliseconds at most.

    Args:
      manifest: what the run says of itself.
      parameters: rule id -> its parameters dataclass where they are not the defaults, None where it is off.
      most_points: points of a series to look back on, at most.

    Raises:
      ValueError: `parameters` names no rule.

    >>> import math
    >>> monitor = HealthMonitor()
    >>> alerts = []
    >>> for step in range(200):
    ...     alerts += monitor.update(step, {"loss": 2.0 + 0.01 * math.sin(step) + 3.0 * (step == 150)})
    >>> [(alert.id, alert.status, alert.finding.severity) for alert in alerts]
    [('loss_spike/loss@150', 'new', 'warning'), ('loss_spike/loss@150', 'changed', 'warning')]
    >>> alerts[1].finding.evidence["recovered"]
    True
    """

    def __init__(
        self,
        manifest: Optional[RunManifest] = None,
        parameters: Optional[Parameters] = None,
        most_points: int = MOST_POINTS,
    ) -> None:
        rules, chosen = registry(), parameters or {}
        for name in chosen:
            if name not in rules:
                raise unknown_rule(name)
        self._history = History(ROLES, manifest or RunManifest(), most_points)
        self._rules = [
            _Watched(rules[name], watch, chosen.get(name) or rules[name].parameters())
            for name, watch in WATCHES.items()
            if chosen.get(name, True) is not None
        ]
        self._points = 0

    def update(self, step: int, values: Mapping[str, Optional[float]]) -> list[Alert]:
        """Takes in a logged step.

        Args:
          step: greater than those before.
          values: role -> value; what is absent may be None. Other names do no harm.

        Returns:
          What is new, or changed for better or worse: severity, or whether it is over.
        """
        self._history.add(step, values)
        self._points += 1
        alerts: list[Alert] = []
        run: Optional[RunSeries] = None
        for watched in self._rules:
            if watched.due(self._points, values):
                run = run or self._history.series()
                alerts += watched.look(run, self._points, self._history)
        return alerts

    def finish(self) -> list[Alert]:
        """Returns the last word on every finding, now that no points will follow."""
        run = self._history.series(running=False)
        return [alert for watched in self._rules for alert in watched.look(run, self._points, self._history, last=True)]


@dataclasses.dataclass
class _Told:
    """A finding that was told.

    Attributes:
      id: of the alerts.
      finding: as it was told last.
      now: as it was found last.
      worst: the worst severity that was told.
      withdrawn: whether it was taken back.
    """

    id: str
    finding: Finding
    now: Finding
    worst: str
    withdrawn: bool = False


class _Watched:
    """A rule, its watch, and what it told."""

    def __init__(self, rule: Rule, watch: Callable[[Any], watches.Watch], parameters: Any) -> None:
        self._rule, self._parameters = rule, parameters
        self._watch: Optional[watches.Watch] = watch(parameters)
        self._told: list[_Told] = []
        self._again: list[int] = []  # points so far at which to look again, descending

    @property
    def id(self) -> str:
        """The rule's name."""
        return self._rule.id

    def due(self, points: int, values: Mapping[str, Optional[float]]) -> bool:
        """Whether the rule should look now. Sees every point."""
        watch = self._watch
        if watch is None:
            return False
        look = watch.update(values)
        if self._again and points >= self._again[-1]:
            self._again.pop()
            return True
        return look

    def look(self, run: RunSeries, points: int, history: History, last: bool = False) -> list[Alert]:
        """Asks the rule; returns what it says anew."""
        watch = self._watch
        if watch is None or not any(role in run.curves for role in self._rule.reads):
            return []
        try:
            with np.errstate(all="ignore"):
                findings = self._rule.function(run, self._parameters)
        except Exception:
            # A rule that fails costs the training nothing, and says so once.
            logger.exception("rule %s failed and is off until the training ends", self._rule.id)
            self._watch = None
            return []
        alerts: list[Alert] = []
        matched: list[_Told] = []
        for finding in findings:
            told = self._known(finding, matched)
            if told is None:
                told = _Told(f"{finding.rule}/{finding.role}@{finding.first_step}", finding, finding, finding.severity)
                self._told.append(told)
                alerts.append(Alert(told.id, NEW, finding, worse=True))
            elif told.withdrawn or _differs(finding, told.finding, exactly=last):
                worse = SEVERITIES.index(finding.severity) < SEVERITIES.index(told.worst)
                told.finding, told.withdrawn = finding, False
                told.worst = finding.severity if worse else told.worst
                alerts.append(Alert(told.id, CHANGED, finding, worse))
            told.now = finding
            matched.append(told)
        # What the history has left behind is not judged any more.
        self._told = [t for t in self._told if t.now.last_step >= history.first_step(t.now.role)]
        for told in self._told:
            judged = told.now.first_step >= history.judged_from(told.now.role)
            if judged and not told.withdrawn and not any(told is other for other in matched):
                told.withdrawn = True
                alerts.append(Alert(told.id, WITHDRAWN, told.finding, worse=False))
        if any(alert.status == NEW or alert.worse for alert in alerts):
            self._look_again(points)
        return alerts

    def _known(self, finding: Finding, taken: Sequence[_Told]) -> Optional[_Told]:
        """What was told of the same fault: it begins at the same step, else spans some of the same ones."""
        same = [t for t in self._told if t.now.role == finding.role and not any(t is other for other in taken)]
        for told in same:
            if told.now.first_step == finding.first_step:
                return told
        for told in reversed(same):
            if told.now.first_step <= finding.last_step and finding.first_step <= told.now.last_step:
                return told
        return None

    def _look_again(self, points: int) -> None:
        later, after = [points + offset for offset in _AGAIN], _AGAIN[-1]
        while after < _AGAIN_PART * points:
            after = after * 3 // 2
            later.append(points + after)
        self._again = later[::-1]


def _differs(finding: Finding, told: Finding, exactly: bool) -> bool:
    """Whether there is something to say: its severity, or whether it is over; at the end, anything."""
    if exactly:
        return finding != told
    return _state(finding) != _state(told)


def _state(finding: Finding) -> tuple[Any, ...]:
    """What of a finding is news; of one that is only worth knowing, its severity alone."""
    if finding.severity == "info":
        return ("info",)
    return (finding.severity, *((name, value) for name, value in finding.evidence.items() if isinstance(value, bool)))
