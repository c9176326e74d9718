"""``tb-health layout`` as people call it."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from click.testing import CliRunner
from google.protobuf import json_format, text_format
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto import event_pb2
from tensorboard.plugins.custom_scalar import layout_pb2

from tb_mindformers_plugin.cli.main import main
from tb_mindformers_plugin.layout import place
from tb_mindformers_plugin.writer import HealthWriter


def layout(*arguments):
    return CliRunner().invoke(main, ["layout", *map(str, arguments)])


@pytest.fixture
def logs(tmp_path):
    for name in ("lr1_seed1", "lr1_seed2", "lr2_seed1", "lr2_seed2"):
        with HealthWriter(tmp_path / "logs" / name) as writer:
            for step in range(20):
                loss = float(np.exp(-step / 9)) + 0.1 * int(name[-1])
                writer.log(step, loss=loss, lr=1e-3, grad_norm=1.0, wall_time=1e9 + step)
    return tmp_path / "logs"


def written(logs):
    """The layout of a logdir, and run -> {tag: [(step, value)]} of what lies beside it, by TensorBoard's own reader."""
    series, found = {}, None
    for path in place.generated_files(str(logs)):
        for record in RawEventFileLoader(path).Load():
            event = event_pb2.Event.FromString(record)
            for value in event.summary.value:
                if value.tag == "custom_scalars__config__":
                    assert value.metadata.plugin_data.plugin_name == "custom_scalars"
                    found = layout_pb2.Layout.FromString(value.tensor.string_val[0])
                else:
                    run = os.path.relpath(os.path.dirname(path), logs)
                    series.setdefault(run, {}).setdefault(value.tag, []).append((event.step, value.simple_value))
    return found, series


def titles(found):
    return {category.title: [chart.title for chart in category.chart] for category in found.category}


def test_it_writes_a_layout(logs):
    done = layout(logs)
    assert done.exit_code == 0, done.output
    assert "4 runs: lr1_seed1, lr1_seed2, lr2_seed1, lr2_seed2" in done.output
    found, series = written(logs)
    assert titles(found) == {"Loss": ["loss"], "Optimizer": ["learning rate", "grad norm"]}
    assert series == {}
    assert layout(logs, "--roles", "lr,loss", "--tag", "norms=norm").exit_code == 0
    assert titles(written(logs)[0]) == {"Optimizer": ["learning rate"], "Loss": ["loss"], "More series": ["norms"]}


def test_writing_twice_is_writing_once(logs):
    layout(logs, "--aggregate", r"seed(\d+)")
    once = written(logs)
    layout(logs, "--aggregate", r"seed(\d+)")
    assert written(logs) == once
    assert layout(logs, "--remove").exit_code == 0
    assert sorted(os.listdir(logs)) == ["lr1_seed1", "lr1_seed2", "lr2_seed1", "lr2_seed2"]
    assert "there is no layout" in layout(logs, "--remove").output


def test_aggregates(logs):
    done = layout(logs, "--aggregate", r"seed(\d+)", "--roles", "loss")
    assert done.exit_code == 0, done.output
    found, series = written(logs)
    assert titles(found)[r"Aggregated over seed(\d+)"] == ["loss: mean, min to max", "loss: median, quartiles"]
    assert sorted(series) == ["aggregate/lr1_seedN", "aggregate/lr2_seedN"]
    mean = dict(series["aggregate/lr1_seedN"]["aggregate/loss/mean"])
    assert mean[0] == pytest.approx(1.15)
    assert len(mean) == 20
    margin = found.category[-1].chart[0].margin.series[0]
    assert {margin.value, margin.lower, margin.upper} <= set(series["aggregate/lr2_seedN"])


def test_groups_have_charts_with_their_own_runs_alone(logs):
    done = layout(logs, "--group-by", r"lr\d", "--roles", "loss")
    assert done.exit_code == 0, done.output
    found, series = written(logs)
    assert titles(found) == {"Loss": ["loss"], "lr1": ["loss: lr1"], "lr2": ["loss: lr2"]}
    assert {run: list(tags) for run, tags in series.items()} == {
        "group/lr1/lr1_seed1": ["group/lr1/loss"],
        "group/lr1/lr1_seed2": ["group/lr1/loss"],
        "group/lr2/lr2_seed1": ["group/lr2/loss"],
        "group/lr2/lr2_seed2": ["group/lr2/loss"],
    }


def test_dry_run_writes_nothing(logs):
    done = layout(logs, "--dry-run", "--aggregate", r"seed(\d+)")
    assert done.exit_code == 0
    assert "Nothing was written. It would go into" in done.output
    assert len(os.listdir(logs)) == 4
    layout(logs)
    assert "would remove" in layout(logs, "--remove", "--dry-run").output
    assert len(os.listdir(logs)) == 5


@pytest.mark.parametrize("form", ["json", "pbtxt"])
def test_as_text(logs, tmp_path, form):
    done = layout(logs, "--format", form)
    assert done.exit_code == 0
    parse = json_format.Parse if form == "json" else text_format.Parse
    found = parse(done.output, layout_pb2.Layout())
    assert titles(found) == {"Loss": ["loss"], "Optimizer": ["learning rate", "grad norm"]}
    assert layout(logs, "--format", form, "--out", tmp_path / "file").exit_code == 0
    assert parse((tmp_path / "file").read_text(), layout_pb2.Layout()) == found
    assert len(os.listdir(logs)) == 4


