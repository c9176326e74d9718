"""Makes `TrainingHealthCallback`, and the train cell that keeps gradients, known to MindSpore Transformers' YAML files.

There ``callbacks: - type: TrainingHealthCallback`` looks the name up in a registry, which is filled by
imports. Whichever of the two packages is imported first, the other's import completes the entry.

Where a script of others imports nothing of this package, ``auto_register: training_health.TrainingHealthCallback``
in the entry does it, with the directory that ``python -m tb_mindformers_plugin.registration`` prints as
mindformers' ``register_path``.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import pathlib
import sys
from types import ModuleType
from typing import Any, Optional, Sequence

logger = logging.getLogger("tb_mindformers_plugin")

#: Directory for mindformers' ``register_path``.
REGISTER_PATH = pathlib.Path(__file__).parent / "callback" / "register_path"

_REGISTER = "mindformers.tools.register.register"

# After the import of which module what can be registered, and as what.
_ENTRIES = {
    _REGISTER: ("TrainingHealthCallback", "CALLBACK"),
    "mindformers.wrapper.build_wrapper": ("MFTrainOneStepCellWithGrads", "WRAPPER"),
}


def register_with_mindformers() -> None:
    """Registers what there is to register: at once where mindformers is imported, else when it is.

    Nothing is imported, and nothing is left behind, where mindformers is not installed.
    """
    waiting = {finder.module for finder in sys.meta_path if isinstance(finder, _AfterImport)}
    for module in _ENTRIES:
        if module in sys.modules and hasattr(sys.modules.get(_REGISTER), "MindFormerRegister"):
            _register(module)
        elif module not in waiting and _is_installed():
            sys.meta_path.insert(0, _AfterImport(module))


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec("mindformers") is not None
    except ValueError:  # a module that someone put together by hand
        return False


def _register(module: str) -> None:
    name, kind = _ENTRIES[module]
    try:
        register = sys.modules[_REGISTER]
        made = getattr(importlib.import_module("tb_mindformers_plugin"), name)
        register.MindFormerRegister.register_cls(made, getattr(register.MindFormerModuleType, kind))
    except Exception as error:  # mindformers must stay importable
        logger.warning("%s cannot be registered with mindformers (%s)", name, error)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds nothing by itself: it sees the import of one of mindformers' modules and adds to it."""

    def __init__(self, module: str) -> None:
        self.module = module

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname != self.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Completing(spec.loader)
        return spec


class _Completing(importlib.abc.Loader):
    """Executes a module as its own loader does, then registers what waited for it."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        module: Optional[ModuleType] = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _register(module.__name__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)  # inspect asks a loader for the source


if __name__ == "__main__":
    print(REGISTER_PATH)
