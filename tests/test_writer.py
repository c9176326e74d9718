from __future__ import annotations

import json
import logging
import math
import os
import subprocess
import sys
import textwrap
import time

import pytest
from tensorboard.backend.event_processing import event_file_loader
from tensorboard.compat.proto import event_pb2
from tensorboard.summary.writer import event_file_writer

from tb_mindformers_plugin.metadata import ManifestError, RunManifest
from tb_mindformers_plugin.writer import HealthWriter


def events(directory):
    """The events of a run directory, by TensorBoard's own loader."""
    found = []
    for path in sorted(directory.iterdir()):
        found.extend(event_pb2.Event.FromString(raw) for raw in event_file_loader.RawEventFileLoader(str(path)).Load())
    return found


def test_one_record_a_step(tmp_path):
    writer = HealthWriter(tmp_path / "run")
    writer.log(10, loss=2.5, lr=1e-3, grad_norm=None, wall_time=50.0, **{"moe/balance": 1})
    writer.close()
    logged = [e for e in events(tmp_path / "run") if e.step == 10]
    assert len(logged) == 1
    assert logged[0].wall_time == 50.0
    values = {v.tag: v.simple_value for v in logged[0].summary.value}
    assert values == {"train/loss": 2.5, "train/lr": pytest.approx(1e-3), "moe/balance": 1.0}


def test_manifest_is_written_at_once(tmp_path):
    writer = HealthWriter(tmp_path, {"total_steps": 7, "roles": {"loss": "obj/total"}})
    value = events(tmp_path)[1].summary.value[0]
    manifest = json.loads(value.metadata.plugin_data.content)
    assert value.tag == "training_health/run"
    assert value.metadata.plugin_data.plugin_name == "training_health"
    assert value.HasField("tensor")
    assert manifest["version"] == 1
    assert manifest["total_steps"] == 7
    assert manifest["roles"]["loss"] == "obj/total"
    assert manifest["roles"]["lr"] == "train/lr"
    assert manifest["started_at"].endswith("+00:00")
    writer.log(1, loss=3.0)
    writer.close()
    assert events(tmp_path)[-1].summary.value[0].tag == "obj/total"


def test_the_callers_manifest_is_left_alone(tmp_path):
    manifest = RunManifest(total_steps=3)
    HealthWriter(tmp_path, manifest).close()
    assert manifest == RunManifest(total_steps=3)


def test_health_event(tmp_path):
    with HealthWriter(tmp_path) as writer:
        writer.event("overflow", 12, loss_scale=256.0)
        writer.flush()
        value = events(tmp_path)[-1].summary.value[0]
    assert value.tag == "training_health/events"
    assert json.loads(value.tensor.string_val[0]) == {"kind": "overflow", "loss_scale": 256.0}


def test_values_that_are_not_finite_are_kept(tmp_path):
    writer = HealthWriter(tmp_path)
    writer.log(1, loss=math.nan, grad_norm=math.inf)
    writer.close()
    values = {v.tag: v.simple_value for v in events(tmp_path)[-1].summary.value}
    assert math.isnan(values["train/loss"])
    assert values["train/grad_norm"] == math.inf


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"log_dir": ""}, ValueError, "log_dir"),
        ({"log_dir": 3}, TypeError, "log_dir.*3"),
        ({"flush_seconds": 0}, ValueError, "flush_seconds.*> 0, got 0"),
        ({"flush_seconds": math.nan}, ValueError, "flush_seconds"),
        ({"flush_seconds": "10"}, TypeError, "flush_seconds"),
        ({"manifest": "x"}, ManifestError, "manifest"),
        ({"manifest": {"roles": {"gradient": "g"}}}, ManifestError, "'gradient'.*grad_norm"),
        ({"manifest": {"hparams": {"a": object()}}}, ManifestError, "hparams"),
    ],
)
def test_wrong_arguments(tmp_path, arguments, error, words):
    with pytest.raises(error, match=words):
        HealthWriter(**{"log_dir": tmp_path / "run", **arguments})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("step", "metrics", "words"),
    [
        (1, {"los": 3}, "'los' is neither a role.*train/los"),
        (1, {"loss": "3 x"}, "'loss'.*'3 x'"),
        (1.5, {"loss": 1}, "step.*1.5"),
        (True, {"loss": 1}, "step"),
        (2**63, {"loss": 1}, "64-bit"),
    ],
)
def test_wrong_values(tmp_path, step, metrics, words):
    with HealthWriter(tmp_path) as writer, pytest.raises(ValueError, match=words):
        writer.log(step, **metrics)


