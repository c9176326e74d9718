"""The plugin through its routes, as TensorBoard calls them."""

from __future__ import annotations

import argparse
import concurrent.futures
import gzip
import json
import math
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import event_bytes
import numpy as np
import pytest
import thb1
from tensorboard.plugins import base_plugin
from werkzeug.test import Client
from werkzeug.wrappers import Response

from tb_mindformers_plugin import metadata
from tb_mindformers_plugin import plugin as plugin_module
from tb_mindformers_plugin.plugin import TrainingHealthLoader, static_file
from tb_mindformers_plugin.writer import HealthWriter


class Served:
    """The plugin over a logdir, without TensorBoard around it."""

    def __init__(self, logdir="", logdir_spec=""):
        context = base_plugin.TBContext(
            logdir=str(logdir), flags=SimpleNamespace(logdir=str(logdir), logdir_spec=logdir_spec)
        )
        self.plugin = TrainingHealthLoader().load(context)
        self._apps = self.plugin.get_plugin_apps()

    def client(self, path):
        app = self._apps.get(path) or self._apps["/static/*"]
        return Client(app, Response)

    def runs(self):
        answer = self.client("/runs").get("/data/plugin/training_health/runs")
        assert answer.status_code == 200, answer.text
        return strict(answer.get_data(as_text=True))

    def post(self, **body):
        return self.client("/series").post("/data/plugin/training_health/series", data=json.dumps(body))

    def json_series(self, **body):
        answer = self.post(format="json", **body)
        assert answer.status_code == 200, answer.text
        return strict(answer.get_data(as_text=True))


def strict(text):
    """Parses JSON and refuses Python's NaN and Infinity."""

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def logs(tmp_path):
    with HealthWriter(tmp_path / "good", {"total_steps": 300, "steps_per_epoch": 100, "tokens_per_step": 10}) as writer:
        for step in range(1, 201):
            writer.log(step, loss=2 + 1 / step, lr=1e-3, grad_norm=0.5, loss_scale=1024, wall_time=1e9 + step)
        writer.event("end", 200, status="completed", wall_time=1e9 + 200)
    event_bytes.write(
        tmp_path / "other", *(event_bytes.scalars(s, **{"loss": 1.0, "learning-rate": 0.1}) for s in range(5))
    )
    event_bytes.write(tmp_path / "hparams_only", event_bytes.scalars(0, hp_metric=-1))
    return tmp_path


def test_runs(logs):
    listing = Served(logs).runs()
    assert [run["run"] for run in listing["runs"]] == ["good", "other"]
    assert listing["without_metrics"] == ["hparams_only"]
    searched = {"logdir": str(logs), "directories": 4, "event_files": 3, "tags": 7, "without_role": 1, "problems": []}
    assert listing["searched"] == searched
    good, other = listing["runs"]
    assert good["source"] == "manifest"
    assert good["status"] == "ended"
    assert good["verdict"] == "ok"
    assert good["total_steps"] == 300
    assert abs(good["last_wall_time"] - time.time()) < 60  # the version and manifest records count too
    assert good["missing"] == []
    assert good["axes"] == ["step", "from_start", "wall", "relative", "active", "epoch", "tokens"]
    assert good["roles"]["loss"] == {
        "tag": "train/loss",
        "unit": "",
        "points": 200,
        "first_step": 1,
        "last_step": 200,
        "last_value": float(np.float32(2.005)),
    }
    assert other["source"] == "alias"
    assert other["status"] == "unknown"
    assert [missing["role"] for missing in other["missing"]] == ["grad_norm", "loss_scale"]
    assert all(missing["hint"] for missing in other["missing"])


def test_a_run_that_is_still_written_is_running(tmp_path):
    writer = HealthWriter(tmp_path / "live")
    writer.log(1, loss=1.0)
    writer.flush()
    assert Served(tmp_path).runs()["runs"][0]["status"] == "running"
    writer.close()


