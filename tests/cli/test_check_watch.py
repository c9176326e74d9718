"""``tb-health check --watch`` follows runs that other processes write, and tells each finding once."""

from __future__ import annotations

import dataclasses
import json
import os
import queue
import signal
import subprocess
import sys
import threading

import command
import numpy as np
import pytest

from tb_mindformers_plugin.cli.check.watch import NEW, UPDATE, Followed
from tb_mindformers_plugin.health.finding import Finding

FOUND = Finding("loss_spike", "warning", "loss", "train/loss", 200, 210, 201, "", "", {"recovered": False})


def changed(**fields):
    return dataclasses.replace(FOUND, **fields)


def told(followed, *findings, run="run"):
    return [(kind, finding.first_step) for kind, finding in followed.news(run, findings)]


def test_a_finding_is_told_once():
    followed = Followed()
    assert told(followed, FOUND) == [(NEW, 200)]
    assert told(followed, FOUND) == []
    assert told(followed, changed(last_step=300, message="longer")) == []
    assert told(followed, FOUND, run="other") == [(NEW, 200)]
    assert told(followed) == []
    assert told(followed, FOUND) == []


def test_another_finding_is_told():
    followed = Followed()
    assert told(followed, FOUND) == [(NEW, 200)]
    # Beside the first, though it spans the same steps.
    assert told(followed, FOUND, changed(first_step=205)) == [(NEW, 205)]
    assert told(followed, FOUND, changed(role="grad_norm"), changed(rule="non_finite")) == [(NEW, 200), (NEW, 200)]


def test_a_change_of_severity_or_recovery_is_told_once():
    followed = Followed()
    told(followed, FOUND)
    worse, back = changed(severity="critical"), changed(evidence={"recovered": True})
    assert told(followed, worse) == [(UPDATE, 200)]
    assert told(followed, back) == [(UPDATE, 200)]
    for finding in (FOUND, worse, back):
        assert told(followed, finding) == []


def test_a_finding_whose_beginning_moves_stays_the_same():
    followed = Followed()
    told(followed, FOUND)
    assert told(followed, changed(first_step=205)) == []
    assert told(followed, changed(first_step=203, severity="critical")) == [(UPDATE, 203)]
    assert told(followed, FOUND) == []
    # Elsewhere is another one.
    assert told(followed, changed(first_step=400, last_step=410)) == [(NEW, 400)]


WRITER = """
import sys
import numpy as np
from tb_mindformers_plugin.writer import HealthWriter

with HealthWriter(sys.argv[1]) as writer:
    step = 0
    for line in sys.stdin:  # a value of the loss, and how often
        value, times = line.split()
        for _ in range(int(times)):
            noise = 0.02 * np.random.default_rng(step).standard_normal()
            writer.log(step, loss=float(value) + noise, wall_time=1e9 + step)
            step += 1
        writer.flush()
        print("written", flush=True)
"""


class Training:
    """A run that another process writes, as far as it is told to."""

    def __init__(self, directory):
        arguments = [sys.executable, "-c", WRITER, str(directory)]
        self._process = subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=command.environment()
        )

    def log(self, *values):
        for value, times in values:
            self._process.stdin.write(f"{value} {times}\n")
            self._process.stdin.flush()
            assert self._process.stdout.readline() == "written\n"

    def end(self):
        self._process.communicate(timeout=60)


class Watched:
    """``tb-health check --watch`` on a logdir."""

    def __init__(self, logdir, *options):
        self.process = command.start(logdir, "--watch", "--interval", "0.2", *options)
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def line(self, *words):
        """The next line that holds all of `words`, and those before it."""
        lines = []
        while True:
            line = self._lines.get(timeout=90)
            assert line is not None, lines
            lines.append(line)
            if all(word in line for word in words):
                return lines

    def rest(self):
        """What is said until the end, and the status."""
        lines = []
        while (line := self._lines.get(timeout=90)) is not None:
            lines.append(line)
        complained = self.process.stderr.read()
        return lines, self.process.wait(60), complained

    def interrupt(self, by=signal.SIGINT):
        self.process.send_signal(by)
        return self.rest()


@pytest.fixture
def watched(tmp_path):
    started = []

    def start(*options, logdir=tmp_path):
        started.append(Watched(logdir, *options))
        return started[-1]

    yield start
    for watch in started:
        watch.process.kill()
        watch.process.communicate()


