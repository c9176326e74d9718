"""TensorBoard's own tabs show what `HealthWriter` writes for them: asked over their HTTP APIs."""

from __future__ import annotations

import io
import json
import urllib.parse
import urllib.request

import numpy as np
import pytest
from PIL import Image
from tensorboard_server import get_json, serve

from tb_mindformers_plugin.writer import HealthWriter

WEIGHTS = np.random.RandomState(0).randn(10_000).astype(np.float32)
PIXELS = (np.arange(4 * 6 * 3) % 256).astype(np.uint8).reshape(4, 6, 3)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    logdir = tmp_path_factory.mktemp("logs")
    for name, lr in (("small_lr", 0.1), ("large_lr", 0.5)):
        with HealthWriter(logdir / name) as writer:
            writer.add_hparams({"optimizer": {"lr": lr, "name": "SGD"}, "layers": 2, "bias": True})
            for step in (10, 20):
                writer.log(step, loss=lr * step)
                writer.add_histogram("weights/w", WEIGHTS * step, step)
                writer.add_histogram("weights/all_nan", np.full(5, np.nan), step)
                writer.add_text("samples", f"step **{step}**: so weit 好", step)
                writer.add_image("patch", PIXELS, step)
                writer.add_image("grey", np.linspace(0, 1, 20).reshape(1, 4, 5), step, dataformats="CHW")
    with serve("--logdir", str(logdir)) as base:
        yield base


def get(server, path, **parameters):
    return get_json(f"{server}/data/plugin/{path}?{urllib.parse.urlencode(parameters)}")


def post(server, path, body):
    request = urllib.request.Request(
        f"{server}/data/plugin/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_all_tabs_are_active(server):
    listing = get_json(f"{server}/data/plugins_listing")
    for plugin in (
        "scalars",
        "histograms",
        "distributions",
        "text",
        "images",
        "hparams",
        "timeseries",
        "training_health",
    ):
        assert listing[plugin]["enabled"], plugin


def test_histograms(server):
    points = get(server, "histograms/histograms", run="small_lr", tag="weights/w")
    assert [step for _, step, _ in points] == [10, 20]
    for (_, _, rows), scale in zip(points, (10, 20)):
        counts, edges = np.histogram(WEIGHTS * np.float32(scale), 30)
        rows = np.array(rows)
        assert rows.shape == (30, 3)
        np.testing.assert_allclose(rows[:, 0], edges[:-1], rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(rows[:, 1], edges[1:], rtol=1e-5, atol=1e-4)
        assert np.abs(rows[:, 2] - counts).sum() <= 4  # values upon an edge
        assert rows[:, 2].sum() == len(WEIGHTS)
    empty = np.array(get(server, "histograms/histograms", run="small_lr", tag="weights/all_nan")[0][2])
    assert empty[:, 2].sum() == 0


def test_distributions(server):
    points = get(server, "distributions/distributions", run="small_lr", tag="weights/w")
    assert [step for _, step, _ in points] == [10, 20]
    middle = [value for share, value in points[0][2] if share == 5000]
    assert abs(middle[0]) < 1.0  # the median of a normal distribution of width 10


def test_text(server):
    texts = get(server, "text/text", run="small_lr", tag="samples")
    assert [(text["step"], text["text"]) for text in texts] == [
        (step, f"<p>step <strong>{step}</strong>: so weit 好</p>") for step in (10, 20)
    ]


def test_images(server):
    sizes = get(server, "images/tags")["small_lr"]

    def pixels(tag):
        (_, last) = get(server, "images/images", run="small_lr", tag=tag, sample=0)
        with urllib.request.urlopen(
            f"{server}/data/plugin/images/individualImage?{last['query']}", timeout=30
        ) as answer:
            return np.asarray(Image.open(io.BytesIO(answer.read())))

    assert set(sizes) == {"patch", "grey"}
    np.testing.assert_array_equal(pixels("patch"), PIXELS)
    np.testing.assert_allclose(pixels("grey"), np.linspace(0, 255, 20).reshape(4, 5), atol=1)


def test_hparams(server):
    experiment = post(server, "hparams/experiment", {"experimentName": ""})
    infos = {info["name"]: info for info in experiment["hparamInfos"]}
    assert set(infos) == {"optimizer.lr", "optimizer.name", "layers", "bias"}
    metrics = {info["name"]["tag"] for info in experiment["metricInfos"]}
    assert "train/loss" in metrics
    groups = post(
        server,
        "hparams/session_groups",
        {
            "experimentName": "",
            "allowedStatuses": ["STATUS_SUCCESS"],
            "colParams": [{"metric": {"group": "", "tag": "train/loss"}}],
            "startIndex": 0,
            "sliceSize": 10,
        },
    )["sessionGroups"]
    found = {
        group["sessions"][0]["name"]: (group["hparams"]["optimizer.lr"], group["metricValues"][0]["value"])
        for group in groups
    }
    assert found == {"small_lr": (0.1, 2.0), "large_lr": (0.5, 10.0)}


def test_the_tab_has_its_scalars_and_nothing_else_of_it(server):
    (run, _) = get(server, "training_health/runs")["runs"]
    assert run["notes"] == []
    assert set(run["roles"]) == {"loss"}
    assert run["status"] == "ended"
