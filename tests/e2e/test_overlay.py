"""The overlay: what is drawn, hovered, zoomed and reloaded, read from DOM and pixels."""

from __future__ import annotations

import pytest
from chart_page import ROLE_COLOURS, drag, hover, ink, loss_at, pixels, plot_box, series_requests, write_run, zoomed
from tensorboard_server import serve

from tb_mindformers_plugin.writer import HealthWriter

pytestmark = pytest.mark.e2e


def write_runs(logdir):
    write_run(logdir / "first")
    write_run(logdir / "second", offset=1.0)
    write_run(logdir / "third", offset=2.0, steps=120)


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


def test_one_run_has_all_four_metrics_in_one_frame(open_tab, base):
    tab = open_tab(base=base)
    tab.select("first")
    overlay = tab.find("overlay")
    assert overlay.get_attribute("data-mode") == "merged"
    titles = tab.find("axis-title")
    assert {t.get_attribute("data-role") for t in titles.all()} == {"loss", "grad_norm", "lr", "loss_scale"}
    # Four axes, none on top of another.
    boxes = sorted((t.bounding_box() for t in titles.all()), key=lambda box: box["x"])
    assert all(a["x"] + a["width"] <= b["x"] + 1 for a, b in zip(boxes, boxes[1:]))
    for role, colour in ROLE_COLOURS.items():
        assert pixels(tab, colour) > 100, role


def test_axis_titles_are_not_broken_within_a_chinese_word(open_tab, base):
    tab = open_tab(base=base, locale="zh-CN")
    tab.select("first")
    lines = {
        title.get_attribute("data-role"): title.locator("b").evaluate("(b) => b.getClientRects().length")
        for title in tab.find("axis-title").all()
    }
    assert lines == {"loss": 1, "grad_norm": 1, "lr": 1, "loss_scale": 1}
    boxes = sorted((t.bounding_box() for t in tab.find("axis-title").all()), key=lambda box: box["x"])
    assert all(a["x"] + a["width"] <= b["x"] + 1 for a, b in zip(boxes, boxes[1:]))


def test_several_runs_are_lanes_and_the_toggle_merges_them(open_tab, base):
    tab = open_tab(base=base)
    tab.select("first", "second", "third")
    assert tab.find("overlay").get_attribute("data-mode") == "lanes"
    tops = [t.bounding_box()["y"] for t in tab.find("axis-title").all()]
    assert len(tops) == 4
    assert len({round(t) for t in tops}) == 4  # one below the other
    tab.find("mode-toggle").get_by_text("Merged").click()
    tab.find("overlay", mode="merged").wait_for()
    tab.find("mode-toggle").get_by_text("Lanes").click()
    tab.find("overlay", mode="lanes").wait_for()


def test_tooltip_has_the_logged_values_of_each_run(open_tab, base):
    tab = open_tab(base=base)
    tab.select("first", "second", "third")
    hover(tab, 60)
    rows = {row.get_attribute("data-run"): row for row in tab.find("tooltip-row").all()}
    assert set(rows) == {"first", "second", "third"}
    for run, offset in (("first", 0.0), ("second", 1.0), ("third", 2.0)):
        shown = float(rows[run].locator('[data-role="loss"]').inner_text())
        # Some step near the pointer, and exactly what was logged there.
        near = [loss_at(step, offset) for step in range(55, 66)]
        assert min(abs(shown - value) for value in near) < 5e-4 * shown
    lr = float(rows["first"].locator('[data-role="lr"]').inner_text())
    assert lr == pytest.approx(1e-3 * 60 / 200, rel=0.05)
    assert rows["first"].locator('[data-role="loss_scale"]').inner_text() in ("1,024", "1024", "2¹⁰")


def test_tooltip_lies_inside_of_the_window(open_tab, base):
    tab = open_tab(base=base, width=1100, height=700)
    tab.select("first", "second", "third")
    for step in (2, 100, 199):
        hover(tab, step)
        box = tab.find("tooltip").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 1100
        assert box["y"] + box["height"] <= 700