def test_a_run_that_fell_silent_has_stalled(tmp_path):
    writer = HealthWriter(tmp_path / "silent")
    writer.log(1, loss=1.0)
    writer.close()  # as a process that dies: no word of an end
    served = Served(tmp_path)
    served.runs()
    store = served.plugin._store
    later = store.runs["silent"].summary().last_wall + 3600
    assert plugin_module.list_runs(store, now=later)["runs"][0]["status"] == "stalled"


def test_nan_is_said_and_the_json_is_strict(tmp_path):
    with HealthWriter(tmp_path / "broken") as writer:
        for step in range(10):
            writer.log(step, loss=math.nan if step >= 6 else 1.0, grad_norm=math.inf)
    run = Served(tmp_path).runs()["runs"][0]
    assert run["verdict"] == "critical"
    assert run["roles"]["loss"]["last_value"] == "NaN"
    assert run["roles"]["grad_norm"]["last_value"] == "Infinity"
    assert any("Loss was NaN at 4 of 10 logged steps from step 6 to 9" in note for note in run["notes"])


def test_failed_training_is_said(tmp_path):
    with HealthWriter(tmp_path / "failed") as writer:
        writer.log(3, loss=1.0)
        writer.event("end", 3, status="failed", error="ValueError: bad batch")
    run = Served(tmp_path).runs()["runs"][0]
    assert "The training failed at step 3: ValueError: bad batch." in run["notes"]


def test_damage_is_said(tmp_path):
    bad = bytearray(event_bytes.scalars(2, loss=1.0))
    bad[-6] ^= 1
    event_bytes.write(tmp_path / "run", event_bytes.scalars(1, loss=1.0), bytes(bad), event_bytes.scalars(3, loss=1.0))
    run = Served(tmp_path).runs()["runs"][0]
    assert run["roles"]["loss"]["points"] == 2
    assert any("damaged bytes at byte" in note for note in run["notes"])


def test_a_manifest_of_a_newer_version_is_said_and_names_are_used(tmp_path):
    value = metadata.manifest_value(metadata.RunManifest())
    value.metadata.plugin_data.content = b'{"version": 9}'
    event_bytes.write(tmp_path / "new", event_bytes.value_event(0, value), event_bytes.scalars(1, train__loss=1.0))
    run = Served(tmp_path).runs()["runs"][0]
    assert run["source"] == "alias"
    assert run["roles"]["loss"]["tag"] == "train/loss"
    assert any("pip install -U" in note for note in run["notes"])


def test_json_series(logs):
    answer = Served(logs).json_series(runs=["good"], roles=["loss", "grad_norm"], smoothing=0.5)
    assert [(s["run"], s["role"], s["tag"]) for s in answer["series"]] == [
        ("good", "loss", "train/loss"),
        ("good", "grad_norm", "train/grad_norm"),
    ]
    segment = answer["series"][0]["segments"][0]
    assert segment["current"] is True
    assert segment["raw"] is True
    assert segment["x"] == list(range(1, 201))
    assert segment["last"] == [float(np.float32(2 + 1 / step)) for step in range(1, 201)]
    assert segment["smoothed"][0] == segment["last"][0]
    assert segment["nan"] == [0] * 200


def test_binary_series(logs):
    answer = Served(logs).post(runs=["good", "other"], roles=["loss", "lr", "kl"], smoothing=0.5, buckets=50)
    assert answer.mimetype == "application/octet-stream"
    header = thb1.decode(answer.get_data())
    assert [(s["run"], s["role"], s["raw"]) for s in header["segments"]] == [
        ("good", "loss", False),
        ("good", "lr", False),
        ("other", "loss", True),
        ("other", "lr", True),
    ]
    loss = header["segments"][0]
    assert loss["max"].max() == 3.0 == loss["ymax"]
    assert loss["min"].min() == np.float32(2.005) == loss["ymin"]
    assert loss["ymin"] <= loss["p1"] <= loss["p99"] <= loss["ymax"]
    assert loss["smoothed"] is not None
    assert header["segments"][1]["smoothed"] is None
    assert {(m["run"], m["role"]) for m in header["missing"]} == {("good", "kl"), ("other", "kl")}


