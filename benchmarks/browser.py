"""P6: from opening the tab to the first curve, in a real Chromium, cold."""

from __future__ import annotations

import functools
import pathlib
import shutil
from typing import Any, Callable

from generate import SHAPES, written
from measure import Goal, Table, at_most, interleaved, median, spread
from playwright.sync_api import Browser, Page, TimeoutError, sync_playwright
from rivals import tensorboard

CHROMIUM_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DEMO_LOGS = pathlib.Path(__file__).resolve().parent.parent / "demo_logs"
_LONGEST_SECONDS = 60

# Asked in each animation frame. Milliseconds since the navigation, or null while there is no curve;
# and the same since the tab's own frame began to load.
_OURS = """() => {
  const frame = document.querySelector("iframe");
  const ready = frame?.contentDocument?.querySelector('[data-testid="overlay"][data-state="ready"]');
  return ready ? [performance.now(), frame.contentWindow.performance.now()] : null;
}"""
# A card has its curves once the data came and its spinner went.
_TIME_SERIES = """() => {
  const came = performance.getEntriesByType("resource").some((e) => e.name.includes("timeSeries") && e.responseEnd);
  const cards = [...document.querySelectorAll("scalar-card")];
  const drawn = cards.some((card) => card.querySelector("line-chart") && !card.querySelector("mat-spinner"));
  return came && drawn ? [performance.now(), null] : null;
}"""
PAGES = {"Training Health": ("training_health", _OURS), "TensorBoard Time Series": ("timeseries", _TIME_SERIES)}


def tables(directory: pathlib.Path, scale: float, repeat: int) -> list[Table]:
    """Measures and returns the table."""
    table = Table(
        "P6",
        "from opening the tab to the first curve, cold",
        ("logdir", "tab", "median (range)", "of it in the tab's own frame", "goal"),
        (
            "Each in a TensorBoard that has just begun to listen and a browser profile without any cache.",
            "TensorBoard's own page has to load before either tab: the frame's time is ours alone.",
            "Time Series draws what the data server has loaded by then; ours draws what it was asked for, complete.",
        ),
    )
    large = written(SHAPES["B"].scaled(scale), directory)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=CHROMIUM_FLAGS)
        try:
            for title, logdir, goal in (("demo_logs", str(DEMO_LOGS), 1.0), ("B", large.path, 3.0)):
                _measure(table, browser, title, logdir, goal, repeat)
        finally:
            browser.close()
    return [table]


def _chromium() -> str | None:
    """The distribution's Chromium; None means playwright's own."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def _measure(table: Table, browser: Browser, title: str, logdir: str, goal: float, repeat: int) -> None:
    contenders: dict[str, Callable[[], dict[str, Any]]] = {
        name: functools.partial(_first_curve, browser, logdir, *page) for name, page in PAGES.items()
    }
    found = interleaved(contenders, repeat)
    rival = median(found["TensorBoard Time Series"])
    for name, samples in found.items():
        if name == "TensorBoard Time Series":
            table.add(title, name, spread(samples), None, None)
            continue
        ours = median(samples)
        against = Goal(f"no slower than Time Series, is {ours / rival:.2g}x", ours <= rival)
        table.add(title, name, spread(samples), spread(samples, "frame"), f"{at_most(ours, goal, ' s')}; {against}")


def _first_curve(browser: Browser, logdir: str, tab: str, drawn: str) -> dict[str, Any]:
    with tensorboard(logdir) as server:
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        try:
            page = context.new_page()
            page.goto(f"{server.base}/#{tab}", wait_until="commit")
            since_start, since_frame = _wait(page, drawn)
        finally:
            context.close()
    return {"seconds": since_start / 1000, "frame": (since_frame or 0) / 1000}


def _wait(page: Page, drawn: str) -> list[float]:
    """Waits for a curve; where the page came before there was any data, reloads it as its user would."""
    for _ in range(_LONGEST_SECONDS // 2):
        try:
            return page.wait_for_function(drawn, timeout=2000, polling="raf").json_value()
        except TimeoutError:
            reload = page.locator("button.reload-button")
            if "timeSeries" in drawn and reload.count() and not page.locator("scalar-card").count():
                reload.first.click()
    raise RuntimeError(f"no curve after {_LONGEST_SECONDS} s")
