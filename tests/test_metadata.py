from __future__ import annotations

import json

import pytest

from tb_mindformers_plugin import metadata
from tb_mindformers_plugin.metadata import ManifestError, RunManifest

FULL = {
    "version": 1,
    "roles": {"loss": "train/loss"},
    "units": {"train/step_time": "s"},
    "ema_decay": 0.99,
    "total_steps": 2000,
    "steps_per_epoch": 100,
    "global_batch_size": 32,
    "tokens_per_step": 65536,
    "schedule": {"kind": "cosine", "peak": 3e-4, "warmup_steps": 100},
    "grad_clip": 1.0,
    "loss_scale": {"kind": "dynamic", "initial": 65536, "window": 1000, "factor": 2},
    "framework": {"mindspore": "2.9.0"},
    "distributed": {"rank": 0, "size": 8, "pipeline_stage": 0},
    "started_at": "2026-01-01T00:00:00+00:00",
    "resumed_from": 500,
    "hparams": {"name": "é中文"},
}


def test_manifest_round_trip():
    assert RunManifest.from_json(RunManifest.from_dict(FULL).to_json()).to_dict() == FULL


def test_every_field_of_the_contract_is_checked():
    assert set(FULL) == set(metadata._FIELD_CHECKS)
    assert set(FULL) | {"extra"} == set(RunManifest.__dataclass_fields__)


def test_metadata_round_trip():
    summary_metadata = metadata.create_summary_metadata(RunManifest.from_dict(FULL))
    assert summary_metadata.plugin_data.plugin_name == "training_health"
    assert metadata.parse_summary_metadata(summary_metadata.plugin_data.content).to_dict() == FULL


def test_unknown_fields_are_kept():
    manifest = RunManifest.from_dict({"version": 1, "colour": {"of": "paper"}})
    assert manifest.extra == {"colour": {"of": "paper"}}
    assert json.loads(manifest.to_json())["colour"] == {"of": "paper"}


def test_newer_version_is_refused_with_what_to_do():
    with pytest.raises(ManifestError, match=r"version 2.*reads up to 1.*pip install -U"):
        RunManifest.from_dict({"version": 2})


@pytest.mark.parametrize("version", [None, "1", 0, True, 1.5])
def test_a_version_that_is_no_whole_number(version):
    with pytest.raises(ManifestError, match="version"):
        RunManifest.from_dict({"version": version})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("roles", ["loss"]),
        ("roles", {"loss": 3}),
        ("units", "s"),
        ("ema_decay", "0.9"),
        ("ema_decay", float("nan")),
        ("total_steps", 1.5),
        ("total_steps", True),
        ("schedule", "cosine"),
        ("framework", {"mindspore": 2.9}),
        ("started_at", 17),
        ("hparams", []),
    ],
)
def test_a_field_of_the_wrong_type_is_named(field, value):
    with pytest.raises(ManifestError, match=f"'{field}'"):
        RunManifest.from_dict({"version": 1, field: value})


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"null"])
def test_broken_content(content):
    with pytest.raises(ManifestError):
        metadata.parse_summary_metadata(content)


def test_a_value_without_json_form_is_named():
    with pytest.raises(ManifestError, match="hparams"):
        RunManifest(hparams={"x": object()}).to_json()


def test_event_round_trip():
    value = metadata.event_value("end", {"status": "failed", "error": "空"})
    event = metadata.parse_event(value.tensor.string_val[0], step=7, wall_time=3.0)
    assert event == metadata.HealthEvent("end", 7, 3.0, {"status": "failed", "error": "空"})


def test_unknown_event_kind():
    with pytest.raises(ManifestError, match=r"'begin'.*overflow"):
        metadata.event_value("begin", {})


@pytest.mark.parametrize("text", [b"[]", b"{}", b'{"kind": 3}', b"\xff"])
def test_broken_event(text):
    with pytest.raises(ManifestError):
        metadata.parse_event(text, 0, 0.0)
