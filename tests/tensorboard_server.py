"""A real TensorBoard on a free port of this machine."""

from __future__ import annotations

import contextlib
import json
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


@contextlib.contextmanager
def serve(
    *arguments: str, python: str = sys.executable, path_prefix: str = "", env: dict | None = None
) -> Iterator[str]:
    """Starts TensorBoard with `arguments` and yields the address of its page, without a last slash."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [python, "-m", "tensorboard.main", "--host", "127.0.0.1", "--port", str(port), *arguments]
    if path_prefix:
        command += ["--path_prefix", path_prefix]
    base = f"http://127.0.0.1:{port}{path_prefix}"
    with tempfile.TemporaryFile("w+") as output:
        # Away from the checkout, so that an installed package is what is imported.
        server = subprocess.Popen(
            command, stdout=output, stderr=output, cwd=tempfile.gettempdir(), env={**os.environ, **(env or {})}
        )
        try:
            _wait(f"{base}/data/plugins_listing", server, output)
            yield base
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _wait(url: str, server: subprocess.Popen, output) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            get_json(url)
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    output.seek(0)
    raise RuntimeError(f"TensorBoard did not answer at {url}:\n{output.read()}")
