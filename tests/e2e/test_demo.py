"""``tb-health demo``: what `make demo` runs once it has installed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_the_address_of_the_tab_and_takes_its_server_with_it(browser, demo_logs, ending):
    # As in a terminal: what a shell starts in the background ignores Ctrl-C, and so would what it starts.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "from tb_mindformers_plugin.cli.main import main; main()"
    demo = subprocess.Popen(
        [sys.executable, "-u", "-c", code, "demo", "--logdir", str(demo_logs), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        said = [demo.stdout.readline(), demo.stdout.readline()]
        address = re.search(r"Training Health: (http://localhost:\d+)/#training_health", "".join(said))
        assert address, said
        page = browser.new_page()
        page.goto(f"{address.group(1)}/#training_health")
        frame = page.wait_for_selector("iframe", state="attached").content_frame()
        frame.locator('[data-testid="overlay"][data-state="ready"]').wait_for(timeout=60_000)
        page.close()
    finally:
        demo.send_signal(ending)
        assert demo.wait(60) == 0
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(address.group(1), timeout=2)
        except (urllib.error.URLError, OSError):
            return
        time.sleep(0.2)
    raise AssertionError("TensorBoard is still there")
