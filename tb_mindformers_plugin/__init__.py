"""Training Health for TensorBoard.

Public names are imported when first used, so that importing the package (which TensorBoard
does at start) pulls in neither mindspore nor the command line's libraries. Where MindSpore Transformers
is installed, the import makes the callback known to its configuration files.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tb_mindformers_plugin.registration import register_with_mindformers

if TYPE_CHECKING:
    from tb_mindformers_plugin.callback import (
        AdjustableSchedule,
        GradNormTrainOneStepCell,
        ReduceLr,
        TrainingHealthCallback,
        TrainingLog,
    )
    from tb_mindformers_plugin.callback.mindformers_cell import MFTrainOneStepCellWithGrads
    from tb_mindformers_plugin.writer import HealthWriter

__version__ = "0.1.0"

__all__ = [
    "AdjustableSchedule",
    "GradNormTrainOneStepCell",
    "HealthWriter",
    "MFTrainOneStepCellWithGrads",
    "ReduceLr",
    "TrainingHealthCallback",
    "TrainingLog",
    "__version__",
]

_HOME = {
    "AdjustableSchedule": "tb_mindformers_plugin.callback",
    "GradNormTrainOneStepCell": "tb_mindformers_plugin.callback",
    "HealthWriter": "tb_mindformers_plugin.writer",
    "MFTrainOneStepCellWithGrads": "tb_mindformers_plugin.callback.mindformers_cell",
    "ReduceLr": "tb_mindformers_plugin.callback",
    "TrainingHealthCallback": "tb_mindformers_plugin.callback",
    "TrainingLog": "tb_mindformers_plugin.callback",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(home), name)
    except ModuleNotFoundError as error:
        if error.name == "mindformers":
            raise ImportError(f"{name} needs MindSpore Transformers, which is not installed here") from error
        if error.name != "mindspore":
            raise
        raise ImportError(
            f"{name} needs MindSpore, which is not installed here: install the MindSpore of your device, or, for a "
            "CPU, `pip install 'tb-mindformers-plugin[mindspore]'`"
        ) from error


def __dir__() -> list[str]:
    return sorted(__all__)


register_with_mindformers()
