"""A train cell of MindSpore Transformers that keeps its gradients, for histograms.

The only module that imports mindformers: nothing else in this package needs it.
"""

from __future__ import annotations

from typing import Any, Sequence, Union

from mindformers.wrapper.wrapper import MFTrainOneStepCell
from mindspore import Parameter, nn, ops
from mindspore import dtype as mstype

from tb_mindformers_plugin.callback.step_cell import matching


class MFTrainOneStepCellWithGrads(MFTrainOneStepCell):  # type: ignore[misc]
    """``MFTrainOneStepCell`` that keeps gradients, for `TrainingHealthCallback`'s histograms.

    Its outputs are those of ``MFTrainOneStepCell``, as mindformers' own callbacks print whatever else comes with them.
    In a YAML file, once this package is imported::

        runner_wrapper:
          type: MFTrainOneStepCellWithGrads
          keep_grads: ["*attention*"]
          use_clip_grad: True

    Kept are the gradients as they are clipped next: without the loss scale, averaged over the data-parallel devices.
    They take as much memory as the weights that match, and a copy on the device in each step. They are no part
    of checkpoints.

    Args:
      network: cell that returns the loss.
      optimizer: the optimizer.
      keep_grads: patterns (`fnmatch`) of the names of the weights; all by default.
      **arguments: of ``MFTrainOneStepCell``; ``use_clip_grad`` must be True.

    Raises:
      ValueError: ``use_clip_grad`` is not True, or no weight matches.
    """

    def __init__(
        self, network: Any, optimizer: Any, keep_grads: Union[str, Sequence[str]] = ("*",), **arguments: Any
    ) -> None:
        super().__init__(network, optimizer, **arguments)
        if self.use_clip_grad is not True:
            raise ValueError(
                f"use_clip_grad must be True, got {self.use_clip_grad!r}: gradients are kept where they are clipped"
            )
        places = matching("keep_grads", self.weights, [keep_grads] if isinstance(keep_grads, str) else keep_grads)
        #: Names of the weights whose gradients are kept.
        self.grad_names = tuple(self.weights[place].name for place in places)
        self.clip_grad_norm: Any = _Keeping(self.clip_grad_norm, self.weights, places)

    @property
    def kept_grads(self) -> Sequence[Any]:
        """The gradients of the last step, Parameters in the order of `grad_names`."""
        kept: Sequence[Any] = self.clip_grad_norm.kept
        return kept


class _Keeping(nn.Cell):  # type: ignore[misc]
    """Copies gradients on their way to `clip`."""

    def __init__(self, clip: Any, weights: Sequence[Any], places: Sequence[int]) -> None:
        super().__init__()
        self.clip = clip
        self.clip_norm = clip.clip_norm
        self.places = tuple(places)
        self.kept = [
            # By this beginning of the name MindSpore and mindformers leave a Parameter out of checkpoints.
            Parameter(ops.zeros(weights[i].shape, mstype.float32), f"accu_grads.{weights[i].name}", requires_grad=False)
            for i in places
        ]

    def construct(self, grads):  # type: ignore[no-untyped-def]
        for i, place in enumerate(self.places):
            ops.assign(self.kept[i], ops.cast(grads[place], mstype.float32))
        return self.clip(grads)
