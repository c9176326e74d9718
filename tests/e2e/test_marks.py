"""What happened, on the curves: findings, restarts, values that are not finite, alerts and actions."""

from __future__ import annotations

import math

import pytest
from chart_page import ROLE_COLOURS, hover, ink, place, zoomed

from tb_mindformers_plugin.writer import HealthWriter

pytestmark = pytest.mark.e2e

CRITICAL = "#b3202c"
# The accent at 10 % on the surface.
LIT_STRETCH = "#e8eff7"


def mark(tab, **attributes):
    found = tab.find("mark", **attributes)
    found.first.wait_for()
    return found.first


def middle(locator):
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2


def between_lanes(tab):
    """Where the gap between two lanes, in which nothing else is drawn, has the colour of the selected stretch."""
    plot = tab.frame.locator(".u-over").bounding_box()
    title = tab.find("axis-title", role="lr").bounding_box()
    top = (title["y"] - plot["y"]) / plot["height"]
    return ink(tab, LIT_STRETCH, slack=4, rows=(top, top + 10 / plot["height"]))


def test_a_spike_is_a_triangle_at_its_peak_with_its_value_on_the_curve(open_tab, demo_base):
    tab = open_tab(base=demo_base)
    tab.select("grad_explosion_recovered")
    spike = mark(tab, kind="spike")
    assert spike.inner_text() == "▲"
    assert spike.get_attribute("data-severity") == "warning"
    assert "at step 901" in spike.get_attribute("title")
    x, _ = place(tab, 901)
    assert middle(spike) == pytest.approx(x, abs=3)


def test_a_mark_leads_to_its_finding_and_lights_its_stretch(open_tab, demo_base):
    tab = open_tab(base=demo_base)
    tab.select("grad_explosion_recovered", "healthy_warmup_cosine")
    assert between_lanes(tab)["n"] == 0
    mark(tab, kind="spike").click()
    zoomed(tab)
    low, high = tab.window()
    assert low < 901 < 906 < high
    stretch = between_lanes(tab)
    assert stretch["n"] > 100
    assert stretch["left"] == pytest.approx((901 - low) / (high - low), abs=0.02)
    assert stretch["right"] == pytest.approx((906 - low) / (high - low), abs=0.02)
    assert mark(tab, kind="spike").get_attribute("aria-pressed") == "true"


def test_a_divergence_is_a_cross_with_a_line_through_all_lanes(open_tab, demo_base):
    tab = open_tab(base=demo_base)
    tab.select("healthy_warmup_cosine")
    none = ink(tab, "#d98f95", slack=10)["n"]
    tab.select("lr_too_high", "healthy_warmup_cosine")
    cross = mark(tab, kind="diverged")
    assert cross.inner_text() == "✕"
    assert cross.get_attribute("data-severity") == "critical"
    low, high = tab.window()
    # Critical at one half on the surface.
    line = ink(tab, "#d98f95", slack=10)
    assert none == 0
    assert line["n"] > 50
    assert line["left"] == pytest.approx((461 - low) / (high - low), abs=0.01)
    assert line["bottom"] - line["top"] > 0.9


def test_values_that_are_not_finite_have_a_rug_and_a_pill(open_tab, demo_base):
    tab = open_tab(base=demo_base)
    tab.select("lr_too_high_nan", "healthy_warmup_cosine")
    assert mark(tab, kind="nonfinite", severity="critical").inner_text() == "NaN"
    low, high = tab.window()
    rug = ink(tab, CRITICAL)
    assert rug["n"] > 50
    assert rug["left"] == pytest.approx((491 - low) / (high - low), abs=0.01)


def test_a_lone_point_between_gaps_is_a_dot(open_tab, tmp_path):
    with HealthWriter(tmp_path / "run") as writer:
        for step in range(100):
            writer.log(step, loss=2.0 if step < 40 or step == 70 else math.nan, wall_time=1.8e9 + step)
    tab = open_tab(tmp_path)
    low, high = tab.window()
    dot = tab.frame.locator(".u-wrap canvas").first.evaluate(
        """(canvas, [at, colour]) => {
          const over = document.querySelector(".u-over").getBoundingClientRect();
          const box = canvas.getBoundingClientRect();
          const x0 = Math.round(over.left - box.left + over.width * at) - 6;
          const { data } = canvas.getContext("2d").getImageData(x0, Math.round(over.top - box.top), 12, over.height);
          let n = 0;
          for (let i = 0; i < data.length; i += 4)
            if (data[i + 3] > 200 && Math.abs(data[i] - colour[0]) + Math.abs(data[i + 1] - colour[1]) < 30) n++;
          return n;
        }""",
        [(70 - low) / (high - low), [0x0B, 0x62]],
    )
    assert dot >= 12


