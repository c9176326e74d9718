"""What the tab says where there is little or nothing to draw. Never a blank page, never a stack trace."""

from __future__ import annotations

import math

import event_bytes
import pytest
from chart_page import ROLE_COLOURS, ink, pixels

from tb_mindformers_plugin.writer import HealthWriter

pytestmark = pytest.mark.e2e


def body(tab):
    return tab.frame.locator("body").inner_text()


def test_empty_logdir(open_tab, tmp_path):
    # Nothing is active yet: the tab is reached by its address, as it is when a training is about to begin.
    tab = open_tab(tmp_path, wait=False)
    tab.page.goto(f"{tab.base}/data/plugin_entry.html?name=training_health")
    tab.page.get_by_test_id("empty-state").wait_for()
    said = tab.page.locator("body").inner_text()
    assert str(tmp_path) in said
    assert "TrainingHealthCallback" in said
    assert "tb-health doctor" in said
    assert "Looking again every 30 s." in said
    assert "make demo" in said


def test_logdir_without_health_data(open_tab, tmp_path):
    event_bytes.write(tmp_path / "hp", event_bytes.scalars(1, hp_metric=-1, objective__total=3.0))
    tab = open_tab(tmp_path, wait=False)
    tab.page.goto(f"{tab.base}/data/plugin_entry.html?name=training_health")
    tab.page.get_by_test_id("empty-state").wait_for()
    said = tab.page.locator("body").inner_text()
    assert "1 event file" in said
    assert "2 tags" in said or "2 scalar tags" in said


def test_run_without_lr_and_grad_norm(open_tab, tmp_path):
    event_bytes.write(tmp_path / "bare", *(event_bytes.scalars(s, train__loss=3.0 - s / 10) for s in range(1, 20)))
    tab = open_tab(tmp_path)
    said = tab.find("notes").inner_text()
    assert "learning rate" in said
    assert "TrainingHealthCallback" in said
    roles = {t.get_attribute("data-role") for t in tab.find("axis-title").all()}
    assert roles == {"loss"}


def test_nan_loss(open_tab, tmp_path):
    with HealthWriter(tmp_path / "broken") as writer:
        for step in range(100):
            writer.log(step, loss=math.nan if step >= 60 else 2.0, lr=0.1, grad_norm=1.0)
    tab = open_tab(tmp_path)
    tab.checked()
    assert "Loss was NaN at 40 of 100 logged steps" in tab.find("findings").inner_text()
    verdict = tab.find("run-row", run="broken").locator('[data-testid="run-verdict"]')
    assert verdict.get_attribute("data-verdict") == "critical"
    assert verdict.inner_text() == "✕ 1"
    assert "NaN" in tab.find("run-row", run="broken").inner_text()


def test_nothing_but_nan(open_tab, tmp_path):
    with HealthWriter(tmp_path / "never") as writer:
        for step in range(10):
            writer.log(step, loss=math.nan, lr=0.1)
    tab = open_tab(tmp_path)
    tab.checked()
    assert "NaN at 10 of 10 logged steps" in tab.find("findings").inner_text()
    assert tab.find("run-row").locator('[data-testid="run-last-loss"]').inner_text() == "NaN"
    assert pixels(tab, "#b3202c") > 20  # a tick for each
    assert ink(tab, ROLE_COLOURS["lr"], slack=120)["n"] > 100  # what there is beside it


def test_one_point(open_tab, tmp_path):
    with HealthWriter(tmp_path / "begun") as writer:
        writer.log(1, loss=10.5, lr=1e-4, grad_norm=3.0, loss_scale=65536)
        writer.flush()
        tab = open_tab(tmp_path)
        assert "10.5" in tab.find("run-row", run="begun").inner_text()
        for role, colour in ROLE_COLOURS.items():
            assert pixels(tab, colour) > 5, role  # a dot
        tab.checked()
        assert "No finding in one point" in tab.find("findings").inner_text()  # and not that all is well


def test_manifest_alone(open_tab, tmp_path):
    HealthWriter(tmp_path / "begun").close()
    tab = open_tab(tmp_path)
    assert "no metric is logged yet" in body(tab)


