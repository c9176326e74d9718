"""Stacked: a panel a role, with one cursor, one zoom and one tooltip."""

from __future__ import annotations

import pytest
from chart_page import drag, hover, ink, loss_at, pixels, plot_box, series_requests, write_run, zoomed
from tensorboard_server import serve

pytestmark = pytest.mark.e2e

MORE = {
    "eval_loss": 2.5,
    "accuracy": 0.5,
    "throughput": 34_530.0,
    "step_time": 0.25,
    "reward": 1.0,
    "kl": 0.01,
    "clip_fraction": 0.1,
}
CURSOR = "#454e59"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    logdir = tmp_path_factory.mktemp("logs")
    write_run(logdir / "first", **MORE)
    write_run(logdir / "second", offset=1.0)
    with serve("--logdir", str(logdir)) as base:
        yield base


@pytest.fixture
def stacked(open_tab, base):
    tab = open_tab(base=base)
    tab.select("first", "second")
    tab.find("views").get_by_text("Stacked").click()
    tab.find("overlay", mode="stacked").wait_for()
    tab.ready()
    return tab


def roles(tab):
    return [panel.get_attribute("data-role") for panel in tab.find("panel").all()]


def test_a_panel_for_each_role_that_is_logged(stacked):
    assert roles(stacked) == [
        *("loss", "grad_norm", "eval_loss", "lr", "throughput", "loss_scale", "step_time"),
        *("accuracy", "reward", "kl", "clip_fraction"),
    ]
    assert stacked.find("panel", role="throughput").get_by_test_id("unit").inner_text() == "tokens/s"
    asked = series_requests(stacked)[-1]
    assert set(asked["roles"]) == {*roles(stacked), "overflow"}
    stacked.select("second")
    assert roles(stacked) == ["loss", "grad_norm", "lr", "loss_scale"]


def test_panels_stand_in_columns_with_axes_of_one_width(stacked):
    def in_columns():
        panels = [panel.bounding_box() for panel in stacked.find("panel").all()]
        plots = [plot_box(stacked, i) for i in range(len(panels))]
        insets = {round(plot["x"] - panel["x"]) for panel, plot in zip(panels, plots)}
        return insets == {46} and len({round(panel["x"]) for panel in panels})

    assert in_columns() == 2
    for columns in (1, 3):
        stacked.find("columns").get_by_text(str(columns), exact=True).click()
        stacked.find("overlay", columns=str(columns), state="ready").wait_for()
        stacked.until(lambda columns=columns: in_columns() == columns)


def test_one_cursor_in_all_panels(stacked):
    hover(stacked, 60, panel=1)
    tab = stacked
    low, high = tab.window()
    for panel in range(4):
        line = ink(tab, CURSOR, panel, ".layer.cursor")
        assert line["n"] > 50
        assert line["left"] == pytest.approx((60 - low) / (high - low), abs=0.02)
    tab.page.mouse.move(5, 5)
    tab.find("tooltip").wait_for(state="detached")
    assert all(pixels(tab, CURSOR, panel, ".layer.cursor") == 0 for panel in range(4))


def test_one_tooltip_with_the_values_of_the_panel_under_the_pointer(stacked):
    hover(stacked, 60)
    assert stacked.find("tooltip").count() == 1
    rows = {row.get_attribute("data-run"): row for row in stacked.find("tooltip-row").all()}
    assert set(rows) == {"first", "second"}
    for run, offset in (("first", 0.0), ("second", 1.0)):
        shown = float(rows[run].locator('[data-role="loss"]').inner_text())
        assert min(abs(shown - loss_at(step, offset)) for step in range(57, 64)) < 1e-3
    hover(stacked, 60, panel=4)
    assert "34,530" in stacked.find("tooltip-row", run="first").inner_text()
    box = stacked.find("tooltip").bounding_box()
    assert box["x"] + box["width"] <= 1440
    assert box["y"] + box["height"] <= 900


def test_the_head_has_the_value_of_the_lit_run_at_the_cursor(stacked):
    row = stacked.find("run-row", run="second").bounding_box()
    stacked.page.mouse.move(row["x"] + 150, row["y"] + 10)
    value = stacked.find("panel", role="loss").get_by_test_id("panel-value")
    value.wait_for()
    assert float(value.inner_text()) == pytest.approx(loss_at(200, 1.0), abs=1e-3)  # its last one
    # The pointer on a run's curve lights that run.
    steady = ink(stacked, "#454e59", 0, ".layer.cursor")
    assert steady["n"] == 0
    stacked.select("first")
    hover(stacked, 60, panel=1)
    shown = float(stacked.find("panel", role="loss").get_by_test_id("panel-value").inner_text())
    assert min(abs(shown - loss_at(step)) for step in range(57, 64)) < 1e-3


def test_a_zoom_in_one_panel_is_the_zoom_of_all(stacked):
    before = len(series_requests(stacked))
    drag(stacked, 50, 100, panel=2, drop=False)
    # The stretch is marked in every panel.
    accent = [ink(stacked, "#175cab", panel, ".layer.cursor") for panel in range(4)]
    assert all(mark["n"] > 50 for mark in accent)
    stacked.page.mouse.up()
    zoomed(stacked)
    assert stacked.window() == (pytest.approx(50, abs=2), pytest.approx(100, abs=2))
    assert len(series_requests(stacked)) == before + 1
    hover(stacked, 75, panel=3)
    line = ink(stacked, CURSOR, 0, ".layer.cursor")
    assert line["left"] == pytest.approx(0.5, abs=0.02)


def test_a_run_with_evaluations_alone_has_its_panel(open_tab, tmp_path):
    import event_bytes

    event_bytes.write(tmp_path / "eval", *(event_bytes.scalars(s, eval__loss=2.0 + s) for s in range(10)))
    tab = open_tab(tmp_path)
    tab.find("views").get_by_text("Stacked").click()
    tab.find("overlay", mode="stacked", state="ready").wait_for()
    assert roles(tab) == ["eval_loss"]


def test_the_view_survives_a_reload(stacked):
    stacked.page.reload()
    stacked.ready()
    assert stacked.find("overlay").get_attribute("data-mode") == "stacked"
    stacked.find("views").get_by_text("Overlay").click()
    stacked.find("overlay", mode="lanes", state="ready").wait_for()
