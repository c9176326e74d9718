"""What mindformers' ``auto_register: training_health.TrainingHealthCallback`` imports; see `registration`."""

from tb_mindformers_plugin.callback import TrainingHealthCallback
from tb_mindformers_plugin.callback.mindformers_cell import MFTrainOneStepCellWithGrads

__all__ = ["MFTrainOneStepCellWithGrads", "TrainingHealthCallback"]