def test_elsewhere(logs, tmp_path):
    assert layout(logs, "--out", tmp_path / "new" / "place").exit_code == 0
    assert written(tmp_path / "new" / "place")[0] is not None
    assert len(os.listdir(logs)) == 4
    assert layout(logs, "--out", tmp_path / "new" / "place", "--remove").exit_code == 0
    assert os.listdir(tmp_path / "new" / "place") == []


def test_by_hand(logs, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("categories: [{title: Mine, charts: [{title: both, roles: [loss, lr]}]}]")
    assert layout(logs, "--from", file).exit_code == 0
    assert titles(written(logs)[0]) == {"Mine": ["both"]}
    file.write_text("categories: [{title: Mine, charts: [{title: both, roles: [loss, rl]}]}]")
    done = layout(logs, "--from", file)
    assert (done.exit_code, "mine.yaml: category 1 (Mine), chart 1 (both): there is no role 'rl'" in done.output) == (
        2,
        True,
    )
    assert titles(written(logs)[0]) == {"Mine": ["both"]}  # as it was
    assert layout(logs, "--from", file, "--roles", "loss").exit_code == 2
    file.write_text(
        "categories: [{title: Mine, charts: [{title: a, margin: "
        "{value: aggregate/loss/mean, lower: aggregate/loss/min, upper: aggregate/loss/max}}]}]"
    )
    assert layout(logs, "--from", file, "--aggregate", r"seed(\d+)").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--roles", "los"], "there is no role 'los'; known: loss, "),
        (["--roles", "kl"], "no run has a KL (kl); the runs have: loss, lr, grad_norm"),
        (["--roles", ""], "no role is named; the runs have: loss, lr, grad_norm"),
        (["--roles", " , "], "no role is named; the runs have: loss, lr, grad_norm"),
        (["--tag", "["], "the tag pattern '[' is no regular expression"),
        (["--aggregate", "("], "--aggregate '(' is no regular expression"),
        (["--aggregate", "seed9"], "'seed9' is in no run's name; the runs are: lr1_seed1, "),
        (["--aggregate", r"lr\d_seed1"], ""),
        (["--group-by", "["], "--group-by '[' is no regular expression"),
        (["--group-by", "x*"], "no run's name has 'x*' in it"),
        (["--group-by", "nothing"], "no run's name has 'nothing' in it"),
        (["--from", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_what_is_not_there(logs, arguments, words):
    done = layout(logs, *arguments)
    if words:
        assert (done.exit_code, words in done.output) == (2, True), done.output
        assert len(os.listdir(logs)) == 4


def test_no_logdir_and_no_scalars(tmp_path):
    assert layout(tmp_path / "nowhere").exit_code == 2
    done = layout(tmp_path)
    assert (done.exit_code, "there is no scalar in any run" in done.output) == (2, True)


def test_a_read_only_logdir(logs, monkeypatch):
    def refuse(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(place.os, "fsync", lambda _: refuse(logs))
    done = layout(logs)
    assert done.exit_code == 2
    assert f"{logs}: Permission denied; nothing was written: give a directory that can be written" in done.output
    assert len(os.listdir(logs)) == 4


def test_two_directories_need_a_place(logs, tmp_path):
    spec = f"a:{logs},b:{logs}"
    done = layout(spec)
    assert (done.exit_code, "there are 2 log directories: say with --out" in done.output) == (2, True)
    assert layout(spec, "--dry-run").exit_code == 0
    assert layout(spec, "--out", tmp_path / "a").exit_code == 0


def test_names_with_odd_characters(tmp_path):
    name = "[bold]x (1) $ a+b"
    with HealthWriter(tmp_path / name) as writer:
        writer.log(1, **{"loss": 1.0, "moe/a.b*c": 2.0})
    done = layout(tmp_path, "--tag", "moe/")
    assert done.exit_code == 0
    assert name in done.output
    assert json.loads(layout(tmp_path, "--tag", "moe/", "--format", "json").output)["category"][1]["chart"][0][
        "multiline"
    ] == {"tag": [r"moe/a\.b\*c$"]}


def test_names_that_are_no_utf8(tmp_path):
    for seed in (1, 2):
        with HealthWriter(os.fsdecode(os.fsencode(tmp_path) + b"/lr\xff_seed%d" % seed)) as writer:
            writer.log(1, loss=1.0)
    done = layout(tmp_path, "--aggregate", "seed([0-9])", "--group-by", "^(.*)_")
    assert done.exit_code == 0, done.output
    found, series = written(tmp_path)
    assert r"lr\udcff" in titles(found)
    assert {run: sorted(tags)[0] for run, tags in series.items()} == {
        r"aggregate/lr\udcff_seedN": "aggregate/loss/lower_quartile",
        r"group/lr\udcff/lr\udcff_seed1": r"group/lr\udcff/loss",
        r"group/lr\udcff/lr\udcff_seed2": r"group/lr\udcff/loss",
    }
