"""Compare: runs against a pinned baseline."""

from __future__ import annotations

import math
from urllib.parse import parse_qs, urlsplit

import pytest
from chart_page import drag, hover, ink, place, plot_box, zoomed
from tensorboard_server import serve

from tb_mindformers_plugin.writer import HealthWriter

pytestmark = pytest.mark.e2e

STEPS, PARTS_AT = 400, 241
# In the light theme: the line of a divergence (critical at one half), and what is within the tolerance (ok at 9 %).
CRITICAL_AT_HALF, OK_SHADE = "#d98f95", "#eaf2ee"
# Of the three zones, from the top: fractions of the plot's height well inside of each.
ZONES = ((0.02, 0.36), (0.45, 0.66), (0.76, 0.98))


def loss_at(step, factor=1.0):
    return factor * (2 + 3 / step + 0.1 * math.sin(step))


def parting(step):
    return 1.0 if step < PARTS_AT else 1.0 + 0.0004 * (step - PARTS_AT + 50)


def write(directory, loss, steps=range(1, STEPS + 1), tokens=None, **manifest):
    with HealthWriter(directory, {"total_steps": STEPS, **manifest}) as writer:
        for step in steps:
            more = {} if tokens is None else {"tokens": float(tokens * step)}
            writer.log(step, loss=loss(step), lr=1e-3 * step / STEPS, wall_time=1.8e9 + step, **more)
        writer.event("end", STEPS, status="completed", wall_time=1.8e9 + STEPS)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    logdir = tmp_path_factory.mktemp("logs")
    write(logdir / "base", loss_at, tokens=512, hparams={"seed": 1, "dtype": "bf16"})
    write(logdir / "times eight", lambda s: loss_at(s, 8), tokens=512, hparams={"seed": 1, "dtype": "bf16"})
    write(logdir / "parts", lambda s: loss_at(s, parting(s)), tokens=512, hparams={"seed": 2, "dtype": "fp16"})
    write(logdir / "same", lambda s: loss_at(s, 1.001), tokens=512, hparams={"seed": 1, "dtype": "bf16"})
    write(logdir / "elsewhere", loss_at, range(1000, 1010))
    with serve("--logdir", str(logdir)) as base:
        yield base


def compare(tab, baseline, *runs):
    """Shows some runs against a baseline."""
    tab.select(*runs)
    row = tab.find("run-row", run=baseline)
    row.hover()
    row.locator('[data-testid="run-pin"]').click()
    tab.find("views").get_by_text("Compare").click()
    tab.find("overlay", mode="compare").wait_for()
    tab.ready()
    return tab


@pytest.fixture
def tab(open_tab, base):
    return compare(open_tab(base=base), "base", "times eight", "parts", "same")


def verdict(tab, run):
    cell = tab.find("verdict", run=run)
    said = [cell.locator(f'[data-testid="verdict-{part}"]').inner_text() for part in ("title", "message")]
    return cell.get_attribute("data-verdict"), *said


def compare_requests(tab):
    asked = [urlsplit(request.url) for request in tab.requests if "/compare?" in request.url]
    return [{name: values[0] for name, values in parse_qs(url.query).items()} for url in asked]


def test_verdicts(tab):
    kind, title, message = verdict(tab, "same")
    assert (kind, title) == ("same", "✓ Same within 1 %")
    assert "at 400 of 400 common points. Relative error: mean 0.1 %" in message
    kind, title, message = verdict(tab, "times eight")
    assert (kind, title) == ("ratio", "× Constant ratio 8")
    assert "may sum over 8 parts without dividing" in message
    kind, title, message = verdict(tab, "parts")
    assert (kind, title) == ("differs", f"! Differs from step {PARTS_AT}")
    assert "of 400 common points are beyond" in message
    # The baseline has a cell of its own, and is compared with no one.
    assert "base" in tab.find("verdict-baseline").inner_text()
    assert tab.find("verdict", run="base").count() == 0
    assert {asked["run"] for asked in compare_requests(tab)} == {"times eight", "parts", "same"}


