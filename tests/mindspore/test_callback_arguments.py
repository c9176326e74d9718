"""A wrong argument raises when the callback is made, and says which it is."""

from __future__ import annotations

import math
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tb_mindformers_plugin import TrainingHealthCallback
from tb_mindformers_plugin.health.parameters import ParameterError

WRONG = [
    ("log_dir", "", ValueError),
    ("log_dir", "  ", ValueError),
    ("log_dir", None, TypeError),
    ("log_dir", 3, TypeError),
    ("log_dir", b"logs", TypeError),
    ("log_every", 0, ValueError),
    ("log_every", -10, ValueError),
    ("log_every", 2.0, TypeError),
    ("log_every", True, TypeError),
    ("log_every", "10", TypeError),
    ("log_every", None, TypeError),
    ("ema_decay", 1.0, ValueError),
    ("ema_decay", -0.1, ValueError),
    ("ema_decay", math.nan, ValueError),
    ("ema_decay", "0.9", TypeError),
    ("ema_decay", False, TypeError),
    ("flush_seconds", 0, ValueError),
    ("flush_seconds", -1.0, ValueError),
    ("flush_seconds", math.nan, ValueError),
    ("flush_seconds", math.inf, ValueError),
    ("flush_seconds", None, TypeError),
    ("tokens_per_step", 0, ValueError),
    ("tokens_per_step", 1.5, TypeError),
    ("tokens_per_step", True, TypeError),
    ("tokens_per_step", 2**63, ValueError),
    ("total_steps", 0, ValueError),
    ("total_steps", -5, ValueError),
    ("total_steps", "1000", TypeError),
    ("hparams", [("lr", 0.1)], TypeError),
    ("hparams", {1: "lr"}, TypeError),
    ("hparams", {"net": object()}, TypeError),
    ("hparams", {"lr": math.nan}, ValueError),
    ("on_alert", "print", TypeError),
    ("resume_from", -1, ValueError),
    ("resume_from", 1.5, TypeError),
    ("resume_from", 2**63, ValueError),
    ("all_ranks", 1, TypeError),
    ("mean_loss", "yes", TypeError),
    ("histogram_every", 0, ValueError),
    ("histogram_every", "100", TypeError),
    ("histogram_tags", [], ValueError),
    ("histogram_tags", ["*", ""], ValueError),
    ("histogram_tags", 5, TypeError),
    ("layer_grad_norms", -1, ValueError),
    ("layer_grad_norms", True, TypeError),
    ("log_memory", None, TypeError),
    ("handle_sigterm", 15, TypeError),
    ("reduce_lr", 0.5, TypeError),
    ("reduce_lr", {"factor": 1.0}, ValueError),
    ("reduce_lr", {"factor": "half"}, TypeError),
    ("reduce_lr", {"cooldown": 0}, ValueError),
    ("reduce_lr", {"cooldown": 1.5}, TypeError),
    ("reduce_lr", {"floor": -1e-6}, ValueError),
    ("reduce_lr", {"floor": math.inf}, ValueError),
    ("reduce_lr", {"by": 0.5}, ValueError),
    ("rules", 3, TypeError),
    ("rules", "no/such/file.toml", ParameterError),
    ("rules", {"loss_spikes": False}, ParameterError),
    ("rules", {"loss_spike": {"y": 3}}, ParameterError),
    ("stop_on", "fatal", ValueError),
    ("stop_on", True, ValueError),
    ("stop_on", ["critical"], ValueError),
]


@pytest.mark.parametrize(("name", "value", "error"), WRONG, ids=lambda part: repr(part)[:40])
def test_wrong_argument_raises_and_is_named(name, value, error):
    arguments = {"log_dir": "logs", name: value}
    with pytest.raises(error) as caught:
        TrainingHealthCallback(**arguments)
    assert caught.type is error
    assert name in str(caught.value)
    shown = next(iter(value.values())) if isinstance(value, dict) and 1 not in value else value
    assert isinstance(value, dict) or repr(shown) in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"ema_decay": "9e-1"},
            "ema_decay must be in [0, 1), got '9e-1' (str): YAML takes 9e-1 for text, write 9.0e-1",
        ),
        ({"flush_seconds": "1.5E1"}, "for text, write 1.5e+1"),
        ({"reduce_lr": {"floor": "1e-6"}}, "reduce_lr: floor must be a number, got '1e-6' (str): YAML takes 1e-6 for"),
    ],
)
def test_numbers_that_yaml_takes_for_text(arguments, words):
    with pytest.raises(TypeError) as caught:
        TrainingHealthCallback("logs", **arguments)
    assert words in str(caught.value)


def test_hparams_error_names_the_key():
    with pytest.raises(TypeError, match=r"hparams\['net'\] must be a JSON value"):
        TrainingHealthCallback("logs", hparams={"lr": 0.1, "net": object()})


@pytest.mark.parametrize(
    "arguments",
    [
        {"log_dir": pathlib.Path("logs")},
        {"log_dir": "logs", "log_every": np.int64(5)},
        {"log_dir": "logs", "ema_decay": 0},
        {"log_dir": "logs", "ema_decay": np.float32(0.5), "flush_seconds": 1},
        {"log_dir": "logs", "hparams": {"layers": [1, 2], "nested": {"a": None}}, "on_alert": print},
    ],
)
def test_right_arguments_are_taken_and_touch_no_disk(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TrainingHealthCallback(**arguments)
    assert list(tmp_path.iterdir()) == []


def test_later_changes_of_hparams_do_not_count():
    given = {"sizes": [1, 2]}
    callback = TrainingHealthCallback("logs", hparams=given)
    given["sizes"].append(3)
    assert callback._settings.hparams == {"sizes": [1, 2]}


@pytest.mark.parametrize("name", ["HealthWriter", "TrainingHealthCallback", "GradNormTrainOneStepCell"])
def test_mindspore_may_be_imported_after_the_package(name):
    code = f"from tb_mindformers_plugin import {name}; import mindspore; mindspore.Tensor(1.0).asnumpy()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
