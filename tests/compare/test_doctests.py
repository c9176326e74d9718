from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from tb_mindformers_plugin import compare

PARTS = [module.name for module in pkgutil.walk_packages(compare.__path__, f"{compare.__name__}.")]


@pytest.mark.parametrize(
    "name",
    [*PARTS, "tb_mindformers_plugin.language", "tb_mindformers_plugin.strict_json", "tb_mindformers_plugin.roles"],
)
def test_doctests(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
