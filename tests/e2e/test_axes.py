"""Axes: logarithms, locks and ranges of the user's own."""

from __future__ import annotations

import pytest
from chart_page import ROLE_COLOURS, colour_of, drag, hover, ink, plot_box, series_requests, write_run, zoomed

from tb_mindformers_plugin.writer import HealthWriter

pytestmark = pytest.mark.e2e

LOSS = ROLE_COLOURS["loss"]


def write_loss(directory, value, steps, lr=None):
    with HealthWriter(directory) as writer:
        for step in steps:
            rate = {} if lr is None else {"lr": lr(step)}
            writer.log(step, loss=value(step), wall_time=1.8e9 + step, **rate)


def test_log_x(open_tab, tmp_path):
    write_loss(tmp_path / "run", lambda step: 2.0, range(10_001))
    tab = open_tab(tmp_path)
    tab.find("log-x").click()
    tab.ready()
    assert series_requests(tab)[-1]["log_x"] is True
    low, high = tab.window()
    assert low == 1
    # Half way along the axis is the geometric mean of its ends.
    box = plot_box(tab)
    tab.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    said = tab.find("tooltip").inner_text()
    step = int(said.split()[1].replace(",", ""))
    assert step == pytest.approx((low * high) ** 0.5, rel=0.03)
    assert "1 point at or before 0" in tab.find("notes").inner_text()
    drag_to = (box["x"] + box["width"] * 0.75, box["y"] + 100)
    tab.page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 100)
    tab.page.mouse.down()
    tab.page.mouse.move(*drag_to, steps=5)
    tab.page.mouse.up()
    zoomed(tab)
    assert tab.window()[0] == pytest.approx(high**0.25, rel=0.2)
    assert tab.window()[1] == pytest.approx(high**0.75, rel=0.1)


def test_a_time_of_day_has_no_logarithm(open_tab, tmp_path):
    write_run(tmp_path / "run")
    tab = open_tab(tmp_path)
    tab.find("log-x").click()
    tab.find("x-axis").select_option("wall")
    tab.ready()
    assert tab.find("log-x").is_disabled()
    assert series_requests(tab)[-1]["log_x"] is False
    tab.find("x-axis").select_option("epoch")
    tab.ready()
    assert tab.find("overlay").get_attribute("data-log-x") == "true"


def shown_on(tab, axis):
    tab.find("x-axis").select_option(axis)
    tab.frame.locator(f'[data-testid="overlay"][data-state="ready"][data-x="{axis}"]').wait_for()


def write_resumed(directory, pause):
    """Steps 1 to 200, a second each; the process was gone for a while before step 101."""
    for first, wall in ((1, 1.8e9), (101, 1.8e9 + 100 + pause)):
        with HealthWriter(directory, {"resumed_from": 100} if first > 1 else {}) as writer:
            for step in range(first, first + 100):
                writer.log(step, loss=2.0, wall_time=wall + step - first)


def test_pauses_are_cut_out_of_relative_time(open_tab, tmp_path):
    write_resumed(tmp_path / "run", pause=3600)
    tab = open_tab(tmp_path)
    shown_on(tab, "relative")
    low, high = tab.window()
    assert high >= 3600 + 199
    # Nothing is drawn where nothing ran, which is most of the axis.
    drawn = ink(tab, LOSS)["n"]
    shown_on(tab, "active")
    low, high = tab.window()
    assert (low, 199 <= high < 260) == (0, True)
    assert ink(tab, LOSS)["n"] > 3 * drawn
    assert "pauses cut out" in tab.find("x-axis-title").inner_text()
    tab.page.wait_for_url(lambda url: "p.training_health.x=active" in url)
    # The window that a zoom asks for is one of this axis.
    drag(tab, 50, 150)
    zoomed(tab)
    asked = series_requests(tab)[-1]
    assert asked["x"] == "active"
    assert (asked["from"], asked["to"]) == (pytest.approx(50, abs=2), pytest.approx(150, abs=2))