def test_only_eval_data(open_tab, tmp_path):
    event_bytes.write(tmp_path / "eval", *(event_bytes.scalars(s, eval__loss=2.0) for s in range(10)))
    tab = open_tab(tmp_path)
    assert "loss" in body(tab)
    tab.find("show-stacked").click()
    tab.frame.locator('[data-mode="stacked"][data-state="ready"]').wait_for()
    assert "eval loss" in tab.frame.locator(".chart").inner_text().replace("evaluation", "eval")


def test_a_selected_run_that_cannot_be_drawn_beside_others_is_named(open_tab, tmp_path):
    event_bytes.write(tmp_path / "eval", *(event_bytes.scalars(s, eval__loss=2.0) for s in range(10)))
    event_bytes.write(tmp_path / "train", *(event_bytes.scalars(s, train__loss=2.0) for s in range(10)))
    tab = open_tab(tmp_path)
    tab.find("select-visible").click()
    tab.ready()
    assert "Not drawn: eval." in tab.find("undrawn-note").inner_text()
    tab.find("views").get_by_text("Stacked").click()
    tab.find("overlay", mode="stacked").wait_for()
    tab.ready()
    assert tab.find("undrawn-note").count() == 0


def test_names_with_markup_are_shown_literally(open_tab, tmp_path):
    name = '<img src=x onerror=alert(1)> & "q" 中文'
    with HealthWriter(tmp_path / name) as writer:
        for step in range(5):
            writer.log(step, loss=1.0)
    tab = open_tab(tmp_path)
    # The name may be shortened in its middle for room; its title has it whole.
    assert name in tab.frame.locator("body").inner_html().replace("&lt;", "<").replace("&gt;", ">").replace(
        "&amp;", "&"
    ).replace("&quot;", '"')
    assert tab.frame.locator("img").count() == 0


def test_long_names_and_tags_are_shown_and_linked(open_tab, tmp_path):
    # As long as a file system takes them: a run's name is a path.
    name = "/".join(f"{i}" * 100 + "<b>'\"&;--🙂" for i in range(10, 25)) + "/end_of_it"
    assert len(name) > 3 * 1024
    event_bytes.write(tmp_path / name, *(event_bytes.scalars(s, train__loss=1.0 / s) for s in range(1, 9)))
    tab = open_tab(tmp_path, permissions=["clipboard-read", "clipboard-write"])
    tab.checked()
    row = tab.find("run-row")
    assert row.count() == 1
    assert row.get_attribute("data-run") == name
    assert row.locator('[data-testid="run-name"]').inner_text().endswith("nd_of_it")
    box, outer = row.bounding_box(), tab.find("run-list").bounding_box()
    assert box["x"] + box["width"] <= outer["x"] + outer["width"]
    assert tab.frame.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    tab.find("copy-link").click()
    tab.find("copy-link").get_by_text("✓").wait_for()
    assert len(tab.page.evaluate("navigator.clipboard.readText()")) < 2000
    assert tab.frame.locator("b:has-text('&;')").count() == 0


def test_long_names_leave_room_for_what_is_said_of_them(open_tab, tmp_path):
    name = f"{'y' * 200}/{'z' * 200}"
    event_bytes.write(tmp_path / name, *(event_bytes.scalars(s, eval__loss=2.0) for s in range(9)))
    event_bytes.write(tmp_path / "base", *(event_bytes.scalars(s, train__loss=2.0) for s in range(9)))
    tab = open_tab(tmp_path)
    tab.find("select-none").click()
    tab.find("run-row", run="base").locator('[data-testid="run-checkbox"]').click()
    tab.ready()
    tab.find("run-row", run="base").hover()
    tab.find("run-row", run="base").locator('[data-testid="run-pin"]').click()
    tab.find("select-visible").click()
    tab.find("views").get_by_text("Compare").click()
    cell = tab.find("verdict", run=name, verdict="failed")
    cell.wait_for()
    said = cell.locator('[data-testid="verdict-message"]')
    assert "logs no loss" in said.inner_text()
    assert said.evaluate("(el) => el.scrollHeight <= el.clientHeight + 1")  # none of it is cut off
    tab.find("export").click()
    tab.find("export-layout").click()
    tab.find("layout-dialog", state="ready").wait_for()
    for chart in tab.find("layout-chart").all():
        chart.locator("summary").click()
    dialog = tab.find("layout-dialog")
    assert dialog.evaluate("(dialog) => dialog.scrollWidth <= dialog.clientWidth")
    assert all(row.bounding_box()["height"] < 60 for row in tab.find("layout-run").all())
    assert name in [row.locator("td").first.get_attribute("title") for row in tab.find("layout-run").all()]
    assert all("400" in error for error in tab.errors)  # the browser's own line about the comparison
    tab.errors.clear()


