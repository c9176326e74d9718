"""``GET export`` through its route."""

from __future__ import annotations

import csv
import io
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from tensorboard.plugins import base_plugin
from werkzeug.test import Client
from werkzeug.wrappers import Response

from tb_mindformers_plugin.export import text
from tb_mindformers_plugin.plugin import TrainingHealthLoader
from tb_mindformers_plugin.writer import HealthWriter

LOSS = np.random.default_rng(0).standard_normal(50_000).astype(np.float32)
LOSS[7] = np.nan
LOSS[8] = np.inf
LOSS[9] = -np.inf


@pytest.fixture(scope="module")
def get(tmp_path_factory):
    logdir = tmp_path_factory.mktemp("logs")
    with HealthWriter(logdir / "long") as writer:
        for step, value in enumerate(LOSS):
            more = {"lr": 1e-3} if step % 100 == 0 else {}
            writer.log(step, loss=float(value), wall_time=1e9 + step / 3, **more)
    with HealthWriter(logdir / 'a "b", c') as writer:
        for step in range(10):
            writer.log(step, loss=1.0, wall_time=1e9 + step)
    with HealthWriter(logdir / 'a "b", c') as writer:  # taken up again at step 5
        for step in range(5, 12):
            writer.log(step, loss=2.0, wall_time=2e9 + step)
    flags = SimpleNamespace(logdir=str(logdir), logdir_spec="")
    apps = TrainingHealthLoader().load(base_plugin.TBContext(logdir=str(logdir), flags=flags)).get_plugin_apps()

    def ask(**query):
        return Client(apps["/export"], Response).get("/data/plugin/training_health/export", query_string=query)

    return ask


def rows(answer):
    assert answer.status_code == 200, answer.text
    assert answer.content_type == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(answer.get_data(as_text=True), newline="")))


def test_csv_has_every_point_exactly(get):
    found = rows(get(run="long", role="loss"))
    assert [int(row["step"]) for row in found] == list(range(len(LOSS)))
    values = np.array([float(row["value"]) for row in found])
    np.testing.assert_array_equal(values, LOSS.astype(np.float64))
    walls = [float(row["wall_time"]) for row in found]
    assert walls == [1e9 + step / 3 for step in range(len(LOSS))]
    assert {(row["run"], row["role"], row["tag"], row["segment"], row["current"]) for row in found} == {
        ("long", "loss", "train/loss", "0", "true")
    }


def test_all_roles_unless_some_are_chosen(get):
    assert {row["role"] for row in rows(get(run="long"))} == {"loss", "lr"}
    assert len(rows(get(run="long", role="lr"))) == 500
    assert rows(get(run="long", role="grad_norm")) == []


def test_what_a_restart_superseded_is_a_segment_of_its_own(get):
    found = rows(get(run='a "b", c', role="loss"))
    curve = [(int(row["step"]), float(row["value"])) for row in found if row["current"] == "true"]
    assert curve == [(step, 1.0) for step in range(5)] + [(step, 2.0) for step in range(5, 12)]
    old = [row for row in found if row["current"] == "false"]
    assert [(int(row["step"]), row["segment"]) for row in old] == [(step, "1") for step in range(5, 10)]
    assert {row["run"] for row in found} == {'a "b", c'}


def test_json_has_the_same(get):
    answer = get(run=["long", 'a "b", c'], format="json")
    assert answer.content_type == "application/json"
    found = json.loads(answer.get_data(as_text=True), parse_constant=pytest.fail)["runs"]
    assert [run["run"] for run in found] == ["long", 'a "b", c']
    loss = found[0]["series"][0]
    assert (loss["role"], loss["tag"], loss["unit"]) == ("loss", "train/loss", "")
    (segment,) = loss["segments"]
    assert segment["step"] == list(range(len(LOSS)))
    assert segment["value"][7:10] == ["NaN", "Infinity", "-Infinity"]
    assert segment["value"][10:] == [float(value) for value in LOSS[10:]]
    assert [s["current"] for s in found[1]["series"][0]["segments"]] == [True, False]


def test_it_is_sent_in_pieces_under_the_name_of_the_run(get, monkeypatch):
    monkeypatch.setattr(text, "_BLOCK", 20_000)
    answer = get(run="long")
    pieces = list(answer.iter_encoded())
    assert len(pieces) > 3
    assert max(map(len, pieces)) < 4e6
    assert "Content-Length" not in answer.headers
    assert 'filename="long.csv"' in answer.headers["Content-Disposition"]
    name = get(run='a "b", c', format="json").headers["Content-Disposition"]
    assert 'filename="a _b_ c.json"' in name


def test_pandas_reads_it(get):
    pandas = pytest.importorskip("pandas")
    points = pandas.read_csv(io.BytesIO(get(run="long").get_data()))
    assert math.isinf(points[points.role == "loss"].value[8])
    table = points[points.current].pivot_table(index=["run", "step"], columns="role", values="value")
    assert table.loc[("long", 100), "lr"] == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ({}, 400, "'run' is missing"),
        ({"run": "long", "format": "xlsx"}, 400, "'format' is 'xlsx'"),
        ({"run": "long", "role": "mood"}, 400, "role 'mood' is unknown"),
        ({"run": "long", "from": "1"}, 400, "'from' is unknown"),
        ({"run": ["long", "nowhere"]}, 404, "no run 'nowhere'"),
    ],
)
def test_what_cannot_be_answered(get, query, status, words):
    answer = get(**query)
    assert answer.status_code == status
    said = json.loads(answer.get_data(as_text=True))
    assert words in said["error"]
    assert said["hint"]
