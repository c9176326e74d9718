"""Under the chart: the values of all drawn runs at the cursor, and a cursor that is kept where it is."""

from __future__ import annotations

import struct

import pytest
from chart_page import drag, hover, loss_at, pixels, place, plot_box, write_run, zoomed
from tensorboard_server import serve

pytestmark = pytest.mark.e2e

RUNS = 8
CURSOR = "#454e59"
LETS_GO = "click or Esc lets go"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    logdir = tmp_path_factory.mktemp("logs")
    for i in range(RUNS):
        write_run(logdir / f"run_{i}", offset=float(i), steps=100 if i == 7 else 200)
    with serve("--logdir", str(logdir)) as base:
        yield base


@pytest.fixture
def tab(open_tab, base):
    tab = open_tab(base=base, permissions=["clipboard-read", "clipboard-write"])
    tab.find("select-visible").click()
    tab.ready()
    tab.find("below").get_by_text("Values").click()
    tab.find("values").wait_for()
    return tab


def rows(tab):
    """Run -> what its row says, a text a column."""
    return {row.get_attribute("data-run"): row.locator("td").all_inner_texts() for row in tab.find("values-row").all()}


def copied(tab):
    tab.find("values-copy").click()
    tab.find("values-copy").get_by_text("copied").wait_for()
    head, *lines = tab.page.evaluate("navigator.clipboard.readText()").splitlines()
    names = head.split("\t")
    return {line.split("\t")[0]: dict(zip(names, line.split("\t"))) for line in lines}


def test_all_runs_are_in_the_table_and_six_in_the_tooltip(tab):
    assert set(rows(tab)) == {f"run_{i}" for i in range(RUNS)}
    # Without a cursor: each run's last.
    assert [rows(tab)[f"run_{i}"][0] for i in (0, 7)] == ["200", "100"]
    hover(tab, 60)
    assert tab.find("tooltip-row").count() == 6
    tab.until(lambda: rows(tab)["run_0"][0] != "200")
    step = int(rows(tab)["run_0"][0])
    assert abs(step - 60) < 4
    for i in range(RUNS):
        assert float(rows(tab)[f"run_{i}"][1]) == pytest.approx(loss_at(step, i), abs=6e-4)
    assert f"step {step}" in tab.find("values-where").inner_text()
    # Where one has ended its row stays.
    hover(tab, 150)
    tab.until(lambda: rows(tab)["run_7"][0] == "–")
    assert rows(tab)["run_0"][0] != "–"


def test_a_click_keeps_the_cursor_and_what_is_copied_has_all_digits(tab):
    x, y = place(tab, 60)
    tab.page.mouse.click(x, y)
    tab.find("values-where", pinned="true").wait_for()
    assert LETS_GO in tab.find("tooltip").inner_text()
    kept = rows(tab)
    step = int(kept["run_0"][0])
    tab.page.mouse.move(*place(tab, 120))
    tab.page.mouse.move(5, 5)
    assert rows(tab) == kept
    assert tab.find("tooltip").count() == 1
    taken = copied(tab)
    assert set(taken) == {f"run_{i}" for i in range(RUNS)}
    for i in range(RUNS):
        assert int(taken[f"run_{i}"]["step"]) == step
        logged = struct.pack("f", loss_at(step, float(i)))
        assert struct.pack("f", float(taken[f"run_{i}"]["loss"])) == logged
    assert set(taken["run_0"]) == {"run", "step", "loss", "grad_norm", "lr", "loss_scale"}
    # Another click lets go: the cursor follows the pointer again.
    tab.page.mouse.click(*place(tab, 90))
    tab.find("values-where", pinned="false").wait_for()
    tab.until(lambda: abs(int(rows(tab)["run_0"][0]) - 90) < 4)


