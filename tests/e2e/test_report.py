"""The report of ``tb-health report``, opened from disk with the network off."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner

from tb_mindformers_plugin.cli.main import main

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(("language", "scheme"), [("en", "light"), ("zh", "dark")])
def test_it_needs_nothing_but_itself(browser, demo_logs, tmp_path, language, scheme):
    path = tmp_path / "report.html"
    arguments = ["report", str(demo_logs), "-o", str(path), "--baseline", "healthy_warmup_cosine", "--lang", language]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True, color_scheme=scheme)
    page = context.new_page()
    errors, asked = [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    charts = page.locator("svg[data-chart]")
    assert charts.count() == 9
    # Eight runs in the loss, each a line that has a size.
    lines = charts.first.locator("path.line")
    assert lines.count() == len([path for path in demo_logs.iterdir() if any(path.glob("events*"))])
    assert all(lines.nth(i).bounding_box()["width"] > 20 for i in range(8))
    # Values at the pointer.
    charts.first.scroll_into_view_if_needed()
    box = charts.first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.5)
    tip = page.locator("#tip")
    assert "healthy_warmup_cosine" in tip.inner_text()
    assert page.locator(".cursor:not([hidden])").count() == 1
    page.screenshot(path=os.environ.get("REPORT_SCREENSHOT", str(tmp_path / "report.png")))
    # It follows the theme, and fits a narrow window.
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(244, 245, 247)", "dark": "rgb(23, 25, 28)"}[scheme]
    page.set_viewport_size({"width": 380, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 380
    page.locator("details summary").last.click()
    assert page.locator("details[open] table").last.is_visible()
    assert errors == []
    assert asked == [path.as_uri()]
    context.close()
