from __future__ import annotations

import concurrent.futures
import itertools
import json
import logging
import math
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto import event_pb2

from tb_mindformers_plugin.eventfile import EventFile
from tb_mindformers_plugin.metadata import ManifestError, RunManifest
from tb_mindformers_plugin.writer import HealthWriter, background, files


def events(directory):
    """The events of a run directory, by TensorBoard's own loader."""
    found = []
    for path in sorted(directory.iterdir(), key=lambda path: int(path.name.rsplit(".", 1)[1])):
        found.extend(event_pb2.Event.FromString(raw) for raw in RawEventFileLoader(str(path)).Load())
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


def test_a_time_to_flush_that_never_comes(tmp_path):
    # A thread cannot wait for longer than some centuries.
    with HealthWriter(tmp_path, flush_seconds=1e300) as writer:
        writer.log(1, loss=1.0)
    assert logged_steps(tmp_path) == [1]


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


def logged_steps(directory):
    return [e.step for e in events(directory) if e.summary.value and e.summary.value[0].tag == "train/loss"]


class Disk:
    """A disk that can be told to fail or to hang, under the files that are really written."""

    def __init__(self, monkeypatch):
        self.error = None
        self.free = threading.Event()
        self.free.set()
        self.hung = threading.Event()
        real = files._LocalFile.write

        def write(file, data):
            if not self.free.is_set():
                self.hung.set()
                self.free.wait(60)
            if self.error is not None:
                file._file.write(data[: len(data) // 2])  # a full disk takes a part
                raise self.error
            real(file, data)

        monkeypatch.setattr(files._LocalFile, "write", write)


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


def said(caplog, words):
    return [r.getMessage() for r in caplog.records if words in r.getMessage() and r.levelno >= logging.WARNING]


def test_failing_disk_is_said_once_and_what_waited_is_written_later(tmp_path, disk, monkeypatch, caplog):
    monkeypatch.setattr(background, "_RETRY_SECONDS", 0.0)
    directory = tmp_path / "run"
    writer = HealthWriter(directory, flush_seconds=1000)
    writer.log(0, loss=1.0)
    writer.flush()
    disk.error = OSError(28, "No space left on device")
    for step in range(1, 6):
        writer.log(step, loss=1.0)
        writer.flush()
    (failure,) = said(caplog, "cannot write")
    assert "No space left on device" in failure
    assert str(directory) in failure
    disk.error = None
    writer.log(6, loss=1.0)
    writer.close()
    assert said(caplog, "writes to") == [f"Training Health writes to {directory} again; 0 records were lost."]
    # Nothing is lost, nothing is there twice, and no half record is left: what was sound, and a new file.
    assert logged_steps(directory) == list(range(7))
    assert len(list(directory.iterdir())) == 2


def test_a_disk_that_fails_is_not_tried_at_every_record(tmp_path, disk, monkeypatch):
    writer = HealthWriter(tmp_path, flush_seconds=1000)
    disk.error = OSError(5, "Input/output error")
    opened = []
    real = background.new_event_file
    monkeypatch.setattr(background, "new_event_file", lambda directory: opened.append(directory) or real(directory))
    for step in range(50):
        writer.log(step, loss=1.0)
        writer.flush()
    assert opened == []  # not before a minute has passed
    disk.error = None
    writer.close()  # there is no later: tried once more
    assert len(opened) == 1
    assert logged_steps(tmp_path) == list(range(50))


def test_what_a_failed_disk_never_took_is_counted_at_the_end(tmp_path, disk, caplog):
    writer = HealthWriter(tmp_path, flush_seconds=1000)
    disk.error = OSError(28, "No space left on device")
    for step in range(7):
        writer.log(step, loss=1.0)
    writer.close()
    assert said(caplog, "could not be written") == [f"7 records could not be written to {tmp_path}."]


def test_a_disk_that_hangs_holds_nothing_up_and_loses_what_no_longer_fits(tmp_path, disk, monkeypatch, caplog):
    monkeypatch.setattr(background, "QUEUE_RECORDS", 20)
    monkeypatch.setattr(background, "_PATIENCE_SECONDS", 0.2)
    writer = HealthWriter(tmp_path, flush_seconds=0.01)
    disk.free.clear()
    writer.log(0, loss=1.0)
    assert disk.hung.wait(30)
    for step in range(1, 51):
        writer.log(step, loss=1.0)
    writer.event("alert", 50, rule="test")  # finds room
    writer.flush()
    writer.flush()
    assert len(said(caplog, "does not answer")) == 1
    assert len(said(caplog, "records wait for the disk")) == 1
    monkeypatch.setattr(background, "_PATIENCE_SECONDS", 30.0)
    disk.free.set()
    writer.close()
    # The oldest wait, the newest are dropped.
    assert logged_steps(tmp_path) == list(range(20))
    assert events(tmp_path)[-1].step == 50
    assert said(caplog, "again; 31 records were lost")


@pytest.mark.parametrize(("name", "limit"), [("QUEUE_RECORDS", 20), ("QUEUE_BYTES", 2000)])
def test_a_loop_that_is_faster_than_its_disk_waits_and_loses_nothing(tmp_path, monkeypatch, caplog, name, limit):
    monkeypatch.setattr(background, name, limit)
    with HealthWriter(tmp_path, flush_seconds=1000) as writer:
        for step in range(2000):
            writer.log(step, loss=1.0)
            if name == "QUEUE_BYTES" and step % 20 == 0:
                writer.add_text("note", "x" * 500, step)
    assert logged_steps(tmp_path) == list(range(2000))
    assert caplog.messages == []


def test_closing_does_not_wait_for_a_disk_that_hangs(tmp_path, disk, monkeypatch, caplog):
    monkeypatch.setattr(background, "_PATIENCE_SECONDS", 0.2)
    writer = HealthWriter(tmp_path, flush_seconds=0.01)
    disk.free.clear()
    writer.log(0, loss=1.0)
    assert disk.hung.wait(30)
    writer.close()
    assert len(said(caplog, "does not answer")) == 1
    disk.free.set()


def test_a_directory_that_hangs_at_the_beginning_is_waited_for_so_long_and_no_longer(
    tmp_path, disk, monkeypatch, caplog
):
    monkeypatch.setattr(background, "_PATIENCE_SECONDS", 0.2)
    disk.free.clear()
    writer = HealthWriter(tmp_path)
    writer.log(1, loss=1.0)
    assert "could not open a file in" in said(caplog, "does not answer")[0]
    monkeypatch.setattr(background, "_PATIENCE_SECONDS", 30.0)
    disk.free.set()
    writer.close()
    assert logged_steps(tmp_path) == [1]


@pytest.mark.parametrize("what", ["directory", "file"])
def test_what_is_deleted_under_it_is_said_once_and_the_run_goes_on(tmp_path, what, caplog):
    directory = tmp_path / "run"
    writer = HealthWriter(directory, {"total_steps": 9}, flush_seconds=1000)
    for step in range(4):
        writer.log(step, loss=1.0)
        writer.flush()
        if step in (1, 2):
            for path in directory.iterdir():
                path.unlink()
            if what == "directory":
                directory.rmdir()
    writer.close()
    assert len(said(caplog, "deleted")) == 1
    assert said(caplog, "cannot write") == []
    assert logged_steps(directory) == [3]
    assert events(directory)[1].summary.value[0].tag == "training_health/run"


def test_a_directory_that_is_gone_for_good_is_said_once(tmp_path, caplog):
    directory = tmp_path / "above" / "run"
    writer = HealthWriter(directory, flush_seconds=1000)
    shutil.rmtree(tmp_path / "above")
    (tmp_path / "above").write_text("in the way")
    for step in range(5):
        writer.log(step, loss=1.0)
        writer.flush()
    writer.close()
    assert len(said(caplog, "cannot write")) == 1
    assert len(said(caplog, "5 records could not be written")) == 1


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
    done = run_python(code, tmp_path)
    assert "TRAINED" in done.stdout, done.stderr
    assert done.stdout.count("LOGGED Training Health cannot write") == 1
    (path,) = tmp_path.iterdir()  # a file into which nothing went is not left behind
    assert os.path.getsize(path) <= 3000
    steps = logged_steps(tmp_path)
    assert steps == list(range(len(steps)))
    assert f"LOGGED {300 - len(steps)} records could not be written" in done.stdout


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 KiB, as far as this process may mount one."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    mounted = shutil.which("mount") and subprocess.run(command, capture_output=True, check=False).returncode == 0
    yield place if mounted else None
    if mounted:
        subprocess.run(["umount", str(place)], check=True)


def test_full_file_system(small_disk, caplog):
    if small_disk is None:
        return  # RLIMIT_FSIZE above has shown the same at the same system call
    (small_disk / "other").write_bytes(bytes(40_000))
    writer = HealthWriter(small_disk / "run", flush_seconds=1000)
    for step in range(1000):
        writer.log(step, loss=1.0)
        if step % 10 == 9:
            writer.flush()
    (failure,) = said(caplog, "cannot write")
    assert "No space left on device" in failure
    (small_disk / "other").unlink()
    writer.close()
    assert logged_steps(small_disk / "run") == list(range(1000))


def run_python(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# Twenty processes, forked from one that has imported everything, killed at a random moment each.
KILLED = """
    import os, random, signal, sys, time
    from tb_mindformers_plugin import HealthWriter

    def train(directory, pipe):
        writer = HealthWriter(directory, flush_seconds=0.02)
        step = 0
        while True:
            writer.log(step, loss=1.0, lr=0.1)
            step += 1
            if step % 50 == 0:
                writer.flush()
                os.write(pipe, b"%d\\n" % step)

    moments = random.Random(0)
    for attempt in range(20):
        there, here = os.pipe()
        child = os.fork()
        if child == 0:
            train(f"{sys.argv[1]}/{attempt}", here)
        os.close(here)
        with os.fdopen(there) as lines:
            first = lines.readline()
            time.sleep(moments.uniform(0, 0.1))
            os.kill(child, signal.SIGKILL)
            print(max(int(line) for line in [first, *lines]), flush=True)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
"""


def test_kill_at_a_random_moment_twenty_times(tmp_path):
    done = run_python(KILLED, tmp_path)
    assert done.returncode == 0, done.stderr
    flushed = [int(line) for line in done.stdout.split()]
    assert len(flushed) == 20
    for attempt, count in enumerate(flushed):
        steps = logged_steps(tmp_path / str(attempt))
        # All that was flushed is there, in order; behind it at most a record that was cut short.
        assert steps[:count] == list(range(count)), attempt
        assert steps == list(range(len(steps)))
        # And for this package's own reader too.
        (path,) = (tmp_path / str(attempt)).iterdir()
        assert EventFile(str(path)).read().columns["train/loss"].step.tolist() == steps


TERMINATED = """
    import os, signal, sys, time
    from tb_mindformers_plugin import HealthWriter
    if len(sys.argv) > 2:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(7))
    with HealthWriter(sys.argv[1], flush_seconds=1000, handle_sigterm=True) as writer:
        for step in range(1, 51):
            writer.log(step, loss=1.0)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
"""


@pytest.mark.parametrize(("arguments", "status"), [([], -15), (["handler"], 7)])
def test_sigterm_is_the_last_word_and_the_process_ends_as_it_would_have(tmp_path, arguments, status):
    done = run_python(TERMINATED, tmp_path / "run", *arguments)
    assert done.returncode == status, done.stderr
    assert logged_steps(tmp_path / "run") == list(range(1, 51))
    (end,) = (e for e in events(tmp_path / "run") if e.summary.value and "events" in e.summary.value[0].tag)
    assert json.loads(end.summary.value[0].tensor.string_val[0]) == {
        "kind": "end",
        "status": "stopped",
        "reason": "SIGTERM",
    }


def test_the_handler_of_sigterm_goes_with_the_writer(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    with HealthWriter(tmp_path, handle_sigterm=True):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
    with HealthWriter(tmp_path):
        assert signal.getsignal(signal.SIGTERM) is before


def test_signals_are_for_the_main_thread(tmp_path):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        made = pool.submit(HealthWriter, tmp_path / "run", handle_sigterm=True)
    with pytest.raises(ValueError, match="main thread"):
        made.result()


def test_no_two_writers_have_one_file(tmp_path, monkeypatch):
    monkeypatch.setattr(files.time, "time", lambda: 1000.0)
    monkeypatch.setattr(files, "_count", itertools.count())
    first = HealthWriter(tmp_path)
    monkeypatch.setattr(files, "_count", itertools.count())  # as in another container: same host, process and second
    second = HealthWriter(tmp_path)
    first.log(1, loss=1.0)
    second.log(2, loss=1.0)
    first.close()
    second.close()
    assert [len(list(RawEventFileLoader(str(path)).Load())) for path in tmp_path.iterdir()] == [3, 3]
