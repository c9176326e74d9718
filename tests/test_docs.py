"""The documents name everything that they promise to name."""

from __future__ import annotations

import argparse
import ast
import re
from types import SimpleNamespace

import pytest
from checkout import ROOT
from tensorboard.plugins import base_plugin

from tb_mindformers_plugin import __version__, metadata
from tb_mindformers_plugin.cli.main import main
from tb_mindformers_plugin.http_api import compare, findings, layout, request
from tb_mindformers_plugin.plugin import TrainingHealthLoader, TrainingHealthPlugin
from tb_mindformers_plugin.roles import ROLES
from tb_mindformers_plugin.runs.axes import AXES


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_every_manifest_field_event_kind_and_role_is_in_the_data_contract():
    text = page("docs/data-contract.md")
    for field in metadata._FIELD_CHECKS:
        assert f"| `{field}` |" in text, field
    for kind in metadata.EVENT_KINDS:
        assert f"| `{kind}` |" in text, kind
    for role in ROLES.values():
        assert f"| `{role.name}` | `{role.tag}` |" in text, role.name


def test_every_route_and_parameter_is_in_the_http_api():
    text = page("docs/http-api.md")
    plugin = TrainingHealthPlugin(base_plugin.TBContext(flags=SimpleNamespace(logdir="x", logdir_spec="")))
    for route in plugin.get_plugin_apps():
        assert re.search(rf"^## `(GET|POST) {re.escape(route[1:])}`", text, re.MULTILINE), route
    for name in (*request.SeriesRequest.__dataclass_fields__, *AXES, *request.FORMATS):
        name = {"start": "from", "stop": "to"}.get(name, name)
        assert f'"{name}"' in text, name


def test_every_parameter_of_the_other_routes_is_in_the_http_api():
    text = page("docs/http-api.md")
    for name in (*compare.PARAMETERS, *findings.PARAMETERS, *layout.PARAMETERS):
        assert f"`{name}`" in text or f"{name}=" in text, name


def test_every_command_and_option_is_in_the_cli_page():
    text = page("docs/cli.md")
    for name, command in main.commands.items():
        assert f"## `tb-health {name}" in text
        for parameter in command.params:
            for option in parameter.opts:
                assert option in text or option.upper() in text, (name, option)


def test_every_flag_is_in_the_cli_page():
    parser = argparse.ArgumentParser(add_help=False)
    TrainingHealthLoader().define_flags(parser)
    flags = [option for action in parser._actions for option in action.option_strings]
    assert flags
    for flag in flags:
        assert f"| `{flag}` |" in page("docs/cli.md"), flag


def test_every_argument_of_the_callback_is_in_the_api_page():
    # By its source: mindspore is not there for these tests.
    source = ast.parse((ROOT / "tb_mindformers_plugin/callback/callback.py").read_text(encoding="utf-8"))
    (made,) = (node for node in ast.walk(source) if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    names = [argument.arg for argument in (*made.args.args[1:], *made.args.kwonlyargs)]
    assert len(names) > 15
    for name in names:
        assert f"| `{name}` |" in page("docs/api.md"), name


def test_the_version_is_in_the_changelog():
    assert f"## {__version__}" in page("CHANGELOG.md")


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "README_CN.md",
        "CONTRIBUTING.md",
        *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
    ],
)
def test_links_lead_somewhere(name):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page(name)):
        assert ((ROOT / name).parent / target).exists(), target


def test_both_readmes_have_the_same_snippets():
    def code(name):
        return re.findall(r"```python\n(.*?)```", page(name), re.DOTALL)

    assert code("README.md") == code("README_CN.md")
