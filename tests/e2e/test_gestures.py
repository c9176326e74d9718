"""What a hand does on the chart: the old picture follows it, a new one is asked for when it rests."""

from __future__ import annotations

import pytest
from chart_page import drag, hover, picture, pixels, place, release, series_requests, write_run, zoomed

pytestmark = pytest.mark.e2e


@pytest.fixture
def tab(open_tab, tmp_path):
    write_run(tmp_path / "first", steps=1000)
    write_run(tmp_path / "second", steps=1000, offset=1.0)
    tab = open_tab(tmp_path)
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
    still = picture(tab)
    drag(tab, 500, 450, key="Shift", drop=False)
    assert moved_pixels(tab) > 10_000
    assert len(series_requests(tab)) == before
    assert picture(tab) == still  # what is moved is a copy of it
    release(tab, "Shift")
    tab.page.wait_for_timeout(200)
    tab.ready()
    assert tab.window() == (pytest.approx(low + 50, abs=2), pytest.approx(high + 50, abs=2))
    assert len(series_requests(tab)) == before + 1
    assert moved_pixels(tab) == 0


def test_escape_gives_a_gesture_up(tab):
    window = tab.window()
    drag(tab, 450, 500, drop=False)
    tab.page.keyboard.press("Escape")
    tab.page.mouse.up()
    tab.page.wait_for_timeout(200)
    tab.ready()
    assert tab.window() == window


def test_wheel_with_control_zooms_around_the_pointer(tab):
    low, high = tab.window()
    before = len(series_requests(tab))
    tab.page.mouse.move(*place(tab, 450))
    tab.page.keyboard.down("Control")
    for _ in range(5):
        tab.page.mouse.wheel(0, -60)
    tab.page.keyboard.up("Control")
    tab.page.wait_for_timeout(500)
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
    tab.page.wait_for_timeout(400)
    assert tab.window() == window
    tab.page.mouse.wheel(100, 0)
    tab.page.wait_for_timeout(500)
    tab.ready()
    assert tab.window()[0] > window[0]


def test_the_same_window_is_the_same_picture_and_is_not_fetched_again(tab):
    tab.page.mouse.move(5, 5)
    tab.page.wait_for_timeout(200)
    first = picture(tab)
    window = tab.window()
    tab.find("reset-zoom").click()
    zoomed(tab, "false")
    before = len(series_requests(tab))
    tab.frame.evaluate("() => 0")
    drag(tab, *window)
    zoomed(tab)
    if tab.window() == window:  # to the pixel, which a drag need not be
        assert len(series_requests(tab)) == before
    tab.find("reset-zoom").click()
    zoomed(tab, "false")
    assert len(series_requests(tab)) <= before + 1
    whole = picture(tab)
    assert whole != first
    tab.find("reload").click()
    tab.page.wait_for_timeout(1500)
    tab.ready()
    assert picture(tab) == whole


def test_an_overtaken_request_is_cancelled(tab):
    held = []
    tab.page.route("**/training_health/series", lambda route: held.append(route))
    drag(tab, 420, 480)
    drag(tab, 440, 460)
    tab.page.wait_for_timeout(500)
    assert len(held) == 2
    assert held[0].request.failure  # the browser gave it up
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
    tab.page.wait_for_timeout(200)
    still = picture(tab)
    row = tab.find("run-row", run="second").bounding_box()
    tab.page.mouse.move(row["x"] + 150, row["y"] + 10)
    tab.page.wait_for_timeout(300)
    colour = (
        tab.find("run-row", run="second")
        .locator("input")
        .evaluate("(box) => getComputedStyle(box).getPropertyValue('--run').trim()")
    )
    assert pixels(tab, colour, 0, ".layer.lit") > 100
    assert picture(tab) == still
