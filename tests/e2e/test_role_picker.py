"""Tags whose names say nothing: the user gives them roles in the tab."""

from __future__ import annotations

import math
from urllib.parse import unquote

import event_bytes
import pytest
from chart_page import ROLE_COLOURS, ink, series_requests

pytestmark = pytest.mark.e2e

CLIPBOARD = {"permissions": ["clipboard-read", "clipboard-write"]}


def write(directory, steps=200, nan_from=None, **more):
    """A run of a hand-written loop whose names nobody knows."""
    chunks = []
    for step in range(1, steps + 1):
        loss = math.nan if nan_from and step >= nan_from else 2 + 3 / step
        values = {"objective__total": loss, "opt__step_size": 1e-3 * step, "opt__g2": 0.5 + 1 / step, **more}
        chunks.append(event_bytes.scalars(step, **values))
    event_bytes.write(directory, *chunks)


def open_inactive(open_tab, logdir, **options):
    """The tab of a log directory in which it finds nothing: TensorBoard has it under INACTIVE."""
    tab = open_tab(logdir, wait=False, **options)
    tab.open()
    return tab


def roles_of(tab):
    """Tag -> what is chosen for it."""
    rows = tab.find("tag").all()
    return {row.get_attribute("data-tag"): row.locator("select").input_value() for row in rows}


def test_the_empty_state_offers_the_tags_and_draws_what_is_chosen(open_tab, tmp_path):
    write(tmp_path / "a")
    write(tmp_path / "b", nan_from=150)
    tab = open_inactive(open_tab, tmp_path, **CLIPBOARD)
    tab.find("role-picker").wait_for()
    assert "None has a name that is known" in tab.find("empty-state").inner_text()
    # What their names speak of is offered, not taken: nothing is drawn yet.
    assert roles_of(tab) == {"objective/total": "loss", "opt/step_size": "lr", "opt/g2": ""}
    assert tab.find("overlay").count() == 0
    assert series_requests(tab) == []
    row = tab.find("tag", tag="opt/step_size")
    assert row.locator("td.number").all_inner_texts() == ["2", "200", "0.2000"]
    tab.find("tag", tag="opt/g2").locator("select").select_option("grad_norm")
    tab.find("roles-show").click()
    tab.ready()
    tab.select("a")
    roles = {title.get_attribute("data-role") for title in tab.find("axis-title").all()}
    assert roles == {"loss", "lr", "grad_norm"}
    drawn = ink(tab, ROLE_COLOURS["loss"])
    assert drawn["n"] > 200
    assert drawn["bottom"] - drawn["top"] > 0.5
    # And checked as what it is.
    tab.select("b")
    tab.checked()
    assert "Loss was NaN" in tab.find("findings").inner_text()
    # In the link, and at the next visit.
    tab.page.wait_for_url(lambda url: "loss:objective/total" in unquote(unquote(url)))
    tab.find("copy-link").click()
    tab.find("copy-link").get_by_text("✓").wait_for()
    link = tab.page.evaluate("navigator.clipboard.readText()")
    other = open_tab(base=tab.base, wait=False)
    other.page.goto(link)
    other.ready()
    assert other.find("overlay").get_attribute("data-runs") == "b"
    assert "Loss was NaN" in other.find("findings").inner_text()
    tab.page.goto("about:blank")
    tab.page.goto(f"{tab.base}/#training_health")
    tab.ready()
    assert tab.find("overlay").get_attribute("data-roles") == "loss grad_norm lr"


def test_roles_are_changed_and_taken_away_in_a_dialog(open_tab, tmp_path):
    write(tmp_path / "run", other__value=7.0)
    tab = open_inactive(open_tab, tmp_path)
    tab.find("roles-show").click()
    tab.ready()
    assert "2 tags with a role of your choice" in tab.find("given-roles").inner_text()
    tab.find("pick-roles").click()
    tab.find("roles-dialog").wait_for()
    assert tab.find("roles-show").is_disabled()  # nothing is changed yet
    tab.find("tag", tag="objective/total").locator("select").select_option("")
    tab.find("tag", tag="other/value").locator("select").select_option("loss")
    tab.find("roles-show").press("Enter")
    tab.find("roles-dialog").wait_for(state="detached")
    tab.frame.wait_for_function("() => document.querySelector('[data-testid=run-row]')?.innerText.includes('7.0')")
    tab.ready()
    tab.find("pick-roles").click()
    for tag in ("other/value", "opt/step_size"):
        tab.find("tag", tag=tag).locator("select").select_option("")
    tab.find("roles-show").click()
    tab.find("empty-state", kind="no-metrics").wait_for()
    assert tab.find("overlay").count() == 0
    assert roles_of(tab)["objective/total"] == "loss"  # offered again


