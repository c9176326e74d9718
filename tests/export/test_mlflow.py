"""Runs in MLflow, read back through its own client from a store on disk."""

from __future__ import annotations

import math

import pytest

from tb_mindformers_plugin.export import ExportError
from tb_mindformers_plugin.export.mlflow import MlflowExport, _name
from tb_mindformers_plugin.runs import open_logdir
from tb_mindformers_plugin.writer import HealthWriter


@pytest.fixture
def store(tmp_path, monkeypatch):
    # MLflow 3 keeps stores on disk for those who ask for them.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return f"file://{tmp_path}/mlruns"


@pytest.fixture
def client(store):
    mlflow = pytest.importorskip("mlflow")
    return mlflow.MlflowClient(store)


def logged(tmp_path, name, **options):
    with HealthWriter(tmp_path / "logs" / name, {"hparams": {"lr": 0.1, "betas": [0.9, 0.95]}, **options}) as writer:
        for step in range(1234):
            writer.log(
                step, wall_time=1e9 + step, **{"loss": math.nan if step == 7 else step / 8, "x/y(z)": 1, "x/y_z_": 2}
            )
    return open_logdir(str(tmp_path / "logs")).load([name])[name]


def test_a_run(tmp_path, store, client):
    run = logged(tmp_path, "a/b")
    identity = MlflowExport(store, "mine").add("a/b", run)
    found = client.get_run(identity)
    assert client.get_experiment(found.info.experiment_id).name == "mine"
    assert (found.info.run_name, found.info.status, found.info.start_time) == ("a/b", "FINISHED", 1e12)
    assert found.data.params["hparams.lr"] == "0.1"
    assert found.data.params["hparams.betas"] == "[0.9, 0.95]"
    history = client.get_metric_history(identity, "train/loss")
    assert [(m.step, m.timestamp) for m in history] == [(step, 10**12 + 1000 * step) for step in range(1234)]
    assert math.isnan(history[7].value)
    assert [m.value for m in history[8:]] == [step / 8 for step in range(8, 1234)]
    # Two tags that are one name to MLflow stay apart.
    assert client.get_metric_history(identity, "x/y_z_")[0].value == 1
    assert client.get_metric_history(identity, "x/y_z__")[0].value == 2


def test_an_experiment_that_is_there_is_taken(tmp_path, store, client):
    run = logged(tmp_path, "a")
    first, second = (MlflowExport(store, "mine").add("a", run, ["loss"]) for _ in range(2))
    assert first != second
    assert client.get_run(first).info.experiment_id == client.get_run(second).info.experiment_id
    assert list(client.get_run(first).data.metrics) == ["train/loss"]


def test_nothing_stays_of_a_run_that_cannot_be_added_as_a_whole(tmp_path, store, client, monkeypatch):
    target = MlflowExport(store, "mine")
    real, calls = target._client.log_batch, []

    def failing(*arguments, **options):
        calls.append(arguments)
        if len(calls) > 2:
            raise RuntimeError("the server is gone")
        return real(*arguments, **options)

    monkeypatch.setattr(target._client, "log_batch", failing)
    with pytest.raises(ExportError, match="MLflow: RuntimeError: the server is gone"):
        target.add("a", logged(tmp_path, "a"))
    experiment = client.get_experiment_by_name("mine").experiment_id
    assert client.search_runs([experiment]) == []


def test_a_store_that_is_none(tmp_path):
    pytest.importorskip("mlflow")
    with pytest.raises(ExportError, match="MLflow: "):
        MlflowExport("nonsense://x", "mine")


def test_without_mlflow(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "mlflow", None)
    with pytest.raises(ExportError, match=r"pip install 'tb-mindformers-plugin\[mlflow\]'"):
        MlflowExport(None, "mine")


@pytest.mark.parametrize(
    ("tag", "name"),
    [("lm loss", "lm loss"), ("throughput(tps)", "throughput_tps_"), ("a//b", "a/_/b"), ("../x", "__/x"), ("/", "_/_")],
)
def test_names(tag, name):
    assert _name(tag) == name
