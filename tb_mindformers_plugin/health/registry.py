"""The rules, found from their modules."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import pkgutil
from typing import Any, Callable, Mapping, Sequence, Tuple, Type

from tb_mindformers_plugin.health import rules
from tb_mindformers_plugin.health.finding import Finding, Text
from tb_mindformers_plugin.health.series import RunSeries


@dataclasses.dataclass(frozen=True)
class Rule:
    """One rule; each module of `health.rules` holds one as ``RULE``.

    Attributes:
      id: its name.
      title: what it says, in few words.
      function: (run, parameters) -> findings.
      parameters: the dataclass of its parameters; each has a default.
      reads: roles that it reads; it is not asked about a run that has none of them.
      severities: severities that it gives.
      advice: what it advises, by case.
    """

    id: str
    title: Text
    function: Callable[[RunSeries, Any], Sequence[Finding]]
    parameters: Type[Any]
    reads: Tuple[str, ...]
    severities: Tuple[str, ...]
    advice: Mapping[str, Text]

    @functools.cached_property
    def defaults(self) -> Any:
        """The parameters as they are unless somebody changes them."""
        return self.parameters()

    @property
    def docstring(self) -> str:
        """Definition, source and when it is quiet."""
        return inspect.getdoc(inspect.getmodule(self.function)) or ""


@functools.cache
def registry() -> Mapping[str, Rule]:
    """Returns the rules by id, in the order of their names.

    >>> "non_finite" in registry()
    True
    """
    modules = [importlib.import_module(f"{rules.__name__}.{m.name}") for m in pkgutil.iter_modules(rules.__path__)]
    found: dict[str, Rule] = {module.RULE.id: module.RULE for module in modules}
    return dict(sorted(found.items()))
