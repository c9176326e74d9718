"""The preview of a layout for Custom Scalars, and what it gives to take along."""

from __future__ import annotations

import shlex

import event_bytes
import pytest
from click.testing import CliRunner
from tensorboard_server import serve

from tb_mindformers_plugin.cli.main import main
from tb_mindformers_plugin.writer import HealthWriter

pytestmark = pytest.mark.e2e


@pytest.fixture
def logdir(tmp_path):
    for name in ("first", "second"):
        with HealthWriter(tmp_path / name, {}) as writer:
            for step in range(1, 20):
                writer.log(step, loss=2.0, lr=1e-3, grad_norm=1.0, wall_time=1.8e9 + step)
    # Of another framework, which calls its loss something else.
    event_bytes.write(tmp_path / "megatron", *(event_bytes.scalars(step, **{"lm loss": 2.0}) for step in range(10)))
    return tmp_path


def opened(tab):
    tab.find("export").click()
    tab.find("export-layout").click()
    tab.find("layout-dialog", state="ready").wait_for()
    return tab.find("layout-dialog")


def test_what_each_chart_holds(open_tab, logdir):
    tab = open_tab(logdir)
    opened(tab)
    titles = [chart.get_attribute("data-title") for chart in tab.find("layout-chart").all()]
    assert {"loss", "grad norm", "lr"} <= {title.lower().replace("learning rate", "lr") for title in titles}, titles
    loss = next(chart for chart in tab.find("layout-chart").all() if chart.get_attribute("data-title") == titles[0])
    assert "3 runs" in loss.locator("summary").inner_text()
    loss.locator("summary").press("Enter")
    rows = {
        row.get_attribute("data-run"): row.locator("td").last.inner_text()
        for row in loss.locator('[data-testid="layout-run"]').all()
    }
    assert rows == {"first": "train/loss", "second": "train/loss", "megatron": "lm loss"}
    assert str(logdir) in tab.find("layout-dialog").inner_text()
    assert tab.find("layout-dialog").evaluate("dialog => dialog.scrollWidth <= dialog.clientWidth")
    tab.page.keyboard.press("Escape")
    tab.find("layout-dialog").wait_for(state="detached")


def test_the_file_is_a_layout_that_tensorboard_takes(open_tab, logdir):
    tab = open_tab(logdir)
    opened(tab)
    with tab.page.expect_download() as waiting:
        tab.find("layout-download").click()
    file = waiting.value
    assert ".tfevents." in file.suggested_filename
    # Where the dialog says that it belongs.
    file.save_as(logdir / file.suggested_filename)
    with serve("--logdir", str(logdir)) as base:
        page = tab.page.context.new_page()
        page.goto(f"{base}/#custom_scalars")
        page.get_by_text("loss").first.wait_for()
        page.close()


def test_the_command_writes_the_same(open_tab, logdir):
    tab = open_tab(logdir, permissions=["clipboard-read", "clipboard-write"])
    opened(tab)
    tab.find("layout-copy").click()
    tab.find("layout-copy").get_by_text("copied").wait_for()
    command = tab.page.evaluate("navigator.clipboard.readText()")
    assert command == tab.find("layout-command").inner_text()
    name, *arguments = shlex.split(command)
    assert name == "tb-health"
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert list(logdir.glob("*.tfevents.*"))


def test_in_chinese(open_tab, logdir):
    tab = open_tab(logdir, locale="zh-CN")
    dialog = opened(tab)
    said = dialog.inner_text()
    assert "对比布局" in said
    assert "下载文件" in said
    assert "Download" not in said


def test_a_server_that_fails_is_told(open_tab, logdir):
    tab = open_tab(logdir)
    answer = {"status": 400, "json": {"error": "there is no such layout", "hint": "log something"}}
    tab.page.route("**/layout", lambda route: route.fulfill(**answer))
    tab.find("export").click()
    tab.find("export-layout").click()
    tab.find("layout-problem").wait_for()
    assert tab.find("layout-problem").inner_text() == "there is no such layout: log something"
    assert all("400" in error for error in tab.errors)
    tab.errors.clear()
