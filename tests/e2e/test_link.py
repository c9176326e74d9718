"""The state of the tab in addresses."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from tensorboard_server import serve

from tb_mindformers_plugin.writer import HealthWriter

pytestmark = pytest.mark.e2e

MANY = 400


def write(directory, steps, level):
    with HealthWriter(directory, {"total_steps": steps}) as writer:
        for step in range(1, steps + 1):
            writer.log(step, loss=level + 3 * step**-0.3, lr=1e-3, wall_time=1.8e9 + step)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    logdir = tmp_path_factory.mktemp("logs")
    for i, name in enumerate(("plain", 'quote "and" <b>&', "percent % comma,", "表情🙂")):
        write(logdir / name, 300, i)
    for i in range(MANY):
        write(logdir / f"sweep/a_rather_long_name_of_a_run_{i:04d}", 3, 1)
    with serve("--logdir", str(logdir)) as base:
        yield base


def copied(tab):
    tab.find("copy-link").click()
    tab.find("copy-link").get_by_text("✓").wait_for()
    return tab.page.evaluate("navigator.clipboard.readText()")


CLIPBOARD = {"permissions": ["clipboard-read", "clipboard-write"]}


def test_a_link_opens_the_same_view_elsewhere(open_tab, base):
    tab = open_tab(base=base, **CLIPBOARD)
    tab.find("filter").fill("plain|quote|percent|表情")
    tab.find("select-visible").click()
    tab.find("x-axis").select_option("relative")
    tab.find("smoothing").fill("0.5")
    tab.find("mode-toggle").get_by_text("Merged").click()
    tab.ready()
    runs = tab.find("overlay").get_attribute("data-runs")
    link = copied(tab)
    assert link.startswith(f"{base}/#training_health&")
    assert len(link) < 2000

    other = open_tab(base=base)  # another browser: it remembers nothing
    other.page.goto("about:blank")
    other.page.goto(link)
    other.ready()
    assert set(other.find("overlay").get_attribute("data-runs").split("\n")) == set(runs.split("\n"))
    assert other.find("x-axis").input_value() == "relative"
    assert other.find("smoothing").input_value() == "0.5"
    assert other.find("overlay").get_attribute("data-mode") == "merged"
    assert other.find("filter").input_value() == "plain|quote|percent|表情"


def test_the_address_of_tensorboards_page_follows(open_tab, base):
    tab = open_tab(base=base)
    tab.select("plain")
    tab.find("x-axis").select_option("wall")
    tab.page.wait_for_url(lambda url: "p.training_health.x=wall" in url)
    assert "runs=plain" in unquote(tab.page.url)
    # TensorBoard keeps it when its user looks at another tab and comes back.
    tab.page.get_by_text("Scalars", exact=False).first.click()
    tab.page.wait_for_url(lambda url: "#scalars" in url)
    assert "p.training_health.x=wall" in tab.page.url
    tab.page.get_by_text("Training Health").first.click()
    tab.page.wait_for_url(lambda url: "#training_health" in url)
    tab.ready()
    assert tab.find("x-axis").input_value() == "wall"


def test_an_address_edited_by_hand_is_followed_part_by_part(open_tab, base):
    tab = open_tab(base=base)
    tab.select("plain")
    edited = (
        "#training_health&p.training_health.x=moon&p.training_health.smoothing=0.25&p.training_health.from=9"
        "&p.training_health.to=3&p.training_health.runs=gone,plain,%25E0%25A4%25A&p.training_health.ranges=loss:x:y"
        "&p.training_health.chart=&p.training_health.constructor=1&p.training_health.filter=("
    )
    tab.page.evaluate("(hash) => { location.hash = hash; }", edited)
    tab.frame.wait_for_function("() => document.querySelector('[data-testid=smoothing]').value === '0.25'")
    tab.ready()
    assert tab.find("overlay").get_attribute("data-runs") == "plain"
    assert tab.find("x-axis").input_value() == "step"
    assert tab.find("overlay").get_attribute("data-zoomed") == "false"
    tab.find("filter-problem").wait_for()
    # And from the beginning, as an address that was sent.
    tab.page.reload()
    tab.ready()
    assert tab.find("smoothing").input_value() == "0.25"


def test_hundreds_of_runs_fit_into_a_link(open_tab, base):
    tab = open_tab(base=base, **CLIPBOARD)
    tab.find("filter").fill("run_0[0-2]")
    tab.find("select-none").click()
    tab.find("select-visible").click()
    tab.ready()
    link = copied(tab)
    assert len(link) < 2000
    other = open_tab(base=base)
    other.page.goto("about:blank")
    other.page.goto(link)
    other.ready()
    assert other.find("selected-count").inner_text() == f"300 of {MANY + 4} selected"


COLOUR = "(row) => getComputedStyle(row.querySelector('input')).getPropertyValue('--run').trim()"


def theme(tab):
    return tab.frame.locator("html").get_attribute("data-theme")


def test_a_link_has_the_colours_and_that_all_are_drawn(open_tab, base):
    tab = open_tab(base=base, **CLIPBOARD)
    tab.find("filter").fill("run_00")
    tab.find("filter-count").get_by_text(f"100 / {MANY + 4}").wait_for()
    tab.find("select-none").click()
    tab.find("select-visible").click()
    tab.find("draw-all").click()
    tab.find("theme").click()
    tab.find("findings-scope").select_option("all")
    row = tab.find("run-row").first
    row.hover()
    row.locator('[data-testid="run-colour"]').click()
    tab.frame.locator('[data-testid="colour-slot"][aria-pressed="false"]').first.click()
    tab.frame.locator('html[data-theme="dark"]').wait_for()
    link = copied(tab)
    name, colour = row.get_attribute("data-run"), row.evaluate(COLOUR)
    assert len(link) < 2000
    other = open_tab(base=base)
    assert theme(other) == "light"
    other.page.goto("about:blank")
    other.page.goto(link)
    other.ready()
    assert theme(other) == "dark"
    assert "All 100 chosen runs are drawn" in other.find("draw-limit").inner_text()
    assert len(other.find("overlay").get_attribute("data-runs").split("\n")) == 100
    assert other.find("findings-scope").input_value() == "all"
    assert other.find("run-row", run=name).evaluate(COLOUR) == colour
    # Part by part, as ever.
    other.page.goto("about:blank")
    other.page.goto(link.replace("theme=dark", "theme=pink"))
    other.find("draw-fewer").wait_for()


def test_opened_without_tensorboards_page(open_tab, base):
    tab = open_tab(base=base)
    page = tab.page.context.new_page()
    page.goto(f"{base}/data/plugin_entry.html?name=training_health#runs=plain&x=wall&smoothing=nonsense")
    page.locator('[data-testid="overlay"][data-state="ready"]').wait_for()
    assert page.locator('[data-testid="overlay"]').get_attribute("data-runs") == "plain"
    assert page.locator('[data-testid="x-axis"]').input_value() == "wall"
    page.close()
