"""What the tests of charts do with a page: runs of known values, the pointer, pixels, requests."""

from __future__ import annotations

import json
import math

from tb_mindformers_plugin.writer import HealthWriter

# Role colours of a single run in the light theme (the tab's design tokens).
ROLE_COLOURS = {"loss": "#0b62b0", "grad_norm": "#b04a00", "lr": "#00735c", "loss_scale": "#8436a8"}

INK = """([canvas, over, colour, slack, [top, bottom]]) => {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  const at = canvas.getBoundingClientRect(), box = over.getBoundingClientRect();
  const ratio = canvas.width / at.width;
  const x0 = Math.round((box.left - at.left) * ratio), y0 = Math.round((box.top - at.top) * ratio);
  const width = Math.round(box.width * ratio), height = Math.round(box.height * ratio);
  // As it is seen: on the surface of the light theme.
  const seen = new OffscreenCanvas(width, height).getContext("2d");
  seen.fillStyle = "#ffffff";
  seen.fillRect(0, 0, width, height);
  seen.drawImage(canvas, -x0, -y0);
  const { data } = seen.getImageData(0, 0, width, height);
  const found = { n: 0, left: 1, right: 0, top: 1, bottom: 0 };
  for (let y = Math.ceil(top * height); y < bottom * height; y++)
    for (let x = 0; x < width; x++) {
      const i = (y * width + x) * 4;
      if (Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) >= slack) continue;
      found.n++;
      found.left = Math.min(found.left, x / width);
      found.right = Math.max(found.right, x / width);
      found.top = Math.min(found.top, y / height);
      found.bottom = Math.max(found.bottom, y / height);
    }
  return found;
}"""


def loss_at(step, offset=0.0):
    return 2 + 3 / step + 0.1 * math.sin(step) + offset


def write_run(directory, steps=200, offset=0.0, first=1, **more):
    """A finished run with all four metrics, of known values."""
    with HealthWriter(directory, {"total_steps": steps, "steps_per_epoch": 50}) as writer:
        for step in range(first, steps + 1):
            writer.log(
                step,
                loss=loss_at(step, offset),
                lr=1e-3 * step / steps,
                grad_norm=0.5 + 1 / step,
                loss_scale=1024.0 if step < steps // 2 else 2048.0,
                overflow=float(step == steps // 2),
                wall_time=1.8e9 + step,
                **more,
            )
        writer.event("end", steps, status="completed", wall_time=1.8e9 + steps)


def ink(tab, colour, panel=0, layer=".u-wrap canvas", slack=24, rows=(0, 1)):
    """How many pixels of the plot have a colour, and between which fractions of its width and height.

    Looks only at some `rows`, as fractions of the height.
    """
    plot = tab.frame.locator(".plot").nth(panel)
    canvas, over = plot.locator(layer).first.element_handle(), plot.locator(".u-over").element_handle()
    return tab.frame.evaluate(INK, [canvas, over, colour, slack, rows])


def pixels(tab, colour, panel=0, layer=".u-wrap canvas"):
    return ink(tab, colour, panel, layer)["n"]


def picture(tab, panel=0):
    """The picture of a chart as its bytes, as text."""
    return tab.frame.locator(".u-wrap canvas").nth(panel).evaluate("(canvas) => canvas.toDataURL()")


def still_picture(tab, panel=0):
    """The picture once nothing more is drawn on it: what the rules found comes a little after the curves."""
    tab.checked()
    before = None
    while (now := picture(tab, panel)) != before:
        before = now
        tab.page.wait_for_timeout(400)
    return now


def colour_of(tab, run):
    """The colour of a run in the list, and so of its curves where there are several."""
    box = tab.find("run-row", run=run).locator("input")
    return box.evaluate("(box) => getComputedStyle(box).getPropertyValue('--run').trim()")


def series_requests(tab):
    """What the charts asked for; the sparklines of the list, which ask when they like, want fewer buckets."""
    asked = [json.loads(request.post_data) for request in tab.requests if request.url.endswith("/series")]
    return [body for body in asked if body["buckets"] >= 200]


def plot_box(tab, panel=0):
    return tab.frame.locator(".u-over").nth(panel).bounding_box()


def place(tab, step, height=0.5, panel=0):
    """Where a step is drawn, in the page."""
    low, high = tab.window()
    box = plot_box(tab, panel)
    return box["x"] + box["width"] * (step - low) / (high - low), box["y"] + box["height"] * height


def hover(tab, step, panel=0):
    """Moves the pointer to where `step` is drawn."""
    tab.page.mouse.move(*place(tab, step, panel=panel))
    tab.find("tooltip").wait_for()


def drag(tab, from_step, to_step, panel=0, heights=(0.5, 0.5), key=None, drop=True):
    """Drags from one step to another, with a key held down; keeps holding it unless `drop`."""
    if key:
        tab.page.keyboard.down(key)
    tab.page.mouse.move(*place(tab, from_step, heights[0], panel))
    tab.page.mouse.down()
    tab.page.mouse.move(*place(tab, to_step, heights[1], panel), steps=5)
    if drop:
        release(tab, key)


def release(tab, key=None):
    tab.page.mouse.up()
    if key:
        tab.page.keyboard.up(key)


def zoomed(tab, value="true"):
    """Waits until the chart shows a stretch of the runs, complete (or all of them)."""
    tab.frame.locator(f'[data-testid="overlay"][data-state="ready"][data-zoomed="{value}"][data-from]').wait_for()