@pytest.mark.processes
def test_a_growing_run(tmp_path, watched):
    first = Training(tmp_path / "first")
    first.log((2, 300))
    watch = watched()
    watch.line("following first")
    first.log((6, 2))
    (*_, said) = watch.line("loss_spike")
    assert "first  warning  loss_spike  steps 300 to 301" in said
    watch.line("→ Look at the batches")
    first.log((2, 100))  # back: an update
    (*between, said) = watch.line("loss_spike")
    assert "first  update: warning  loss_spike  steps 300 to 306" in said
    assert not any("warning" in line for line in between)
    second = Training(tmp_path / "second")  # a run that appears later
    second.log((2, 200), ("nan", 20))
    (*_, said) = watch.line("non_finite")
    assert "second  critical  non_finite  step" in said
    first.log((2, 300), (8, 1), (2, 100))
    (*between, said) = watch.line("loss_spike")
    assert "first  warning  loss_spike  steps 702 to" in said
    first.end()
    second.end()
    lines, status, complained = watch.interrupt()
    assert (status, complained) == (1, "")
    assert lines[-3:] == ["second  critical", "first  warning", "2 runs: 1 critical, 1 warning"]
    assert not any("loss_spike" in line or "non_finite" in line for line in lines)


@pytest.mark.processes
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_json_lines(tmp_path, watched, ending):
    run = Training(tmp_path / "run")
    run.log((2, 300), (6, 2))
    watch = watched("--json", "--lang", "zh")
    (line,) = watch.line("loss_spike")
    event = json.loads(line)
    assert event["event"] == "new"
    assert event["finding"]["run"] == "run"
    assert event["finding"]["message"].startswith("损失")
    run.log((2, 100))
    (line,) = watch.line("loss_spike")
    event = json.loads(line)
    assert (event["event"], event["finding"]["evidence"]["recovered"]) == ("update", True)
    run.end()
    lines, status, complained = watch.interrupt(ending)
    assert (status, complained) == (1, "")
    assert [json.loads(line) for line in lines] == [{"event": "end", "runs": [{"run": "run", "verdict": "warning"}]}]


@pytest.mark.processes
def test_against_a_baseline(tmp_path, watched):
    loss = command.noise(300)
    command.write(tmp_path / "base", loss)
    run = Training(tmp_path / "run")
    run.log((2.2, 200))
    watch = watched("--baseline", "base")
    (*_, said) = watch.line("baseline_divergence")
    assert "step" in said
    run.end()
    assert watch.interrupt()[1] == 1


@pytest.mark.processes
def test_status_at_the_end(tmp_path, watched):
    command.write(tmp_path / "good", command.noise(300))
    watch = watched(logdir=tmp_path / "good")
    watch.line("following .")
    lines, status, complained = watch.interrupt()
    assert (lines[-1], status, complained) == ("1 run: 1 ok", 0, "")
    spiked = command.noise(400)
    spiked[200] = 6
    command.write(tmp_path / "bad", spiked)
    for options, expected in (((), 1), (("--fail-on", "critical"), 0), (("--set", "loss_spike=off"), 0)):
        watch = watched(*options)
        watch.line("following good")
        assert watch.interrupt()[1] == expected


@pytest.mark.processes
def test_a_logdir_without_runs_is_waited_for(tmp_path, watched):
    watch = watched()
    watch.line("Watching")
    _, status, complained = watch.interrupt()
    assert status == 2
    assert "no run with a known metric" in complained
    watch = watched()
    watch.line("Watching")
    command.write(tmp_path / "late", np.full(300, 2.0))
    watch.line("following late")
    assert watch.interrupt()[1] == 0


def test_a_logdir_that_does_not_exist(tmp_path):
    status, _, complained = command.run(tmp_path / "nowhere", "--watch")
    assert status == 2
    assert f"{tmp_path / 'nowhere'} is not a directory" in complained


@pytest.mark.processes
def test_a_run_that_is_deleted_is_forgotten(tmp_path, watched):
    command.write(tmp_path / "kept", command.noise(300))
    spiked = command.noise(400)
    spiked[200] = 6
    command.write(tmp_path / "gone", spiked)
    watch = watched()
    watch.line("loss_spike")
    for file in (tmp_path / "gone").iterdir():
        os.remove(file)
    command.write(tmp_path / "mark", command.noise(300))
    watch.line("following mark")
    lines, status, _ = watch.interrupt()
    assert (lines[-1], status) == ("2 runs: 2 ok", 0)
