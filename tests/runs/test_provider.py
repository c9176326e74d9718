"""A TensorBoard without a log directory: its own data provider is asked, and the curves say so."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.plugins import base_plugin

from tb_mindformers_plugin.http_api.listing import list_runs
from tb_mindformers_plugin.http_api.request import BadRequestError, SeriesRequest
from tb_mindformers_plugin.http_api.series import query
from tb_mindformers_plugin.plugin import TrainingHealthLoader
from tb_mindformers_plugin.runs.given import GivenRoles
from tb_mindformers_plugin.runs.provider import SAMPLED, ProviderStore
from tb_mindformers_plugin.writer import HealthWriter


@pytest.fixture
def provider(tmp_path):
    """TensorBoard's own provider, as it serves a log directory."""
    with HealthWriter(tmp_path / "run", {"total_steps": 40, "roles": {"loss": "objective/total"}}) as writer:
        for step in range(1, 31):
            writer.log(step, loss=float(step), lr=0.5, wall_time=1e9 + step)
    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(tmp_path))
    multiplexer.Reload()
    return data_provider.MultiplexerDataProvider(multiplexer, str(tmp_path))


def test_runs_and_series(provider):
    store = ProviderStore(provider)
    store.refresh()
    (run,) = list_runs(store)["runs"]
    assert run["source"] == "manifest"
    assert run["total_steps"] == 40
    assert run["roles"]["loss"]["tag"] == "objective/total"
    assert run["roles"]["loss"]["last_step"] == 30
    assert run["notes"] == [SAMPLED.en]
    assert list_runs(store, language="zh")["runs"][0]["notes"] == [SAMPLED.zh]
    answer = query(store, SeriesRequest(["run"], ["loss", "lr"]))
    assert answer.windows[0].points.last.tolist() == [float(step) for step in range(1, 31)]
    with pytest.raises(BadRequestError, match="nobody"):
        query(store, SeriesRequest(["nobody"], ["loss"]))


def test_roles_are_given_to_its_tags(provider):
    store = ProviderStore(provider)
    store.refresh()
    seen = GivenRoles(store, [("kl", "train/lr")])
    seen.refresh()
    (run,) = list_runs(seen)["runs"]
    assert (run["roles"]["kl"]["tag"], "lr" in run["roles"]) == ("train/lr", False)
    assert run["notes"] == [SAMPLED.en]
    assert seen.load(["run"])["run"].current("kl").value.tolist() == [0.5] * 30
    assert seen.glance("run")[1]


def test_the_plugin_takes_it_where_there_is_no_logdir(provider):
    flags = SimpleNamespace(logdir="", logdir_spec="")
    plugin = TrainingHealthLoader().load(base_plugin.TBContext(data_provider=provider, flags=flags))
    assert plugin.is_active()
    assert isinstance(plugin._store, ProviderStore)
