"""Roles that whoever looks gives to tags: every route answers with them."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from urllib.parse import urlencode

import event_bytes
import pytest
from tensorboard.plugins import base_plugin
from werkzeug.test import Client
from werkzeug.wrappers import Response

from tb_mindformers_plugin.plugin import TrainingHealthLoader
from tb_mindformers_plugin.runs.given import GivenRoles
from tb_mindformers_plugin.runs.store import RunStore, open_logdir

ROOT = "/data/plugin/training_health/"
GIVEN = [("given", "loss:objective/total"), ("given", "lr:opt/step_size")]


def write(directory, steps=300, nan_from=None, name="events.out.tfevents.1.host.1.0", first=1, **more):
    chunks = []
    for step in range(first, steps + 1):
        loss = math.nan if nan_from and step >= nan_from else 2 + 3 / step
        values = {"objective__total": loss, "opt__step_size": 1e-3, "opt__g2": 0.5, **more}
        chunks.append(event_bytes.scalars(step, **values))
    event_bytes.write(directory, *chunks, name=name)


@pytest.fixture
def logdir(tmp_path):
    write(tmp_path / "a")
    write(tmp_path / "b", nan_from=200, extra__val_nll=1.0)
    return tmp_path


@pytest.fixture
def ask(logdir):
    """A function (route, *pairs of the query) -> (status, JSON)."""
    context = base_plugin.TBContext(logdir=str(logdir), flags=SimpleNamespace(logdir=str(logdir), logdir_spec=""))
    apps = TrainingHealthLoader().load(context).get_plugin_apps()

    def asked(route, *pairs, **body):
        client = Client(apps[f"/{route}"], Response)
        url = f"{ROOT}{route}?{urlencode(pairs)}"
        answer = client.post(url, data=json.dumps(body)) if body else client.get(url)
        text = answer.get_data(as_text=True)
        return answer.status_code, json.loads(text) if answer.mimetype == "application/json" else text

    return asked


def test_tags_without_a_role(ask):
    status, answer = ask("tags")
    assert status == 200
    tags = {tag.pop("tag"): tag for tag in answer["tags"]}
    assert list(tags) == ["extra/val_nll", "objective/total", "opt/g2", "opt/step_size"]
    assert {name: tag["suggested"] for name, tag in tags.items()} == {
        **{"extra/val_nll": "eval_loss", "objective/total": "loss"},
        **{"opt/g2": None, "opt/step_size": "lr"},
    }
    assert {name: tag["runs"] for name, tag in tags.items()} == {
        **{"extra/val_nll": 1, "objective/total": 2, "opt/g2": 2, "opt/step_size": 2}
    }
    assert tags["opt/step_size"]["last_value"] == pytest.approx(1e-3)
    assert (tags["opt/step_size"]["points"], tags["opt/step_size"]["last_step"]) == (300, 300)
    assert ask("tags", ("what", "all"))[0] == 400
    # What was given a role is not without one any more.
    assert [tag["tag"] for tag in ask("tags", *GIVEN)[1]["tags"]] == ["extra/val_nll", "opt/g2"]


def test_of_several_tags_one_is_suggested(tmp_path, ask):
    write(tmp_path / "c", other_loss=1.0)
    suggested = {tag["tag"]: tag["suggested"] for tag in ask("tags")[1]["tags"]}
    assert (suggested["objective/total"], suggested["other_loss"]) == ("loss", None)


def test_runs_are_listed_and_diagnosed_with_them(ask):
    assert ask("runs")[1]["runs"] == []
    assert ask("runs")[1]["without_metrics"] == ["a", "b"]
    runs = {run["run"]: run for run in ask("runs", *GIVEN)[1]["runs"]}
    assert set(runs) == {"a", "b"}
    assert set(runs["a"]["roles"]) == {"loss", "lr"}
    assert runs["a"]["roles"]["loss"] == {
        **{"tag": "objective/total", "unit": "", "points": 300, "first_step": 1, "last_step": 300},
        "last_value": pytest.approx(2.01),
    }
    assert runs["b"]["verdict"] == "critical"
    assert any("NaN" in note for note in runs["b"]["notes"])
    assert ask("runs")[1]["runs"] == []  # and nobody else sees them


def test_series_findings_comparison_export_and_layout(ask):
    body = {"runs": ["a"], "roles": ["loss", "lr"], "format": "json"}
    given = [pair for _, pair in GIVEN]
    _, answer = ask("series", given=given, **body)
    assert [(s["role"], s["tag"]) for s in answer["series"]] == [("loss", "objective/total"), ("lr", "opt/step_size")]
    assert ask("series", **body)[1]["series"] == []
    found = ask("findings", ("run", "b"), *GIVEN)[1]["findings"]
    assert [(f["rule"], f["tag"]) for f in found] == [("non_finite", "objective/total")]
    assert ask("findings", ("run", "b"))[1]["findings"] == []
    compared = ask("compare", ("run", "b"), ("baseline", "a"), *GIVEN)[1]
    assert (compared["verdict"], compared["errors"]["parted_step"]) == ("differs", 200)
    assert "\na,lr,opt/step_size," in ask("export", ("run", "a"), ("role", "lr"), *GIVEN)[1]
    layout = ask("layout", *GIVEN)[1]
    tags = [tag for category in layout["categories"] for chart in category["charts"] for tag in chart["tags"]]
    assert "objective/total" in "".join(tags).replace("\\", "")
    assert layout["command"] is None
    assert ask("findings", ("run", "gone"), *GIVEN)[0] == 404


@pytest.mark.parametrize("pair", ["loss", "loss:", "moon:objective/total", ""])
def test_what_is_no_role_of_a_tag_is_refused(ask, pair):
    status, answer = ask("runs", ("given", pair))
    assert status == 400
    assert pair.split(":")[0] in answer["error"]
    assert ask("series", runs=["a"], roles=["loss"], given=[pair])[0] == 400


def test_a_tag_that_is_not_there_is_passed_over(ask):
    status, answer = ask("runs", ("given", "loss:gone"))
    assert (status, answer["runs"]) == (200, [])


def test_a_run_that_grows_is_read_on_with_the_same_roles(logdir):
    store = RunStore(open_logdir(str(logdir)).searched)
    seen = GivenRoles(store, (("loss", "objective/total"),))
    seen.refresh()
    before = {summary.name: summary for summary in seen.summaries()}
    assert before["a"].roles["loss"].last_step == 300
    assert {summary.name: summary for summary in seen.summaries()}["a"] is before["a"]
    write(logdir / "a", 320, first=301, name="events.out.tfevents.2.host.1.0")
    seen.refresh()
    after = {summary.name: summary for summary in seen.summaries()}
    assert after["a"].roles["loss"].last_step == 320
    assert after["b"] is before["b"]
    assert seen.load(["a"])["a"].current("loss").step[-1] == 320


def test_a_large_run_of_which_some_roles_are_known_is_not_read_for_it(logdir, monkeypatch):
    write(logdir / "known", train__loss=1.0)
    monkeypatch.setattr("tb_mindformers_plugin.runs.store._LISTING_BYTES", 0)
    store = RunStore(open_logdir(str(logdir)).searched)
    seen = GivenRoles(store, (("lr", "opt/step_size"),))
    seen.refresh()
    known = {summary.name: summary for summary in seen.summaries()}["known"]
    assert set(known.roles) == {"loss", "lr"}
    assert (known.exact, known.roles["lr"].points, known.roles["lr"].last_step) == (False, None, 300)
    assert store.runs["known"].nbytes == 0
