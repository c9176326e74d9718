"""The rules over the training as it is logged, and what is done about what they find."""

from __future__ import annotations

import logging
from typing import Any, Callable, Mapping, Optional

from tb_mindformers_plugin.callback.actions import LrReductions, at_least
from tb_mindformers_plugin.callback.complaints import Complaints
from tb_mindformers_plugin.callback.lr_control import LearningRateControl
from tb_mindformers_plugin.callback.settings import Settings
from tb_mindformers_plugin.health.finding import Finding
from tb_mindformers_plugin.health.online import Alert, HealthMonitor

logger = logging.getLogger("tb_mindformers_plugin")

_LEVELS = {"critical": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO}


class TrainingWatch:
    """Tells the event file, the log and the user what the rules find, and acts where it is asked to.

    Args:
      settings: the callback's arguments.
      monitor: the rules.
      control: of the learning rate; None where it is not to be changed.
      write: writes a health event: (kind, step, **fields).
      complaints: for what goes wrong in here.
    """

    def __init__(
        self,
        settings: Settings,
        monitor: HealthMonitor,
        control: Optional[LearningRateControl],
        write: Callable[..., None],
        complaints: Complaints,
    ) -> None:
        self.monitor = monitor
        #: Why the training is to stop; None while it is not.
        self.stop_reason: Optional[str] = None
        #: How often the learning rate was changed.
        self.reductions = 0
        self._on_alert = settings.on_alert
        self._stop_on = settings.stop_on
        self._due = LrReductions(settings.reduce_lr) if settings.reduce_lr is not None else None
        self._control = control
        self._write = write
        self._complaints = complaints

    def step(self, step: int, values: Mapping[str, Optional[float]], *, act: bool = True) -> None:
        """Takes in what was logged of a step.

        Args:
          step: the step.
          values: role -> value.
          act: False where the training is over.
        """
        alerts = self.monitor.update(step, values)
        if alerts:
            self._tell(step, alerts)
            if act:
                self._reduce_lr(step, values.get("lr"), alerts)
                self._stop(step, alerts)

    def finish(self, step: int) -> None:
        """Tells the last word on what was found."""
        self._tell(step, self.monitor.finish())

    def _tell(self, step: int, alerts: list[Alert]) -> None:
        for alert in alerts:
            self._write("alert", step, **alert.to_dict())
            finding = alert.finding
            if alert.worse:
                logger.log(
                    _LEVELS[finding.severity],
                    "Training Health: %s: %s %s",
                    finding.severity,
                    finding.message,
                    finding.advice,
                )
                self._call(finding)
            else:
                logger.debug("Training Health: %s %s: %s", alert.id, alert.status, finding.message)

    def _call(self, finding: Finding) -> None:
        if self._on_alert is not None:
            try:
                self._on_alert(finding)
            except Exception as error:
                self._complaints.say("on_alert", "on_alert raised; the training goes on", error)

    def _reduce_lr(self, step: int, lr: Optional[float], alerts: list[Alert]) -> None:
        explosion = next((a for a in alerts if a.worse and a.finding.rule == "grad_explosion"), None)
        if self._due is None or self._control is None or explosion is None:
            return
        factor = self._due.due(step, lr, explosion.finding)
        if factor is None:
            return
        self._control.multiply(factor)
        self.reductions += 1
        rates: dict[str, Any] = {} if lr is None else {"old_lr": lr, "new_lr": lr * factor}
        self._act("reduce_lr", step, explosion, factor=factor, **rates)
        logger.warning(
            "Training Health: the learning rate is %.3g times what it was from step %d on%s, because of %s.",
            factor,
            step + 1,
            f" ({lr:.4g} at step {step})" if lr is not None else "",
            explosion.id,
        )

    def _stop(self, step: int, alerts: list[Alert]) -> None:
        if self._stop_on is None or self.stop_reason is not None:
            return
        for alert in alerts:
            if alert.worse and at_least(alert.finding.severity, self._stop_on):
                self.stop_reason = f"{alert.finding.rule} ({alert.finding.severity}): {alert.finding.message}"
                self._act("stop", step, alert, severity=alert.finding.severity)
                logger.error("Training Health: stops the training after step %d: %s", step, self.stop_reason)
                return

    def _act(self, action: str, step: int, cause: Alert, **fields: Any) -> None:
        self._write("action", step, action=action, cause=cause.id, rule=cause.finding.rule, **fields)