@pytest.mark.parametrize("width", [820, 1000])
def test_a_narrow_window_has_all_of_the_bar(open_tab, base, width):
    tab = open_tab(base=base, width=width, height=700)
    boxes = [button.bounding_box() for button in tab.frame.locator(".bar button:visible, .bar select:visible").all()]
    assert len(boxes) > 8
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)
    tab.find("help").click()
    tab.find("help-dialog").wait_for()


def test_drag_zooms_and_fetches_the_window_and_double_click_resets(open_tab, base):
    tab = open_tab(base=base)
    tab.select("first")
    low, high = tab.window()
    assert (low, high) == (pytest.approx(1, abs=20), pytest.approx(200, abs=40))
    before = len(series_requests(tab))
    drag(tab, 50, 100)
    zoomed(tab)
    assert tab.window() == (pytest.approx(50, abs=2), pytest.approx(100, abs=2))
    asked = series_requests(tab)[before:]
    assert asked
    assert asked[-1]["from"] == pytest.approx(50, abs=2)
    assert asked[-1]["to"] == pytest.approx(100, abs=2)
    box = plot_box(tab)
    tab.page.mouse.dblclick(box["x"] + 200, box["y"] + 200)
    zoomed(tab, "false")
    assert tab.window() == (low, high)


def test_zoom_survives_tensorboards_reload_which_brings_new_points(open_tab, logs):
    tab = open_tab(logs)
    tab.select("first")
    drag(tab, 50, 100)
    zoomed(tab)
    window = tab.window()
    write_run(logs / "first", steps=230, first=201)
    before = len(series_requests(tab))

    def grown():
        tab.page.locator("button.reload-button").click()  # the server looks at the disk at most once a second
        tab.page.wait_for_timeout(300)
        return tab.find("run-row", run="first").get_by_text("230").count()

    tab.until(grown)
    tab.ready()
    assert len(series_requests(tab)) > before
    assert tab.window() == window


def test_smoothing_asks_the_server(open_tab, base):
    tab = open_tab(base=base)
    tab.select("first")
    slider = tab.find("smoothing")
    slider.focus()
    before = len(series_requests(tab))
    tab.page.keyboard.press("Home")
    tab.ready()
    assert series_requests(tab)[before:][-1]["smoothing"] == 0


def test_smoothing_draws_the_average_over_what_was_logged_which_stays_faint(open_tab, tmp_path):
    with HealthWriter(tmp_path / "run") as writer:
        for step in range(1, 201):
            writer.log(step, loss=1.0 if step % 2 else 3.0, wall_time=1.8e9 + step)
    tab = open_tab(tmp_path)
    # The loss as its line, and at 28 % on the surface.
    solid, faint = ROLE_COLOURS["loss"], "#bbd3e9"

    def height(colour, slack=24):
        found = ink(tab, colour, slack=slack, rows=(0, 0.99))
        return found["bottom"] - found["top"] if found["n"] > 50 else 0

    tab.find("smoothing").fill("0.95")
    tab.ready()
    assert 0 < height(solid) < 0.6  # it begins at the first point
    assert height(faint, 40) > 0.8
    tab.find("smoothing").fill("0")
    tab.ready()
    assert height(solid) > 0.8


@pytest.mark.parametrize("axis", ["wall", "relative", "active", "epoch"])
def test_other_x_axes(open_tab, base, axis):
    tab = open_tab(base=base)
    tab.select("first")
    tab.find("x-axis").select_option(axis)
    tab.ready()
    low, high = tab.window()
    ends = {"wall": (1.8e9 + 1, 1.8e9 + 200), "relative": (0, 199), "active": (0, 199), "epoch": (0.02, 4)}
    first, last = ends[axis]
    assert low <= first <= high
    assert low <= last <= high
    assert high - low < 1.5 * (last - first)


