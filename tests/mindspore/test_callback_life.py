"""Begin, end, failures, stops, kills, restarts: what a callback goes through."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn
from mindspore.train import Callback, Model
from run_reading import read_hparams, read_run
from small_trainings import (
    CountingTensor,
    HandDriven,
    RaiseAt,
    StopAt,
    dataset,
    regression_data,
    regression_net,
    train_regression,
)

from tb_mindformers_plugin import TrainingHealthCallback
from tb_mindformers_plugin.callback import session as session_module
from tb_mindformers_plugin.runs import open_logdir
from tb_mindformers_plugin.writer import files


class Slowly(Callback):
    """Gives the writing thread its time: these trainings take less than a millisecond a step."""

    def on_train_step_end(self, run_context):
        time.sleep(0.01)


def ends(run):
    return [
        {key: value for key, value in event.items() if key != "kind"} for event in run.events if event["kind"] == "end"
    ]


@pytest.mark.parametrize(
    ("every", "steps"), [(1, [1, 2, 3, 4, 5, 6, 7]), (3, [1, 3, 6, 7]), (7, [1, 7]), (100, [1, 7])]
)
def test_first_last_and_every_nth_step_are_logged(every, steps, tmp_path):
    train_regression([TrainingHealthCallback(tmp_path, log_every=every)], steps=7)
    run = read_run(tmp_path)
    assert run.steps() == steps
    assert ends(run) == [{"step": 7, "status": "completed"}]


def test_request_stop_ends_stopped(tmp_path):
    train_regression([TrainingHealthCallback(tmp_path, log_every=4), StopAt(6)], steps=20)
    run = read_run(tmp_path)
    assert run.steps() == [1, 4, 6]
    assert ends(run) == [{"step": 6, "status": "stopped"}]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such luck"), "ValueError: no such luck"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (RuntimeError("x" * 5000), "RuntimeError: " + "x" * (2000 - 15) + "…"),
    ],
)
def test_an_exception_ends_failed_and_goes_on_its_way(error, text, tmp_path):
    with pytest.raises(type(error)):
        train_regression([TrainingHealthCallback(tmp_path, log_every=4), RaiseAt(6, error)], steps=20)
    run = read_run(tmp_path)
    assert run.steps() == [1, 4, 6]  # the last step that was done, though on_train_end was never called
    assert ends(run) == [{"step": 6, "status": "failed", "error": text}]


def test_failed_step_is_not_mistaken_for_a_done_one(tmp_path):
    # The other callback comes first: at its error the sixth step's outputs are there, this callback's turn was not.
    with pytest.raises(ValueError, match="first"):
        train_regression([RaiseAt(6, ValueError("first")), TrainingHealthCallback(tmp_path, log_every=100)], steps=20)
    run = read_run(tmp_path)
    assert run.steps() == [1, 5]
    assert ends(run)[0]["step"] == 5


def test_the_same_callback_twice_in_one_list_counts_once(tmp_path):
    callback = TrainingHealthCallback(tmp_path, log_every=4)
    train_regression([callback, callback], steps=10)
    run = read_run(tmp_path)
    assert run.steps() == [1, 4, 8, 10]
    assert ends(run) == [{"step": 10, "status": "completed"}]
    assert len(run.manifests) == 1


def test_without_a_with_around_on_train_end_ends_it_all(tmp_path):
    callback = TrainingHealthCallback(tmp_path, log_every=2)
    by_hand = HandDriven(callback)
    callback.on_train_begin(by_hand.context)
    for loss in (3.0, 2.0, 1.0):
        by_hand.step(Tensor(loss))
    callback.on_train_end(by_hand.context)
    run = read_run(tmp_path)
    assert run.values("train/loss") == [3.0, 2.0, 1.0]
    assert ends(run) == [{"step": 3, "status": "completed"}]


def test_second_train_goes_on_and_says_so(tmp_path):
    callback = TrainingHealthCallback(tmp_path, log_every=4, ema_decay=0.5)
    model = train_regression([callback], steps=10)
    model.train(2, dataset(*regression_data(10)), callbacks=[callback], dataset_sink_mode=False)
    run = read_run(tmp_path)
    assert run.steps() == [1, 4, 8, 10, 11, 12, 16, 20, 24, 28, 30]
    first, second = run.manifests
    assert "resumed_from" not in first
    assert (second["resumed_from"], second["total_steps"]) == (10, 30)
    assert [(event["kind"], event["step"]) for event in run.events] == [("end", 10), ("resume", 10), ("end", 30)]
    np.testing.assert_allclose(run.values("train/epoch"), np.array(run.steps()) / 10, rtol=1e-6)
    # The average goes on as well.
    losses, averages = run.values("train/loss"), run.values("train/loss_ema")
    expected, weighted = [], 0.0
    for n, loss in enumerate(losses, 1):
        weighted = 0.5 * weighted + 0.5 * loss
        expected.append(weighted / (1 - 0.5**n))
    np.testing.assert_allclose(averages, expected, rtol=1e-5)


def test_new_optimizer_begins_anew(tmp_path):
    callback = TrainingHealthCallback(tmp_path, log_every=1)
    train_regression([callback], steps=5)
    train_regression([callback], steps=3)
    run = read_run(tmp_path)
    assert run.steps() == [1, 2, 3, 4, 5, 1, 2, 3]
    assert [manifest.get("resumed_from") for manifest in run.manifests] == [None, None]


def test_resume_from_a_checkpoint_goes_on_where_it_was(tmp_path):
    def cell():
        net = regression_net()
        optimizer = nn.Momentum(net.trainable_params(), nn.CosineDecayLR(0.001, 0.1, 60), 0.9)
        return nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer)

    run_dir, checkpoint = tmp_path / "run", str(tmp_path / "20.ckpt")
    first = cell()
    Model(first).train(
        1,
        dataset(*regression_data(20)),
        callbacks=[TrainingHealthCallback(run_dir, log_every=1)],
        dataset_sink_mode=False,
    )
    ms.save_checkpoint(first, checkpoint)
    second = cell()
    ms.load_param_into_net(second, ms.load_checkpoint(checkpoint))
    Model(second).train(
        3,
        dataset(*regression_data(20)),
        callbacks=[TrainingHealthCallback(run_dir, log_every=1)],
        dataset_sink_mode=False,
        initial_epoch=1,
    )
    run = read_run(run_dir)
    assert run.steps() == list(range(1, 61))
    assert run.manifests[1]["resumed_from"] == 20
    assert run.manifests[1]["total_steps"] == 60
    assert {"kind": "resume", "step": 20, "resumed_from": 20} in run.events
    expected = [0.001 + 0.5 * 0.099 * (1 + np.cos(np.pi * i / 60)) for i in range(60)]
    np.testing.assert_allclose(run.values("train/lr"), expected, rtol=1e-5)
    np.testing.assert_allclose(run.values("train/epoch"), np.arange(1, 61) / 20, rtol=1e-6)


def test_initial_step_of_the_framework_wins(tmp_path):
    by_hand = HandDriven(TrainingHealthCallback(tmp_path, log_every=5), initial_step=100).begin()
    for _ in range(6):
        by_hand.step(Tensor(1.0))
    by_hand.end()
    run = read_run(tmp_path)
    assert run.steps() == [101, 105, 106]
    assert run.manifests[0]["resumed_from"] == 100


def test_steps_that_are_repeated_after_a_fault_are_logged_again(tmp_path):
    by_hand = HandDriven(TrainingHealthCallback(tmp_path, log_every=5)).begin()
    for step in range(1, 18):
        by_hand.step(Tensor(float(step)))
    by_hand.params["cur_step_num"] = 7  # as MindSpore's fault tolerance sets it
    for step in range(8, 18):
        by_hand.step(Tensor(100.0 + step))
    by_hand.end()
    run = read_run(tmp_path)
    assert run.steps() == [1, 5, 10, 15, 8, 10, 15, 17]
    assert run.values("train/loss")[3:] == [15.0, 108.0, 110.0, 115.0, 117.0]
    assert [(event["kind"], event["step"]) for event in run.events] == [("resume", 7), ("end", 17)]
    # And for whoever reads the run, the newer points are the curve.
    current = open_logdir(str(tmp_path.parent)).load([tmp_path.name])[tmp_path.name].current("loss")
    assert list(zip(current.step, current.value)) == [(1, 1), (5, 5), (8, 108), (10, 110), (15, 115), (17, 117)]


def test_resume_from_wins_over_what_the_framework_says(tmp_path):
    by_hand = HandDriven(TrainingHealthCallback(tmp_path, log_every=5, resume_from=200), initial_step=100).begin()
    for _ in range(6):
        by_hand.step(Tensor(1.0))
    by_hand.end()
    assert read_run(tmp_path).steps() == [201, 205, 206]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"histogram_every": 2, "histogram_tags": "attention*"}, "matches no weight; there are 0.weight"),
        ({"layer_grad_norms": 3}, "GradNormTrainOneStepCell(..., layer_norms=True)"),
    ],
)
def test_what_cannot_be_logged_is_said_once_and_costs_nothing_else(asked, words, tmp_path, log_lines):
    train_regression([TrainingHealthCallback(tmp_path, log_every=2, **asked)], steps=10)
    (said,) = [message for level, message in log_lines() if level != "DEBUG"]
    assert words in said
    assert read_run(tmp_path).steps() == [1, 2, 4, 6, 8, 10]


def test_hparams_tab_is_told_of_the_training(tmp_path):
    train_regression([TrainingHealthCallback(tmp_path, hparams={"width": 4})], steps=3)
    start, end = read_hparams(tmp_path)
    found = {name: value.number_value or value.string_value for name, value in start.session_start_info.hparams.items()}
    assert found["width"] == 4
    assert found["optimizer"] == "Momentum"
    assert (found["schedule.kind"], found["global_batch_size"]) == ("constant", 8)
    assert end.session_end_info.status == 1  # success


def test_data_sinking_logs_when_a_multiple_was_passed(tmp_path):
    # A CPU does not sink: MindSpore's calls are made by hand, one for each sink of 4 steps.
    callback = TrainingHealthCallback(tmp_path, log_every=10)
    by_hand = HandDriven(callback, batch_num=4, epoch_num=6, dataset_sink_mode=True).begin()
    for _ in range(6):
        by_hand.step(Tensor(1.0), steps=4)
    by_hand.end()
    run = read_run(tmp_path)
    assert run.steps() == [4, 12, 20, 24]
    assert run.manifests[0]["total_steps"] == 24


def test_nothing_is_read_from_the_device_between_logged_steps(tmp_path):
    CountingTensor.reads = 0
    by_hand = HandDriven(TrainingHealthCallback(tmp_path, log_every=10)).begin()
    outputs = tuple(CountingTensor(value) for value in (1.0, False, 8.0, 0.1, 2.0))
    reads = []
    for _ in range(20):
        before = CountingTensor.reads
        by_hand.step(outputs)
        reads.append(CountingTensor.reads - before)
    by_hand.end()
    assert [index + 1 for index, count in enumerate(reads) if count] == [1, 10, 20]
    assert reads[0] == 5


def test_a_step_that_is_not_logged_costs_next_to_nothing(tmp_path):
    by_hand = HandDriven(TrainingHealthCallback(tmp_path, log_every=10**9)).begin()
    by_hand.step(Tensor(1.0))
    callback, context, params = by_hand.callback, by_hand.context, by_hand.params

    def seconds(repeats=20_000):
        began = time.perf_counter()
        for _ in range(repeats):
            params["cur_step_num"] += 1
            callback.on_train_step_end(context)
        return (time.perf_counter() - began) / repeats

    assert min(seconds() for _ in range(5)) < 2e-6
    by_hand.end()


def test_log_dir_that_cannot_be_made_is_said_once_and_the_training_goes_on(tmp_path, log_lines):
    (tmp_path / "file").write_text("in the way")
    model = train_regression([TrainingHealthCallback(tmp_path / "file" / "run", log_every=1)], steps=12)
    assert int(model._train_network.optimizer.global_step.asnumpy()[0]) == 12
    warnings = [line for line in log_lines() if line[0] != "DEBUG"]
    assert len(warnings) == 1
    assert str(tmp_path / "file" / "run") in warnings[0][1]
    assert "the training goes on" in warnings[0][1]


def test_disk_that_fills_up_is_said_once_and_the_training_goes_on(tmp_path, log_lines, monkeypatch):
    whole, room = files._LocalFile.write, 3000

    def full(self, data):
        nonlocal room
        room -= len(data)
        if room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        whole(self, data)

    monkeypatch.setattr(files._LocalFile, "write", full)
    callback = TrainingHealthCallback(tmp_path, log_every=1, flush_seconds=0.01)
    model = train_regression([callback, Slowly()], steps=60)
    assert int(model._train_network.optimizer.global_step.asnumpy()[0]) == 60
    said = [message for level, message in log_lines() if level != "DEBUG"]
    assert len([message for message in said if "No space left on device" in message]) == 1
    steps = read_run(tmp_path).steps()
    assert 0 < len(steps) < 60
    # 60 steps, the end, and the end for the HParams tab.
    assert said[1:] == [f"{62 - len(steps)} records could not be written to {tmp_path}."]


def test_directory_that_is_deleted_is_said_once_and_the_training_goes_on(tmp_path, log_lines):
    run = tmp_path / "run"

    class Delete(Callback):
        def on_train_step_end(self, run_context):
            if run_context.original_args().cur_step_num in (10, 20):
                shutil.rmtree(run)

    callback = TrainingHealthCallback(run, log_every=1, flush_seconds=0.01)
    train_regression([callback, Slowly(), Delete()], steps=40)
    (said,) = [message for level, message in log_lines() if level != "DEBUG"]
    assert "deleted" in said
    assert read_run(run).steps()[-1] == 40
    assert ends(read_run(run)) == [{"step": 40, "status": "completed"}]


def test_writer_that_breaks_in_any_way_is_said_once_with_its_traceback_at_debug(tmp_path, log_lines, monkeypatch):
    def broken(self, step, **metrics):
        raise ZeroDivisionError("broken writer")

    monkeypatch.setattr(session_module.HealthWriter, "log", broken)
    model = train_regression([TrainingHealthCallback(tmp_path, log_every=1)], steps=12)
    assert int(model._train_network.optimizer.global_step.asnumpy()[0]) == 12
    steps = [line for line in log_lines() if "a step cannot be logged" in line[1]]
    assert steps == [("WARNING", "Training Health: a step cannot be logged (ZeroDivisionError: broken writer)")]
    assert ("DEBUG", "Training Health: traceback of the above") in log_lines()


def test_optimizer_that_cannot_be_read_costs_the_lr_alone(tmp_path, log_lines):
    class Strange:
        @property
        def learning_rate(self):
            raise RuntimeError("not for your eyes")

    by_hand = HandDriven(TrainingHealthCallback(tmp_path, log_every=1), optimizer=Strange()).begin()
    by_hand.step(Tensor(1.0))
    by_hand.step(Tensor(2.0))
    by_hand.end()
    assert read_run(tmp_path).values("train/loss") == [1.0, 2.0]
    assert len([line for line in log_lines() if line[0] == "WARNING"]) == 1


def test_unknown_outputs_are_said_once(tmp_path, log_lines):
    by_hand = HandDriven(TrainingHealthCallback(tmp_path, log_every=1)).begin()
    for _ in range(5):
        by_hand.step((Tensor(1.5), Tensor(np.zeros((4, 3), np.float32))))
    by_hand.end()
    assert read_run(tmp_path).values("train/loss") == [1.5] * 5
    (warning,) = [message for level, message in log_lines() if level == "WARNING"]
    assert "2 outputs (Tensor[], Tensor[4, 3])" in warning
    assert "health_outputs" in warning


KILLED = """
import sys, time
sys.path.insert(0, {tests!r})
import mindspore as ms
from mindspore.train import Callback
from small_trainings import train_regression
from tb_mindformers_plugin import TrainingHealthCallback