def test_runs_are_laid_side_by_side_from_their_first_step(open_tab, tmp_path):
    write_loss(tmp_path / "base", lambda step: 3.0, range(1, 201))
    write_loss(tmp_path / "tuned", lambda step: 1.0, range(12_001, 12_201))
    tab = open_tab(tmp_path)
    tab.select("base", "tuned")
    assert tab.window()[1] > 12_000
    shown_on(tab, "from_start")
    low, high = tab.window()
    assert (low, 199 <= high < 260) == (0, True)
    hover(tab, 100)
    assert {row.get_attribute("data-run") for row in tab.find("tooltip-row").all()} == {"base", "tuned"}


def test_log_y_of_the_loss_says_what_it_cannot_show(open_tab, tmp_path):
    # Over two decades: on a log axis the middle of the run is in the middle of the frame.
    write_loss(tmp_path / "run", lambda step: 0.0 if step == 50 else 10 ** (step / 100), range(1, 201))
    tab = open_tab(tmp_path)
    button = tab.find("scale", role="loss")
    assert button.get_attribute("data-scale") == "linear"
    button.click()
    tab.ready()
    assert button.get_attribute("data-scale") == "log10"
    assert "1 value ≤ 0 not on a log axis" in tab.find("notes").inner_text()
    tab.page.wait_for_url(lambda url: "scales=loss%3Alog" in url)
    button.click()
    tab.ready()
    assert button.get_attribute("data-scale") == "linear"


def test_one_high_learning_rate_does_not_flatten_the_others(open_tab, tmp_path):
    write_loss(tmp_path / "high", lambda step: 2.0, range(1, 101), lambda step: 3.0)
    write_loss(tmp_path / "low", lambda step: 2.0, range(1, 101), lambda step: 1e-3 if step < 50 else 3e-4)
    tab = open_tab(tmp_path)
    tab.select("high", "low")
    tab.find("views").get_by_text("Stacked").click()
    tab.find("overlay", mode="stacked").wait_for()
    tab.ready()
    assert tab.find("scale", role="lr").get_attribute("data-scale") == "log10"
    colour = colour_of(tab, "low")
    line = ink(tab, colour, panel=1)
    assert line["n"] > 100
    # The step from 1e-3 to 3e-4 is as high as a seventh of four decades.
    assert line["bottom"] - line["top"] > 0.06
    tab.find("scale", role="lr").click()
    tab.ready()
    flat = ink(tab, colour, panel=1)
    assert flat["bottom"] - flat["top"] < 0.02


def test_the_y_range_can_be_locked(open_tab, tmp_path):
    write_loss(tmp_path / "run", lambda step: 10 / step, range(1, 1001))
    tab = open_tab(tmp_path)
    tab.find("smoothing").focus()
    tab.page.keyboard.press("Home")
    tab.ready()
    tab.find("y-lock").click()
    drag(tab, 500, 900)
    zoomed(tab)
    tab.ready()
    locked = ink(tab, LOSS)
    assert locked["bottom"] - locked["top"] < 0.05
    tab.find("y-lock").click()
    tab.ready()
    free = ink(tab, LOSS)
    assert free["bottom"] - free["top"] > 0.8


def test_a_drag_with_a_modifier_zooms_y_and_says_what_is_left_out(open_tab, tmp_path):
    write_loss(tmp_path / "run", lambda step: 1 + step % 10, range(1, 101))
    tab = open_tab(tmp_path)
    before = tab.window()
    drag(tab, 20, 60, heights=(0.2, 0.6), key="Control")
    tab.ready()
    assert tab.window() == before
    assert "points above, up to 10" in tab.find("clip-note").first.inner_text()
    assert "below, down to 1" in tab.find("clip-note").first.inner_text()
    box = plot_box(tab)
    tab.page.mouse.dblclick(box["x"] + 200, box["y"] + 100)
    tab.ready()
    assert tab.find("clip-note").count() == 0
