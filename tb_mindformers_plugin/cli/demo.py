"""``tb-health demo``: TensorBoard on the demo logs, with the address of the tab."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import click

from tb_mindformers_plugin import metadata

_START_SECONDS = 60.0


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
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    base = f"http://{host}:{free}"
    try:
        if not _wait(f"{base}/data/plugins_listing", server):
            server.kill()
            output = server.communicate()[1]
            raise click.ClickException(f"TensorBoard did not start on {base}:\n{output}")
        click.echo(f"Training Health: {base}/#{metadata.PLUGIN_NAME}   (Ctrl-C ends it)")
        # Drained, so that TensorBoard never waits for a full pipe.
        server.communicate()
    except KeyboardInterrupt:
        click.echo("")
    finally:
        server.terminate()
        server.wait()


def _free_port(host: str, wanted: int) -> int:
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise click.ClickException(f"no port of {host!r} can be listened at")


def _wait(url: str, server: subprocess.Popen[str]) -> bool:
    """Waits until the plugin is listed; False where the server ends or time is up."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return metadata.PLUGIN_NAME in json.load(answer)
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    return False