def test_the_mark_stands_where_the_run_parts_in_all_three_zones(tab):
    marks = tab.find("mark")
    assert marks.count() == 1  # a constant ratio leaves nothing
    assert (marks.get_attribute("data-kind"), marks.get_attribute("data-run")) == ("parted", "parts")
    assert marks.inner_text() == "◆"
    assert marks.get_attribute("title") == f"parts leaves the baseline at {PARTS_AT}"
    box, there = marks.bounding_box(), place(tab, PARTS_AT)
    assert box["x"] + box["width"] / 2 == pytest.approx(there[0], abs=1.5)
    low, high = tab.window()
    for rows in ZONES:
        line = ink(tab, CRITICAL_AT_HALF, rows=rows)
        assert line["n"] > 10
        assert line["left"] == pytest.approx((PARTS_AT - low) / (high - low), abs=0.003)
        assert line["right"] - line["left"] < 0.003


def test_zones_of_loss_difference_and_relative_error(tab):
    titles = [title.inner_text().split("\n")[0] for title in tab.find("axis-title").all()]
    assert [title[:4] for title in titles] == ["loss", "Δ lo", "rela"]
    assert tab.find("overlay").get_attribute("data-roles") == "loss difference relative_error"
    # Within the tolerance is shaded, in the lowest zone only.
    assert ink(tab, OK_SHADE, slack=6, rows=ZONES[2])["n"] > 2000
    assert ink(tab, OK_SHADE, slack=6, rows=ZONES[1])["n"] == 0


def test_the_tooltip_has_value_difference_and_error(tab):
    drag(tab, 380, 396)
    zoomed(tab)
    hover(tab, 390)
    rows = {row.get_attribute("data-run"): row for row in tab.find("tooltip-row").all()}
    assert set(rows) == {"base", "times eight", "parts", "same"}

    def cell(run, role):
        return rows[run].locator(f'[data-role="{role}"]').inner_text()

    candidates = range(387, 394)
    shown = float(cell("base", "loss"))
    step = min(candidates, key=lambda s: abs(loss_at(s) - shown))
    assert shown == pytest.approx(loss_at(step), abs=1e-3)
    difference = loss_at(step) * (parting(step) - 1)
    assert float(cell("parts", "difference")) == pytest.approx(difference, rel=0.01)
    assert cell("parts", "difference").startswith("+")
    assert float(cell("parts", "relative_error").rstrip(" %")) == pytest.approx(100 * (parting(step) - 1), rel=0.01)
    assert cell("times eight", "relative_error") == "700 %"
    assert cell("base", "difference") == "–"


def test_a_zoom_fetches_the_window_and_keeps_the_verdict(tab):
    said = verdict(tab, "parts")
    drag(tab, 200, 300)
    zoomed(tab)
    tab.find("overlay", mode="compare", state="ready").wait_for()
    low, high = tab.window()
    assert (low, high) == (pytest.approx(200, abs=3), pytest.approx(300, abs=3))
    asked = compare_requests(tab)[-1]
    assert (float(asked["from"]), float(asked["to"])) == (low, high)
    assert verdict(tab, "parts") == said
    mark = tab.find("mark").bounding_box()
    assert mark["x"] + mark["width"] / 2 == pytest.approx(place(tab, PARTS_AT)[0], abs=1.5)
    n = len(compare_requests(tab))
    box = plot_box(tab)
    tab.page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    zoomed(tab, "false")
    tab.find("overlay", mode="compare", state="ready").wait_for()
    assert len(compare_requests(tab)) == n  # what is known is not asked for again


def test_another_tolerance_is_another_verdict(tab):
    tab.find("tolerance").fill("20")
    tab.find("tolerance").press("Enter")
    tab.find("verdict", run="parts", verdict="same").wait_for()
    assert verdict(tab, "parts")[1] == "✓ Same within 20 %"
    assert tab.find("mark").count() == 0
    assert compare_requests(tab)[-1]["tolerance"] == "0.2"
    tab.page.wait_for_url(lambda url: "p.training_health.tolerance=0.2" in url)
    # What is no tolerance is put back.
    tab.find("tolerance").fill("-3")
    tab.find("tolerance").press("Enter")
    assert tab.find("tolerance").input_value() == "20"


def test_a_tolerance_may_be_typed_while_the_picture_changes(tab):
    field = tab.find("tolerance")
    field.focus()
    field.press("Control+a")
    tab.page.keyboard.type("3")
    # A run that is lit draws everything anew.
    tab.find("run-row", run="same").hover()
    tab.find("run-row", run="parts").hover()
    tab.page.keyboard.type(".5")
    tab.page.keyboard.press("Enter")
    tab.find("overlay", mode="compare", state="ready", tolerance="0.035").wait_for()
    field.press("Control+a")
    tab.page.keyboard.type("-7")
    tab.page.keyboard.press("Enter")
    tab.until(lambda: field.input_value() == "3.5")


