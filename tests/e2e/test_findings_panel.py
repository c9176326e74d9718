"""The findings panel and the two languages, on runs with known faults."""

from __future__ import annotations

import csv
import io
import json
import math
import random

import pytest
from tensorboard_server import serve

from tb_mindformers_plugin.writer import HealthWriter

pytestmark = pytest.mark.e2e

SPIKE = 700


def write_run(directory, steps=1200, spike=None, nan_from=None):
    noise = random.Random(0)
    with HealthWriter(directory, {"total_steps": steps}) as writer:
        for step in range(1, steps + 1):
            loss = 5 * step**-0.25 + noise.gauss(0, 0.02)
            if spike and spike <= step < spike + 3:
                loss += 4
            if nan_from and step >= nan_from:
                loss = math.nan
            writer.log(step, loss=loss, lr=1e-3, grad_norm=0.5 + noise.gauss(0, 0.02), wall_time=1.8e9 + step)
        writer.event("end", steps, status="completed", wall_time=1.8e9 + steps)


def write_runs(logdir):
    write_run(logdir / "healthy")
    write_run(logdir / "spiky", spike=SPIKE)
    write_run(logdir / "lost", nan_from=900)


@pytest.fixture
def logs(tmp_path):
    write_runs(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    logdir = tmp_path_factory.mktemp("logs")
    write_runs(logdir)
    with serve("--logdir", str(logdir)) as base:
        yield base


def asked(tab, route):
    return [r.url for r in tab.requests if f"/training_health/{route}" in r.url]


def test_worst_first_with_advice(open_tab, base):
    tab = open_tab(base=base)
    tab.select("healthy", "spiky", "lost")
    tab.checked()
    rows = tab.find("finding")
    order = ["critical", "warning", "info"]
    severities = [row.get_attribute("data-severity") for row in rows.all()]
    assert severities == sorted(severities, key=order.index)
    assert {row.get_attribute("data-run") for row in rows.all()} == {"spiky", "lost"}
    spike = tab.find("finding", run="spiky", rule="loss_spike")
    assert "step 70" in spike.locator('[data-testid="finding-message"]').inner_text()
    assert spike.locator('[data-testid="finding-steps"]').inner_text() == "700 – 707"
    # Below each, without a click.
    assert all(row.locator('[data-testid="finding-advice"]').inner_text().startswith("Try:") for row in rows.all())
    assert tab.find("overlay").get_attribute("data-zoomed") == "false"


def test_filters_by_severity_and_run(open_tab, base):
    tab = open_tab(base=base)
    tab.select("healthy", "spiky", "lost")
    tab.checked()
    tab.find("findings-level").select_option("critical")
    assert {row.get_attribute("data-severity") for row in tab.find("finding").all()} == {"critical"}
    tab.find("findings-level").select_option("all")
    tab.find("findings-scope").select_option("spiky")
    assert {row.get_attribute("data-run") for row in tab.find("finding").all()} == {"spiky"}
    tab.find("findings-scope").select_option("healthy")
    assert "healthy" in tab.find("findings-body").inner_text()
    assert tab.find("finding").count() == 0


def test_findings_of_runs_that_are_not_selected(open_tab, base):
    tab = open_tab(base=base)
    tab.select("healthy")
    tab.checked()
    assert tab.find("finding").count() == 0
    tab.find("findings-scope").select_option("all")
    row = tab.find("finding", run="spiky", rule="loss_spike")
    row.locator('[data-testid="finding-zoom"]').click()
    tab.frame.locator('[data-testid="overlay"][data-zoomed="true"]').wait_for()
    assert tab.find("overlay").get_attribute("data-runs").split("\n") == ["healthy", "spiky"]


def test_zoom_shows_the_stretch_and_escape_lets_go(open_tab, base):
    tab = open_tab(base=base)
    tab.select("healthy", "spiky", "lost")
    tab.checked()
    whole = tab.window()
    zoom = tab.find("finding", run="spiky", rule="loss_spike").locator('[data-testid="finding-zoom"]')
    zoom.click()
    tab.frame.locator('[data-testid="overlay"][data-zoomed="true"]').wait_for()
    tab.ready()
    low, high = tab.window()
    assert whole[0] < low < SPIKE < high < whole[1]
    assert high - low < 400
    assert tab.find("finding", run="spiky", rule="loss_spike").get_attribute("aria-current") == "true"
    tab.page.keyboard.press("Escape")
    tab.frame.locator('[data-testid="overlay"][data-zoomed="false"]').wait_for()
    assert tab.frame.locator('[data-testid="finding"][aria-current]').count() == 0


def test_the_selected_finding_survives_a_reload_of_the_page(open_tab, base):
    tab = open_tab(base=base)
    tab.select("healthy", "spiky")
    tab.checked()
    tab.find("finding", rule="loss_spike").locator('[data-testid="finding-zoom"]').click()
    tab.frame.locator('[data-testid="overlay"][data-zoomed="true"]').wait_for()
    window = tab.window()
    tab.page.reload()
    tab.ready()
    tab.frame.locator('[data-testid="finding"][aria-current="true"][data-rule="loss_spike"]').wait_for()
    assert tab.window() == window


def test_a_reload_checks_only_runs_that_grew(open_tab, logs):
    tab = open_tab(logs)
    tab.select("healthy", "spiky")
    tab.checked()
    before = len(asked(tab, "findings"))
    assert before == len({url.split("run=")[1] for url in asked(tab, "findings")})
    with HealthWriter(logs / "spiky", {"total_steps": 1200}) as writer:
        writer.log(1201, loss=2.0, lr=1e-3, grad_norm=0.5, wall_time=1.9e9)

    def grown():
        tab.reload()  # the server looks at the disk once a second at most
        return tab.find("run-row", run="spiky").get_by_text("1,201").count()

    tab.until(grown)
    tab.checked()
    anew = asked(tab, "findings")[before:]
    assert len(anew) == 1
    assert "run=spiky" in anew[0]


def test_copy_json_and_csv(open_tab, base):
    tab = open_tab(base=base, permissions=["clipboard-read", "clipboard-write"], accept_downloads=True)
    tab.select("spiky", "lost")
    tab.checked()
    messages = tab.frame.locator('[data-testid="finding-message"]').all_inner_texts()
    tab.find("findings-copy").click()
    tab.find("findings-copy").get_by_text("copied").wait_for()
    copied = tab.page.evaluate("navigator.clipboard.readText()")
    assert all(message in copied for message in messages)
    assert "Try: " in copied
    with tab.page.expect_download() as saved:
        tab.find("findings-json").click()
    found = json.loads(saved.value.path().read_text("utf-8"))["findings"]
    assert [f["message"] for f in found] == messages
    with tab.page.expect_download() as saved:
        tab.find("findings-csv").click()
    rows = list(csv.DictReader(io.StringIO(saved.value.path().read_bytes().decode(), newline="")))
    assert [row["message"] for row in rows] == messages
    assert {row["run"] for row in rows} == {"spiky", "lost"}


def test_the_height_is_dragged_and_kept(open_tab, base):
    tab = open_tab(base=base)
    tab.checked()
    height = tab.find("findings").bounding_box()["height"]
    assert height == 224
    grip = tab.find("findings-resizer").bounding_box()
    x, y = grip["x"] + 200, grip["y"] + grip["height"] / 2
    tab.page.mouse.move(x, y)
    tab.page.mouse.down()
    tab.page.mouse.move(x, y - 80, steps=4)
    tab.page.mouse.up()
    assert abs(tab.find("findings").bounding_box()["height"] - 304) < 3
    tab.find("findings-resizer").press("ArrowDown")
    kept = tab.find("findings").bounding_box()["height"]
    assert abs(kept - 280) < 3
    tab.page.reload()
    tab.ready()
    assert tab.find("findings").bounding_box()["height"] == kept


def test_chinese_is_spoken_throughout_and_remembered(open_tab, base):
    tab = open_tab(base=base)
    tab.select("healthy", "spiky")
    tab.checked()
    english = tab.find("finding", rule="loss_spike").locator('[data-testid="finding-message"]').inner_text()
    tab.find("language").click()
    tab.frame.locator("text=训练健康").wait_for()
    tab.ready()
    tab.frame.wait_for_function(
        """(english) => {
          const said = document.querySelector('[data-rule="loss_spike"] [data-testid="finding-message"]');
          return said && said.textContent !== english && /[\\u4e00-\\u9fff]/.test(said.textContent);
        }""",
        arg=english,
    )
    assert tab.frame.locator("html").get_attribute("lang") == "zh-CN"
    assert "梯度范数" in tab.find("axis-title").all_inner_texts()[1]
    # Names are never translated.
    assert tab.find("run-row", run="spiky").count() == 1
    tab.page.reload()
    tab.ready()
    assert "训练健康" in tab.find("bar").inner_text()
    tab.find("language").click()
    tab.frame.locator("text=Training Health").wait_for()


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1100, 700)])
@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_nothing_is_clipped(open_tab, demo_base, width, height, locale):
    tab = open_tab(base=demo_base, width=width, height=height, locale=locale)
    tab.find("select-visible").click()
    tab.ready()
    tab.checked()
    overflowing = tab.frame.evaluate(
        """() => [...document.querySelectorAll(".bar, .findings-head, .chart-head, .runs-count, .row .facts, .finding")]
          .filter((el) => el.scrollWidth > el.clientWidth + 1)
          .map((el) => el.className + ": " + el.textContent.slice(0, 80))"""
    )
    assert overflowing == []
