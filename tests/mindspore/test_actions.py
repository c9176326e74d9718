"""Alerts while a training runs, and what is done about them: in real trainings, told by how far weights moved."""

from __future__ import annotations

import dataclasses

import mindspore as ms
import numpy as np
import pytest
from mindformers.core.lr import CosineWithWarmUpLR
from mindformers.wrapper import MFTrainOneStepCell
from mindspore import Parameter, Tensor, mint, nn, ops
from mindspore import dataset as ds
from mindspore.experimental import optim
from mindspore.train import Callback, Model
from run_reading import read_run
from scenarios.cpu_overflow import overflow_seen_on_cpu
from small_trainings import HandDriven, WeightSteps, train_regression

from tb_mindformers_plugin import AdjustableSchedule, GradNormTrainOneStepCell, ReduceLr, TrainingHealthCallback
from tb_mindformers_plugin.callback import distributed, lr_control
from tb_mindformers_plugin.health import Finding, diagnose
from tb_mindformers_plugin.runs import open_logdir

BOTH_MODES = pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE], ids=["graph", "pynative"])


class GradientIsInput(nn.Cell):
    """loss = 5 (or what is added), and the gradient of each weight is the input: with SGD it moves by lr x."""

    def __init__(self, count):
        super().__init__()
        self.weights = ms.ParameterTuple(
            [Parameter(Tensor(np.zeros(1, np.float32)), name=f"w{index}") for index in range(count)]
        )

    def construct(self, x, added):
        total = 5.0 + added.sum()
        for weight in self.weights:
            total = total + (x.sum() * (weight - ops.stop_gradient(weight))).sum()
        return total


def gradients(steps, **jumps):
    """Gradients near 1, but those of `jumps`: {"s100": 1000.0}."""
    x = 1 + 0.1 * np.sin(np.arange(1, steps + 1, dtype=np.float32))
    for name, value in jumps.items():
        x[int(name[1:]) - 1] = value
    return x


def train(callback, optimizer, x, added=None, groups=1, make_cell=GradNormTrainOneStepCell, also=(), model=None):
    """Trains; returns [step][weight] the learning rate that was really used, and the model."""
    net = GradientIsInput(groups)
    watch = WeightSteps(net.weights)
    added = np.zeros_like(x) if added is None else added
    data = ds.NumpySlicesDataset((x[:, None], added[:, None]), ["x", "added"], shuffle=False).batch(1)
    model = Model(make_cell(net, optimizer(list(net.weights))))
    model.train(1, data, callbacks=[watch, *also, *([callback] if callback else [])], dataset_sink_mode=False)
    return np.array(watch.moved) / x[: len(watch.moved), None]


def watching(path, **arguments):
    """A callback whose word does not depend on how fast the machine is."""
    return TrainingHealthCallback(path, log_every=1, rules={"throughput_drop": False}, **arguments)


def of_kind(run, kind):
    return [{k: v for k, v in event.items() if k != "kind"} for event in run.events if event["kind"] == kind]


def cosine(first=0.01):
    return nn.CosineDecayLR(first / 10, first, 400)


# name -> (optimizer, groups)
ADJUSTABLE = {
    "fixed": (lambda w: nn.SGD(w, 0.01), 1),
    "schedule": (lambda w: nn.SGD(w, AdjustableSchedule(cosine())), 1),
    "mindformers schedule": (
        lambda w: nn.SGD(w, AdjustableSchedule(CosineWithWarmUpLR(0.01, warmup_steps=20, total_steps=300))),
        1,
    ),
    "table": (lambda w: nn.SGD(w, [0.01 - 0.00001 * step for step in range(200)]), 1),
    "grouped": (lambda w: nn.SGD([{"params": w[:1], "lr": 0.01}, {"params": w[1:], "lr": 0.02}], 0.03), 2),
    "grouped schedules": (
        lambda w: nn.SGD(
            [
                {"params": w[:1], "lr": AdjustableSchedule(cosine(0.01))},
                {"params": w[1:], "lr": AdjustableSchedule(cosine(0.02))},
            ],
            0.03,
        ),
        2,
    ),
    "experimental": (lambda w: optim.SGD(w, lr=0.01), 1),
}


@BOTH_MODES
@pytest.mark.parametrize("name", ADJUSTABLE)
def test_reduce_lr_changes_what_the_optimizer_uses(name, mode, tmp_path):
    ms.set_context(mode=mode)
    optimizer, groups = ADJUSTABLE[name]
    x = gradients(130, s100=1000.0)
    as_planned = train(None, optimizer, x, groups=groups)
    callback = watching(tmp_path / "run", reduce_lr={"factor": 0.25})
    used = train(callback, optimizer, x, groups=groups)
    expected = as_planned * np.where(np.arange(1, 131) <= 100, 1, 0.25)[:, None]
    assert used == pytest.approx(expected, rel=2e-3)  # weights are float32
    run = read_run(tmp_path / "run")
    assert run.values("train/lr") == pytest.approx(expected[:, 0], rel=2e-3)
    if groups > 1:
        assert run.values("train/lr_group/1") == pytest.approx(expected[:, 1], rel=2e-3)
    (action,) = of_kind(run, "action")
    assert action == {
        "step": 100,
        "action": "reduce_lr",
        "cause": "grad_explosion/grad_norm@100",
        "rule": "grad_explosion",
        "factor": 0.25,
        "old_lr": pytest.approx(expected[99, 0], rel=2e-3),
        "new_lr": pytest.approx(expected[99, 0] / 4, rel=2e-3),
    }
    # Readers see the action, and take the change of the learning rate for what it is.
    contents = open_logdir(str(tmp_path)).load(["run"])["run"]
    assert [(e.kind, e.step) for e in contents.events if e.kind == "action"] == [("action", 100)]
    found = {f.rule for f in diagnose(contents)} - {"throughput_drop"}  # which the machine may well have had
    assert found == {"grad_explosion"}


