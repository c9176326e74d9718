"""``tb-health`` in a process of its own, and logs for it."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
from checkout import ROOT

from tb_mindformers_plugin.cli.check.examine import RunReport
from tb_mindformers_plugin.writer import HealthWriter

COMMAND = (sys.executable, "-c", "from tb_mindformers_plugin.cli.main import main; main(prog_name='tb-health')")


def environment(**other):
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **other}


def start(*arguments, **other):
    """Starts ``tb-health check`` with pipes for what it says."""
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment(), **other}
    return subprocess.Popen([*COMMAND, "check", *map(str, arguments)], **settings)


def run(*arguments, timeout=120, **other):
    """Returns (status, stdout, stderr) of ``tb-health check``."""
    with start(*arguments, **other) as process:
        try:
            said, complained = process.communicate(timeout=timeout)
        finally:
            process.kill()
    return process.returncode, said, complained


def write(directory, loss):
    """A run that logged `loss` once a second."""
    with HealthWriter(directory) as writer:
        for step, value in enumerate(loss):
            writer.log(step, loss=value, wall_time=1e9 + step)


def noise(n, seed=0):
    return 2 + 0.02 * np.random.default_rng(seed).standard_normal(n)


def many_runs(directory):
    """Runs of each verdict: the healthy ones first in the order of names."""
    for i in range(3):
        write(directory / f"a good {i}", noise(300, i))
    spiked = noise(400)
    spiked[200] = 6
    write(directory / "m spiked [1]", spiked)
    write(directory / "z lost", [*noise(300), *[float("nan")] * 10])
    return directory


def die_once(directory, run):
    """Work that ends its process: for one run the first time, for another each time."""
    mark = directory / run
    if run.startswith("dies") and not (run == "dies once" and mark.exists()):
        mark.touch()
        os._exit(9)
    return RunReport(run, "ok", {}, (), ())


def dies_at(run, program, how="os._exit(9)"):
    """A sitecustomize module that ends a process of `program` when it is to check `run`."""
    return (
        "import os, sys, threading, time\n"
        "def dies(frame, event, argument):\n"
        f"    if frame.f_code.co_name == 'check_run' and frame.f_locals.get('run') == {run!r}:\n"
        f"        {how}\n"
        f"if {program!r} in ' '.join(sys.orig_argv):\n"
        "    sys.setprofile(dies)\n"
        "    threading.setprofile(dies)\n"
    )
