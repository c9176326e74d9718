"""P6: from opening the tab to the first curve; P7: zooming in 50 runs. In a real Chromium."""

from __future__ import annotations

import functools
import itertools
import pathlib
import shutil
from typing import Any, Callable, Iterator

from generate import SHAPES, written
from measure import Goal, Table, at_most, interleaved, median, spread
from playwright.sync_api import Browser, Frame, Page, TimeoutError, sync_playwright
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
    """Measures and returns both tables."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=CHROMIUM_FLAGS)
        try:
            return [_opening(browser, directory, scale, repeat), _zooming(browser, directory, scale, repeat)]
        finally:
            browser.close()


def _opening(browser: Browser, directory: pathlib.Path, scale: float, repeat: int) -> Table:
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
    for title, logdir, goal in (("demo_logs", str(DEMO_LOGS), 1.0), ("B", large.path, 3.0)):
        _measure(table, browser, title, logdir, goal, repeat)
    return table


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


# From the moment at which the drag ends to the frame after the new picture: ours once the answer to what was
# asked is drawn, Time Series once its x axis says the new window (it draws the points that it has).
_ZOOMED = {
    "Training Health": """() => {
      const chart = document.querySelector('[data-testid="overlay"]');
      const old = chart.dataset.from;
      return () => chart.dataset.state === "ready" && chart.dataset.from !== old;
    }""",
    "TensorBoard Time Series": """() => {
      const axis = document.querySelector("scalar-card .x-axis");
      const old = axis.textContent;
      return () => axis.textContent !== old;
    }""",
}
_WAIT_ZOOMED = """(begin) => {
  const done = eval(begin)();
  window.zoomed = new Promise((resolve) => {
    document.addEventListener("mouseup", () => {
      const from = performance.now();
      const look = () => done() ? requestAnimationFrame(() => resolve(performance.now() - from))
                                : requestAnimationFrame(look);
      look();
    }, { once: true, capture: true });
  });
}"""
_COUNT_FRAMES = """() => {
  window.frames_seen = [];
  let before = 0;
  const count = (now) => {
    if (before) window.frames_seen.push(now - before);
    before = now;
    requestAnimationFrame(count);
  };
  requestAnimationFrame(count);
}"""
_PLOTS = {"Training Health": ".u-over", "TensorBoard Time Series": "scalar-card .series-view"}
_MOVES = 60


def _zooming(browser: Browser, directory: pathlib.Path, scale: float, repeat: int) -> Table:
    table = Table(
        "P7",
        "zooming in 50 runs x 4 panels x 100k points",
        (
            "tab",
            "new window drawn",
            "of it the page's CPU",
            "CPU a move of the cursor",
            "CPU a move of a pan",
            "frames while the cursor moves: median, 95 %",
            "goal",
        ),
        (
            "Warm: every run is loaded and drawn before. Software rendering: no GPU.",
            "Ours fetches the window at full resolution; Time Series stretches the 1,000 sampled points that it has.",
            "CPU is that of the page's main thread (in ticks of the thread, whatever else the machine does).",
            "Time Series does not pan with the pointer alone.",
        ),
    )
    logdir = written(SHAPES["Z"].scaled(scale), directory).path
    with tensorboard(logdir) as server:
        pages = {name: _opened(browser, server.base, name) for name in _PLOTS}
        found = interleaved(
            {name: functools.partial(_zoom, page, name, itertools.count()) for name, page in pages.items()}, repeat
        )
    rival = median(found["TensorBoard Time Series"])
    for name, samples in found.items():
        ours = median(samples)
        goal = None
        if name == "Training Health":
            against = Goal(f"{ours / rival:.2g}x Time Series", ours <= rival)
            frames = Goal("60 frames a second", median(samples, "frame") < 0.018)
            goal = f"{at_most(ours * 1000, 200, ' ms')}; {frames}; {against}"
        table.add(
            name,
            spread(samples),
            spread(samples, "cpu"),
            spread(samples, "move"),
            spread(samples, "pan") if "pan" in samples[0] else None,
            f"{spread(samples, 'frame')}, {spread(samples, 'slow_frame')}",
            goal,
        )
    return table


def _opened(browser: Browser, base: str, name: str) -> Page:
    """The tab with all runs and all four metrics, quiet."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(_LONGEST_SECONDS * 1000)
    page.goto(f"{base}/#{PAGES[name][0]}")
    if name == "Training Health":
        frame = _frame(page)
        frame.get_by_test_id("select-visible").click()
        frame.get_by_text("Stacked", exact=True).click()
        frame.locator('[data-mode="stacked"][data-state="ready"]').wait_for()
    else:
        for _ in range(_LONGEST_SECONDS):
            page.wait_for_timeout(1000)
            # The data server shows runs as it finds them; all of them are there once all are listed.
            if page.get_by_text("run_0000").count() and page.locator("scalar-card line-chart canvas").count() >= 2:
                break
            page.locator("button.reload-button").first.click()
    # Findings, sparklines and the rival's loading are no part of a zoom.
    page.wait_for_timeout(20_000)
    if name == "TensorBoard Time Series":
        page.locator("button.reload-button").first.click()
        page.wait_for_timeout(5000)
    return page