def test_without_being_asked_nothing_is_done(tmp_path):
    x = gradients(130, s100=1000.0)
    used = train(watching(tmp_path), ADJUSTABLE["fixed"][0], x)
    assert used == pytest.approx(np.full((130, 1), 0.01), rel=2e-3)
    run = read_run(tmp_path)
    assert of_kind(run, "action") == []
    assert of_kind(run, "end") == [{"step": 130, "status": "completed"}]
    (first, *_) = of_kind(run, "alert")
    assert (first["step"], first["rule"], first["severity"], first["status"]) == (
        100,
        "grad_explosion",
        "warning",
        "new",
    )


def test_cooldown_and_floor(tmp_path):
    x = gradients(480, s100=1000.0, s130=1000.0, s280=1000.0, s460=1000.0)
    reduce = ReduceLr(factor=0.5, cooldown=60, floor=0.004)
    used = train(watching(tmp_path, reduce_lr=reduce), ADJUSTABLE["fixed"][0], x)
    step = np.arange(1, 481)
    expected = np.where(step <= 100, 0.01, np.where(step <= 280, 0.005, 0.004))
    assert used[:, 0] == pytest.approx(expected, rel=5e-3)
    actions = of_kind(read_run(tmp_path), "action")
    assert [(a["step"], round(a["new_lr"], 6)) for a in actions] == [(100, 0.005), (280, 0.004)]


def test_mindformers_reports_the_reduced_lr_though_its_cell_keeps_a_copy(tmp_path):
    def cell(net, optimizer):
        return MFTrainOneStepCell(net, optimizer, scale_sense=Tensor(1.0), use_clip_grad=True, max_grad_norm=1e9)

    x = gradients(130, s100=1000.0)
    with overflow_seen_on_cpu():
        used = train(
            watching(tmp_path, reduce_lr=True),
            ADJUSTABLE["mindformers schedule"][0],
            x,
            make_cell=cell,
        )
    run = read_run(tmp_path)
    assert len(of_kind(run, "action")) == 1
    assert run.values("train/lr") == pytest.approx(used[:, 0], rel=5e-3)
    assert run.values("train/lr")[100] < 0.6 * run.values("train/lr")[98]


CANNOT = {
    "schedule": (lambda w: nn.SGD(w, cosine()), r"CosineDecayLR of SGD .* wrap it, .*SGD\(params, AdjustableSchedule"),
    "one group": (
        lambda w: nn.Momentum([{"params": w, "lr": cosine()}], 0.1, 0.9),
        "CosineDecayLR of Momentum",
    ),
    "mint SGD": (lambda w: mint.optim.SGD(w, lr=0.1), "use nn.SGD"),
}


@pytest.mark.parametrize("name", CANNOT)
def test_a_learning_rate_that_cannot_be_changed_is_said_before_the_first_step(name, tmp_path):
    optimizer, message = CANNOT[name]
    counted = CountSteps()
    with pytest.raises(ValueError, match=message):
        train(TrainingHealthCallback(tmp_path / "run", reduce_lr=True), optimizer, gradients(5), also=[counted])
    assert counted.steps == 0
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("asked", [{"reduce_lr": True}, {"stop_on": "critical"}])
def test_several_processes_are_refused_an_action(asked, tmp_path, monkeypatch):
    monkeypatch.setattr(lr_control, "find_placement", lambda _: distributed.Placement(rank=1, size=2, writes=False))
    with pytest.raises(ValueError, match=f"{next(iter(asked))} works in a training of one process, this one has 2"):
        HandDriven(TrainingHealthCallback(tmp_path, **asked)).begin()


class CountSteps(Callback):
    steps = 0

    def on_train_step_end(self, run_context):
        self.steps += 1


@BOTH_MODES
def test_stop_on_critical(mode, tmp_path, log_lines):
    ms.set_context(mode=mode)
    added = np.zeros(200, np.float32)
    added[60], added[119:] = np.nan, np.nan
    callback = watching(tmp_path, stop_on="critical")
    counted = CountSteps()
    train(callback, ADJUSTABLE["fixed"][0], gradients(200), added, also=[counted])
    run = read_run(tmp_path)
    assert counted.steps == 122  # one may pass, three in a row do not
    (action,) = of_kind(run, "action")
    assert (action["step"], action["action"], action["rule"]) == (122, "stop", "non_finite")
    (end,) = of_kind(run, "end")
    assert (end["step"], end["status"]) == (122, "stopped")
    assert end["reason"].startswith("non_finite (critical): Loss was NaN")
    assert any(level == "ERROR" and "stops the training after step 122" in line for level, line in log_lines())


