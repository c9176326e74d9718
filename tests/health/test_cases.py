"""Cases that have hurt people, read right."""

from __future__ import annotations

import event_bytes
import healthy
import numpy as np
import pytest
from tensorboard.compat.proto import summary_pb2, tensor_pb2, types_pb2

from tb_mindformers_plugin.health import diagnose, diagnose_arrays
from tb_mindformers_plugin.runs import open_logdir
from tb_mindformers_plugin.writer import HealthWriter

NAN = np.nan


def by_rule(found):
    return {finding.rule: finding for finding in found}


def test_t1_a_loss_of_exactly_zero_with_a_nan_grad_norm():
    loss, norm = healthy.level(500, 0.2051), healthy.grad_norm(500)
    loss[300:], norm[300:] = 0.0, NAN
    found = diagnose_arrays(healthy.run(500, loss=loss, grad_norm=norm, lr=np.full(500, 1e-4)))
    assert [(f.rule, f.severity, f.first_step) for f in found] == [("zero_loss", "critical", 301)]


def test_t2_nan_grad_norm_and_no_loss_at_a_scale_of_one():
    run = healthy.run(500, grad_norm=np.where(np.arange(500) >= 400, NAN, 1.0), loss_scale=np.ones(500))
    run["loss"] = tuple(part[:400] for part in run["loss"])
    found = by_rule(diagnose_arrays(run))
    assert found["non_finite"].severity == "critical"
    assert found["non_finite"].evidence["loss_not_logged"] == 100
    assert "loss_scale_collapse" not in found


def test_t3_the_scale_falls_on_consecutive_steps():
    scale = np.array([64, 32, 16, 8, 4, 2.0])
    (found,) = diagnose_arrays({"loss_scale": (np.arange(1, 7), None, scale)})
    assert (found.rule, found.first_step) == ("loss_scale_collapse", 2)
    assert "5 halvings, each a skipped step" in found.message


def test_t4_a_scale_that_starts_high():
    scale = np.full(6000, 2.0**16)
    scale[:40] = 2.0 ** (24 - np.arange(40) // 5)
    scale[2000:4000], scale[4000:] = 2.0**17, 2.0**18
    assert diagnose_arrays(healthy.run(6000, loss_scale=scale)) == []


def test_t5_a_loss_around_zero():
    norm = np.abs(healthy.noise(2000)) * (np.random.default_rng(1).random(2000) < 0.8)
    run = healthy.run(2000, loss=healthy.noise(2000, 0.001), grad_norm=norm)
    run["reward"] = (run["loss"][0], None, 0.4 + healthy.noise(2000, 0.1, 5))
    assert [f for f in diagnose_arrays(run) if f.role == "loss" or f.severity != "info"] == []


def test_t7_milliseconds_are_as_good_as_seconds():
    seconds = 5.2 * np.exp(healthy.noise(1000, 0.02))
    seconds[600:] *= 2
    step = np.arange(1000)
    found = [diagnose_arrays({"step_time": (step, None, seconds * unit)}) for unit in (1, 1000)]
    assert [(f.rule, f.first_step) for f in found[0]] == [(f.rule, f.first_step) for f in found[1]]
    assert found[0][0].rule == "throughput_drop"


def test_t9_evals_on_another_axis():
    run = {
        "loss": (np.arange(4049, 4134), None, np.linspace(2, 1, 85)),
        "eval_loss": (np.arange(21, 66, 5), None, np.linspace(1, 3, 9)),
    }
    (found,) = diagnose_arrays(run)
    assert (found.rule, found.severity) == ("overfitting", "info")
    assert "different axes" in found.message


def test_t10_a_grad_norm_of_zero_throughout():
    (found,) = diagnose_arrays(healthy.run(grad_norm=np.zeros(3000)))
    assert (found.rule, found.severity) == ("grad_vanishing", "info")
    assert "not logged" in found.message


def test_t11_the_flat_end_of_a_cosine():
    t = np.arange(3000)
    loss = (2 + 3 * np.exp(-t / 300)) * np.exp(healthy.noise(3000, 0.01))
    assert diagnose_arrays(healthy.run(loss=loss)) == []


def test_t12_a_checkpoint_every_500_steps():
    seconds = np.exp(healthy.noise(3000, 0.03))
    seconds[499::500] = 60
    run = healthy.run(throughput=1000 / seconds, step_time=seconds)
    wall = 1e9 + np.cumsum(seconds)
    wall[1500:] += 36_000  # and a pause of ten hours
    run = {role: (step, wall, value) for role, (step, _, value) in run.items()}
    assert diagnose_arrays(run) == []


def test_t13_text_where_a_number_belongs(tmp_path):
    loss = healthy.loss(400)
    loss[300] *= 3
    text = tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[b"1:02:03"])
    records = []
    for step in range(400):
        records.append(event_bytes.scalars(step, loss=float(loss[step]), wall=1e9 + step))
        value = summary_pb2.Summary.Value(tag="remaining_time", tensor=text)
        records.append(event_bytes.value_event(step, value, wall=1e9 + step))
    event_bytes.write(tmp_path / "run", b"".join(records))
    contents = open_logdir(str(tmp_path)).load(["run"])["run"]
    assert "remaining_time" not in contents.tags
    assert [(f.rule, f.first_step) for f in diagnose(contents)] == [("loss_spike", 300)]
    with HealthWriter(tmp_path / "own") as writer, pytest.raises(ValueError, match=r"loss_scale.*'unavailable'"):
        writer.log(0, loss=2.0, loss_scale="unavailable")


def test_t14_one_point_in_a_hundred_thousand():
    loss = healthy.loss(100_000)
    loss[77_123] *= 1.6
    assert [(f.rule, f.first_step) for f in diagnose_arrays(healthy.run(100_000, loss=loss))] == [
        ("loss_spike", 77_124)
    ]


def test_r8_two_processes_write_one_directory(tmp_path):
    for n, offset in enumerate((0, 1)):
        records = [event_bytes.scalars(s, loss=1.0 + 1 / (s + 1), wall=1e9 + s) for s in range(offset, 400, 2)]
        event_bytes.write(tmp_path / "run", b"".join(records), name=f"events.out.tfevents.{1000 + n}.h")
    contents = open_logdir(str(tmp_path)).load(["run"])["run"]
    (found,) = [f for f in diagnose(contents) if f.rule == "two_writers"]
    assert found.severity == "warning"
    assert "events.out.tfevents.1001.h" in found.message


def test_r4_a_restart_is_no_spike(tmp_path):
    loss = healthy.loss(400)
    for n, steps in enumerate((range(0, 250), range(200, 400))):
        records = [event_bytes.scalars(s, loss=float(loss[s]), wall=1e9 + 1000 * n + s) for s in steps]
        event_bytes.write(tmp_path / "run", b"".join(records), name=f"events.out.tfevents.{1000 + n}.h")
    contents = open_logdir(str(tmp_path)).load(["run"])["run"]
    assert diagnose(contents) == []