def test_binary_and_json_say_the_same(logs):
    served = Served(logs)
    asked = {"runs": ["good"], "roles": ["loss"], "smoothing": 0.9, "buckets": 40, "from": 20, "to": 180}
    binary = thb1.decode(served.post(**asked).get_data())["segments"][0]
    plain = served.json_series(**asked)["series"][0]["segments"][0]
    for name in ("x", "min", "max", "last", "smoothed"):
        assert binary[name].tolist() == plain[name]


def test_several_hundred_series_in_one_request(tmp_path):
    """Each has its own points, however little memory there is and whoever else asks."""
    roles = ("loss", "lr", "grad_norm")
    for n in range(150):
        event_bytes.write(
            tmp_path / f"run_{n}",
            *(event_bytes.scalars(s, loss=n + s / 64, lr=n / 256, grad_norm=float(s)) for s in range(40)),
        )
    served = Served(tmp_path)
    served.plugin._store.memory = 5000  # two runs
    names = [f"run_{n}" for n in range(150)]

    def ask(_):
        answer = served.post(runs=names, roles=list(roles), buckets=2000)
        assert answer.status_code == 200, answer.text
        return thb1.decode(answer.get_data())

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for found in pool.map(ask, range(3)):
            assert found["missing"] == []
            assert [(s["run"], s["role"]) for s in found["segments"]] == [
                (run, role) for run in names for role in roles
            ]
            for segment in found["segments"]:
                n = int(segment["run"][4:])
                expected = {"loss": n + np.arange(40) / 64, "lr": np.full(40, n / 256), "grad_norm": np.arange(40)}
                assert segment["raw"]
                assert segment["x"].tolist() == list(range(40))
                assert segment["last"].tolist() == expected[segment["role"]].astype(np.float32).tolist()
    assert sum(run.nbytes for run in served.plugin._store.runs.values()) <= 5000


def test_non_finite_points_in_binary(tmp_path):
    with HealthWriter(tmp_path / "run") as writer:
        for step, loss in enumerate([1.0, math.nan, math.inf, 2.0]):
            writer.log(step, loss=loss)
    segment = thb1.decode(Served(tmp_path).post(runs=["run"], roles=["loss"]).get_data())["segments"][0]
    assert np.isnan(segment["last"][1:3]).all()
    assert {name: column.tolist() for name, column in segment["nonfinite"].items()} == {
        "idx": [1, 2],
        "nan": [1, 0],
        "posinf": [0, 1],
        "neginf": [0, 0],
    }


def test_a_series_of_nothing_but_nan(tmp_path):
    with HealthWriter(tmp_path / "run") as writer:
        for step in range(3):
            writer.log(step, loss=math.nan)
    segment = thb1.decode(Served(tmp_path).post(runs=["run"], roles=["loss"], smoothing=0.9).get_data())["segments"][0]
    assert (segment["ymin"], segment["p99"]) == (None, None)


def test_restart_has_a_superseded_segment(tmp_path):
    event_bytes.write(tmp_path / "run", *(event_bytes.scalars(s, loss=1.0) for s in range(20)))
    event_bytes.write(
        tmp_path / "run", *(event_bytes.scalars(s, loss=5.0) for s in range(10, 30)), name="events.out.tfevents.2"
    )
    served = Served(tmp_path)
    assert served.runs()["runs"][0]["restarts"] == [10]
    current, old = thb1.decode(served.post(runs=["run"], roles=["loss"]).get_data())["segments"]
    assert current["current"]
    assert current["x"].tolist() == list(range(30))
    assert current["last"].tolist() == [1.0] * 10 + [5.0] * 20
    assert not old["current"]
    assert old["x"].tolist() == list(range(10, 20))


@pytest.mark.parametrize(
    ("x", "first", "last"),
    [
        *(("step", 1, 200), ("from_start", 0, 199), ("wall", 1e9 + 1, 1e9 + 200), ("relative", 0, 199)),
        *(("active", 0, 199), ("epoch", 0.01, 2.0), ("tokens", 10, 2000)),
    ],
)
def test_axes(logs, x, first, last):
    segment = Served(logs).json_series(runs=["good"], roles=["loss"], x=x)["series"][0]["segments"][0]
    assert segment["x"][0] == pytest.approx(first)
    assert segment["x"][-1] == pytest.approx(last)


