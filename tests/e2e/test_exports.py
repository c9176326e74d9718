"""Data and pictures to take away."""

from __future__ import annotations

import csv
import io
import json
import struct
import xml.etree.ElementTree as ElementTree

import pytest
from tensorboard_server import serve

from tb_mindformers_plugin.writer import HealthWriter

pytestmark = pytest.mark.e2e

STEPS = 5000
NAME = 'b & <i> "x"'
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    logdir = tmp_path_factory.mktemp("logs")
    for i, name in enumerate(("a", NAME)):
        with HealthWriter(logdir / name, {"total_steps": STEPS}) as writer:
            for step in range(1, STEPS + 1):
                writer.log(step, loss=1 / 3 + i + step**-0.5, lr=1e-3, grad_norm=0.1 * i + 1, wall_time=1.8e9 + step)
    with serve("--logdir", str(logdir)) as base:
        yield base


def save(tab, kind):
    tab.find("export").click()
    with tab.page.expect_download() as saved:
        tab.find(f"export-{kind}").click()
    return saved.value.suggested_filename, saved.value.path().read_bytes()


def test_csv_and_json_hold_every_point(open_tab, base):
    tab = open_tab(base=base, accept_downloads=True)
    tab.select("a")
    name, content = save(tab, "csv")
    assert name == "a.csv"
    rows = [row for row in csv.DictReader(io.StringIO(content.decode(), newline="")) if row["role"] == "loss"]
    assert [int(row["step"]) for row in rows] == list(range(1, STEPS + 1))
    assert struct.pack("f", float(rows[9]["value"])) == struct.pack("f", 1 / 3 + 10**-0.5)
    tab.select("a", NAME)
    name, content = save(tab, "json")
    runs = json.loads(content)["runs"]
    assert sorted(run["run"] for run in runs) == sorted(["a", NAME])
    assert all(len(series["segments"][0]["step"]) == STEPS for run in runs for series in run["series"])


def test_svg_is_the_chart_in_vectors(open_tab, base):
    tab = open_tab(base=base, accept_downloads=True)
    tab.select("a", NAME)
    before = tab.frame.locator(".u-wrap canvas").first.evaluate("(c) => c.toDataURL()")
    name, content = save(tab, "svg")
    assert name.endswith(".svg")
    picture = ElementTree.fromstring(content)
    width, height = float(picture.get("width")), float(picture.get("height"))
    assert width > 1000
    assert height > 400
    said = "".join(picture.itertext())
    for words in ("loss", "grad norm", "lr", "step", NAME):
        assert words in said
    run_colours = [row.evaluate("(el) => el.style.getPropertyValue('--run')") for row in tab.find("run-row").all()]
    strokes = [path.get("stroke") for path in picture.iter(f"{SVG}path")]
    assert len(run_colours) == 2
    for colour in run_colours:
        assert strokes.count(colour) >= 3  # a line in each lane
    assert picture.findall(f".//{SVG}image") == []
    # Writing it down changed nothing on the screen.
    assert tab.frame.locator(".u-wrap canvas").first.evaluate("(c) => c.toDataURL()") == before


def test_pictures_are_offered_again_after_a_view_without_a_chart(open_tab, base):
    tab = open_tab(base=base, accept_downloads=True)
    tab.select("a", NAME)
    tab.frame.get_by_text("Compare", exact=True).click()
    tab.find("pin-choice").wait_for()  # no baseline yet, and no chart
    tab.find("export").click()
    assert tab.find("export-svg").is_disabled()
    tab.page.keyboard.press("Escape")
    tab.frame.get_by_text("Overlay", exact=True).click()
    tab.ready()
    _, content = save(tab, "svg")
    assert b"<path" in content


@pytest.mark.parametrize("view", ["overlay", "stacked"])
def test_png_shows_what_the_screen_shows(open_tab, base, view):
    tab = open_tab(base=base, accept_downloads=True)
    if view == "stacked":
        tab.frame.get_by_text("Stacked").click()
        tab.frame.locator('[data-mode="stacked"]').wait_for()
    tab.ready()
    name, content = save(tab, "png")
    assert name.endswith(".png")
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    box = tab.frame.locator(".chart").bounding_box()
    assert width == 2 * round(box["width"])
    assert height >= 2 * int(box["height"])
    colours = tab.frame.evaluate(
        """async (bytes) => {
          const image = await createImageBitmap(new Blob([new Uint8Array(bytes)], { type: "image/png" }));
          const canvas = new OffscreenCanvas(image.width, image.height);
          const ctx = canvas.getContext("2d");
          ctx.drawImage(image, 0, 0);
          const { data } = ctx.getImageData(0, 0, image.width, image.height);
          const seen = {};
          for (let i = 0; i < data.length; i += 4) {
            const key = "#" + [0, 1, 2].map((k) => data[i + k].toString(16).padStart(2, "0")).join("");
            seen[key] = (seen[key] ?? 0) + 1;
          }
          return seen;
        }""",
        list(content),
    )
    assert max(colours, key=colours.get) == "#ffffff"
    run = tab.find("run-row").locator("xpath=self::*[@data-selected='true']").first
    line = "#0b62b0" if view == "overlay" else run.evaluate("(el) => el.style.getPropertyValue('--run')")
    assert colours.get(line, 0) > 500
