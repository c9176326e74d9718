"""``tb-health check`` over parallel processes says what it says alone, whatever becomes of them."""

from __future__ import annotations

import functools
import json
import os
import signal
import threading
import time

import command
import pytest

from tb_mindformers_plugin.cli.check import processes
from tb_mindformers_plugin.cli.check.processes import over_processes, worthwhile

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    return command.many_runs(tmp_path_factory.mktemp("logs"))


@pytest.mark.parametrize("options", [[], ["--json"], ["--lang", "zh"], ["--json", "--set", "loss_spike=off"]])
def test_parallel_says_what_serial_says(logs, options):
    serial = command.run(logs, *options, "--jobs", "1")
    parallel = command.run(logs, *options, "--jobs", "2")
    assert serial == parallel
    assert serial[0] == 1
    assert serial[1]
    assert serial[2] == ""  # no progress bar in a pipe


def test_a_relative_logdir_and_a_spec_in_other_processes(logs):
    runs = command.run(logs, "--json", "--jobs", "1")[1]
    assert command.run(".", "--json", "--jobs", "2", cwd=logs)[1] == runs
    status, said, _ = command.run("x:m spiked [1],y:z lost", "--json", "--jobs", "2", cwd=logs)
    assert status == 1
    assert [run["run"] for run in json.loads(said)["runs"]] == ["x/.", "y/."]


def test_a_worker_that_dies_is_an_error_of_its_run(logs, tmp_path):
    # What a run's bytes could do to a process at worst: end it at once.
    (tmp_path / "sitecustomize.py").write_text(command.dies_at("m spiked [1]", "spawn_main"))
    path = os.pathsep.join([str(tmp_path), command.environment()["PYTHONPATH"]])
    environment = command.environment(PYTHONPATH=path)
    status, said, complained = command.run(logs, "--json", "--jobs", "2", env=environment)
    assert status == 2
    answer = json.loads(said)
    assert [run["run"] for run in answer["runs"]] == [*(f"a good {i}" for i in range(3)), "z lost"]
    assert [error["run"] for error in answer["errors"]] == ["m spiked [1]"]
    assert complained.startswith("tb-health check: m spiked [1] was not checked: the process that checked it died")


def test_a_progress_bar_on_a_terminal(logs):
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    with command.start(logs, stderr=follower, env=command.environment(TERM="xterm")) as process:
        os.close(follower)
        said, _ = process.communicate(timeout=120)
    assert "5 runs" in said
    assert "Checking" in os.read(leader, 100_000).decode()
    os.close(leader)


def test_ctrl_c_ends_all_processes(tmp_path):
    for i in range(12):
        command.write(tmp_path / str(i), command.noise(3000))
    process = command.start(tmp_path, "--jobs", "2", start_new_session=True)
    try:
        children = _children_of(process)
        os.killpg(process.pid, signal.SIGINT)
        _, complained = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert complained == "tb-health check: interrupted\n"
    assert children
    assert _gone(children)


def test_ctrl_c_waits_while_a_process_begins():
    # A thread that takes the signal where the main thread does not.
    done = threading.Event()
    threading.Thread(target=done.wait, daemon=True).start()
    begun = []

    def begin():
        with processes._uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000):
                time.sleep(1e-4)
            begun.append(True)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            begin()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
        done.set()
    assert begun


def test_processes_end_with_the_one_that_was_killed(tmp_path):
    for i in range(12):
        command.write(tmp_path / str(i), command.noise(3000))
    process = command.start(tmp_path, "--jobs", "2")
    children = _children_of(process)
    process.kill()
    process.communicate(timeout=60)
    assert children
    assert _gone(children)


def _children_of(process):
    """The process ids of the workers, as soon as there are any."""
    for _ in range(600):
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
            found = file.read().split()
        # The first is multiprocessing's tracker of resources.
        if len(found) > 1 or process.poll() is not None:
            return found
        time.sleep(0.05)
    raise AssertionError("no process was started")


def _gone(children):
    for _ in range(200):
        if not any(os.path.exists(f"/proc/{child}") and _alive(child) for child in children):
            return True
        time.sleep(0.05)
    return False


def _alive(child):
    try:
        with open(f"/proc/{child}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_run_whose_process_died_is_tried_again_alone(tmp_path):
    work = functools.partial(command.die_once, tmp_path)
    reports = list(over_processes(work, ["a", "dies once", "b", "c", "dies"], 2))
    assert sorted(report.run for report in reports) == ["a", "b", "c", "dies", "dies once"]
    assert [report.run for report in reports if report.error] == ["dies"]


def test_few_runs_are_checked_faster_alone(monkeypatch):
    monkeypatch.setattr("tb_mindformers_plugin.cli.check.processes._cores", lambda: 8)
    assert worthwhile([]) == worthwhile([1000]) == worthwhile([10**6] * 50) == 1
    assert worthwhile([10**6] * 500) > 1
    assert worthwhile([10**9] * 3) == 3
    assert worthwhile([10**9] * 100) == 8
