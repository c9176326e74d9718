"""A real TensorBoard on a free port of this machine."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

START_SECONDS = 90.0


def get_json(url: str) -> dict:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


# Each server is a process of its own, forked from one that has imported TensorBoard: that takes it seconds.
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["pytest", "tensorboard.main", "tensorboard.default", "tb_mindformers_plugin.plugin"])


@contextlib.contextmanager
def serve(
    *arguments: str, python: str = sys.executable, path_prefix: str = "", env: dict | None = None
) -> Iterator[str]:
    """Starts TensorBoard with `arguments` and yields the address of its page, without a last slash.

    With another `python`, or another environment, its command runs as a program.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    flags = ["--host", "127.0.0.1", "--port", str(port), *arguments]
    if path_prefix:
        flags += ["--path_prefix", path_prefix]
    base = f"http://127.0.0.1:{port}{path_prefix}"
    with tempfile.NamedTemporaryFile("w+") as output:
        own = python == sys.executable and env is None
        server = _Forked(flags, output) if own else _Started([python, "-m", "tensorboard.main", *flags], output, env)
        try:
            _wait(f"{base}/data/plugins_listing", server, output)
            yield base
        finally:
            server.stop()


class _Forked:
    def __init__(self, flags: list[str], output) -> None:
        self.process = _forks.Process(target=_run, args=(flags, output.name), daemon=True)
        self.process.start()

    def runs(self) -> bool:
        return self.process.is_alive()

    def stop(self) -> None:
        self.process.terminate()
        self.process.join(10)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _run(flags: list[str], output: str) -> None:
    """What `tensorboard` runs, in this process."""
    from tensorboard.main import run_main

    with open(output, "a") as said:
        for stream in (1, 2):
            os.dup2(said.fileno(), stream)
    os.chdir(tempfile.gettempdir())
    sys.argv = ["tensorboard", *flags]
    run_main()


class _Started:
    def __init__(self, command: list[str], output, env: dict | None) -> None:
        # Away from the checkout, so that an installed package is what is imported.
        self.process = subprocess.Popen(
            command, stdout=output, stderr=output, cwd=tempfile.gettempdir(), env={**os.environ, **(env or {})}
        )

    def runs(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _wait(url: str, server: _Forked | _Started, output) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.runs():
        try:
            get_json(url)
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    output.seek(0)
    raise RuntimeError(f"TensorBoard did not answer at {url}:\n{output.read()}")