def _frame(page: Page) -> Frame:
    frame = page.wait_for_selector("iframe", state="attached").content_frame()
    assert frame is not None
    return frame


def _zoom(page: Page, name: str, turns: Iterator[int]) -> dict[str, float]:
    page.bring_to_front()
    frame = _frame(page) if name == "Training Health" else page.main_frame
    box = frame.locator(_PLOTS[name]).first.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    at = lambda share: box["x"] + box["width"] * share  # noqa: E731
    clock = _Cpu(page)
    # Another window each time: one that was seen before is not fetched again.
    turn = 0.01 * next(turns)
    page.mouse.move(at(0.2 + turn), y)
    page.mouse.down()
    page.mouse.move(at(0.7 + turn), y + 40, steps=4)
    page.wait_for_timeout(300)
    frame.evaluate(_WAIT_ZOOMED, _ZOOMED[name])
    clock.start()
    page.mouse.up()
    found = {"seconds": frame.evaluate("() => window.zoomed") / 1000, "cpu": clock.stop()}
    page.wait_for_timeout(500)
    found.update(_moves(page, frame, clock, at, y))
    page.mouse.dblclick(at(0.5), y)
    page.wait_for_timeout(1500)
    return found


def _moves(page: Page, frame: Frame, clock: _Cpu, at: Callable[[float], float], y: float) -> dict[str, float]:
    page.mouse.move(at(0.2), y)
    page.wait_for_timeout(500)
    frame.evaluate(_COUNT_FRAMES)
    clock.start()
    for i in range(_MOVES):
        page.mouse.move(at(0.2 + 0.5 * i / _MOVES), y)
    move = clock.stop() / _MOVES
    gaps = sorted(frame.evaluate("() => window.frames_seen"))
    found = {"move": move, "frame": gaps[len(gaps) // 2] / 1000, "slow_frame": gaps[int(0.95 * len(gaps))] / 1000}
    if frame is not page.main_frame:
        page.keyboard.down("Shift")
        page.mouse.down()
        clock.start()
        for i in range(_MOVES):
            page.mouse.move(at(0.7 - 0.2 * i / _MOVES), y)
        found["pan"] = clock.stop() / _MOVES
        page.mouse.up()
        page.keyboard.up("Shift")
        page.wait_for_timeout(1000)
    return found


class _Cpu:
    """The CPU time of a page's main thread."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._begin = 0.0

    def start(self) -> None:
        self._begin = self._now()

    def stop(self) -> float:
        """Seconds since `start`."""
        return self._now() - self._begin

    def _now(self) -> float:
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")