def test_an_axis_that_a_run_does_not_know_is_said(logs):
    answer = Served(logs).json_series(runs=["good"], roles=["loss"], x="samples")
    assert answer["series"] == []
    assert "global_batch_size" in answer["missing"][0]["reason"]


def test_smoothing_does_not_depend_on_the_window(logs):
    served = Served(logs)
    asked = {"runs": ["good"], "roles": ["loss"], "smoothing": 0.9}
    whole = served.json_series(**asked)["series"][0]["segments"][0]
    part = served.json_series(**asked, **{"from": 100, "to": 110})["series"][0]["segments"][0]
    assert part["x"] == list(range(99, 112))
    assert part["smoothed"] == whole["smoothed"][98:111]


def test_new_points_come_with_the_next_request(logs, monkeypatch):
    monkeypatch.setattr(plugin_module, "_FRESH_SECONDS", 0.0)
    served = Served(logs)
    assert served.runs()["runs"][1]["roles"]["loss"]["last_step"] == 4
    with (logs / "other" / "events.out.tfevents.1.host.1.0").open("ab") as file:
        file.write(event_bytes.scalars(5, loss=1.0))
    assert served.runs()["runs"][1]["roles"]["loss"]["last_step"] == 5


def test_a_run_that_was_deleted_is_gone(logs, monkeypatch):
    monkeypatch.setattr(plugin_module, "_FRESH_SECONDS", 0.0)
    served = Served(logs)
    served.runs()
    (logs / "other" / "events.out.tfevents.1.host.1.0").unlink()
    (logs / "other").rmdir()
    assert [run["run"] for run in served.runs()["runs"]] == ["good"]


def test_errors_are_json_with_a_hint(logs):
    served = Served(logs)
    for body, words in [({"runs": ["nobody"], "roles": ["loss"]}, "'nobody'"), ({"runs": [], "roles": 3}, "'roles'")]:
        answer = served.post(**body)
        assert answer.status_code == 400
        said = json.loads(answer.get_data())
        assert words in said["error"]
        assert said["hint"]


@pytest.mark.parametrize(("path", "method"), [("/runs", "post"), ("/series", "get"), ("/static/index.js", "put")])
def test_wrong_method(logs, path, method):
    answer = getattr(Served(logs).client(path), method)(f"/data/plugin/training_health{path}")
    assert answer.status_code == 405
    assert "is not allowed" in json.loads(answer.get_data())["error"]
    assert answer.headers["Allow"]


def test_an_unexpected_error_is_json_too(logs, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("boom")

    monkeypatch.setattr(plugin_module, "list_runs", fail)
    answer = Served(logs).client("/runs").get("/data/plugin/training_health/runs")
    assert answer.status_code == 500
    assert json.loads(answer.get_data())["error"] == "RuntimeError: boom"


def test_active_with_metrics_only(logs, tmp_path_factory):
    assert Served(logs).plugin.is_active()
    empty = tmp_path_factory.mktemp("empty")
    assert not Served(empty).plugin.is_active()
    event_bytes.write(empty / "hp", event_bytes.scalars(0, hp_metric=-1))
    served = Served(empty)
    assert not served.plugin.is_active()
    HealthWriter(empty / "begun").close()
    assert served.plugin.is_active()


def test_empty_and_missing_logdir(tmp_path):
    assert Served(tmp_path).runs()["runs"] == []
    listing = Served(tmp_path / "nowhere").runs()
    assert "does not exist" in listing["searched"]["problems"][0]


def test_logdir_spec(logs):
    listing = Served(logdir_spec=f"a:{logs}/good,b:{logs}").runs()
    assert [run["run"] for run in listing["runs"]] == ["a/.", "b/good", "b/other"]


def test_static_files_stay_in_their_directory(tmp_path):
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "index.js").write_text("x")
    (tmp_path / "secret").write_text("s")
    assert static_file("index.js", tmp_path / "static") == b"x"
    assert static_file("../secret", tmp_path / "static") is None
    assert static_file(str(tmp_path / "secret"), tmp_path / "static") is None
    assert static_file("", tmp_path / "static") is None
    assert static_file("none.js", tmp_path / "static") is None


