"""The list of runs: many of them, their facts, colours, ranks, ranges and keys."""

from __future__ import annotations

import time
from unittest import mock

import pytest
from chart_page import still_picture
from tensorboard_server import serve

from tb_mindformers_plugin.writer import HealthWriter

pytestmark = pytest.mark.e2e

MANY = 300
RED = 10  # a slot of the palette


def write(directory, last=120, total=200, loss=lambda step: 2 + 2 / step, seconds=60.0, end=None, wall=None):
    """A run whose last point is `end` (None: now)."""
    now = time.time() if wall is None else wall
    with mock.patch("time.time", return_value=now):  # the manifest's time
        writer = HealthWriter(directory, {"total_steps": total})
    for step in range(1, last + 1):
        writer.log(step, loss=loss(step), lr=1e-3, wall_time=now - (last - step) * seconds)
    if end:
        writer.event("end", last, status=end, wall_time=now)
    writer.close()


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    logdir = tmp_path_factory.mktemp("many")
    for i in range(MANY):
        write(logdir / f"sweep/gpt_lr{1 + i % 3}e-4_seed{i:03d}", last=12, total=20, end="completed", wall=1.7e9 + i)
    with serve("--logdir", str(logdir)) as base:
        yield base


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    logdir = tmp_path_factory.mktemp("few")
    write(logdir / "running", last=120, total=310)
    write(logdir / "ended", last=200, end="completed", wall=time.time() - 7200)
    write(logdir / "spiky", last=200, loss=lambda step: 9.0 if step == 150 else 2.0, end="completed")
    for rank in range(4):
        write(logdir / f"job/rank_{rank}", last=50, end="completed")
    (logdir / "nothing").mkdir()
    (logdir / "nothing" / "events.out.tfevents.1.x").write_bytes(b"")
    with serve("--logdir", str(logdir)) as base:
        yield base


def rows(tab):
    return tab.find("run-row")


def test_only_rows_in_sight_exist(open_tab, base):
    tab = open_tab(base=base)
    assert tab.find("selected-count").inner_text() == f"1 of {MANY} selected"
    assert 10 < rows(tab).count() < 40
    tab.frame.locator(".rows").evaluate("(el) => { el.scrollTop = el.scrollHeight; }")
    tab.find("run-row", run="sweep/gpt_lr1e-4_seed000").wait_for()
    assert rows(tab).count() < 40
    assert "sweep/gpt_" in tab.frame.locator(".prefix").inner_text()
    assert not rows(tab).first.locator('[data-testid="run-name"]').inner_text().startswith("sweep")


def test_filter_counts_and_an_invalid_one_is_said(open_tab, base):
    tab = open_tab(base=base)
    tab.find("filter").fill("lr2e-4.*seed0")
    tab.frame.wait_for_function("() => document.querySelector('[data-testid=filter-count]')")
    assert tab.find("filter-count").inner_text() == f"33 / {MANY}"
    tab.find("filter").fill("lr(2")
    tab.find("filter-problem").wait_for()
    assert tab.find("filter-count").inner_text() == f"{MANY} / {MANY}"


def test_of_many_selected_runs_some_are_drawn_and_that_is_said(open_tab, base):
    tab = open_tab(base=base)
    tab.find("select-visible").click()
    tab.ready()
    note = tab.find("draw-limit").inner_text()
    assert f"50 of {MANY}" in note
    assert len(tab.find("overlay").get_attribute("data-runs").split("\n")) == 50
    tab.find("draw-all").click()
    tab.frame.wait_for_function(
        f"""() => document.querySelector('[data-testid="overlay"][data-state="ready"]')
          ?.dataset.runs.split("\\n").length === {MANY}""",
    )
    assert f"All {MANY} chosen runs are drawn" in tab.find("draw-limit").inner_text()
    tab.find("draw-fewer").click()
    tab.find("draw-all").wait_for()
    tab.ready()
    assert len(tab.find("overlay").get_attribute("data-runs").split("\n")) == 50


def test_shift_selects_a_range(open_tab, base):
    tab = open_tab(base=base)
    tab.find("select-none").click()
    boxes = tab.frame.locator('[data-testid="run-checkbox"]')
    boxes.nth(2).click()
    boxes.nth(6).click(modifiers=["Shift"])
    assert tab.find("selected-count").inner_text().startswith("5 of")
    boxes.nth(6).click()
    boxes.nth(3).click(modifiers=["Shift"])
    assert tab.find("selected-count").inner_text().startswith("1 of")


def test_keys_walk_through_the_list_beyond_what_is_in_sight(open_tab, base):
    tab = open_tab(base=base)
    tab.page.keyboard.press("/")
    assert tab.frame.evaluate("() => document.activeElement.id") == "filter"
    tab.page.keyboard.press("Escape")
    tab.find("run-checkbox").first.focus()
    focused = "() => document.activeElement.closest('[data-testid=run-row]')?.dataset.run"
    first = tab.frame.evaluate(focused)
    tab.page.keyboard.press("ArrowDown")
    assert tab.frame.evaluate(focused) not in (None, first)
    tab.page.keyboard.press("End")
    tab.frame.wait_for_function(f"({focused})() === 'sweep/gpt_lr1e-4_seed000'")
    tab.page.keyboard.press("Space")
    assert "sweep/gpt_lr1e-4_seed000" in tab.selected()
    tab.page.keyboard.press("Home")
    tab.frame.wait_for_function(f"({focused})() === '{first}'")


