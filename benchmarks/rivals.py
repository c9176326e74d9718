"""TensorBoard's Rust data server by itself, and TensorBoard as a whole."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Iterator, Mapping, Optional

import tensorboard_data_server
from measure import peak_bytes

_LOADED = re.compile(r"Finished load cycle \((?P<number>[\d.]+)(?P<unit>ns|µs|ms|s)\)")
_SECONDS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_LONGEST_SECONDS = 900.0


def rust_load(logdir: str, keep_all: bool = False, checksum: bool = False) -> dict[str, Any]:
    """Starts the data server and waits until it says that it has loaded everything.

    Args:
      logdir: what to load.
      keep_all: keep every point, instead of its default 1,000 a tag.
      checksum: verify the CRC of every payload, which it does not by default.

    Returns:
      ``seconds`` as the server itself measures them, ``cpu`` seconds, ``peak`` bytes.
    """
    command = [str(tensorboard_data_server.server_binary()), "--logdir", logdir]
    command += ["--reload", "once", "--port", "0", "--verbose"]
    if keep_all:
        command.append("--samples-per-plugin=scalars=all")
    if checksum:
        command.append("--checksum")
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        seconds = _wait_loaded(server)
        peak = peak_bytes(server.pid)
    finally:
        server.terminate()
        _, _, usage = os.wait4(server.pid, 0)
        server.returncode = 0
        server.stderr.close()
    return {"seconds": seconds, "cpu": usage.ru_utime + usage.ru_stime, "peak": peak}


def _wait_loaded(server: subprocess.Popen) -> float:
    for line in server.stderr:
        found = _LOADED.search(line.decode("utf-8", "replace"))
        if found:
            return float(found["number"]) * _SECONDS[found["unit"]]
    raise RuntimeError("the data server ended before it had loaded its logdir")


@dataclasses.dataclass
class TensorBoard:
    """A TensorBoard that is running, with every plugin that is installed.

    Attributes:
      base: the address of its page.
    """

    base: str
    _loaded: threading.Event

    def wait_loaded(self) -> None:
        """Waits until its data server has loaded everything."""
        if not self._loaded.wait(_LONGEST_SECONDS):
            raise RuntimeError(f"TensorBoard has not loaded its logdir after {_LONGEST_SECONDS:g} s")

    def request(
        self, path: str, body: Optional[bytes] = None, headers: Optional[Mapping[str, str]] = None
    ) -> tuple[float, bytes]:
        """Seconds from the request to the answer's last byte, and the answer as it was sent."""
        asked = urllib.request.Request(f"{self.base}/data/plugin/{path}", body, dict(headers or {}))
        begin = time.perf_counter()
        with urllib.request.urlopen(asked, timeout=_LONGEST_SECONDS) as answer:
            content = answer.read()
        return time.perf_counter() - begin, content

    def time_series(self, tag: str, headers: Optional[Mapping[str, str]] = None) -> tuple[float, bytes]:
        """What its Time Series asks for to draw one tag of all runs."""
        form = urllib.parse.urlencode({"requests": f'[{{"plugin": "scalars", "tag": "{tag}"}}]'}).encode()
        form_type = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.request("timeseries/timeSeries", form, {**form_type, **(headers or {})})


@contextlib.contextmanager
def tensorboard(logdir: str) -> Iterator[TensorBoard]:
    """Starts TensorBoard on `logdir`; yields as soon as it takes connections."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", logdir, "--host", "127.0.0.1"]
    command += ["--port", str(port), "--load_fast", "true", "--extra_data_server_flags=--verbose"]
    server = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=tempfile.gettempdir()
    )
    loaded = threading.Event()
    said: list[str] = []

    def follow() -> None:
        for line in server.stderr:
            said.append(line.decode("utf-8", "replace"))
            del said[:-50]
            if _LOADED.search(said[-1]):
                loaded.set()

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    try:
        _wait_listening(port, server, said)
        yield TensorBoard(f"http://127.0.0.1:{port}", loaded)
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        follower.join(5)
        server.stderr.close()


def _wait_listening(port: int, server: subprocess.Popen, said: list[str]) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and server.poll() is None:
        # Not a request: that could already make it read files.
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    raise RuntimeError(f"TensorBoard does not take connections:\n{''.join(said)}")