def test_a_one_step_spike_is_seen_at_full_zoom_out(open_tab, tmp_path):
    with HealthWriter(tmp_path / "long") as writer:
        for step in range(60_000):
            writer.log(step, loss=50.0 if step == 41_234 else 2.0, wall_time=1.8e9 + step)
    tab = open_tab(tmp_path)
    box = plot_box(tab)
    # The column of the spike: its line reaches from the curve to the top, at one place only.
    columns = tab.frame.locator(".u-wrap canvas").first.evaluate(
        """(canvas) => {
          const ratio = canvas.width / canvas.getBoundingClientRect().width;
          const over = document.querySelector(".u-over").getBoundingClientRect();
          const at = canvas.getBoundingClientRect();
          const context = canvas.getContext("2d");
          const y = Math.round((over.top - at.top + over.height / 2) * ratio);
          const x0 = Math.round((over.left - at.left) * ratio);
          const width = Math.round(over.width * ratio);
          const { data } = context.getImageData(x0, y, width, 3);
          const hits = [];
          for (let x = 0; x < width; x++) {
            const i = (width + x) * 4;
            // Bluer than the grid: the run's loss.
            if (data[i + 3] > 0 && data[i + 2] - data[i] > 40) hits.push(x / width);
          }
          return hits;
        }"""
    )
    low, high = tab.window()
    expected = (41_234 - low) / (high - low)
    assert columns, "the spike is not drawn"
    assert all(abs(column - expected) < 4 / box["width"] for column in columns)


def test_restart_is_marked_and_what_it_superseded_is_kept(open_tab, demo_base):
    tab = open_tab(base=demo_base)
    tab.select("killed_and_resumed")
    tab.find("mark", kind="restart").first.wait_for()
    assert "superseded by a restart" in tab.find("legend").inner_text()


def test_demo_logs_all_open(open_tab, demo_base, demo_logs):
    tab = open_tab(base=demo_base)
    runs = sorted(path.name for path in demo_logs.iterdir() if list(path.glob("*tfevents*")))
    assert len(runs) >= 7
    for run in runs:
        tab.select(run)
        assert tab.find("overlay").get_attribute("data-mode") == "merged"
    tab.select(*runs)
    assert tab.find("overlay").get_attribute("data-mode") == "lanes"


def test_state_survives_a_page_reload_and_nonsense_in_it_is_ignored(open_tab, base):
    tab = open_tab(base=base)
    tab.select("second")
    tab.page.reload()
    tab.ready()
    checked = tab.frame.locator('[data-testid="run-row"][data-selected="true"]')
    assert [row.get_attribute("data-run") for row in checked.all()] == ["second"]
    tab.frame.evaluate(
        "() => { for (const key of Object.keys(localStorage)) localStorage.setItem(key, '{\"x\": 7,'); }"
    )
    tab.page.reload()
    tab.ready()


def test_filter(open_tab, base):
    tab = open_tab(base=base)
    tab.page.locator("body").click(position={"x": 5, "y": 300})
    tab.find("filter").fill("^(first|third)$")
    assert {row.get_attribute("data-run") for row in tab.find("run-row").all()} == {"first", "third"}
    tab.find("filter").fill("(")
    assert "Not a regular expression" in tab.find("filter-problem").inner_text()
    assert tab.find("run-row").count() == 3


def test_dark_theme_follows_tensorboard(open_tab, base):
    tab = open_tab(base=base, color_scheme="dark")
    tab.page.evaluate("() => document.body.classList.add('dark-mode')")
    tab.frame.wait_for_function("() => getComputedStyle(document.body).backgroundColor === 'rgb(23, 25, 28)'")


def test_path_prefix(open_tab, logs):
    tab = open_tab(logs, path_prefix="/x")
    tab.select("first", "second")
    asked = [r.url for r in tab.requests if "/plugin/training_health/" in r.url]
    assert any(url.endswith("/series") for url in asked)
    assert all(url.startswith(f"{tab.base}/data/plugin") for url in asked)


def test_logdir_spec(open_tab, logs):
    tab = open_tab(None, arguments=("--logdir_spec", f"a:{logs}/first,b:{logs}/second"))
    assert {row.get_attribute("data-run") for row in tab.find("run-row").all()} == {"a/.", "b/."}
