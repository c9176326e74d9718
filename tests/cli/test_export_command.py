"""``tb-health export`` as people call it."""

from __future__ import annotations

import csv
import json
import os
import sys

import pytest
from click.testing import CliRunner

from tb_mindformers_plugin.cli.main import main
from tb_mindformers_plugin.writer import HealthWriter


def export(*arguments):
    return CliRunner().invoke(main, ["export", *map(str, arguments)])


@pytest.fixture
def logs(tmp_path):
    for name in ("a", "b/c"):
        with HealthWriter(tmp_path / "logs" / name) as writer:
            for step in range(10):
                writer.log(step, loss=step / 4, wall_time=1e9 + step, **({"lr": 0.1} if name == "a" else {}))
    return tmp_path / "logs"


def steps(text, **columns):
    return [int(r["step"]) for r in csv.DictReader(text.splitlines()) if all(r[k] == v for k, v in columns.items())]


def test_csv_on_standard_output(logs):
    done = export(logs)
    assert done.exit_code == 0
    for run in ("a", "b/c"):
        assert steps(done.output, run=run, role="loss") == list(range(10))
    assert "b/c" not in export(logs, "a").output


def test_one_file_or_one_a_run(logs, tmp_path):
    assert export(logs, "-o", tmp_path / "all.csv").exit_code == 0
    assert (tmp_path / "all.csv").read_bytes() == export(logs).stdout_bytes
    assert export(logs, "--split", "-o", tmp_path / "each", "--format", "json").exit_code == 0
    assert json.loads((tmp_path / "each" / "b" / "c.json").read_text())["runs"][0]["run"] == "b/c"
    assert export(logs, "--split", "-o", tmp_path / "lr", "--role", "lr").exit_code == 0
    assert os.listdir(tmp_path / "lr") == ["a.csv"]


def test_two_runs_are_never_one_file(tmp_path):
    logdir = tmp_path / "logs"
    for directory, loss in ((logdir, 1.0), (logdir / "_", 2.0)):
        with HealthWriter(directory) as writer:
            writer.log(1, loss=loss)
    assert export(logdir, "--split", "--out", tmp_path / "out").exit_code == 0
    found = {path.name: path.read_text().splitlines()[1] for path in (tmp_path / "out").iterdir()}
    assert {name: (line.split(",")[0], line[-4:]) for name, line in found.items()} == {
        "_.csv": (".", ",1.0"),
        "__.csv": ("_", ",2.0"),
    }


def test_parquet(logs, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    assert export(logs, "--format", "parquet", "-o", tmp_path / "all.parquet").exit_code == 0
    table = parquet.read_table(tmp_path / "all.parquet")
    assert table.num_rows == 30
    assert table.column_names == ["run", "role", "tag", "unit", "segment", "current", "step", "wall_time", "value"]
    rows = table.to_pylist()
    assert [row["value"] for row in rows if row["run"] == "b/c"] == [step / 4 for step in range(10)]
    assert rows[0]["wall_time"] == 1e9


def test_parquet_without_pyarrow(logs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = export(logs, "--format", "parquet", "-o", tmp_path / "x.parquet")
    assert (done.exit_code, "pip install 'tb-mindformers-plugin[parquet]'" in done.output) == (2, True)
    assert os.listdir(tmp_path) == ["logs"]


def test_mlflow(logs, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = f"file://{tmp_path}/store"
    done = export(logs, "--format", "mlflow", "--tracking-uri", uri)
    assert done.exit_code == 0, done.output
    client = mlflow.MlflowClient(uri)
    found = client.search_runs([client.get_experiment_by_name("logs").experiment_id])
    assert sorted(run.info.run_name for run in found) == ["a", "b/c"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["c"], "there is no run 'c' in"),
        (["--role", "kl"], "there is no series with the role kl"),
        (["--role", "kl", "--format", "json"], "there is no series with the role kl"),
        (["--split"], "--split needs a directory"),
        (["--format", "parquet"], "Parquet is written to a file"),
        (["--experiment", "x"], "are for --format mlflow"),
        (["--format", "mlflow", "-o", "x"], "writes no file"),
    ],
)
def test_wrong_usage(logs, arguments, words):
    done = export(logs, *arguments)
    assert (done.exit_code, words in done.output) == (2, True), done.output


def test_a_file_is_there_as_a_whole_or_not_at_all(logs, tmp_path):
    done = export(logs, "-o", tmp_path / "nowhere" / "x.csv")
    assert (done.exit_code, f"{tmp_path}/nowhere/x.csv: No such file" in done.output) == (2, True)
    done = export(logs, "-o", logs)
    assert (done.exit_code, done.output) == (2, f"tb-health export: {logs}: Is a directory\n")
    (tmp_path / "x.csv").write_text("as it was")
    assert export(logs, "-o", tmp_path / "x.csv", "--role", "kl").exit_code == 2
    assert (tmp_path / "x.csv").read_text() == "as it was"
    assert sorted(os.listdir(tmp_path)) == ["logs", "x.csv"]


def test_an_empty_logdir(tmp_path):
    done = export(tmp_path)
    assert (done.exit_code, "there is no run in" in done.output) == (2, True)
    assert export(tmp_path / "nowhere").exit_code == 2
