"""A training that goes on while it is looked at, and a server that takes its time."""

from __future__ import annotations

import json
import time

import pytest
from tensorboard_server import serve

from tb_mindformers_plugin.writer import HealthWriter

pytestmark = pytest.mark.e2e


def log(writer, first, last):
    for step in range(first, last + 1):
        writer.log(step, loss=2 + 2 / step, lr=1e-3, wall_time=time.time() - (last - step))
    writer.flush()


@pytest.fixture
def training(tmp_path):
    """The logdir of a run that is still going on, beside one that is not, and the writer of the first."""
    with HealthWriter(tmp_path / "done", {"total_steps": 100}) as done:
        log(done, 1, 100)
    writer = HealthWriter(tmp_path / "going", {"total_steps": 400})
    log(writer, 1, 100)
    yield tmp_path, writer
    writer.close()


def series_of(request):
    return set(json.loads(request.post_data)["runs"])


def is_curves(request):
    """Not the sparklines' request, which is for the loss alone."""
    return request.url.endswith("/series") and len(json.loads(request.post_data)["roles"]) > 1


def test_its_own_interval_fetches_what_is_new_and_nothing_else(open_tab, training):
    logdir, writer = training
    tab = open_tab(logdir)
    tab.select("done", "going")
    tab.find("run-row", run="going").locator('[data-testid="run-name"]').hover()
    tab.find("refresh").click()
    tab.find("refresh-10").click()
    # Before it is edited the address has the selection.
    tab.page.wait_for_url(lambda url: "p.training_health.runs=done%2Cgoing" in url)
    # Zoomed to a stretch, which stays as it is.
    tab.page.evaluate("() => { location.hash += '&p.training_health.from=40&p.training_health.to=90'; }")
    tab.frame.locator('[data-testid="overlay"][data-zoomed="true"]').wait_for()
    tab.ready()
    before = tab.window()
    assert before == (40, 90)
    log(writer, 101, 160)
    with tab.page.expect_request(is_curves) as seen:
        pass
    assert series_of(seen.value) == {"going"}
    tab.frame.locator('[data-run="going"] >> text=160 / 400').wait_for()
    tab.ready()
    assert tab.window() == before
    assert set(tab.selected()) == {"done", "going"}
    # Nothing new: the list is asked for, no curve.
    asked = len([r for r in tab.requests if is_curves(r)])
    with tab.page.expect_response(lambda r: "/runs?" in r.url):
        pass
    tab.page.wait_for_timeout(1000)
    assert len([r for r in tab.requests if is_curves(r)]) == asked


def test_it_says_when_the_last_event_was(open_tab, training):
    logdir, _ = training
    tab = open_tab(logdir)
    said = tab.find("last-event")
    assert said.inner_text().startswith("live · ")
    first = said.inner_text()
    tab.frame.wait_for_function(
        "(first) => document.querySelector('[data-testid=last-event]').textContent !== first", arg=first
    )
    assert said.inner_text().endswith(" s ago")


def test_tensorboards_reload_brings_only_what_grew(open_tab, training):
    logdir, writer = training
    tab = open_tab(logdir)
    tab.select("done", "going")
    tab.find("refresh").click()
    tab.find("refresh-0").click()
    tab.ready()
    before = len(tab.requests)
    log(writer, 101, 120)

    def grown():
        tab.page.locator("button.reload-button").click()  # the server looks at the disk once a second at most
        tab.page.wait_for_timeout(300)
        return tab.frame.locator('[data-run="going"] >> text=120 / 400').count()

    tab.until(grown)
    tab.ready()
    assert [series_of(request) for request in tab.requests[before:] if is_curves(request)] == [{"going"}]


def test_a_slow_server_is_said_and_the_picture_stays(open_tab, training):
    logdir, _ = training
    tab = open_tab(logdir)
    tab.select("going")
    tab.page.route("**/training_health/runs*", lambda route: None)  # no answer
    tab.find("reload").click()
    tab.find("slow").wait_for()
    assert "The picture is the one of" in tab.find("slow").inner_text()
    assert tab.frame.locator(".u-wrap canvas").first.is_visible()
    assert tab.find("overlay", state="ready").count() == 1
    tab.page.unroute("**/training_health/runs*")
    tab.find("reload").click()
    tab.find("slow").wait_for(state="detached")


def test_findings_that_cannot_be_had_are_said_and_come_back(open_tab, training):
    logdir, writer = training
    # Findings are asked for where the list says that there are any.
    writer.log(101, loss=float("nan"))
    writer.flush()
    with serve("--logdir", str(logdir)) as base:
        tab = open_tab(base=base, wait=False)
        tab.page.route(
            "**/training_health/findings*",
            lambda route: route.fulfill(status=500, content_type="application/json", body='{"error": "Broken <b>."}'),
        )
        tab.open()
        tab.find("findings-failed").first.wait_for()
        assert "Broken <b>." in tab.find("findings-failed").first.inner_text()
        tab.page.unroute("**/training_health/findings*")
        tab.find("reload").click()
        tab.find("findings-failed").first.wait_for(state="detached")
        # The browser's own word on the 500s.
        assert all("500" in error for error in tab.errors)
        tab.errors.clear()
