"""A real Chromium on a real TensorBoard."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator

import pytest
from checkout import ROOT
from playwright.sync_api import Browser, Frame, FrameLocator, Page, sync_playwright
from tensorboard_server import serve

CHROMIUM_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    assert chromium, "the browser tests need Chromium (Debian and Ubuntu: apt-get install chromium)"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


class Tab:
    """The Training Health tab of one TensorBoard, open in a page."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base
        # Where TensorBoard's page is: the page, or a frame of it.
        self.host: Page | FrameLocator = page
        self.errors: list[str] = []
        self.requests: list = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._note_console)
        page.on("request", lambda request: self.requests.append(request))

    def _note_console(self, message) -> None:
        # TensorBoard's own page asks for files that it does not have; what the tab asks for must be there.
        elsewhere = "Failed to load resource" in message.text and "training_health" not in message.location["url"]
        if message.type == "error" and not elsewhere:
            self.errors.append(message.text)

    def open(self) -> Frame:
        """Goes to the tab as its user does, and returns its frame once it has drawn something."""
        self.page.goto(f"{self.base}/#training_health")
        frame = self.frame
        frame.locator('[data-testid="overlay"][data-state="ready"], [data-testid="empty-state"]').first.wait_for()
        return frame

    @property
    def frame(self) -> Frame:
        tab = self.host.locator("iframe").first
        tab.wait_for(state="attached")
        frame = tab.element_handle().content_frame()
        assert frame is not None
        return frame

    def find(self, testid: str, **attributes: str):
        """The elements with a test id (and attributes, as ``run="a"``)."""
        quoted = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in attributes.items()}
        more = "".join(f'[data-{name}="{value}"]' for name, value in quoted.items())
        return self.frame.locator(f'[data-testid="{testid}"]{more}')

    def ready(self) -> None:
        """Waits until the chart shows what was asked for, and is drawn."""
        self.frame.locator('[data-testid="overlay"][data-state="ready"][data-from]').wait_for()

    def until(self, look: Callable[[], object], seconds: float = 60.0):
        """Looks again and again until what is seen is true, and returns it."""
        deadline = time.monotonic() + seconds
        while not (seen := look()):
            assert time.monotonic() < deadline, f"still {seen!r} after {seconds:.0f} s"
            self.page.wait_for_timeout(50)
        return seen

    def reload(self) -> None:
        """Asks for the data anew, and waits until they are there."""
        button = self.find("reload")
        button.click()
        self.until(lambda: "busy" not in (button.get_attribute("class") or ""))
        self.ready()

    def select(self, *runs: str) -> None:
        """Checks just these runs."""
        self.find("select-none").click()
        for run in runs:
            self.find("run-row", run=run).locator('[data-testid="run-checkbox"]').click()
        self.frame.wait_for_function(
            """(runs) => {
              const shown = document.querySelector('[data-testid="overlay"][data-state="ready"][data-from]');
              return shown && JSON.stringify(shown.dataset.runs.split("\\n").sort()) === JSON.stringify(runs.sort());
            }""",
            arg=list(runs),
        )

    def checked(self) -> None:
        """Waits until the findings of all selected runs are there."""
        self.frame.locator('[data-testid="findings"][data-checking="0"]').wait_for()

    def selected(self) -> list[str]:
        """The checked runs among the rows in sight."""
        rows = self.frame.locator('[data-testid="run-row"][data-selected="true"]')
        return [row.get_attribute("data-run") for row in rows.all()]

    def window(self) -> tuple[float, float]:
        overlay = self.find("overlay")
        return float(overlay.get_attribute("data-from")), float(overlay.get_attribute("data-to"))


@pytest.fixture(scope="session")
def demo_logs():
    return ROOT / "demo_logs"


@pytest.fixture(scope="session")
def demo_base(demo_logs):
    """One TensorBoard on the demo logs, for all tests that only look at them."""
    with serve("--logdir", str(demo_logs)) as base:
        yield base


@pytest.fixture
def open_tab(browser):
    """A function (logdir, **options of the page) -> an open Tab. Fails on any error in the page.

    With ``base`` it is a tab of a TensorBoard that is running already.
    """
    with contextlib.ExitStack() as stack:
        tabs = []

        def open_at(
            logdir=None, path_prefix="", width=1440, height=900, arguments=(), wait=True, base="", **options
        ) -> Tab:
            flags = arguments or ("--logdir", str(logdir))
            base = base or stack.enter_context(serve(*flags, path_prefix=path_prefix))
            context = browser.new_context(viewport={"width": width, "height": height}, **options)
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(60_000)  # a bound for a busy machine; nothing waits for it
            tab = Tab(page, base)
            tabs.append(tab)
            if wait:
                tab.open()
            return tab

        yield open_at
        for tab in tabs:
            assert tab.errors == []