def test_an_absolute_tolerance_is_added_to_the_relative_one(open_tab, base, tab):
    # At most 8.4 % of a loss of 1.9 to 2.1 away from it.
    for field, value in (("tolerance", "0"), ("absolute", "0.2")):
        tab.find(field).fill(value)
        tab.find(field).press("Enter")
    tab.find("verdict", run="parts", verdict="same").wait_for()
    tab.find("overlay", mode="compare", state="ready", tolerance="0", absolute="0.2").wait_for()
    assert (compare_requests(tab)[-1]["tolerance"], compare_requests(tab)[-1]["absolute"]) == ("0", "0.2")
    assert "±0.2" in tab.find("legend-tolerance").inner_text()
    # What is within it is shaded, up to about a tenth of the baseline.
    assert ink(tab, OK_SHADE, slack=6, rows=ZONES[2])["n"] > 2000
    tab.page.wait_for_url(lambda url: "p.training_health.absolute=0.2" in url)
    tab.find("absolute").fill("-1")
    tab.find("absolute").press("Enter")
    assert tab.find("absolute").input_value() == "0.2"
    link = tab.page.url
    other = open_tab(base=base)
    other.page.goto("about:blank")
    other.page.goto(link)
    other.find("overlay", mode="compare", state="ready", tolerance="0", absolute="0.2").wait_for()
    assert verdict(other, "parts")[0] == "same"
    # In another metric's unit it means nothing.
    other.find("compare-metric").select_option("lr")
    other.find("overlay", metric="lr", state="ready", absolute="0").wait_for()


def test_the_address_restores_the_comparison(open_tab, base, tab):
    tab.find("tolerance").fill("0.5")
    tab.find("tolerance").press("Enter")
    tab.find("compare-metric").select_option("lr")
    tab.find("overlay", metric="lr", state="ready").wait_for()
    drag(tab, 100, 200)
    zoomed(tab)
    window = tab.window()
    tab.page.wait_for_url(lambda url: "p.training_health.from=" in url)
    link = tab.page.url
    other = open_tab(base=base)  # another browser: it remembers nothing
    other.page.goto("about:blank")
    other.page.goto(link)
    shown = other.find("overlay", mode="compare", state="ready")
    shown.wait_for()
    assert shown.get_attribute("data-baseline") == "base"
    assert shown.get_attribute("data-metric") == "lr"
    assert shown.get_attribute("data-tolerance") == "0.005"
    assert other.window() == window
    assert verdict(other, "parts")[1] == "✓ Same within 0.5 %"
    # Part by part: what is wrong in it costs nothing else.
    other.page.goto("about:blank")
    other.page.goto(link.replace("tolerance=0.005", "tolerance=lots").replace("metric=lr", "metric=moon"))
    shown = other.find("overlay", mode="compare", state="ready")
    shown.wait_for()
    assert (shown.get_attribute("data-metric"), shown.get_attribute("data-tolerance")) == ("loss", "0.01")


def test_what_can_be_compared(tab):
    values = "(options) => options.map((option) => option.value)"
    assert tab.find("compare-metric").locator("option").evaluate_all(values) == ["loss", "lr"]
    assert tab.find("x-axis").locator("option:enabled").evaluate_all(values) == ["step", "from_start", "tokens"]
    tab.find("x-axis").select_option("tokens")
    tab.ready()
    assert compare_requests(tab)[-1]["x"] == "tokens"
    mark = tab.find("mark").bounding_box()
    assert mark["x"] + mark["width"] / 2 == pytest.approx(place(tab, PARTS_AT * 512)[0], abs=1.5)


