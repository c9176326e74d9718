"""CSV and JSON hold every point, as it was logged."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from tb_mindformers_plugin.export import COLUMNS, csv_text, json_text, points_of
from tb_mindformers_plugin.runs import open_logdir
from tb_mindformers_plugin.writer import HealthWriter

VALUES = [0.1, float("nan"), float("inf"), float("-inf"), 1e-30, 3.4e38, 16777216.0, -0.0]


@pytest.fixture
def run(tmp_path):
    name = 'a "quoted", name'
    with HealthWriter(tmp_path / name, {"hparams": {"lr": 0.1, "seed": 3}}) as writer:
        for step, value in enumerate(VALUES):
            writer.log(step, wall_time=1796055444.7305763 + step, **{"loss": value, "moe/aux": step})
    with HealthWriter(tmp_path / name, {"resumed_from": 4}) as writer:  # steps 5, 6 and 7 once more
        for step in range(5, 9):
            writer.log(step, wall_time=1796055555.0 + step, loss=step)
    return name, open_logdir(str(tmp_path)).load([name])[name]


def rows(text):
    return list(csv.DictReader(io.StringIO("".join(text), newline="")))


def test_csv(run):
    name, contents = run
    found = rows(csv_text(points_of(name, contents)))
    assert tuple(found[0]) == COLUMNS
    assert {row["run"] for row in found} == {name}
    curve = [row for row in found if row["role"] == "loss" and row["current"] == "true"]
    assert [int(row["step"]) for row in curve] == list(range(9))
    np.testing.assert_array_equal(
        np.array([float(row["value"]) for row in curve[:5]], np.float32), np.float32(VALUES[:5])
    )
    assert [float(row["wall_time"]) for row in curve[:5]] == [1796055444.7305763 + step for step in range(5)]
    left = [row for row in found if row["role"] == "loss" and row["current"] == "false"]
    assert [(int(row["step"]), np.float32(row["value"])) for row in left] == [
        (5, np.float32(3.4e38)),
        (6, np.float32(16777216)),
        (7, np.float32(-0.0)),
    ]
    assert [row["value"] for row in found if row["tag"] == "moe/aux"][:5] == ["0.0", "1.0", "2.0", "3.0", "4.0"]


def test_json(run):
    (found,) = json.loads("".join(json_text([run])), parse_constant=pytest.fail)["runs"]
    assert found["run"] == run[0]
    assert found["manifest"]["resumed_from"] == 4
    assert [event["kind"] for event in found["events"]] == ["end", "end"]
    loss = found["series"][0]
    assert (loss["role"], loss["tag"], loss["unit"]) == ("loss", "train/loss", "")
    assert [segment["current"] for segment in loss["segments"]] == [True, False]
    assert loss["segments"][0]["step"] == list(range(9))
    assert loss["segments"][0]["value"][:5] == [
        float(np.float32(0.1)),
        "NaN",
        "Infinity",
        "-Infinity",
        float(np.float32(1e-30)),
    ]
    assert loss["segments"][1]["step"] == [5, 6, 7]


def test_what_is_wanted(run):
    name, contents = run
    assert {row["role"] for row in rows(csv_text(points_of(name, contents, ["loss"])))} == {"loss"}
    assert {row["current"] for row in rows(csv_text(points_of(name, contents, superseded=False)))} == {"true"}
    assert list(points_of(name, contents, ["kl"])) == []


def test_a_name_that_is_no_utf8(run):
    text = "".join(csv_text(points_of("bad\udcff", run[1])))
    assert text.encode("utf-8").count(b"bad\\udcff") > 10
    assert json.loads("".join(json_text([("bad\udcff", run[1])])))["runs"][0]["run"] == "bad\udcff"


def test_a_manifest_with_a_value_that_json_has_not(tmp_path):
    run = type("Run", (), {})()
    from tb_mindformers_plugin.metadata import RunManifest

    run.manifest, run.has_manifest, run.events = RunManifest(hparams={"x": [float("nan"), 1.5]}), True, []
    run.roles, run.tags = {}, []
    (found,) = json.loads("".join(json_text([("r", run)])), parse_constant=pytest.fail)["runs"]
    assert found["manifest"]["hparams"] == {"x": ["NaN", 1.5]}


def test_long_series_in_pieces(monkeypatch, run):
    from tb_mindformers_plugin.export import text

    whole = "".join(csv_text(points_of(*run))), "".join(json_text([run]))
    monkeypatch.setattr(text, "_BLOCK", 2)
    assert ("".join(csv_text(points_of(*run))), "".join(json_text([run]))) == whole
