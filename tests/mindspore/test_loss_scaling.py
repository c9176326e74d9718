"""Loss scale and overflow, with the loss-scale cells of MindSpore and mindformers."""

from __future__ import annotations

import math

import mindspore as ms
import numpy as np
import pytest
from mindformers.wrapper import MFTrainOneStepCell
from mindspore import Tensor, nn
from mindspore.train import Model
from run_reading import read_run
from scenarios.cpu_overflow import LossScaleCell, overflow_seen_on_cpu
from small_trainings import HandDriven, dataset, regression_data, regression_net

from tb_mindformers_plugin import TrainingHealthCallback

BATCH, STEPS = 8, 40
BROKEN = (7, 19, 20)  # steps whose batch holds an infinity


def train(kind, run_dir, log_every=1, epochs=1, **cell_arguments):
    x, y = regression_data(STEPS, BATCH)
    for step in BROKEN:
        x[(step - 1) * BATCH] = np.inf
    net = regression_net()
    optimizer = nn.Momentum(net.trainable_params(), nn.CosineDecayLR(0.001, 0.1, 60), 0.9)
    scaling = nn.DynamicLossScaleUpdateCell(loss_scale_value=1024, scale_factor=2, scale_window=10)
    with overflow_seen_on_cpu():
        network = nn.WithLossCell(net, nn.MSELoss())
        if kind == "mindspore":
            cell = LossScaleCell(network, optimizer, scaling)
        else:
            cell = MFTrainOneStepCell(
                network,
                optimizer,
                scale_sense=scaling,
                **{"use_clip_grad": True, "max_grad_norm": 0.5, **cell_arguments},
            )
        callback = TrainingHealthCallback(run_dir, log_every=log_every)
        Model(cell).train(epochs, dataset(x, y, BATCH), callbacks=[callback], dataset_sink_mode=False)
    return read_run(run_dir), cell


def expected_scales():
    """The rule of DynamicLossScaleUpdateCell: halve on overflow, double after 10 steps without."""
    scale, last, scales = 1024.0, 0, []
    for step in range(1, STEPS + 1):
        if step in BROKEN:
            scale, last = max(scale / 2, 1.0), step
        elif step - last >= 10:
            scale, last = scale * 2, step
        scales.append(scale)
    return scales


def expected_lrs():
    """The schedule stands still where the step was skipped."""
    taken, rates = 0, []
    for step in range(1, STEPS + 1):
        rates.append(0.001 + 0.5 * 0.099 * (1 + math.cos(math.pi * taken / 60)))
        taken += step not in BROKEN
    return rates


@pytest.mark.parametrize("kind", ["mindspore", "mindformers"])
def test_overflow_scale_and_lr_of_every_step(kind, tmp_path):
    run, _ = train(kind, tmp_path)
    assert [step for step, flag in zip(*run.series("train/overflow")) if flag] == list(BROKEN)
    assert set(run.values("train/overflow")) == {0.0, 1.0}
    assert run.values("train/loss_scale") == expected_scales()
    np.testing.assert_allclose(run.values("train/lr"), expected_lrs(), rtol=1e-5)
    overflows = [event for event in run.events if event["kind"] == "overflow"]
    assert [(event["step"], event["count"], event["steps"]) for event in overflows] == [(step, 1, 1) for step in BROKEN]
    assert run.manifests[0]["loss_scale"] == {"kind": "dynamic", "initial": 1024.0, "window": 10, "factor": 2.0}
    if kind == "mindformers":
        norms = run.values("train/grad_norm")
        assert [step for step, norm in enumerate(norms, 1) if not math.isfinite(norm)] == list(BROKEN)
        assert run.manifests[0]["grad_clip"] == 0.5
        assert run.manifests[0]["framework"]["mindformers"]
    else:
        assert "train/grad_norm" not in {tag for _, values in run.records for tag in values}
        assert "grad_clip" not in run.manifests[0]


@pytest.mark.parametrize("kind", ["mindspore", "mindformers"])
def test_overflow_between_logged_steps_is_not_lost(kind, tmp_path):
    run, _ = train(kind, tmp_path, log_every=6)
    assert run.series("train/overflow") == ([1, 6, 12, 18, 24, 30, 36, 40], [0, 0, 1, 0, 1, 0, 0, 0])
    overflows = [event for event in run.events if event["kind"] == "overflow"]
    assert [(event["step"], event["count"], event["steps"]) for event in overflows] == [(12, 1, 6), (24, 2, 6)]
    np.testing.assert_allclose(
        run.values("train/lr"), np.array(expected_lrs())[[0, 5, 11, 17, 23, 29, 35, 39]], rtol=1e-5
    )


