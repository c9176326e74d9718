"""Data flows one way: a package imports from its left only, and mindspore is imported in callback/ alone."""

from __future__ import annotations

import ast

import pytest
from checkout import ROOT

PACKAGE = ROOT / "tb_mindformers_plugin"

# From the left of the picture in docs/design.md to its right.
ORDER = [
    "whole_file",
    "strict_json",
    "language",
    "metadata",
    "roles",
    "schedules",
    "scalar_record",
    "writer",
    "eventfile",
    "runs",
    "compare",
    "export",
    "layout",
    "health",
    "http_api",
    "report",
    "plugin",
    "cli",
]

# What the training side may use: it reads no files and serves nothing.
CALLBACK_USES = {"metadata", "roles", "schedules", "writer", "health", "callback"}


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parts(module):
    """The part of the package that a module name belongs to."""
    names = module.split(".")
    return names[1] if names[0] == PACKAGE.name and len(names) > 1 else None


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports(path):
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for module in imports(path):
        if own != "callback":
            assert module.split(".")[0] not in ("mindspore", "mindformers"), module
        part = parts(module)
        if own == "callback":
            assert part is None or part in CALLBACK_USES, f"{own} imports {module}"
        if part in ORDER and own in ORDER:
            assert ORDER.index(part) <= ORDER.index(own), f"{own} imports {module}"
        if own != "__init__":
            assert part != "callback" or own == "callback", module
