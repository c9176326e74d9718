"""How a chart changes with the number of its runs."""

from __future__ import annotations

import event_bytes
import pytest
from chart_page import colour_of, ink, pixels, series_requests

pytestmark = pytest.mark.e2e


def write_flat_runs(directory, count):
    for n in range(count):
        points = (event_bytes.scalars(step, train__loss=1.0 + n) for step in range(1, 60))
        event_bytes.write(directory / f"run_{n:02d}", *points)


def show_all(tab):
    tab.find("select-visible").click()
    tab.ready()


@pytest.mark.parametrize(("count", "labels"), [(6, True), (7, False)])
def test_line_ends_are_labelled_while_there_is_room(open_tab, tmp_path, count, labels):
    write_flat_runs(tmp_path, count)
    tab = open_tab(tmp_path)
    show_all(tab)
    # The swatch beside the name lies to the right of the last point.
    right = ink(tab, colour_of(tab, "run_00"))["right"]
    low, high = tab.window()
    end = (59 - low) / (high - low)
    assert (right > end + 0.005) == labels


@pytest.mark.parametrize("count", [8, 25])
def test_in_a_crowd_the_run_under_the_pointer_is_on_top_and_the_others_fade(open_tab, tmp_path, count):
    write_flat_runs(tmp_path, count)
    tab = open_tab(tmp_path)
    show_all(tab)
    assert pixels(tab, colour_of(tab, "run_03"), 0, ".layer.lit") == 0
    row = tab.find("run-row", run="run_03").bounding_box()
    tab.page.mouse.move(row["x"] + 150, row["y"] + 10)
    colour = colour_of(tab, "run_03")
    tab.until(lambda: pixels(tab, colour, 0, ".layer.lit") > 400)
    lit = ink(tab, colour, 0, ".layer.lit")
    # 2 px, a flat curve: so many rows and no more.
    assert (lit["bottom"] - lit["top"]) * tab.frame.locator(".u-over").bounding_box()["height"] < 4
    veil = tab.frame.locator(".layer.lit").evaluate(
        """(canvas) => {
          const { data } = canvas.getContext("2d").getImageData(canvas.width / 2, 60, 1, 1);
          return data[3] / 255;
        }"""
    )
    assert veil == pytest.approx(0.4, abs=0.02)  # the others are left at 0.6


def test_fifty_runs_are_drawn_and_all_on_request(open_tab, tmp_path):
    write_flat_runs(tmp_path, 60)
    tab = open_tab(tmp_path)
    show_all(tab)
    assert len(tab.find("overlay").get_attribute("data-runs").split("\n")) == 50
    assert len(series_requests(tab)[-1]["runs"]) == 50
    assert "50 of 60" in tab.find("draw-limit").inner_text()
    tab.find("draw-all").click()
    tab.ready()
    assert len(tab.find("overlay").get_attribute("data-runs").split("\n")) == 60


def test_merged_is_offered_less_for_many_runs(open_tab, tmp_path):
    write_flat_runs(tmp_path, 4)
    tab = open_tab(tmp_path)
    tab.select("run_00", "run_01", "run_02")
    merged = tab.find("mode-toggle").get_by_text("Merged")
    assert "less" not in (merged.get_attribute("class") or "")
    tab.select("run_00", "run_01", "run_02", "run_03")
    assert "less" in merged.get_attribute("class")
    assert "Lanes" in merged.get_attribute("title")
    merged.click()
    tab.find("overlay", mode="merged", state="ready").wait_for()


def test_no_answer_holds_more_points_than_can_be_drawn(open_tab, tmp_path):
    write_flat_runs(tmp_path, 50)
    tab = open_tab(tmp_path)
    show_all(tab)
    asked = series_requests(tab)[-1]
    assert asked["buckets"] * len(asked["runs"]) * len(asked["roles"]) <= 400_000
    assert asked["buckets"] >= 200
