"""What mindformers' ``auto_register: training_health.TrainingHealthCallback`` imports; see `registration`."""

from tb_mindformers_plugin.callback import TrainingHealthCallback

__all__ = ["TrainingHealthCallback"]
