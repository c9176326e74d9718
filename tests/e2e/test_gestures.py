"""What a hand does on the chart: the old picture follows it, a new one is asked for when it rests."""

from __future__ import annotations

import pytest
from chart_page import (
    colour_of,
    drag,
    hover,
    picture,
    pixels,
    place,
    release,
    series_requests,
    still_picture,
    write_run,
    zoomed,
)
from tensorboard_server import serve

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    logdir = tmp_path_factory.mktemp("logs")
    write_run(logdir / "first", steps=1000)
    write_run(logdir / "second", steps=1000, offset=1.0)
    with serve("--logdir", str(logdir)) as base:
        yield base


@pytest.fixture
def tab(open_tab, base):
    tab = open_tab(base=base)
    tab.select("first")
    drag(tab, 400, 600)
    zoomed(tab)
    return tab


def moved_pixels(tab):
    return tab.frame.locator(".layer.moved").first.evaluate(
        """(canvas) => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          let n = 0;
          for (let i = 3; i < data.length; i += 4) if (data[i]) n++;
          return n;
        }"""
    )


def test_shift_drag_moves_the_picture_and_fetches_once_it_rests(tab):
    low, high = tab.window()
    before = len(series_requests(tab))
    still = still_picture(tab)
    drag(tab, 500, 450, key="Shift", drop=False)
    assert moved_pixels(tab) > 10_000
    assert len(series_requests(tab)) == before
    assert picture(tab) == still  # what is moved is a copy of it
    release(tab, "Shift")
    tab.ready()
    assert tab.window() == (pytest.approx(low + 50, abs=2), pytest.approx(high + 50, abs=2))
    assert len(series_requests(tab)) == before + 1
    assert moved_pixels(tab) == 0


def test_escape_gives_a_gesture_up(tab):
    window = tab.window()
    drag(tab, 450, 500, drop=False)
    tab.page.keyboard.press("Escape")
    tab.page.mouse.up()
    tab.ready()
    assert tab.window() == window


def test_wheel_with_control_zooms_around_the_pointer(tab):
    low, high = tab.window()
    before = len(series_requests(tab))
    x, y = place(tab, 450)
    tab.page.mouse.move(x, y)
    inside = tab.page.locator("iframe").bounding_box()
    # In one go: between events that come one by one the hand may rest.
    tab.frame.locator(".plot .u-over").evaluate(
        """(plot, [clientX, clientY]) => {
          const turn = { clientX, clientY, deltaY: -60, ctrlKey: true, bubbles: true, cancelable: true };
          for (let i = 0; i < 5; i++) plot.dispatchEvent(new WheelEvent("wheel", turn));
        }""",
        [x - inside["x"], y - inside["y"]],
    )
    tab.until(lambda: tab.window() != (low, high))
    tab.ready()
    nearer, farther = tab.window()
    assert farther - nearer < 0.7 * (high - low)
    # What was under the pointer still is.
    assert (450 - nearer) / (farther - nearer) == pytest.approx((450 - low) / (high - low), abs=0.03)
    assert len(series_requests(tab)) == before + 1


def test_the_wheel_alone_is_left_to_the_page(tab):
    window = tab.window()
    tab.page.mouse.move(*place(tab, 450))
    tab.page.mouse.wheel(0, 200)
    tab.page.mouse.wheel(100, 0)
    tab.until(lambda: tab.window() != window)
    tab.ready()
    # Sideways it moves; up and down it did nothing.
    low, high = tab.window()
    assert low > window[0]
    assert high - low == pytest.approx(window[1] - window[0], abs=2)


def test_the_same_window_is_the_same_picture_and_is_not_fetched_again(tab):
    tab.page.mouse.move(5, 5)
    first = still_picture(tab)
    window = tab.window()
    tab.find("reset-zoom").click()
    zoomed(tab, "false")
    before = len(series_requests(tab))
    drag(tab, *window)
    zoomed(tab)
    if tab.window() == window:  # to the pixel, which a drag need not be
        assert len(series_requests(tab)) == before
    tab.find("reset-zoom").click()
    zoomed(tab, "false")
    assert len(series_requests(tab)) <= before + 1
    whole = still_picture(tab)
    assert whole != first
    tab.reload()
    assert still_picture(tab) == whole


def test_an_overtaken_request_is_cancelled(tab):
    held = []
    tab.page.route("**/training_health/series", lambda route: held.append(route))
    drag(tab, 420, 480)
    drag(tab, 440, 460)
    # The browser gave up the first.
    tab.until(lambda: len(held) == 2 and held[0].request.failure)
    assert not held[1].request.failure
    held[1].continue_()
    tab.ready()
    assert tab.window()[1] - tab.window()[0] < 40
    tab.page.unroute("**/training_health/series")


def test_arrow_keys_move_the_cursor_along_the_logged_points(tab):
    hover(tab, 500)
    tab.frame.locator(".plot").first.focus()

    def step():
        return int(tab.find("tooltip").inner_text().split()[1].replace(",", ""))

    at = step()
    tab.page.keyboard.press("ArrowRight")
    assert step() == at + 1
    tab.page.keyboard.press("Shift+ArrowLeft")
    assert step() == at - 9
    tab.page.keyboard.press("Escape")
    tab.find("tooltip").wait_for(state="detached")
    assert pixels(tab, "#454e59", 0, ".layer.cursor") == 0


def test_the_run_under_the_pointer_is_lit_without_drawing_the_others_again(tab):
    tab.select("first", "second")
    tab.page.mouse.move(5, 5)
    still = still_picture(tab)
    row = tab.find("run-row", run="second").bounding_box()
    tab.page.mouse.move(row["x"] + 150, row["y"] + 10)
    colour = colour_of(tab, "second")
    tab.until(lambda: pixels(tab, colour, 0, ".layer.lit") > 100)
    assert picture(tab) == still
