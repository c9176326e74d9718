"""TrainingHealthCallback: the life cycle of a MindSpore callback around a `TrainingSession`."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from mindspore.train import Callback

from tb_mindformers_plugin.callback.actions import ReduceLr
from tb_mindformers_plugin.callback.complaints import Complaints
from tb_mindformers_plugin.callback.distributed import Placement, find_placement
from tb_mindformers_plugin.callback.lr_control import LearningRateControl, checked_control
from tb_mindformers_plugin.callback.session import Continuation, TrainingSession
from tb_mindformers_plugin.callback.settings import checked_settings
from tb_mindformers_plugin.callback.silent_session import SilentSession

# MindSpore's compile errors run over pages; their beginning says what they are.
_LONGEST_ERROR = 2000


class TrainingHealthCallback(Callback):  # type: ignore[misc]
    """Writes the health of a MindSpore training into TensorBoard event files.

    For ``Model.train``, ``Model.fit`` and the ``callbacks`` of a mindformers ``Trainer``. One record a logged step:

    ==================  =============================================================================
    tag                 value
    ==================  =============================================================================
    train/loss          loss as the train cell returns it (with mindformers: as it is printed)
    train/loss_ema      bias-corrected EMA over the logged losses; a NaN or infinite loss leaves it
    train/lr            learning rate that this step used; of further parameter groups: train/lr_group/N
    train/grad_norm     global gradient norm before clipping, where the train cell returns it:
                        `GradNormTrainOneStepCell`, mindformers with ``use_clip_grad``
    train/loss_scale    loss scale after the step
    train/overflow      1 if this step, or a step since the last logged one, overflowed, else 0
    train/throughput    tokens/s with `tokens_per_step`, else samples/s where the batch size is known
    train/step_time     seconds a step, mean since the last logged step, evaluations excluded
    train/epoch         passes over the data: step / steps per epoch
    eval/...            results of the evaluations of ``Model.fit`` and of mindformers' ``do_eval``
    ==================  =============================================================================

    Logged are the first step of a training, each step that is a multiple of `log_every`, and the
    last. Nothing is read from the device in between. The first step has no step_time and no
    throughput: it is mostly compilation. With data sinking the callback runs once a sink, and
    logs when a multiple of `log_every` was passed.

    Overflow between logged steps is found by the optimizer's step count, which a loss-scale cell
    does not advance on overflow; the ``overflow`` health event says how many there were.

    The step axis goes on over restarts: from `resume_from`, else from what mindformers says was done,
    else from the optimizer's step count (load it from the checkpoint), else from 0. A second ``train`` with the same
    callback and optimizer continues as well.

    In a distributed training one process writes: rank 0, or the first rank of the last pipeline
    stage. Under data parallelism its loss is that of its own part of the batch, or with `mean_loss` the
    mean over all processes. With `all_ranks` each process writes, to a directory of its own.

    Nothing that goes wrong in here stops the training: it is logged once, through logging's
    ``tb_mindformers_plugin``. Only a wrong argument raises, when the callback is made or the training begins.

    Args:
      log_dir: directory of the run; made when the training begins.
      log_every: steps between logged steps, >= 1.
      ema_decay: decay of the loss EMA, in [0, 1).
      flush_seconds: seconds between flushes to disk, > 0: the most that a killed process loses.
      tokens_per_step: tokens of one step over all devices, >= 1.
      total_steps: steps of the whole training, >= 1; by default epochs times steps per epoch.
      hparams: hyper-parameters for the run's manifest and TensorBoard's HParams tab, a mapping that JSON can
        hold. What the callback finds out (optimizer, schedule, clipping, batch size) is added in the tab.
      on_alert: called with each `tb_mindformers_plugin.health.Finding` when it is found, and again if it
        becomes worse. What it raises is logged once.
      reduce_lr: reduce the learning rate when the grad norm explodes: `ReduceLr`, a mapping of its fields,
        or True for its defaults.
      stop_on: stop the training at the first finding of this severity, "critical" or "warning", or worse.
      resume_from: steps done before this training, >= 0, where nothing else knows it.
      all_ranks: every process writes, to ``log_dir/rank_N``.
      mean_loss: log the mean of the loss over the processes of a data-parallel training. An all-reduce of
        one number on each logged step, in which every process takes part: give all of them this callback.
      histogram_every: steps between histograms of weights, >= 1, and of gradients where the train cell gives
        them (`GradNormTrainOneStepCell`, `MFTrainOneStepCellWithGrads`); they come with a logged step. None writes
        none. Costs the transfer of the weights, 30 ms a million values, and 1 KB in the file a histogram.
      histogram_tags: patterns (`fnmatch`) of the names of the weights.
      layer_grad_norms: log the gradient norms of so many layers, those with the largest, as ``grad_norm/<layer>``,
        where the train cell returns them (``GradNormTrainOneStepCell(..., layer_norms=True)``, mindformers with
        ``local_norm: True``). One more read from the device on each logged step. 0 logs none.
      log_memory: log the memory in use, in GiB, as ``memory/...``; some microseconds on each logged step.
      handle_sigterm: write on SIGTERM that the training was stopped, before the process ends as it would
        have.
      rules: changes to the rules: the path of a TOML file, as for ``tb-health check --rules``, or what it holds:
        ``{"loss_spike": {"z": 8}, "throughput_drop": False}``.

    While the training runs, the rules non_finite, loss_spike, grad_explosion, loss_divergence, loss_rising,
    loss_scale_collapse and throughput_drop (docs/rules.md) read what is logged. What they find is an
    ``alert`` in the event file, a line in the log, and a call of `on_alert`; nothing else happens unless
    `reduce_lr` or `stop_on` ask for it. What is done is an ``action`` in the event file. Both see the
    logged steps only, so they act the sooner the smaller `log_every` is.

    Raises:
      TypeError, ValueError: a wrong argument; the message names it, its value and what is allowed. When
        the training begins: ValueError where `reduce_lr` or `stop_on` cannot be done in it.
    """

    def __init__(
        self,
        log_dir: Union[str, os.PathLike[str]],
        log_every: int = 10,
        ema_decay: float = 0.99,
        flush_seconds: float = 10,
        tokens_per_step: Optional[int] = None,
        total_steps: Optional[int] = None,
        hparams: Optional[Mapping[str, Any]] = None,
        on_alert: Optional[Callable[..., Any]] = None,
        reduce_lr: Union[ReduceLr, Mapping[str, Any], bool, None] = None,
        stop_on: Optional[str] = None,
        *,
        resume_from: Optional[int] = None,
        all_ranks: bool = False,
        mean_loss: bool = False,
        histogram_every: Optional[int] = None,
        histogram_tags: Union[str, Sequence[str]] = ("*",),
        layer_grad_norms: int = 0,
        log_memory: bool = False,
        handle_sigterm: bool = False,
        rules: Union[str, os.PathLike[str], Mapping[str, Any], None] = None,
    ) -> None:
        super().__init__()
        self._settings = checked_settings(
            log_dir=log_dir,
            log_every=log_every,
            ema_decay=ema_decay,
            flush_seconds=flush_seconds,
            tokens_per_step=tokens_per_step,
            total_steps=total_steps,
            hparams=hparams,
            on_alert=on_alert,
            reduce_lr=reduce_lr,
            stop_on=stop_on,
            resume_from=resume_from,
            all_ranks=all_ranks,
            mean_loss=mean_loss,
            histogram_every=histogram_every,
            histogram_tags=histogram_tags,
            layer_grad_norms=layer_grad_norms,
            log_memory=log_memory,
            handle_sigterm=handle_sigterm,
            rules=rules,
        )
        self._complaints = Complaints()
        self._session: Optional[TrainingSession] = None
        self._previous: Optional[Continuation] = None
        self._ended: Optional[str] = None
        self._entered = 0

    @property
    def steps_before(self) -> int:
        """Steps done before the training that is going on; a step's number is this plus the training's own count."""
        return 0 if self._session is None else self._session.position.shift

    def __enter__(self) -> TrainingHealthCallback:
        self._entered += 1  # Model.fit enters its callbacks once more for each evaluation
        return self

    def __exit__(
        self,
        exc_type: Optional[type[BaseException]] = None,
        exc: Optional[BaseException] = None,
        traceback: Optional[TracebackType] = None,
    ) -> None:
        self._entered = max(self._entered - 1, 0)
        if self._entered == 0:
            self._finish(exc if exc is not None or exc_type is None else exc_type())

    def on_train_begin(self, run_context: Any) -> None:
        """Opens the event file and writes the manifest."""
        cb_params = run_context.original_args()
        if self._session is not None and self._session.cb_params is cb_params:
            return  # twice in one list of callbacks
        self._finish(None)  # A training before that ended without a word.
        control = checked_control(self._settings, cb_params) if self._settings.acts else None
        try:
            self._complaints, self._ended = Complaints(), None
            placement = find_placement(cb_params.get("train_network"))
            self._session = self._open_session(cb_params, placement, control)
        except OSError as error:
            self._say("begin", f"cannot write to {self._settings.log_dir}; the training goes on without it", error)
        except Exception as error:
            self._say("begin", "cannot begin; the training goes on without it", error)

    def _open_session(
        self, cb_params: Any, placement: Placement, control: Optional[LearningRateControl]
    ) -> Optional[TrainingSession]:
        arguments = self._settings, cb_params, placement, self._previous, control
        together = self._settings.mean_loss and placement.size > 1
        if not (placement.writes or self._settings.all_ranks):
            return SilentSession(*arguments) if together else None
        try:
            return TrainingSession(*arguments)
        except Exception:
            if not together:
                raise
            # The others wait for this process all the same.
            self._session = SilentSession(*arguments)
            raise

    def on_train_step_end(self, run_context: Any) -> None:
        """Logs the step when it is due. Costs well under 2 us when it is not."""
        session = self._session
        if session is not None:
            try:
                session.step_end(run_context.original_args())
                if session.stop_reason is not None:
                    run_context.request_stop()
            except Exception as error:
                self._say("step", "a step cannot be logged", error)

    def on_eval_begin(self, run_context: Any) -> None:
        """Stops the step clock."""
        if self._session is not None:
            self._session.eval_begin()

    def on_eval_end(self, run_context: Any) -> None:
        """Logs the results of an evaluation during a training."""
        if self._session is not None:
            try:
                self._session.eval_end(run_context.original_args())
            except Exception as error:
                self._say("eval", "an evaluation cannot be logged", error)

    def on_train_end(self, run_context: Any) -> None:
        """Logs the last step; the end itself is written on exit, which knows of exceptions."""
        if self._session is None:
            return
        try:
            self._ended = "stopped" if run_context.get_stop_requested() else "completed"
            self._session.log_last_step()
            self._session.flush()
        except Exception as error:
            self._say("end", "the last step cannot be logged", error)
        if self._entered == 0:  # called by hand, without a `with` around
            self._finish(None)

    def _finish(self, error: Optional[BaseException]) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        try:
            if error is not None:
                self._attempt("the last step cannot be logged", lambda: session.log_last_step(complete=False))
                session.end("failed", _described(error))
            else:
                # Without on_train_end the training was left in the middle.
                session.end(self._ended or "stopped")
        except Exception as failure:
            self._say("finish", "the end of the training cannot be written", failure)
        self._previous = None
        if error is None:
            self._attempt("the training cannot be continued later", lambda: self._keep(session))

    def _keep(self, session: TrainingSession) -> None:
        self._previous = session.continuation()

    def _attempt(self, message: str, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self._say(message, message, error)

    def _say(self, topic: str, message: str, error: BaseException) -> None:
        self._complaints.say(topic, message, error)


def _described(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return text if len(text) <= _LONGEST_ERROR else text[: _LONGEST_ERROR - 1] + "…"
