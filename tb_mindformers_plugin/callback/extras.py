"""What is logged only if asked for: histograms, gradient norms of layers, memory."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, TypeVar

from tb_mindformers_plugin.callback.complaints import Complaints
from tb_mindformers_plugin.callback.histograms import Histograms
from tb_mindformers_plugin.callback.layer_norms import LayerNorms
from tb_mindformers_plugin.callback.memory import read_memory
from tb_mindformers_plugin.callback.settings import Settings
from tb_mindformers_plugin.writer import HealthWriter

_T = TypeVar("_T")

_NO_GRADS = (
    "the histograms are of the weights alone, as the train cell gives no gradients: "
    'GradNormTrainOneStepCell(..., return_grads=["*"]) does, and with mindformers '
    "`runner_wrapper: type: MFTrainOneStepCellWithGrads`"
)


class Extras:
    """Reads and writes the extras of one training, each apart: one that fails is said once and costs no other.

    Args:
      settings: the callback's arguments.
      cb_params: the callback's parameters at ``on_train_begin``.
      start: steps done before this training.
      complaints: for what goes wrong.
    """

    def __init__(self, settings: Settings, cb_params: Mapping[str, Any], start: int, complaints: Complaints) -> None:
        self._complaints = complaints
        self._memory = settings.log_memory
        self._layers: Optional[LayerNorms] = None
        self._histograms: Optional[Histograms] = None
        if settings.layer_grad_norms:
            self._layers = self._attempt("layer_grad_norms", lambda: LayerNorms(cb_params, settings.layer_grad_norms))
        every = settings.histogram_every
        if every:
            self._histograms = self._attempt(
                "histograms", lambda: Histograms(cb_params, every, settings.histogram_tags, start)
            )
            if self._histograms is not None and not self._histograms.has_grads:
                complaints.say("grads", _NO_GRADS)

    def scalars(self, net_outputs: Any) -> dict[str, float]:
        """Returns {tag: value} for the record of a step that is logged."""
        found: dict[str, float] = {}
        layers = self._layers
        if layers is not None:
            found.update(self._attempt("the layers' gradient norms", lambda: layers.read(net_outputs)) or {})
        if self._memory:
            found.update(self._attempt("the memory", read_memory) or {})
        return found

    def write(self, writer: HealthWriter, step: int, net_outputs: Any) -> None:
        """Writes the histograms, if they are due at a step that is logged."""
        histograms = self._histograms
        if histograms is not None:
            self._attempt("a histogram", lambda: histograms.write(writer, step, net_outputs))

    def _attempt(self, what: str, action: Callable[[], _T]) -> Optional[_T]:
        try:
            return action()
        except Exception as error:
            self._complaints.say(what, f"{what} cannot be logged", error)
            return None