def test_a_tab_that_was_not_built_says_so(logs, monkeypatch, tmp_path):
    monkeypatch.setattr(plugin_module, "STATIC_DIR", tmp_path)
    client = Served(logs).client("/static/*")
    answer = client.get("/data/plugin/training_health/static/index.js")
    assert answer.status_code == 200
    assert "pip install ." in answer.get_data(as_text=True)
    assert client.get("/data/plugin/training_health/static/other.js").status_code == 404


def test_names_are_kept_as_they_are(tmp_path):
    name = 'a <b>"q"</b> & 中文 🙂'
    event_bytes.write(tmp_path / name, event_bytes.scalars(1, loss=1.0))
    served = Served(tmp_path)
    assert served.runs()["runs"][0]["run"] == name
    assert served.json_series(runs=[name], roles=["loss"])["series"][0]["run"] == name


def test_importing_the_plugin_imports_nothing_heavy():

    code = (
        "import sys, tb_mindformers_plugin.plugin; "
        "print([name for name in ('mindspore', 'scipy', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GB", 2**31), ("500 mb", 500 * 2**20), ("1.5G", 3 * 2**29), ("1048576", 2**20), ("3MiB", 3 * 2**20)],
)
def test_memory_sizes(text, size):
    assert plugin_module.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "-2GB", "1KB", "2XB", "0"])
def test_memory_sizes_that_are_none(text):
    with pytest.raises(argparse.ArgumentTypeError, match="500MB"):
        plugin_module.parse_size(text)


def test_memory_flag():
    parser = argparse.ArgumentParser()
    TrainingHealthLoader().define_flags(parser)
    assert parser.parse_args([]).training_health_memory == 2**31
    flags = parser.parse_args(["--training_health_memory", "300MB"])
    flags.logdir, flags.logdir_spec = "x", ""
    plugin = TrainingHealthLoader().load(base_plugin.TBContext(flags=flags))
    assert plugin._store.memory == 300 * 2**20


def test_rules_flag(tmp_path):
    loss = 2 + 0.02 * np.random.default_rng(0).standard_normal(400)
    loss[200] = 6
    with HealthWriter(tmp_path / "logs" / "run") as writer:
        for step, value in enumerate(loss):
            writer.log(step, loss=value, wall_time=1e9 + step)
    rules = tmp_path / "rules.toml"
    verdicts = []
    for content in ("", "[loss_spike]\nrise = 3\n", "loss_spike = false\n"):
        rules.write_text(content)
        parser = argparse.ArgumentParser()
        TrainingHealthLoader().define_flags(parser)
        flags = parser.parse_args(["--training_health_rules", str(rules)])
        flags.logdir, flags.logdir_spec = str(tmp_path / "logs"), ""
        apps = TrainingHealthLoader().load(base_plugin.TBContext(flags=flags)).get_plugin_apps()
        (run,) = Client(apps["/runs"], Response).get("/runs").json["runs"]
        found = Client(apps["/findings"], Response).get("/findings?run=run").json["findings"]
        verdicts.append((run["verdict"], [finding["rule"] for finding in found]))
    assert verdicts == [("warning", ["loss_spike"]), ("ok", []), ("ok", [])]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[loss_spikes]", "no rule 'loss_spikes'; known: baseline_divergence, "),
        ("[loss_spike]\nz = 'high'", "loss_spike.z is 'high': allowed is a number from 0 (default 6)"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_tensorboard_says_what_is_wrong_with_a_rules_file(tmp_path, capsys, content, words):
    rules = tmp_path / "rules.toml"
    if content is not None:
        rules.write_text(content)
    parser = argparse.ArgumentParser()
    TrainingHealthLoader().define_flags(parser)
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["--training_health_rules", str(rules)])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert f"argument --training_health_rules: {rules}" in said
    assert words in said


