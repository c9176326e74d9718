"""One training, from its begin to its end: what is written and when."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
import weakref
from typing import Any, Callable, Mapping, Optional, TypeVar

from tb_mindformers_plugin.callback import train_cell
from tb_mindformers_plugin.callback.complaints import Complaints
from tb_mindformers_plugin.callback.distributed import Placement, run_directory
from tb_mindformers_plugin.callback.ema import BiasCorrectedEMA
from tb_mindformers_plugin.callback.evaluations import eval_metrics, listen_to_mindformers
from tb_mindformers_plugin.callback.extras import Extras
from tb_mindformers_plugin.callback.hparams import run_hparams
from tb_mindformers_plugin.callback.learning_rate import LearningRateReader
from tb_mindformers_plugin.callback.loss_monitor import LossMonitorFacts, find_loss_monitor_facts
from tb_mindformers_plugin.callback.lr_control import LearningRateControl
from tb_mindformers_plugin.callback.mean_loss import make_mean_loss
from tb_mindformers_plugin.callback.memory import TAGS as MEMORY_TAGS
from tb_mindformers_plugin.callback.position import Position, find_position
from tb_mindformers_plugin.callback.settings import Settings
from tb_mindformers_plugin.callback.step_outputs import StepOutputs, read_step_outputs
from tb_mindformers_plugin.callback.watch import TrainingWatch
from tb_mindformers_plugin.health.online import HealthMonitor
from tb_mindformers_plugin.metadata import RunManifest
from tb_mindformers_plugin.roles import ROLES
from tb_mindformers_plugin.writer import HealthWriter

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True)
class Continuation:
    """Where a training ended, for the next one of the same callback.

    Attributes:
      optimizer: refers to the optimizer, to tell a continued training from a new one; None where
        none was found: then no training is known to go on from here.
      optimizer_steps: what the optimizer had counted.
      step: the last run step.
      ema: the loss EMA.
      monitor: the rules, with what they look back on.
    """

    optimizer: Optional[Callable[[], Any]]
    optimizer_steps: Optional[int]
    step: int
    ema: BiasCorrectedEMA
    monitor: HealthMonitor

    def goes_on(self, optimizer: Any, optimizer_steps: Optional[int]) -> bool:
        """Tells whether a training with `optimizer`, which counts `optimizer_steps`, goes on from here."""
        if self.optimizer is None or optimizer is None:
            return False
        return self.optimizer() is optimizer and self.optimizer_steps == optimizer_steps


class TrainingSession:
    """Writes one training of one process.

    Args:
      settings: the callback's arguments.
      cb_params: the callback's parameters at ``on_train_begin``.
      placement: this process's place in a distributed training.
      previous: where the last training of the same callback ended.
      control: of the learning rate; None where it is not to be changed.

    Raises:
      OSError: the log directory cannot be made or written.
    """

    def __init__(
        self,
        settings: Settings,
        cb_params: Mapping[str, Any],
        placement: Placement,
        previous: Optional[Continuation],
        control: Optional[LearningRateControl] = None,
    ) -> None:
        #: Of the training that this is about.
        self.cb_params = cb_params
        self._settings = settings
        self._complaints = Complaints()
        optimizer = train_cell.find_optimizer(cb_params)
        self._learning_rate = self._attempt(
            "the learning rate", lambda: LearningRateReader(optimizer)
        ) or LearningRateReader(None)
        self._optimizer_steps = self._attempt("the optimizer's step count", self._learning_rate.step_count)
        self._monitor = self._attempt("MFLossMonitor", lambda: find_loss_monitor_facts(cb_params)) or LossMonitorFacts()
        known_start, ema, monitor = self._optimizer_steps or 0, None, None
        if previous is not None and previous.goes_on(self._learning_rate.optimizer, self._optimizer_steps):
            # Not the optimizer's own count: it leaves out the steps that overflowed.
            known_start, ema, monitor = previous.step, previous.ema, previous.monitor
        self.position: Position = find_position(
            cb_params,
            resume_from=settings.resume_from,
            declared_start=self._monitor.initial_step,
            known_start=known_start,
            steps_per_epoch=self._monitor.steps_per_epoch,
            epochs=self._monitor.epochs,
            total_steps=settings.total_steps,
        )
        if ema is None or self.position.start != known_start:
            ema, monitor = BiasCorrectedEMA(settings.ema_decay), None
        self._ema = ema
        self._declared = train_cell.find_declared_outputs(cb_params)
        self._counts_skipped = not train_cell.skips_by_grad_norm(cb_params)
        self._loss_scale = self._attempt("the loss scale", lambda: train_cell.find_loss_scale(cb_params))
        self._batch_size = self._monitor.global_batch_size or self._attempt(
            "the batch size", lambda: train_cell.find_batch_size(cb_params, placement.size)
        )

        self._shift = self.position.shift
        self._last_step = self.position.start
        self._last_outputs: Any = None
        self._logged_step = self.position.start
        self._next_step = self.position.start + 1
        self._timed_step: Optional[int] = None
        self._timed_at = 0.0
        self._eval_began: Optional[float] = None

        self._mean_loss = make_mean_loss(placement, self._complaints) if settings.mean_loss else None
        self._extras = Extras(settings, cb_params, self.position.start, self._complaints)
        self._writer = self._open_writer(
            run_directory(settings.log_dir, placement, settings.all_ranks), self._manifest(cb_params, placement)
        )
        if self.position.start:
            self._writer.event("resume", self.position.start, resumed_from=self.position.start)
        self._attempt("HParams", lambda: self._writer.add_hparams(run_hparams(self._writer.manifest, optimizer)))
        monitor = monitor or HealthMonitor(self._writer.manifest, settings.rules)
        self._watch = self._make_watch(settings, monitor, control, self._writer.event, self._complaints)
        self._stop_listening = listen_to_mindformers(cb_params, self.eval_begin, self.eval_end)

    def _open_writer(self, directory: str, manifest: RunManifest) -> HealthWriter:
        settings = self._settings
        handles = settings.handle_sigterm and threading.current_thread() is threading.main_thread()
        if settings.handle_sigterm and not handles:
            self._complaints.say(
                "sigterm", "handle_sigterm does nothing here: Python handles signals in the main thread"
            )
        return HealthWriter(directory, manifest, flush_seconds=settings.flush_seconds, handle_sigterm=handles)

    def _make_watch(self, *arguments: Any) -> TrainingWatch:
        return TrainingWatch(*arguments)

    @property
    def stop_reason(self) -> Optional[str]:
        """Why the training is to stop; None while it is not."""
        return self._watch.stop_reason

    def step_end(self, cb_params: Mapping[str, Any]) -> None:
        """Takes note of a step (or of a sink of steps), and logs it when it is due."""
        step = cb_params["cur_step_num"] + self._shift
        if step < self._last_step:
            self._go_back(step - 1)
        self._last_step = step
        # The tensors, not their values: reading those would make every step wait for the device.
        self._last_outputs = cb_params["net_outputs"]
        if step >= self._next_step:
            self._log(step)

    def _go_back(self, step: int) -> None:
        """Takes up the training after `step` again, where MindSpore repeats steps after a fault."""
        self._writer.event("resume", step, resumed_from=step)
        self._logged_step, self._next_step = step, step + 1
        self._timed_step = self._optimizer_steps = None
        # The rules take steps that only grow.
        self._watch.monitor = HealthMonitor(self._writer.manifest, self._settings.rules)

    def eval_begin(self) -> None:
        """Stops the clock: the time of an evaluation is not step time."""
        self._eval_began = time.perf_counter()

    def eval_end(self, cb_params: Mapping[str, Any]) -> None:
        """Logs the results of an evaluation at the step where the training stands."""
        if self._eval_began is not None:
            self._timed_at += time.perf_counter() - self._eval_began
            self._eval_began = None
        self._writer.log(self._last_step, **eval_metrics(cb_params))

    def log_last_step(self, *, complete: bool = True) -> None:
        """Logs the last step, unless it is logged.

        Args:
          complete: False after a failure; whether the optimizer took the failing step is not known
            then, so the learning rate and skipped steps are left out.
        """
        if self._last_step > self._logged_step:
            self._log(self._last_step, optimizer_in_step=complete, act=False)

    def flush(self) -> None:
        """Puts what was logged so far on disk."""
        self._writer.flush()

    def end(self, status: str, error: Optional[str] = None) -> None:
        """Writes how the training ended and closes the file."""
        fields: dict[str, Any] = {} if error is None else {"error": error}
        if self.stop_reason is not None:
            fields["reason"] = self.stop_reason
        self._attempt("the last word of the rules", lambda: self._watch.finish(self._last_step))
        self._stop_listening()
        try:
            self._writer.event("end", self._last_step, status=status, **fields)
        finally:
            self._writer.close()

    def continuation(self) -> Continuation:
        """Returns where this training stands, for the next one."""
        steps = self._attempt("the optimizer's step count", self._learning_rate.step_count)
        optimizer = self._learning_rate.optimizer
        # Weak: the callback must not keep a model in memory that its owner gave up.
        reference = None if optimizer is None else weakref.ref(optimizer)
        return Continuation(reference, steps, self._last_step, self._ema, self._watch.monitor)

    def _log(self, step: int, *, optimizer_in_step: bool = True, act: bool = True) -> None:
        since = step - self._logged_step
        every = self._settings.log_every
        self._next_step = (step // every + 1) * every
        self._logged_step = step

        outputs = read_step_outputs(self._last_outputs, self._declared)
        if outputs.not_understood:
            self._complaints.say(
                "outputs",
                f"the train cell returns {outputs.not_understood}; only what is sure is logged. A tuple of roles "
                "`health_outputs` on the cell tells what its outputs are, e.g. ('loss', 'grad_norm')",
            )
        metrics: dict[str, Optional[float]] = {**outputs.values}
        loss = outputs.values.get("loss")
        if self._mean_loss is not None and optimizer_in_step:  # not after a failure, of which the others may not know
            loss = self._mean_loss(loss)
        if loss is not None:
            loss /= self._monitor.loss_divisor
            metrics["loss"] = loss
            metrics["loss_ema"] = self._ema.update(loss)
        if "loss_scale" not in metrics and self._loss_scale and self._loss_scale["kind"] == "fixed":
            metrics["loss_scale"] = self._loss_scale["initial"]

        skipped = 0
        if optimizer_in_step:
            if outputs.overflow is not None or self._learning_rate.goes_by_step:
                # Else nothing depends on it, and reading it would be a quarter of what the logged step costs.
                steps_before = self._optimizer_steps
                self._optimizer_steps = self._attempt("the optimizer's step count", self._learning_rate.step_count)
                skipped = self._skipped(since, steps_before, outputs)
            metrics.update(self._attempt("the learning rate", lambda: self._learning_rates(step, outputs)) or {})
        if outputs.overflow is not None:
            # A step that overflowed between two logged ones is not lost: its flag goes to the next.
            metrics["overflow"] = 1.0 if skipped or outputs.overflow else 0.0
        metrics.update(self._speed(step))
        metrics["epoch"] = self.position.epoch(step)
        extras = self._extras.scalars(self._last_outputs)
        self._writer.log(step, **metrics, **extras)
        self._extras.write(self._writer, step, self._last_outputs)
        if metrics.get("overflow"):
            scale: dict[str, Any] = {}
            loss_scale = metrics.get("loss_scale")
            if loss_scale is not None and math.isfinite(loss_scale):  # JSON has no infinity
                scale["loss_scale"] = loss_scale
            self._writer.event("overflow", step, count=max(skipped, 1), steps=since, **scale)
        self._watch.step(step, metrics, act=act)

    def _skipped(self, steps: int, optimizer_steps_before: Optional[int], outputs: StepOutputs) -> int:
        """Returns how many of the last `steps` steps overflowed, going by what the optimizer left out.

        A loss-scale cell does not call the optimizer on an overflow, so the optimizer's own count,
        which is on the device and is read only now, tells of the steps in between as well.
        """
        if outputs.overflow is None or not self._counts_skipped:
            return 0
        if self._optimizer_steps is None or optimizer_steps_before is None:
            return 0
        return min(max(steps - (self._optimizer_steps - optimizer_steps_before), 0), steps)

    def _learning_rates(self, step: int, outputs: StepOutputs) -> dict[str, Optional[float]]:
        reader = self._learning_rate
        if "lr" in outputs.values and not (reader.grouped or reader.assignable or self._watch.reductions):
            return {}  # One that is assigned anew is only a copy in the outputs, which knows nothing of it.
        if self._optimizer_steps is None:
            done = step - 1
        else:
            # An optimizer that was left out on overflow stands where it stood before the step.
            done = self._optimizer_steps if outputs.overflow else self._optimizer_steps - 1
        done = max(done, 0)  # a cell that accumulates gradients has not called the optimizer yet
        rates = reader.read(done)
        metrics: dict[str, Optional[float]] = {"lr": rates[0]} if rates else {}
        metrics.update({f"train/lr_group/{n}": rate for n, rate in enumerate(rates) if n > 0})
        return metrics

    def _speed(self, step: int) -> dict[str, Optional[float]]:
        now = time.perf_counter()  # after the outputs were read, that is when the device was done
        before, self._timed_step = self._timed_step, step
        seconds, self._timed_at = now - self._timed_at, now
        if before is None or step <= before:
            return {}  # The first step is mostly compilation.
        step_time = seconds / (step - before)
        units = self._settings.tokens_per_step or self._batch_size
        return {"step_time": step_time, "throughput": units / step_time if units and step_time > 0 else None}

    def _manifest(self, cb_params: Mapping[str, Any], placement: Placement) -> RunManifest:
        settings = self._settings
        unit = "tokens/s" if settings.tokens_per_step else "samples/s"
        return RunManifest(
            roles={role.name: role.tag for role in ROLES.values()},
            units={
                ROLES["throughput"].tag: unit,
                ROLES["step_time"].tag: "s",
                **(dict.fromkeys(MEMORY_TAGS, "GiB") if settings.log_memory else {}),
            },
            ema_decay=settings.ema_decay,
            total_steps=self.position.total_steps,
            steps_per_epoch=self.position.steps_per_epoch,
            global_batch_size=self._batch_size,
            tokens_per_step=settings.tokens_per_step,
            schedule=_finite(self._learning_rate.schedule),
            grad_clip=self._attempt("the clipping threshold", lambda: train_cell.find_grad_clip(cb_params)),
            loss_scale=_finite(self._loss_scale),
            framework=train_cell.framework_versions(),
            distributed={
                name: value
                for name, value in (
                    ("rank", placement.rank),
                    ("size", placement.size),
                    ("pipeline_stage", placement.pipeline_stage),
                )
                if value is not None
            },
            resumed_from=self.position.start or None,
            hparams=settings.hparams,
        )

    def _attempt(self, what: str, read: Callable[[], _T]) -> Optional[_T]:
        """Returns ``read()``, or None where it fails: one metric less must not cost the others."""
        try:
            return read()
        except Exception as error:
            self._complaints.say(what, f"{what} cannot be read and is left out", error)
            return None


def _finite(fields: Optional[dict[str, Any]]) -> Optional[dict[str, Any]]:
    """Returns `fields` without NaN and infinities, which the manifest's JSON cannot hold."""
    if fields is None:
        return None
    return {key: value for key, value in fields.items() if not isinstance(value, float) or math.isfinite(value)}
