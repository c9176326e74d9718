"""Every rule has its shape, its words in both languages, and its place in docs/rules.md."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import inspect
import pkgutil
import re

import pytest
from checkout import ROOT

from tb_mindformers_plugin import health
from tb_mindformers_plugin.health.document import document, parameter_meanings
from tb_mindformers_plugin.health.finding import SEVERITIES
from tb_mindformers_plugin.health.registry import registry
from tb_mindformers_plugin.roles import ROLES

CHINESE = re.compile("[\u4e00-\u9fff]")


def test_the_page_is_what_the_docstrings_say():
    page = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    assert page == document(registry()), "run: python -m tb_mindformers_plugin.health.document > docs/rules.md"


@pytest.mark.parametrize("rule", registry().values(), ids=lambda rule: rule.id)
def test_the_shape_of_a_rule(rule):
    module = inspect.getmodule(rule.function)
    assert module.__name__.rpartition(".")[2] == rule.id == rule.function.__name__
    assert rule.docstring.startswith(f"Rule `{rule.id}`: ")
    for part in ("\n\nDefinition: ", "\n\nSource: ", "\n\nQuiet when: "):
        assert part in rule.docstring
    assert ">>> " in rule.function.__doc__
    assert set(rule.reads) <= set(ROLES)
    assert rule.severities
    assert set(rule.severities) <= set(SEVERITIES)
    assert set(parameter_meanings(rule.parameters)) == {f.name for f in dataclasses.fields(rule.parameters)}


@pytest.mark.parametrize("rule", registry().values(), ids=lambda rule: rule.id)
def test_a_rule_speaks_both_languages(rule):
    for text in (rule.title, *rule.advice.values()):
        assert text.en
        assert CHINESE.search(text.zh)
        assert not CHINESE.search(text.en)
    assert rule.advice
    for advice in rule.advice.values():
        # It begins with a verb, said to the reader.
        assert re.match(r"[A-Z][a-z]+ ?", advice.en)
        assert advice.zh.endswith("。")


@pytest.mark.parametrize(
    "name", sorted(module.name for module in pkgutil.walk_packages(health.__path__, f"{health.__name__}."))
)
def test_doctests(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