@pytest.mark.processes
def test_a_real_tensorboard_does_not_start_with_a_wrong_rules_file(tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text("[loss_spike]\nzz = 8\n")
    command = [
        sys.executable,
        "-m",
        "tensorboard.main",
        "--logdir",
        str(tmp_path),
        "--training_health_rules",
        str(rules),
    ]
    done = subprocess.run([*command, "--port", "0"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "loss_spike has no parameter 'zz'; known: rise, z, " in done.stderr
    assert "Traceback" not in done.stderr


def test_columns_are_compressed_where_they_cross_a_network(logs):
    served = Served(logs)
    body = json.dumps({"runs": ["good"], "roles": ["loss", "lr"], "smoothing": 0.5})

    def ask(address, **headers):
        environ = {"REMOTE_ADDR": address}
        return served.client("/series").post("/series", data=body, headers=headers, environ_overrides=environ)

    plain = ask("127.0.0.1", **{"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in plain.headers
    packed = ask("10.0.0.7", **{"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.get_data()) == plain.get_data()
    assert len(packed.get_data()) < len(plain.get_data())
    assert "Content-Encoding" not in ask("10.0.0.7").headers


@pytest.mark.parametrize(
    "content",
    [
        b'{"version": 1, "total_steps": ' + b"9" * 400 + b"}",
        b"[" * 100_000,
        b'{"version": 1, "units": {"train/loss": "\\ud800"}}',
        b'{"version": 1, "hparams": ' + b'{"a":' * 20_000 + b"1" + b"}" * 20_001,
    ],
)
def test_one_bad_manifest_costs_the_others_nothing(logs, content):
    value = metadata.manifest_value(metadata.RunManifest())
    value.metadata.plugin_data.content = content
    event_bytes.write(logs / "bad", event_bytes.value_event(0, value), event_bytes.scalars(1, train__loss=1.0))
    runs = {run["run"]: run for run in Served(logs).runs()["runs"]}
    assert set(runs) == {"bad", "good", "other"}
    assert runs["bad"]["roles"]["loss"]["last_value"] == 1.0


def test_a_run_that_nobody_foresaw_costs_the_others_nothing(logs, monkeypatch):
    from tb_mindformers_plugin.runs import run as run_module

    real = run_module.summarise

    def summarise(name, *args, **kwargs):
        if name == "other":
            raise RuntimeError("boom")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(run_module, "summarise", summarise)
    listing = Served(logs).runs()
    assert [run["run"] for run in listing["runs"]] == ["good"]
    assert any("other: The run cannot be read: RuntimeError: boom" in said for said in listing["searched"]["problems"])


def test_a_directory_name_that_is_no_utf8(tmp_path):
    directory = os.path.join(os.fsencode(tmp_path), "训练".encode("gbk"))
    os.mkdir(directory)
    with open(os.path.join(directory, b"events.out.tfevents.1"), "wb") as file:
        file.write(event_bytes.version() + event_bytes.scalars(1, loss=1.0))
    served = Served(tmp_path)
    (run,) = served.runs()["runs"]
    answer = served.json_series(runs=[run["run"]], roles=["loss"])
    assert answer["series"][0]["run"] == run["run"]
    assert thb1.decode(served.post(runs=[run["run"]], roles=["loss"]).get_data())["segments"][0]["run"] == run["run"]


@pytest.mark.parametrize("name", ["%00", "x" * 5000, "..%2f..%2fplugin.py", "."])
def test_static_names_that_no_file_has(logs, name):
    answer = Served(logs).client("/static/*").get(f"/data/plugin/training_health/static/{name}")
    assert answer.status_code == 404
    assert json.loads(answer.get_data())["hint"]


def test_a_body_that_nests_without_end(logs):
    answer = Served(logs).client("/series").post("/series", data="[" * 100_000)
    assert answer.status_code == 400


def test_a_run_that_vanishes_between_two_requests(logs, monkeypatch):
    monkeypatch.setattr(plugin_module, "_FRESH_SECONDS", 0.0)
    served = Served(logs)
    served.runs()
    (logs / "other" / "events.out.tfevents.1.host.1.0").unlink()
    assert served.post(runs=["other"], roles=["loss"]).status_code == 400
