"""``GET layout`` through its route."""

from __future__ import annotations

import base64
import json
import shlex
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from google.protobuf import json_format
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto import event_pb2
from tensorboard.plugins import base_plugin
from tensorboard.plugins.custom_scalar import layout_pb2
from werkzeug.test import Client
from werkzeug.wrappers import Response

from tb_mindformers_plugin.cli.main import main
from tb_mindformers_plugin.plugin import TrainingHealthLoader
from tb_mindformers_plugin.writer import HealthWriter


@pytest.fixture
def get(tmp_path):
    logs = tmp_path / "the logs"
    for name in ("a", "b"):
        with HealthWriter(logs / name) as writer:
            writer.log(1, **{"loss": 1.0, "lr": 0.1, "moe/aux": 2.0})
    flags = SimpleNamespace(logdir=str(logs), logdir_spec="")
    apps = TrainingHealthLoader().load(base_plugin.TBContext(logdir=str(logs), flags=flags)).get_plugin_apps()

    def ask(query=""):
        answer = Client(apps["/layout"], Response).get(f"/data/plugin/training_health/layout{query}")
        return answer.status_code, json.loads(answer.get_data(as_text=True), parse_constant=pytest.fail)

    return ask


def test_a_preview(get, tmp_path):
    status, said = get("?roles=lr,loss&tag=moe/.*")
    assert status == 200
    assert [(c["title"], [chart["title"] for chart in c["charts"]]) for c in said["categories"]] == [
        ("Optimizer", ["learning rate"]),
        ("Loss", ["loss"]),
        ("More series", ["moe/.*"]),
    ]
    assert said["categories"][1]["charts"][0] == {
        "title": "loss",
        "kind": "lines",
        "roles": ["loss"],
        "tags": ["train/loss"],
        "runs": {"a": ["train/loss"], "b": ["train/loss"]},
        "strangers": {},
    }
    path = tmp_path / said["file"]["name"]
    path.write_bytes(base64.b64decode(said["file"]["base64"]))
    events = [event_pb2.Event.FromString(record) for record in RawEventFileLoader(str(path)).Load()]
    (value,) = [value for event in events for value in event.summary.value]
    found = layout_pb2.Layout.FromString(value.tensor.string_val[0])
    assert json_format.MessageToDict(found) == said["layout"]


def test_the_command_is_one(get):
    command = shlex.split(get("?roles=loss&tag=moe/.*")[1]["command"])
    assert command[:2] == ["tb-health", "layout"]
    done = CliRunner().invoke(main, [*command[1:], "--format", "json"])
    assert json.loads(done.output) == get("?roles=loss&tag=moe/.*")[1]["layout"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?role=loss", "'role' is unknown"),
        ("?roles=los", "'los' is unknown"),
        ("?roles=reward", "no run has a reward"),
        ("?tag=(", "no regular expression"),
        ("?tag=zzz", "no scalar tag"),
    ],
)
def test_what_is_wrong_is_said(get, query, words):
    status, said = get(query)
    assert status == 400
    assert words in said["error"] + said["hint"]
