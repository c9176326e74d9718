"""Rules are changed by name, and what is wrong with a change is said."""

from __future__ import annotations

import dataclasses
import logging

import healthy
import numpy as np
import pytest

from tb_mindformers_plugin.health import diagnose_arrays
from tb_mindformers_plugin.health.limits import limits_of
from tb_mindformers_plugin.health.parameters import Change, ParameterError, changed, parse_setting, read_rules
from tb_mindformers_plugin.health.registry import registry
from tb_mindformers_plugin.metadata import RunManifest
from tb_mindformers_plugin.roles import ROLES

PARAMETERS = [(rule, field.name) for rule in registry().values() for field in dataclasses.fields(rule.parameters)]


def spiked():
    loss = healthy.loss()
    loss[1500] *= 1.5
    return healthy.run(loss=loss)


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("loss_spike.z=8", ("loss_spike", "z", 8)),
        ("loss_spike.z = 8.5", ("loss_spike", "z", 8.5)),
        ("grad_vanishing.least=1e-9", ("grad_vanishing", "least", 1e-9)),
        ("loss_spike.gap=0", ("loss_spike", "gap", 0)),
        ("loss_plateau=off", ("loss_plateau", None, False)),
        ("loss_plateau=False", ("loss_plateau", None, False)),
        ("loss_plateau=on", ("loss_plateau", None, True)),
    ],
)
def test_settings(text, change):
    assert parse_setting(text) == change


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("loss_spike", "'loss_spike' is no setting: give RULE.PARAMETER=VALUE, or RULE=off"),
        ("=8", "'=8' is no setting"),
        ("loss_spikes.z=8", "no rule 'loss_spikes'; known: baseline_divergence, "),
        ("loss_spikes.z=8", ", zero_loss. Did you mean 'loss_spike'?"),
        ("loss_spike.zz=8", "loss_spike has no parameter 'zz'; known: rise, z, "),
        ("two_writers.z=8", "two_writers has no parameter 'z'; it has none, and can only be switched off"),
        ("loss_spike.z=high", "loss_spike.z is 'high': allowed is a number from 0 (default 6)"),
        ("loss_spike.z=", "loss_spike.z is ''"),
        ("loss_spike.z=nan", "loss_spike.z is nan"),
        ("loss_spike.z=inf", "loss_spike.z is inf"),
        ("loss_spike.z=-1", "loss_spike.z is -1"),
        ("loss_spike.z=true", "loss_spike.z is 'true'"),
        ("loss_spike.gap=1.5", "loss_spike.gap is 1.5: allowed is a whole number from 0 (default 16)"),
        ("loss_spike.gap=" + 30 * "9", "loss_spike.gap is 999"),
        ("clip_saturation.part=95", "clip_saturation.part is 95: allowed is a number from 0 to 1 (default 0.95)"),
        ("loss_plateau=maybe", "loss_plateau is 'maybe': allowed is on or off"),
        ("loss_plateau=0", "loss_plateau is '0': allowed is on or off"),
    ],
)
def test_what_is_wrong_with_a_setting_is_said(text, words):
    with pytest.raises(ParameterError) as error:
        parse_setting(text)
    assert words in str(error.value)