def test_settings_that_differ(tab):
    toggle = tab.find("compare-settings-toggle")
    assert "2 settings differ" in toggle.inner_text()
    toggle.press("Enter")
    rows = {
        row.locator("th").inner_text(): row.locator("td").all_inner_texts()
        for row in tab.find("compare-settings").locator("tbody tr").all()
    }
    order = [head.get_attribute("title") for head in tab.find("compare-settings").locator("thead th[title]").all()]
    of = order.index("parts")
    assert order[0] == "base"
    assert (rows["hparams.seed"][0], rows["hparams.seed"][of]) == ("1", "2")
    assert (rows["hparams.dtype"][0], rows["hparams.dtype"][of]) == ("bf16", "fp16")
    assert rows["learning rate (logged)"][of] == "same"
    assert "leaves the baseline by more than 1 %" in rows["verdict"][of]


def test_what_the_server_cannot_compare_is_said_in_the_cell(open_tab, base):
    tab = compare(open_tab(base=base), "base", "elsewhere", "same")
    kind, title, message = verdict(tab, "elsewhere")
    assert (kind, title) == ("failed", "✕ Not compared")
    assert "no loss at the same step" in message
    assert "log both at the same steps" in message
    assert verdict(tab, "same")[0] == "same"
    assert "try the axis from_start" in message
    tab.find("x-axis").select_option("from_start")
    tab.find("verdict", run="elsewhere", verdict="differs").wait_for()
    note = tab.find("verdict", run="elsewhere").locator('[data-testid="verdict-note"]')
    assert note.first.inner_text() == "Aligned at the first step: 1,000 here, 1 in the baseline."
    assert all("400" in error for error in tab.errors)  # the browser's own line about it
    tab.errors.clear()


def test_the_findings_are_those_against_the_baseline(tab):
    tab.checked()
    found = tab.frame.locator('[data-testid="finding"][data-rule="baseline_divergence"]')
    assert {row.get_attribute("data-run") for row in found.all()} == {"parts", "times eight"}
    asked = [request.url for request in tab.requests if "/findings?" in request.url]
    assert any("baseline=base" in url for url in asked)
    found.locator('[data-testid="finding-zoom"]').first.click()
    zoomed(tab)
    assert tab.find("overlay").get_attribute("data-mode") == "compare"


def test_without_a_baseline_it_says_how_to_pin_one(open_tab, base):
    tab = open_tab(base=base)
    tab.select("parts")
    tab.find("views").get_by_text("Compare").click()
    tab.find("empty-state", kind="no-baseline").wait_for()
    tab.find("pin-choice").select_option("base")
    tab.find("overlay", mode="compare", state="ready").wait_for()
    assert verdict(tab, "parts")[0] == "differs"
    # And a baseline alone asks for a run.
    tab.select("base")
    assert "Select a run" in tab.find("verdicts").inner_text()


def test_one_run_alone_has_nothing_to_be_compared_with(open_tab, tmp_path):
    write(tmp_path / "only", loss_at, range(1, 20))
    tab = open_tab(tmp_path)
    button = tab.find("views").locator('[data-view="compare"]')
    assert button.is_disabled()
    assert "pin the one that the others are compared with" in button.get_attribute("title")


def test_in_chinese(open_tab, base):
    tab = open_tab(base=base, locale="zh-CN")
    tab.select("parts", "times eight")
    tab.find("run-row", run="base").hover()
    tab.find("run-row", run="base").locator('[data-testid="run-pin"]').click()
    tab.find("views").get_by_text("对比").click()
    tab.find("overlay", mode="compare", state="ready").wait_for()
    assert verdict(tab, "parts")[1] == f"! 自第 {PARTS_AT} 步起不同"
    assert verdict(tab, "times eight")[1] == "× 恒定比例 8"
    assert tab.find("mark").get_attribute("title") == f"parts 在 {PARTS_AT} 偏离基线"
    words = tab.frame.locator("main").inner_text()
    for english in ("Baseline", "Tolerance", "Metric", "relative error", "settings"):
        assert english not in words


def test_the_baseline_follows_in_dark_colours_and_by_keyboard(open_tab, base):
    tab = compare(open_tab(base=base, color_scheme="dark"), "base", "parts")
    plot = tab.frame.locator(".plot")
    plot.focus()
    plot.press("ArrowRight")
    plot.press("Shift+ArrowRight")
    tab.find("tooltip").wait_for()
    assert {row.get_attribute("data-run") for row in tab.find("tooltip-row").all()} == {"base", "parts"}
    plot.press("Escape")
    tab.find("tooltip").wait_for(state="detached")
    assert "Comparison of loss: parts against base." in plot.get_attribute("aria-label")