def test_where_only_some_roles_are_known_the_others_can_be_given(open_tab, tmp_path):
    write(tmp_path / "run", train__loss=1.5)
    tab = open_tab(tmp_path)
    assert tab.find("overlay").get_attribute("data-roles") == "loss"
    assert "3 tags without a role" in tab.find("given-roles").inner_text()
    tab.find("pick-roles").click()
    tab.find("role-picker").wait_for()
    # Its loss is known by name, but the user may mean another.
    assert roles_of(tab)["opt/step_size"] == "lr"
    tab.find("roles-show").click()
    tab.find("roles-dialog").wait_for(state="detached")
    tab.frame.locator('[data-testid="overlay"][data-state="ready"][data-roles="loss lr"]').wait_for()


def test_many_tags_are_filtered_and_odd_ones_shown_literally(open_tab, tmp_path):
    odd = "<b>x</b>,%3A: \"'🙂"
    write(tmp_path / "run", **{odd: 1.0, "constructor": 2.0, **{f"layer_{i}__scale": float(i) for i in range(60)}})
    tab = open_inactive(open_tab, tmp_path)
    tab.find("role-picker").wait_for()
    assert tab.find("tag").count() == 30
    assert "more" in tab.find("role-picker").inner_text()
    tab.find("tag-filter").fill("LAYER_59")
    tab.find("tag", tag="layer_59/scale").wait_for()
    assert tab.find("tag").count() == 1
    tab.find("tag-filter").press("Enter")
    assert tab.find("empty-state").is_visible()  # nothing is taken yet
    tab.find("tag-filter").fill("<b>")
    tab.find("tag", tag=odd).locator("select").select_option("accuracy")
    assert tab.find("role-picker").locator("td b").count() == 0
    tab.find("tag-filter").fill("constructor")
    tab.find("tag", tag="constructor").locator("select").select_option("throughput")
    tab.find("roles-show").click()
    tab.ready()
    tab.find("views").get_by_text("Stacked").click()
    tab.find("overlay", mode="stacked", state="ready").wait_for()
    tab.find("panel", role="accuracy").wait_for()
    tab.find("panel", role="throughput").wait_for()
    # As an address that was sent.
    tab.page.wait_for_url(lambda url: "accuracy" in url and "chart=stacked" in url)
    link = tab.page.url
    other = open_tab(base=tab.base, wait=False)
    other.page.goto(link)
    other.find("panel", role="accuracy").wait_for()


def test_an_address_with_roles_of_tags_that_are_not_there(open_tab, tmp_path):
    write(tmp_path / "run")
    tab = open_tab(tmp_path, wait=False)
    tab.page.goto(f"{tab.base}/#training_health&p.training_health.given=loss%3Agone,moon%3Ax,%25")
    tab.find("empty-state", kind="no-metrics").wait_for()
    tab.find("tag", tag="gone").wait_for()
    assert roles_of(tab)["gone"] == "loss"
    tab.find("tag", tag="gone").locator("select").select_option("")
    tab.find("tag", tag="objective/total").locator("select").select_option("loss")
    tab.find("roles-show").click()
    tab.ready()


def test_in_chinese_in_the_dark_by_keyboard_in_a_small_window(open_tab, tmp_path):
    write(tmp_path / "run")
    tab = open_inactive(open_tab, tmp_path, locale="zh-CN", color_scheme="dark", width=1100, height=700)
    tab.find("role-picker").wait_for()
    words = tab.find("role-picker").inner_text()
    for english in ("Tag", "Runs", "Last value", "Show"):
        assert english not in words
    assert tab.frame.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    select = tab.find("tag", tag="opt/g2").locator("select")
    assert select.get_attribute("aria-label") == "opt/g2 的含义"
    select.focus()
    select.press("ArrowDown")
    assert select.input_value() == "loss"
    tab.find("roles-show").focus()
    tab.page.keyboard.press("Enter")
    tab.ready()