def test_a_restart_is_a_loop_where_the_newer_points_begin(open_tab, demo_base):
    tab = open_tab(base=demo_base)
    tab.select("killed_and_resumed")
    restart = mark(tab, kind="restart")
    assert restart.locator("svg").count() == 1
    x, _ = place(tab, 801)
    assert middle(restart) == pytest.approx(x, abs=4)


@pytest.mark.parametrize("axis", ["wall", "relative", "epoch"])
def test_findings_have_their_place_on_every_axis(open_tab, tmp_path, axis):
    with HealthWriter(tmp_path / "run", {"steps_per_epoch": 100}) as writer:
        for step in range(400):
            value = 9.0 if step == 200 else 2 + 0.02 * math.sin(7 * step)
            writer.log(step, loss=value, wall_time=1.8e9 + 3 * step)
    tab = open_tab(tmp_path)
    mark(tab, kind="spike")
    tab.find("x-axis").select_option(axis)
    tab.ready()
    position = {"wall": 1.8e9 + 600, "relative": 600, "epoch": 2}[axis]
    assert middle(mark(tab, kind="spike")) == pytest.approx(place(tab, position)[0], abs=3)


def test_alerts_and_actions_of_the_run_itself_are_squares(open_tab, tmp_path):
    with HealthWriter(tmp_path / "run") as writer:
        for step in range(1, 201):
            writer.log(step, loss=2 + math.sin(step), lr=1e-3, wall_time=1.8e9 + step)
            if step == 100:
                writer.event("alert", step, id="a", status="new", severity="critical", message="Loss <b>jumped</b>.")
            if step == 150:
                writer.event("action", step, action="reduce_lr", rule="loss_spike", old_lr=1e-3, new_lr=5e-4)
    tab = open_tab(tmp_path)
    alert = mark(tab, kind="alert", severity="critical")
    assert alert.inner_text() == "■"
    assert "Loss <b>jumped</b>." in alert.get_attribute("title")
    assert middle(alert) == pytest.approx(place(tab, 100)[0], abs=3)
    titles = [one.get_attribute("title") for one in tab.find("mark", kind="alert").all()]
    assert any("Learning rate reduced (0.001 → 0.0005) because of loss_spike." in title for title in titles)


def test_a_mark_stands_in_the_panel_of_its_metric(open_tab, demo_base):
    tab = open_tab(base=demo_base)
    tab.select("overfit_with_eval")
    tab.find("views").get_by_text("Stacked").click()
    tab.find("overlay", mode="stacked", state="ready").wait_for()
    panel = tab.find("panel", role="eval_loss")
    panel.locator('[data-testid="mark"][data-kind="diverged"]').wait_for()
    assert tab.find("panel", role="loss").locator('[data-testid="mark"][data-kind="diverged"]').count() == 0


def test_marks_do_not_lie_on_each_other_or_outside_of_the_row(open_tab, demo_base):
    tab = open_tab(base=demo_base, width=1100, height=700)
    tab.find("select-visible").click()
    tab.ready()
    tab.checked()
    tab.until(lambda: tab.find("mark").count() > 3)
    boxes = sorted((m.bounding_box() for m in tab.find("mark").all()), key=lambda box: box["x"])
    assert all(a["x"] + a["width"] <= b["x"] + 0.5 for a, b in zip(boxes, boxes[1:]))
    title = tab.find("axis-title", role="loss").bounding_box()
    assert boxes[0]["x"] >= title["x"] + title["width"]
    assert boxes[-1]["x"] + boxes[-1]["width"] <= 1100


def test_overflows_are_ticks_under_the_loss_scale(open_tab, demo_base):
    tab = open_tab(base=demo_base)
    tab.select("dynamic_loss_scale_overflow")
    ticks = ink(tab, ROLE_COLOURS["loss_scale"])
    assert ticks["bottom"] > 0.95
    hover(tab, 700)
    assert "2¹" in tab.find("tooltip").inner_text()