@pytest.mark.parametrize(("width", "locale"), [(1440, "en-US"), (1100, "en-US"), (1100, "zh-CN")])
def test_a_table_of_what_was_logged_fits(open_tab, tmp_path, width, locale):
    for name in (f"{'y' * 200}/{'z' * 200}", "other"):
        event_bytes.write(tmp_path / name, *(event_bytes.scalars(s, eval__loss=2.0) for s in range(9)))
    tab = open_tab(tmp_path, width=width, locale=locale)
    tab.find("select-visible").click()
    table = tab.find("empty-state", kind="other-roles").locator("table")
    table.wait_for()
    box = table.bounding_box()
    assert box["x"] + box["width"] <= width
    assert tab.frame.locator("main").evaluate("(el) => el.scrollWidth <= el.clientWidth")


def test_a_server_that_is_gone_keeps_the_picture_and_comes_back_by_itself(open_tab, tmp_path):
    with HealthWriter(tmp_path / "run") as writer:
        for step in range(50):
            writer.log(step, loss=1.0, lr=0.1)
    tab = open_tab(tmp_path)
    tab.page.route("**/training_health/**", lambda route: route.abort())
    tab.find("reload").click()
    tab.find("banner").get_by_text("Trying again in").wait_for()
    assert pixels(tab, ROLE_COLOURS["loss"]) > 100
    tab.page.unroute("**/training_health/**")
    tab.find("banner").wait_for(state="detached")
    tab.errors.clear()


def test_a_server_that_is_gone_is_asked_again_at_once_on_demand(open_tab, tmp_path):
    with HealthWriter(tmp_path / "run") as writer:
        for step in range(50):
            writer.log(step, loss=1.0, lr=0.1)
    tab = open_tab(tmp_path)
    tab.page.route("**/training_health/**", lambda route: route.abort())
    tab.find("reload").click()
    tab.find("banner").wait_for()
    assert tab.find("overlay").is_visible()
    tab.page.unroute("**/training_health/**")
    tab.find("retry").click()
    tab.find("banner").wait_for(state="detached")
    # The browser itself reports the requests that did not get through.
    assert all("Failed to load resource" in error for error in tab.errors)
    tab.errors.clear()


def test_a_server_error_is_said(open_tab, tmp_path):
    with HealthWriter(tmp_path / "run") as writer:
        writer.log(1, loss=1.0)
        writer.log(2, loss=1.0)
    tab = open_tab(tmp_path)
    answer = '{"error": "disk on fire", "hint": "look at the terminal"}'
    tab.page.route("**/training_health/series", lambda route: route.fulfill(status=500, body=answer))
    tab.find("reload").click()
    tab.find("banner").wait_for()
    assert "disk on fire" in tab.find("banner").inner_text()
    assert tab.frame.locator(".u-wrap canvas").first.is_visible()
    assert "Traceback" not in body(tab)
    tab.errors.clear()


def test_a_thousand_runs(open_tab, tmp_path):
    for n in range(1000):
        event_bytes.write(tmp_path / f"run_{n:04d}", event_bytes.scalars(1, loss=1.0), event_bytes.scalars(2, loss=0.5))
    tab = open_tab(tmp_path)
    assert tab.find("run-row").count() < 200  # only what is in view is in the page
    tab.find("filter").fill("run_0999")
    tab.find("run-row", run="run_0999").wait_for()