class Slowly(Callback):
    def on_train_step_end(self, run_context):
        time.sleep(0.01)

callbacks = [
    TrainingHealthCallback({run!r}, log_every=1, flush_seconds=0.2, handle_sigterm=True),
    TrainingHealthCallback({run!r} + "_unhandled", log_every=1, flush_seconds=1000),
]
train_regression([*callbacks, Slowly()], steps=100_000)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_signal_in_the_middle_of_a_training(tmp_path, number):
    code = KILLED.format(tests=os.path.dirname(__file__), run=str(tmp_path / "run"))
    process = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    try:
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            if (tmp_path / "run").exists() and len(read_run(tmp_path / "run").records) > 60:
                break
            time.sleep(0.1)
        seen = len(read_run(tmp_path / "run").records)
        assert seen > 60
        process.send_signal(number)
        assert process.wait(60) == -number
    finally:
        process.kill()
        process.wait()
    run = read_run(tmp_path / "run")
    steps = run.steps()
    # No more is lost than what was not flushed: with SIGTERM handled, nothing.
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= seen
    assert run.manifests[0]["framework"]["mindspore"] == ms.__version__
    stopped = [{"step": len(steps), "status": "stopped", "reason": "SIGTERM"}]
    assert ends(run) == (stopped if number == signal.SIGTERM else [])
    # Nothing is done about a signal unless it is asked for.
    assert ends(read_run(tmp_path / "run_unhandled")) == []