def test_a_row_says_how_far_how_well_and_how_long(open_tab, few):
    tab = open_tab(base=few)
    tab.select("running")
    running = tab.find("run-row", run="running")
    assert running.locator('[data-testid="run-progress"]').inner_text().startswith("120 / 310")
    # 190 steps of a minute each.
    assert "~3 h 10 min left" in running.locator('[data-testid="run-status"]').get_attribute("title")
    assert "~3 h 10 min left" in tab.find("time-left").inner_text()
    assert running.locator(".dot.live").count() == 1
    ended = tab.find("run-row", run="ended")
    assert ended.locator(".dot.live").count() == 0
    assert ended.locator('[data-testid="run-status"]').inner_text() == "2 h"
    assert ended.locator('[data-testid="run-verdict"]').inner_text() == "✓ ok"
    assert float(ended.locator('[data-testid="run-last-loss"]').inner_text()) == pytest.approx(2.01, abs=0.001)
    spiky = tab.find("run-row", run="spiky").locator('[data-testid="run-verdict"]')
    assert spiky.get_attribute("data-verdict") in ("warning", "critical")
    without = tab.find("without-metrics")
    assert "1 run without training metrics" in without.inner_text()
    without.locator("summary").click()
    assert "None of their series" in without.inner_text()


def test_a_sparkline_keeps_a_spike_of_one_step(open_tab, few):
    tab = open_tab(base=few)
    line = tab.find("run-row", run="spiky").locator('[data-testid="run-sparkline"] path')
    line.wait_for(state="attached")
    box = line.bounding_box()
    path = line.get_attribute("d")
    # From the bottom to the very top of its box, at three quarters of its length.
    assert "V" in path or "L" in path
    tops = [float(p.split(" ")[1].split("V")[0]) for p in path.replace("L", "M").split("M")[1:]]
    assert min(tops) == 0
    assert tops.index(0) / len(tops) == pytest.approx(0.75, abs=0.05)
    assert box["height"] > 8
    half = tab.find("run-row", run="job/rank_0").locator('[data-testid="run-sparkline"] path').bounding_box()
    assert half["width"] < box["width"] / 2  # its length is the progress


def test_ranks_are_folded_and_unfold(open_tab, few):
    tab = open_tab(base=few)
    fold = tab.find("run-ranks")
    assert "4 ranks" in fold.inner_text()
    leader = tab.frame.locator('[data-testid="run-row"]', has=fold).get_attribute("data-run")
    assert rows(tab).count() == 4
    fold.click()
    assert rows(tab).count() == 7
    other = next(f"job/rank_{rank}" for rank in range(4) if f"job/rank_{rank}" != leader)
    tab.select(leader, other)
    assert set(tab.find("overlay").get_attribute("data-runs").split("\n")) == {leader, other}


def test_a_colour_is_given_by_hand_and_kept(open_tab, few):
    tab = open_tab(base=few)
    tab.select("ended")
    row = tab.find("run-row", run="ended")
    colour = "(el) => getComputedStyle(el.querySelector('input')).borderColor"
    before = row.evaluate(colour)
    row.hover()
    row.locator('[data-testid="run-colour"]').click()
    tab.find("colour-slot", slot=str(RED)).click()
    assert tab.find("colour-picker").count() == 0
    chosen = row.evaluate(colour)
    assert chosen == "rgb(207, 109, 115)"
    tab.page.reload()
    tab.ready()
    row = tab.find("run-row", run="ended")
    assert row.evaluate(colour) == chosen
    row.hover()
    row.locator('[data-testid="run-colour"]').click()
    tab.find("colour-reset").click()
    assert row.evaluate(colour) == before


def test_a_baseline_is_pinned_and_kept(open_tab, few):
    tab = open_tab(base=few)
    row = tab.find("run-row", run="ended")
    row.hover()
    row.locator('[data-testid="run-pin"]').click()
    assert "ended" in tab.find("baseline").inner_text()
    tab.page.reload()
    tab.ready()
    assert "ended" in tab.find("baseline").inner_text()
    tab.find("baseline").locator("button").click()
    assert tab.find("baseline").count() == 0


def test_hovering_a_row_lights_its_curve(open_tab, few):
    tab = open_tab(base=few)
    tab.select("ended", "spiky", "running")
    picture = """() => [...document.querySelectorAll('.overlay canvas')].map((c) => c.toDataURL()).join()"""
    tab.page.mouse.move(5, 5)
    still_picture(tab)
    before = tab.frame.evaluate(picture)
    tab.find("run-row", run="spiky").hover()
    tab.frame.wait_for_function(f"(before) => ({picture})() !== before", arg=before)