def test_a_file(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text("loss_plateau = false\n[loss_spike]\nz = 8\nrise = 0.8  # of the level\n[two_writers]\n")
    assert read_rules(str(path)) == [
        ("loss_plateau", None, False),
        ("loss_spike", "z", 8),
        ("loss_spike", "rise", 0.8),
    ]
    assert diagnose_arrays(spiked())
    assert diagnose_arrays(spiked(), parameters=changed(read_rules(str(path)))) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[loss_spike\n", "is no TOML: "),
        (b"\xff\xfe", "is no TOML: "),
        (b"\x00" * 100, "is no TOML: "),
        (b"a = " + b"[" * 100_000, "is no TOML"),
        (b"[loss_spikes]\nz = 8", "no rule 'loss_spikes'; known: "),
        (b"[loss_spike]\nz = '8'", "loss_spike.z is '8': allowed is a number from 0"),
        (b"[loss_spike]\nz = nan", "loss_spike.z is nan"),
        (b"[loss_spike]\nz = true", "loss_spike.z is True"),
        (b"[loss_spike]\nz = [8]", "loss_spike.z is [8]"),
        (b"[loss_spike]\nz = 1979-05-27", "loss_spike.z is datetime.date"),
        (b"[loss_spike.z]\nvalue = 8", "loss_spike.z is {'value': 8}"),
        (b"loss_plateau = 'off'", "loss_plateau is 'off': allowed is true, false or a table"),
        (b"[loss_spike]\nloss_plateau = false", "(loss_plateau is a rule: write it above the first table.)"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path, content, words):
    path = tmp_path / "rules.toml"
    path.write_bytes(content)
    with pytest.raises(ParameterError) as error:
        read_rules(str(path))
    assert words in str(error.value)
    assert str(error.value).startswith(str(path))


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(ParameterError, match="cannot be read: No such file"):
        read_rules(str(tmp_path / "none.toml"))
    with pytest.raises(ParameterError, match="cannot be read: Is a directory"):
        read_rules(str(tmp_path))


def test_a_file_of_an_editor_on_windows(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_bytes("# 阈值\r\n[loss_spike]\r\nz = 8\r\n".encode("utf-8-sig"))
    assert read_rules(str(path)) == [Change("loss_spike", "z", 8)]


def test_an_empty_file_changes_nothing(tmp_path):
    path = tmp_path / "rules.toml"
    path.touch()
    assert changed(read_rules(str(path))) == {}


def test_a_later_change_wins():
    z = [Change("loss_spike", "z", 8), Change("loss_spike", "z", 9)]
    assert changed(z) == {"loss_spike": registry()["loss_spike"].parameters(z=9)}
    off, on = (Change("loss_spike", None, value) for value in (False, True))
    assert changed([off, *z]) == {"loss_spike": None}
    assert changed([off, *z, on]) == changed(z)


def test_a_rule_can_be_switched_off():
    assert [f.rule for f in diagnose_arrays(spiked())] == ["loss_spike"]
    assert diagnose_arrays(spiked(), parameters=changed([parse_setting("loss_spike=off")])) == []


def test_a_low_threshold_finds_more():
    loss = healthy.level(3000)
    loss[1500] *= 1.1
    found = {}
    for z in (2.5, 6, 9):
        changes = [Change("loss_spike", name, 0) for name in ("rise", "tail", "beyond", "clear")]
        parameters = changed([*changes, Change("loss_spike", "z", z)])
        found[z] = len(diagnose_arrays({"loss": (np.arange(3000), None, loss)}, parameters=parameters))
    assert found[2.5] > found[6] >= found[9]


@pytest.mark.parametrize(("rule", "name"), PARAMETERS, ids=[f"{rule.id}.{name}" for rule, name in PARAMETERS])
def test_every_default_is_allowed_and_no_limit_breaks_a_rule(rule, name, caplog):
    limits = limits_of(rule.parameters)[name]
    assert limits.allow(getattr(rule.parameters(), name))
    random = np.random.default_rng(0)
    step = np.arange(1500)
    wall = 1e9 + np.where(step < 800, step, 3 * step).astype(float)
    curves = {
        "constant": np.full(1500, 2.0),
        "jumps": np.where(step % 90 == 80, 30.0, 2 + 0.1 * random.standard_normal(1500)),
        "rises": np.exp(step / 200) * np.exp(0.05 * random.standard_normal(1500)),
        "falls": 2.0 ** (16 - step // 40),
        "wild": random.standard_cauchy(1500),
        "zeros": np.where(step > 300, 0.0, np.nan),
        "short": np.ones(3),
    }
    manifest = RunManifest(steps_per_epoch=100, grad_clip=1.0, loss_scale={"kind": "dynamic"})
    for value in (limits.low, limits.high):
        others = [Change(other, None, False) for other in registry() if other != rule.id]
        parameters = changed([*others, Change(rule.id, name, int(value) if limits.whole else value)])
        for curve in curves.values():
            n = len(curve)
            series = dict.fromkeys(ROLES, (step[:n], wall[:n], curve))
            diagnose_arrays(series, manifest=manifest, restarts=(700,), parameters=parameters, now=1e9 + 10_000)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