def test_second_train_goes_on_after_the_last_step_though_the_optimizer_counted_less(tmp_path):
    net = regression_net()
    optimizer = nn.Momentum(net.trainable_params(), 0.01, 0.9)
    x, y = regression_data(STEPS, BATCH)
    x[:BATCH] = np.inf
    callback = TrainingHealthCallback(tmp_path, log_every=1)
    scaling = nn.DynamicLossScaleUpdateCell(loss_scale_value=1024, scale_factor=2, scale_window=10)
    model = Model(LossScaleCell(nn.WithLossCell(net, nn.MSELoss()), optimizer, scaling))
    model.train(1, dataset(x, y, BATCH), callbacks=[callback], dataset_sink_mode=False)
    assert int(optimizer.global_step.asnumpy()[0]) == STEPS - 1
    model.train(1, dataset(x, y, BATCH), callbacks=[callback], dataset_sink_mode=False)
    assert read_run(tmp_path).steps() == list(range(1, 2 * STEPS + 1))


def test_without_clipping_there_is_no_norm(tmp_path):
    run, _ = train("mindformers", tmp_path, use_clip_grad=False)
    assert "grad_clip" not in run.manifests[0]
    assert run.values("train/grad_norm") == []
    assert len(run.values("train/loss")) == STEPS


def test_local_norms_are_no_obstacle(tmp_path):
    run, _ = train("mindformers", tmp_path, local_norm=True)
    assert len(run.values("train/grad_norm")) == STEPS


def test_infinite_loss_scale_costs_nothing_else(tmp_path):
    by_hand = HandDriven(TrainingHealthCallback(tmp_path, log_every=1)).begin()
    by_hand.step((Tensor(1.0), Tensor(True), Tensor(math.inf, ms.float32)))
    by_hand.end()
    run = read_run(tmp_path)
    assert run.values("train/loss_scale") == [math.inf]
    assert run.events[0] == {"kind": "overflow", "step": 1, "count": 1, "steps": 1}


class MFLossMonitor:
    """Stands for the monitor of a job this machine cannot run; the callback goes by the name."""

    def __init__(self, **facts):
        self.__dict__.update(facts)


@pytest.mark.parametrize(
    ("facts", "stages", "divisor"),
    [
        ({}, 1, 1),
        ({"gradient_accumulation_steps": 8}, 1, 8),
        ({"gradient_accumulation_steps": 8, "calculate_per_token_loss": True}, 1, 1),
        ({"mirco_size": 4}, 1, 1),
        ({"mirco_size": 4}, 2, 4),
        ({"mirco_size": 4, "micro_batch_interleave_num": 2}, 2, 8),
        ({"mirco_size": 4, "micro_batch_interleave_num": 2, "calculate_per_token_loss": True}, 2, 2),
    ],
)
def test_loss_is_divided_as_mindformers_prints_it(facts, stages, divisor, tmp_path, monkeypatch):
    real = ms.get_auto_parallel_context
    monkeypatch.setattr(
        ms, "get_auto_parallel_context", lambda name: stages if name == "pipeline_stages" else real(name)
    )
    by_hand = HandDriven(TrainingHealthCallback(tmp_path, log_every=1), list_callback=[MFLossMonitor(**facts)]).begin()
    by_hand.step((Tensor(24.0), Tensor(False), Tensor(1.0)))
    by_hand.end()
    assert read_run(tmp_path).values("train/loss") == [24.0 / divisor]


def test_facts_of_a_resumed_mindformers_job(tmp_path):
    monitor = MFLossMonitor(initial_step=30, steps_per_epoch=20, origin_epochs=4, global_batch_size=64)
    by_hand = HandDriven(TrainingHealthCallback(tmp_path, log_every=1), list_callback=[monitor]).begin()
    by_hand.step(Tensor(1.0))
    by_hand.end()
    run = read_run(tmp_path)
    assert run.steps() == [31]
    assert run.values("train/epoch") == [pytest.approx(31 / 20)]
    manifest = run.manifests[0]
    assert (manifest["resumed_from"], manifest["steps_per_epoch"], manifest["total_steps"]) == (30, 20, 80)
    assert manifest["global_batch_size"] == 64
