"""Runs as a training logs them, record by record, and what the rules say of the whole."""

from __future__ import annotations

import collections
import dataclasses

import numpy as np

from tb_mindformers_plugin.health.online import HealthMonitor
from tb_mindformers_plugin.health.online.monitor import ROLES, WATCHES
from tb_mindformers_plugin.health.registry import registry
from tb_mindformers_plugin.health.series import of_arrays


def records(series):
    """[(step, {role: value})] of role -> (step, wall, value)."""
    found = collections.defaultdict(dict)
    for role in set(ROLES) & set(series):
        step, _, value = series[role]
        for s, v in zip(np.asarray(step).tolist(), np.asarray(value).tolist()):
            found[s][role] = v
    return sorted(found.items())


def offline(series, manifest=None):
    """What the watched rules find in the whole, each for itself."""
    run = dataclasses.replace(of_arrays(series, manifest), has_manifest=True)
    found = []
    with np.errstate(all="ignore"):
        for name in WATCHES:
            rule = registry()[name]
            if set(rule.reads) & set(run.curves):
                found.extend(rule.function(run, rule.parameters()))
    return found


class Replay:
    """A run, fed to a monitor: its alerts, with the step at which each came."""

    def __init__(self, series, manifest=None, monitor=None):
        self.monitor = monitor or HealthMonitor(manifest)
        self.alerts = []
        for step, values in records(series):
            self.alerts += [(step, alert) for alert in self.monitor.update(step, values)]

    def news(self):
        return [(step, alert.finding.rule, alert.finding.severity) for step, alert in self.alerts if alert.worse]

    def standing(self, more=()):
        """The findings that hold after all alerts, and after `more`."""
        found = {}
        for alert in [*(alert for _, alert in self.alerts), *more]:
            if alert.status == "withdrawn":
                del found[alert.id]
            else:
                assert (alert.status == "new") == (alert.id not in found) or alert.status == "changed"
                found[alert.id] = alert.finding
        return list(found.values())
