"""The tab where TensorBoard is not at the root of a server of its own: behind a proxy, in a notebook's page."""

from __future__ import annotations

import contextlib
import http.server
import threading
import urllib.error
import urllib.request

import pytest
from chart_page import drag, hover, series_requests, write_run, zoomed
from tensorboard_server import serve

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    logdir = tmp_path_factory.mktemp("logs")
    write_run(logdir / "first")
    write_run(logdir / "second", offset=1.0)
    with serve("--logdir", str(logdir)) as base:
        yield base


@contextlib.contextmanager
def listening(handler):
    """An HTTP server on a free port, with its address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def proxy(prefix, target):
    """A reverse proxy that knows of a prefix which TensorBoard knows nothing of."""

    class Proxy(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if not self.path.startswith(prefix):
                return self.send_error(404)
            size = int(self.headers.get("Content-Length", 0))
            asked = urllib.request.Request(
                target + self.path[len(prefix) :],
                data=self.rfile.read(size) if size else None,
                headers={k: v for k, v in self.headers.items() if k in ("Content-Type", "Accept", "Accept-Encoding")},
                method=self.command,
            )
            try:
                answer = urllib.request.urlopen(asked, timeout=30)
            except urllib.error.HTTPError as error:
                answer = error
            with answer:
                body = answer.read()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return None

        def do_POST(self):
            return self.do_GET()

        def log_message(self, *_):
            pass

    return Proxy


def test_behind_a_reverse_proxy_that_cuts_a_prefix_off(open_tab, base):
    prefix = "/user/ada/tb"
    with listening(proxy(prefix, base)) as outer:
        tab = open_tab(base=outer + prefix, permissions=["clipboard-read", "clipboard-write"], accept_downloads=True)
        tab.select("first", "second")
        drag(tab, 50, 100)
        zoomed(tab)
        assert series_requests(tab)[-1]["from"] == pytest.approx(50, abs=2)
        tab.checked()
        tab.find("copy-link").click()
        tab.find("copy-link").get_by_text("✓").wait_for()
        link = tab.page.evaluate("navigator.clipboard.readText()")
        assert link.startswith(f"{outer}{prefix}/#training_health&")
        tab.find("export").click()
        with tab.page.expect_download() as saved:
            tab.find("export-csv").click()
        assert saved.value.path().read_text().startswith("run,role,")
        own = [r.url for r in tab.requests if "/training_health/" in r.url]
        assert any(url.endswith("/series") for url in own)
        assert all(url.startswith(f"{outer}{prefix}/data/plugin/training_health/") for url in own)
        tab.page.close()  # before the proxy: an open page keeps asking


NOTEBOOK = """<!doctype html><title>A notebook</title><style>body { margin: 0 }</style>
<input id="cell" autofocus style="width: 300px; height: 30px; display: block">
<iframe id="output" src="%s/#training_health" style="width: 1400px; height: 820px; border: 0"></iframe>"""


def page_with(html):
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_):
            pass

    return Page


def test_in_a_frame_of_a_page_of_another_origin(open_tab, base):
    with listening(page_with(NOTEBOOK % base)) as notebook:
        tab = open_tab(base=base, wait=False)
        page = tab.page
        # Of another origin, so nothing of it can be reached; but of the same host, as TensorBoard's own page
        # does not open where browsers give it no storage.
        page.goto(notebook)
        page.focus("#cell")
        tab.host = page.frame_locator("#output")
        tab.ready()
        tab.select("first", "second")
        page.focus("#cell")
        page.keyboard.type("print")
        assert page.input_value("#cell") == "print"
        drag(tab, 50, 100)
        zoomed(tab)
        hover(tab, 75)
        assert tab.find("tooltip-row").count() == 2
        tab.until(lambda: "p.training_health.from=" in page.frames[1].evaluate("location.hash"))


def test_the_tab_opens_without_taking_the_focus_of_the_page_around_it(open_tab, base):
    with listening(page_with(NOTEBOOK % base)) as notebook:
        tab = open_tab(base=base, wait=False)
        tab.page.goto(notebook)
        tab.page.focus("#cell")
        tab.host = tab.page.frame_locator("#output")
        tab.ready()
        assert tab.page.evaluate("document.activeElement.id") == "cell"


def test_nothing_is_asked_of_any_other_server(open_tab, base):
    tab = open_tab(base=base)
    tab.select("first", "second")
    tab.find("views").get_by_text("Stacked").click()
    tab.find("overlay", mode="stacked").wait_for()
    tab.ready()
    assert tab.requests
    assert [r.url for r in tab.requests if not r.url.startswith((f"{base}/", "data:", "blob:"))] == []
