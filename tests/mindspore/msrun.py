"""Trainings of two processes on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys


def run_two(script, directory, **environment):
    """Runs `script` twice under msrun, in `directory`; returns its exit status and what both printed."""
    beside = os.path.dirname(sys.executable)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        os.path.join(beside, "msrun"),
        "--worker_num=2",
        "--local_worker_num=2",
        "--master_addr=127.0.0.1",
        f"--master_port={port}",
        f"--log_dir={directory / 'msrun'}",
        "--join=True",
        "--cluster_time_out=300",
        str(script),
    ]
    paths = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": beside + os.pathsep + os.environ["PATH"]}
    done = subprocess.run(
        command,
        env={**os.environ, **paths, **environment},
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=600,
    )
    logs = "".join(path.read_text() for path in sorted((directory / "msrun").glob("worker_*.log")))
    return done.returncode, logs or done.stdout + done.stderr
