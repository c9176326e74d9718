"""The MindSpore side: writes the health of a training into TensorBoard event files.

This is the only package that imports mindspore.
"""

from __future__ import annotations

from tb_mindformers_plugin.callback.actions import ReduceLr
from tb_mindformers_plugin.callback.adjustable import AdjustableSchedule
from tb_mindformers_plugin.callback.callback import TrainingHealthCallback
from tb_mindformers_plugin.callback.step_cell import GradNormTrainOneStepCell
from tb_mindformers_plugin.callback.training_log import TrainingLog

__all__ = ["AdjustableSchedule", "GradNormTrainOneStepCell", "ReduceLr", "TrainingHealthCallback", "TrainingLog"]