def test_escape_lets_go_of_the_cursor_before_it_resets_the_zoom(tab):
    drag(tab, 40, 120)
    zoomed(tab)
    tab.page.mouse.click(*place(tab, 80))
    tab.find("values-where", pinned="true").wait_for()
    tab.page.keyboard.press("Escape")
    tab.find("values-where", pinned="false").wait_for()
    tab.find("tooltip").wait_for(state="detached")
    assert tab.find("overlay").get_attribute("data-zoomed") == "true"
    tab.page.keyboard.press("Escape")
    zoomed(tab, "false")


def test_a_kept_cursor_survives_zoom_and_reload_but_no_other_axis(tab):
    tab.page.mouse.click(*place(tab, 80))
    tab.find("values-where", pinned="true").wait_for()
    kept = rows(tab)
    drag(tab, 60, 110)
    zoomed(tab)
    tab.reload()
    assert rows(tab) == kept
    assert pixels(tab, CURSOR, 0, ".layer.cursor") > 50
    # Out of sight it has no tooltip; the table still says what it is of.
    tab.page.mouse.dblclick(*place(tab, 100))
    zoomed(tab, "false")
    tab.find("x-axis").select_option("wall")
    tab.ready()
    tab.find("values-where", pinned="false").wait_for()
    assert "last" in tab.find("values-where").inner_text()
    assert pixels(tab, CURSOR, 0, ".layer.cursor") == 0


def test_a_click_that_closes_a_menu_keeps_no_cursor(tab):
    tab.find("export").click()
    tab.find("export-csv").wait_for()
    tab.page.mouse.click(*place(tab, 60, height=0.8))
    tab.find("export-csv").wait_for(state="detached")
    assert tab.find("values-where").get_attribute("data-pinned") == "false"
    tab.page.mouse.click(*place(tab, 60, height=0.8))
    tab.find("values-where", pinned="true").wait_for()


def test_a_double_click_still_shows_everything(tab):
    drag(tab, 40, 120)
    zoomed(tab)
    box = plot_box(tab)
    tab.page.mouse.dblclick(box["x"] + 200, box["y"] + 200)
    zoomed(tab, "false")
    tab.find("values-where", pinned="false").wait_for()


def test_stacked_and_compare_have_the_columns_of_what_they_draw(tab):
    tab.find("views").get_by_text("Stacked").click()
    tab.find("overlay", mode="stacked").wait_for()
    tab.ready()
    tab.page.mouse.click(*place(tab, 60, panel=1))
    tab.find("values-where", pinned="true").wait_for()
    # Kept in all panels, wherever the pointer goes.
    tab.page.mouse.move(*place(tab, 150, panel=2))
    assert abs(int(rows(tab)["run_0"][0]) - 60) < 4
    taken = copied(tab)
    assert set(taken["run_0"]) == {"run", "step", "loss", "grad_norm", "lr", "loss_scale"}
    row = tab.find("run-row", run="run_0")
    row.hover()
    row.locator('[data-testid="run-pin"]').click()
    tab.find("views").get_by_text("Compare").click()
    tab.find("overlay", mode="compare").wait_for()
    tab.ready()
    tab.find("values-where", pinned="false").wait_for()  # another chart
    hover(tab, 60)
    taken = copied(tab)
    assert set(taken["run_1"]) == {"run", "step", "loss", "difference", "relative_error"}
    assert float(taken["run_1"]["difference"]) == pytest.approx(1.0, abs=1e-3)


def test_it_is_kept_in_the_address_and_speaks_chinese(tab, open_tab):
    tab.page.wait_for_url(lambda url: "p.training_health.below=values" in url)
    tab.page.reload()
    tab.ready()
    assert tab.find("values-row").count() == RUNS
    tab.find("language").click()
    tab.find("below").get_by_text("数值").wait_for()
    head = tab.find("values").locator("thead").inner_text()
    assert "梯度范数" in head
    tab.find("below").get_by_text("诊断").click()
    tab.find("findings-body").wait_for()