def test_stop_on_warning(tmp_path):
    added = np.zeros(200, np.float32)
    added[120] = np.nan
    train(watching(tmp_path, stop_on="warning"), ADJUSTABLE["fixed"][0], gradients(200), added)
    assert of_kind(read_run(tmp_path), "end")[0]["step"] == 121


def test_on_alert_gets_each_finding_once_and_again_when_it_is_worse(tmp_path, log_lines):
    added = np.zeros(300, np.float32)
    added[100], added[200:] = np.nan, np.nan
    got = []
    train(
        watching(tmp_path, on_alert=got.append),
        ADJUSTABLE["fixed"][0],
        gradients(300),
        added,
    )
    assert all(isinstance(finding, Finding) for finding in got)
    assert [(f.rule, f.severity, f.first_step) for f in got] == [
        ("non_finite", "warning", 101),
        ("non_finite", "critical", 101),
    ]
    lines = [line for level, line in log_lines() if level in ("WARNING", "ERROR")]
    assert len(lines) == 2
    assert "critical: Loss was NaN" in lines[1]


def test_an_on_alert_that_raises_is_said_once_and_the_training_goes_on(tmp_path, log_lines):
    def broken(finding):
        raise RuntimeError("no pager")

    x = gradients(300, s100=1000.0, s200=1000.0)
    train(watching(tmp_path, on_alert=broken), ADJUSTABLE["fixed"][0], x)
    run = read_run(tmp_path)
    assert len(run.steps()) == 300
    assert {alert["id"] for alert in of_kind(run, "alert")} == {f"grad_explosion/grad_norm@{s}" for s in (100, 200)}
    assert [line for _, line in log_lines() if "no pager" in line] == [
        "Training Health: on_alert raised; the training goes on (RuntimeError: no pager)"
    ]


def test_a_healthy_training_has_neither_alert_nor_action(tmp_path):
    got = []
    callback = watching(tmp_path, on_alert=got.append, reduce_lr=True, stop_on="warning")
    train_regression([callback], steps=400)
    run = read_run(tmp_path)
    assert len(run.steps()) == 400
    assert {event["kind"] for event in run.events} == {"end"}
    assert got == []


def test_a_second_training_of_the_same_callback_goes_on_watching(tmp_path):
    net = GradientIsInput(1)
    model = Model(GradNormTrainOneStepCell(net, nn.SGD(list(net.weights), 0.01)))
    callback = watching(tmp_path)
    for x in (gradients(100), gradients(30, s10=1000.0)):
        data = ds.NumpySlicesDataset((x[:, None], 0 * x[:, None]), ["x", "added"], shuffle=False).batch(1)
        model.train(1, data, callbacks=[callback], dataset_sink_mode=False)
    # The second has too few points to know alone what a jump is.
    assert {(alert["rule"], alert["first_step"]) for alert in of_kind(read_run(tmp_path), "alert")} == {
        ("grad_explosion", 110)
    }


@pytest.mark.parametrize("kind", ["fixed", "schedule"])
def test_a_resumed_training_keeps_the_reduced_lr(kind, tmp_path):
    optimizer, _ = ADJUSTABLE[kind]
    run_dir, cells = tmp_path / "run", []
    for x in (gradients(130, s100=1000.0), gradients(150)):
        net = GradientIsInput(1)
        cell = GradNormTrainOneStepCell(net, optimizer(list(net.weights)))
        if cells:
            ms.save_checkpoint(cells[0], str(tmp_path / "c.ckpt"))
            ms.load_param_into_net(cell, ms.load_checkpoint(str(tmp_path / "c.ckpt")), strict_load=True)
        cells.append(cell)
        data = ds.NumpySlicesDataset((x[:, None], 0 * x[:, None]), ["x", "added"], shuffle=False).batch(1)
        callback = watching(run_dir, reduce_lr={"factor": 0.25})
        Model(cell).train(1, data, callbacks=[callback], dataset_sink_mode=False)
    lr = read_run(run_dir).values("train/lr")
    assert len(lr) == 280
    assert max(lr[100:]) < 0.3 * lr[99]
    contents = open_logdir(str(tmp_path)).load(["run"])["run"]
    assert "lr_schedule_mismatch" not in {f.rule for f in diagnose(contents)}


@pytest.mark.parametrize("factor", [{"factor": 0.25}, True, ReduceLr(0.25), None, False])
def test_reduce_lr_in_all_its_forms(factor, tmp_path):
    callback = TrainingHealthCallback(tmp_path, reduce_lr=factor, stop_on=None)
    asked = callback._settings.reduce_lr
    assert asked is None if not factor else dataclasses.asdict(asked)["cooldown"] == 200


def test_adjustable_schedule_wants_a_schedule():
    with pytest.raises(TypeError, match=r"base must be a LearningRateSchedule, got 0\.1 \(float\)"):
        AdjustableSchedule(0.1)
