"""``tb-health demo``: TensorBoard on the demo logs, with the address of the tab."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from typing import IO, Any, NoReturn

import click

from tb_mindformers_plugin import metadata

_START_SECONDS = 60.0
# A proxy for the web knows nothing of this machine's own addresses.
_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


@click.command()
@click.option("--logdir", default="demo_logs", show_default=True, help="Directory of runs to show.")
@click.option("--port", default=6006, show_default=True, type=click.IntRange(0, 65535), help="0: any free port.")
@click.option("--host", default="localhost", show_default=True, help="Address to listen at.")
def demo(logdir: str, port: int, host: str) -> None:
    """Start TensorBoard on the demo logs and say where the tab is. Ctrl-C ends it."""
    if not os.path.isdir(logdir):
        raise click.UsageError(f"there is no directory {logdir!r}: run this where demo_logs/ is, or give --logdir")
    free = _free_port(host, port)
    if free != port:
        click.echo(f"Port {port} is taken; using {free}." if port else f"Using port {free}.")
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", logdir, "--host", host, "--port", str(free)]
    # Whoever ends this process ends the server with it.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _interrupted)
    with tempfile.TemporaryFile("w+") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, text=True)
        try:
            address = f"http://{_reachable(host)}:{free}"
            problem = _problem(f"{address}/data/plugins_listing", server)
            if problem:
                raise click.ClickException(f"{problem}\n{_read(output)}")
            click.echo(f"Training Health: {address}/#{metadata.PLUGIN_NAME}   (Ctrl-C ends it)")
            status = server.wait()
            raise click.ClickException(f"TensorBoard ended with status {status}:\n{_read(output)}")
        except KeyboardInterrupt:
            click.echo("")
        finally:
            server.terminate()
            server.wait()


def _interrupted(*_: Any) -> NoReturn:
    raise KeyboardInterrupt


def _free_port(host: str, wanted: int) -> int:
    for port in (wanted, 0):
        try:
            family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            with socket.socket(family, kind) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
                return int(probe.getsockname()[1])
        except OSError:
            continue
    raise click.ClickException(f"no port of {host!r} can be listened at")


def _reachable(host: str) -> str:
    """The address to give a browser for a server that listens at `host`."""
    if host in ("0.0.0.0", "::"):  # every address of the machine, none of which is this one
        return "localhost"
    return f"[{host}]" if ":" in host else host


def _problem(listing: str, server: subprocess.Popen[str]) -> str:
    """Waits until TensorBoard lists the plugin; returns what is wrong, or "" where all is well."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            return f"TensorBoard ended with status {server.returncode}:"
        try:
            with _open(listing, timeout=5) as answer:
                if metadata.PLUGIN_NAME in json.load(answer):
                    return ""
                return "TensorBoard runs, but does not know the plugin: is the package installed beside it?"
        except (urllib.error.URLError, OSError, ValueError):
            time.sleep(0.2)
    return f"TensorBoard did not answer within {_START_SECONDS:.0f} s:"


def _read(output: IO[str]) -> str:
    output.seek(0)
    return output.read()
