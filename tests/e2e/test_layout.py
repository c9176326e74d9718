"""``tb-health layout`` as TensorBoard's own Custom Scalars tab shows it, with both of its loaders."""

from __future__ import annotations

import os
import re
import shutil
import time
import urllib.parse

import pytest
from click.testing import CliRunner
from tensorboard_server import get_json, serve

from tb_mindformers_plugin.cli.main import main
from tb_mindformers_plugin.runs import open_logdir

pytestmark = pytest.mark.e2e

LOADERS = ["true", "false"]


@pytest.fixture
def logs(demo_logs, tmp_path):
    return shutil.copytree(demo_logs, tmp_path / "logs")


def demos(logs):
    """The runs that were there before any layout was."""
    return [path for path in logs.iterdir() if path.is_dir() and any(path.glob("events*"))]


def layout(*arguments):
    done = CliRunner().invoke(main, ["layout", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


def flags(logs, loader):
    return "--logdir", str(logs), f"--load_fast={loader}", "--reload_interval", "1"


def wait_for(look, until, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if until(found):
            return found
        time.sleep(0.3)
    raise AssertionError(f"TensorBoard still answers {found}")


def charts(base):
    """Title -> chart, as TensorBoard serves the layout."""
    served = get_json(f"{base}/data/plugin/custom_scalars/layout")
    return {chart["title"]: chart for category in served.get("category", ()) for chart in category["chart"]}


def drawn(base, chart):
    """Run -> tags that TensorBoard draws in a chart of lines: what its tab asks for, run by run."""
    pattern = "|".join(f"({tag})" for tag in chart["multiline"]["tag"])
    found = {}
    for run in get_json(f"{base}/data/runs"):
        query = urllib.parse.urlencode({"run": run, "tag": pattern})
        answer = get_json(f"{base}/data/plugin/custom_scalars/scalars?{query}")
        assert answer["regex_valid"]
        if answer["tag_to_events"]:
            found[run] = sorted(answer["tag_to_events"])
    return found


def logged(logs, *roles):
    """Run -> tags that play one of the roles, as this package reads them."""
    store = open_logdir(str(logs))
    found = {}
    for name in store.runs:
        run = store.load([name])[name]
        tags = sorted(run.roles[role].tag for role in roles if role in run.roles)
        if tags:
            found[name] = tags
    return found


EXPECTED = {
    "loss": ("loss",),
    "loss EMA": ("loss_ema",),
    "eval loss": ("eval_loss",),
    "learning rate": ("lr",),
    "grad norm": ("grad_norm",),
    "loss scale": ("loss_scale",),
    "overflow": ("overflow",),
    "throughput (tokens/s)": ("throughput",),
    "step time (s)": ("step_time",),
    "epoch": ("epoch",),
    "loss and eval loss": ("loss", "eval_loss"),
}


@pytest.mark.parametrize("loader", LOADERS)
def test_each_chart_holds_the_right_runs_and_no_stranger(logs, loader, browser, tmp_path):
    layout(logs)
    with serve(*flags(logs, loader)) as base:
        runs = wait_for(lambda: get_json(f"{base}/data/runs"), lambda found: len(found) == len(demos(logs)) + 1)
        assert "." in runs  # the layout's own
        found = wait_for(lambda: charts(base), bool)
        assert list(found) == list(EXPECTED)
        last = logged(logs, "loss")
        wait_for(lambda: drawn(base, found["loss"]), lambda shown: len(shown) == len(last))
        for title, roles in EXPECTED.items():
            assert drawn(base, found[title]) == logged(logs, *roles), title
        page = browser.new_page(viewport={"width": 1600, "height": 1000})
        page.set_default_timeout(30_000)
        page.goto(f"{base}/#custom_scalars")
        cards = page.locator("tf-custom-scalar-multi-line-chart-card")
        cards.first.wait_for()
        for title, roles in EXPECTED.items():
            if title == "epoch":  # its category is folded
                continue
            card = cards.filter(
                has=page.locator("tf-card-heading", has_text=re.compile(rf"^\s*{re.escape(title)}\s*$"))
            )
            card.scroll_into_view_if_needed()
            names = sorted(f"{tag} ({run})" for run, tags in logged(logs, *roles).items() for tag in tags)
            series = "card => Object.keys(card.nameToDataSeries || card._nameToDataSeries || {}).sort()"
            for _ in range(150):
                shown = card.evaluate(series)
                if shown == names:
                    break
                page.wait_for_timeout(100)
            assert shown == names, title
        page.evaluate("window.scrollTo(0, 0)")
        cards.first.scroll_into_view_if_needed()
        page.wait_for_timeout(500)
        page.screenshot(path=os.environ.get("LAYOUT_SCREENSHOT", str(tmp_path / "layout.png")))
        page.close()


@pytest.mark.parametrize("loader", LOADERS)
def test_a_running_tensorboard_shows_the_layout_that_was_written_last(logs, loader):
    with serve(*flags(logs, loader)) as base:
        wait_for(lambda: get_json(f"{base}/data/runs"), lambda found: len(found) == len(demos(logs)))
        assert charts(base) == {}
        layout(logs, "--roles", "lr,loss")
        wait_for(lambda: list(charts(base)), lambda found: found == ["learning rate", "loss"])
        layout(logs, "--roles", "grad_norm")
        wait_for(lambda: list(charts(base)), lambda found: found == ["grad norm"])
        layout(logs, "--aggregate", "lr_too_high(.*)", "--roles", "loss")
        found = wait_for(lambda: charts(base), lambda found: len(found) == 3)
        margin = found["loss: mean, min to max"]["margin"]["series"][0]
        query = urllib.parse.urlencode({"run": "aggregate/lr_too_highN", "tag": margin["upper"]})
        answer = wait_for(
            lambda: get_json(f"{base}/data/plugin/custom_scalars/scalars?{query}"), lambda found: found["tag_to_events"]
        )
        assert list(answer["tag_to_events"]) == ["aggregate/loss/max"]


@pytest.mark.parametrize("loader", LOADERS)
def test_a_run_that_is_its_own_logdir_goes_on_being_read(logs, loader):
    """A layout among a run's files would be the last of them: TensorBoard's Python loader never goes back."""
    run = logs / "killed_and_resumed"
    first = sorted(run.iterdir())[0]
    whole = first.read_bytes()
    for path in sorted(run.iterdir())[1:]:
        path.unlink()
    first.write_bytes(whole[: len(whole) // 2])
    with serve(*flags(run, loader)) as base:
        query = urllib.parse.urlencode({"run": ".", "tag": "train/loss$"})

        def last_step():
            events = get_json(f"{base}/data/plugin/custom_scalars/scalars?{query}")["tag_to_events"]
            return events["train/loss"][-1][1] if events else -1

        before = wait_for(last_step, lambda step: step > 0)
        layout(run)
        wait_for(lambda: list(charts(base)), lambda found: "loss" in found)
        with open(first, "ab") as file:
            file.write(whole[len(whole) // 2 :])
        wait_for(last_step, lambda step: step > before)
