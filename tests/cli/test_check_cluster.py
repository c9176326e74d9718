"""``tb-health check --scheduler`` with a real Dask scheduler and two workers on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time

import command
import pytest

pytest.importorskip("distributed", reason="needs the extra [cluster]")

pytestmark = pytest.mark.cluster

START_SECONDS = 60


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    return command.many_runs(tmp_path_factory.mktemp("logs"))


@contextlib.contextmanager
def started(*arguments, environment=None):
    """A process of Dask, which ends with the test."""
    process = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment or command.environment(),
        cwd=os.path.dirname(arguments[-1]),
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def scheduler(directory):
    """Yields the address of a scheduler, the file that says it, and its process."""
    file = directory / "scheduler.json"
    arguments = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
    with started("dask_scheduler", *arguments) as process:
        for _ in range(START_SECONDS * 10):
            with contextlib.suppress(OSError, ValueError):
                yield json.loads(file.read_text())["address"], file, process
                return
            assert process.poll() is None
            time.sleep(0.1)
        raise AssertionError("the scheduler did not start")


def worker(file, environment=None):
    arguments = ("--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard", "--scheduler-file", str(file))
    return started("dask_worker", *arguments, environment=environment)


def wait_for_workers(address, count):
    import distributed

    with distributed.Client(address, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=START_SECONDS)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cluster")
    with scheduler(directory) as (address, file, _), worker(file), worker(file):
        wait_for_workers(address, 2)
        yield address


@pytest.mark.parametrize("options", [[], ["--json", "--lang", "zh", "--set", "loss_spike=off"]])
def test_a_cluster_says_what_this_process_says(cluster, logs, options):
    alone = command.run(logs, *options, "--jobs", "1")
    assert command.run(logs, *options, "--scheduler", cluster) == alone
    assert alone[0] == 1


def test_both_workers_work(cluster, tmp_path):
    for i in range(20):
        command.write(tmp_path / str(i), command.noise(200, i))
    import distributed

    with distributed.Client(cluster, set_as_default=False) as client:
        before = _done(client)
        status, said, _ = command.run(tmp_path, "--json", "--scheduler", cluster)
        after = _done(client)
    assert status == 0
    assert len(json.loads(said)["runs"]) == 20
    assert len(after) == 2
    assert all(after[worker] > before.get(worker, 0) for worker in after)


def _done(client):
    """Worker -> tasks that it finished so far."""
    return client.run(lambda dask_worker: dask_worker.state.transition_counter)


def test_a_relative_logdir(cluster, logs):
    status, said, _ = command.run(".", "--json", "--scheduler", cluster, cwd=logs)
    assert status == 1
    assert len(json.loads(said)["runs"]) == 5


def test_a_scheduler_that_does_not_answer(logs):
    status, said, complained = command.run(logs, "--scheduler", "tcp://127.0.0.1:9")
    assert (status, said) == (2, "")
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in complained
    assert "Traceback" not in complained


@pytest.mark.parametrize("address", ["", "nonsense", "tcp://", "http://127.0.0.1:9", "x://y:1"])
def test_an_address_that_is_none(logs, address):
    status, said, complained = command.run(logs, "--scheduler", address)
    assert (status, said) == (2, "")
    assert complained.startswith(f"tb-health check: no Dask scheduler answers at {address}: ")
    assert "Traceback" not in complained


def test_a_scheduler_without_workers(logs, tmp_path):
    with scheduler(tmp_path) as (address, _, _):
        status, said, complained = command.run(logs, "--scheduler", address)
    assert (status, said) == (2, "")
    assert complained == (
        f"tb-health check: the Dask scheduler at {address} has no worker: start some with `dask worker {address}`\n"
    )


def test_without_the_extra(logs, tmp_path):
    (tmp_path / "distributed.py").write_text("raise ImportError('not installed')\n")
    path = os.pathsep.join([str(tmp_path), command.environment()["PYTHONPATH"]])
    environment = command.environment(PYTHONPATH=path)
    status, said, complained = command.run(logs, "--scheduler", "tcp://127.0.0.1:9", env=environment)
    assert (status, said) == (2, "")
    assert "pip install tb-mindformers-plugin[cluster]" in complained


def test_a_run_that_ends_its_worker_is_an_error_of_that_run(logs, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(command.dies_at("m spiked [1]", "spawn_main"))
    path = os.pathsep.join([str(tmp_path), command.environment()["PYTHONPATH"]])
    environment = command.environment(PYTHONPATH=path)
    with scheduler(tmp_path) as (address, file, _), worker(file, environment), worker(file, environment):
        wait_for_workers(address, 2)
        status, said, complained = command.run(logs, "--json", "--scheduler", address, timeout=240)
    assert status == 2
    answer = json.loads(said)
    assert len(answer["runs"]) == 4
    assert [error["run"] for error in answer["errors"]] == ["m spiked [1]"]
    assert "m spiked [1] was not checked" in complained


@pytest.mark.parametrize(
    ("victim", "words"),
    [
        ("scheduler", "the connection to the cluster's scheduler was lost"),
        ("worker", "no worker of the cluster is left"),
    ],
)
def test_a_cluster_that_is_lost_costs_only_what_it_had_not_done(logs, tmp_path, victim, words):
    mark = tmp_path / "reached"
    hangs = f"open({str(mark)!r}, 'w'); time.sleep(300)"
    (tmp_path / "sitecustomize.py").write_text(command.dies_at("z lost", "spawn_main", hangs))
    path = os.pathsep.join([str(tmp_path), command.environment()["PYTHONPATH"]])
    environment = command.environment(PYTHONPATH=path)
    with scheduler(tmp_path) as (address, file, process), worker(file, environment) as working:
        wait_for_workers(address, 1)
        with command.start(logs, "--json", "--scheduler", address) as check:
            for _ in range(START_SECONDS * 10):
                if mark.exists():
                    break
                time.sleep(0.1)
            time.sleep(2)  # for what is done to arrive
            (process if victim == "scheduler" else working).kill()
            said, complained = check.communicate(timeout=120)
    assert check.returncode == 2
    answer = json.loads(said)
    assert [run["run"] for run in answer["runs"]] == [*(f"a good {i}" for i in range(3)), "m spiked [1]"]
    assert answer["errors"] == [{"run": "z lost", "error": words}]
    assert complained == f"tb-health check: z lost was not checked: {words}\n"