def test_a_closed_writer_says_so(tmp_path):
    writer = HealthWriter(tmp_path)
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.log(1, loss=1.0)


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(OSError, match="run"):
        HealthWriter(tmp_path / "run")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, {"status": "completed"}),
        (RuntimeError("bad batch"), {"status": "failed", "error": "RuntimeError: bad batch"}),
    ],
)
def test_leaving_the_block_says_how_it_ended(tmp_path, error, expected):
    def train():
        with HealthWriter(tmp_path) as writer:
            writer.log(7, loss=1.0)
            if error:
                raise error

    if error:
        with pytest.raises(RuntimeError):
            train()
    else:
        train()
    last = events(tmp_path)[-1]
    assert last.step == 7
    assert json.loads(last.summary.value[0].tensor.string_val[0]) == {"kind": "end", **expected}


def test_an_end_that_was_written_stands(tmp_path):
    with HealthWriter(tmp_path) as writer:
        writer.event("end", 3, status="stopped")
    kinds = [v.tag for e in events(tmp_path) for v in e.summary.value]
    assert kinds.count("training_health/events") == 1


def test_flush_by_time(tmp_path):
    with HealthWriter(tmp_path, flush_seconds=0.2) as writer:
        writer.log(1, loss=1.0)
        deadline = time.monotonic() + 10
        while events(tmp_path)[-1].step != 1:
            assert time.monotonic() < deadline, "not flushed"
            time.sleep(0.05)


def test_killed_process_loses_only_what_was_not_flushed(tmp_path):
    code = """
        import os, signal, sys, time
        from tb_mindformers_plugin import HealthWriter
        writer = HealthWriter(sys.argv[1], flush_seconds=0.1)
        for step in range(100):
            writer.log(step, loss=1.0)
        time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(tmp_path)], check=False)
    assert ended.returncode == -9
    assert [e.step for e in events(tmp_path) if e.summary.value and e.summary.value[0].tag == "train/loss"] == list(
        range(100)
    )


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_failing_disk_is_said_once_and_writing_is_taken_up_again(tmp_path, monkeypatch, caplog):
    directory = tmp_path / "run"
    writer = HealthWriter(directory, flush_seconds=0.01)
    fail = True

    def write(self, data):
        if fail:
            raise OSError(28, "No space left on device")
        return real(self, data)

    real = event_file_writer._AsyncWriter.write
    monkeypatch.setattr(event_file_writer._AsyncWriter, "write", write)
    with caplog.at_level(logging.WARNING, logger="tb_mindformers_plugin"):
        for step in range(5):
            writer.log(step, loss=1.0)
        assert [r.message for r in caplog.records if "cannot write" in r.message] == [caplog.records[0].message]
        assert "No space left" in caplog.text
        fail = False
        monkeypatch.setattr(writer, "_retry_at", 0.0)
        writer.log(5, loss=1.0)
        writer.close()
    assert "5 or more records were lost" in caplog.text
    assert [e.step for e in events(directory) if e.summary.value and e.summary.value[0].tag == "train/loss"] == [5]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_full_disk_for_real(tmp_path):
    """A limit on the file size fails writes in the kernel, as a full disk does."""
    code = """
        import resource, signal, sys, time, logging
        from tb_mindformers_plugin import HealthWriter
        logging.basicConfig(level="WARNING", format="LOGGED %(message)s", stream=sys.stdout)
        writer = HealthWriter(sys.argv[1], flush_seconds=0.01)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
        for step in range(300):
            writer.log(step, loss=1.0, lr=0.1)
            time.sleep(0.001)
        writer.close()
        print("TRAINED")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "TRAINED" in done.stdout, done.stderr
    assert done.stdout.count("LOGGED Training Health cannot write") == 1
    assert os.path.getsize(next(tmp_path.iterdir())) <= 3000
