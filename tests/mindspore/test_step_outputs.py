"""Every form of step outputs that is known, and those that are not."""

from __future__ import annotations

import math
import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, ParameterTuple, Tensor

from tb_mindformers_plugin.callback.step_outputs import read_step_outputs

LOSS = Tensor(2.5, ms.float32)
NO, YES = Tensor(False), Tensor([True])
SCALE = Parameter(Tensor(1024.0, ms.float32), name="scale")
LR = Tensor(0.01, ms.float32)
NORM = Tensor([3.0], ms.float32)
BASE = {"loss": 2.5, "overflow": 0.0, "loss_scale": 1024.0}

KNOWN = {
    "scalar": (LOSS, {"loss": 2.5}),
    "shape (1,)": (Tensor([2.5], ms.float32), {"loss": 2.5}),
    "loss per sample": (Tensor([2.0, 3.0], ms.float32), {"loss": 2.5}),
    "float16": (Tensor(2.5, ms.float16), {"loss": 2.5}),
    "bfloat16": (Tensor(2.5, ms.bfloat16), {"loss": 2.5}),
    "numpy": (np.float32(2.5), {"loss": 2.5}),
    "numpy array": (np.array([[2.0], [3.0]]), {"loss": 2.5}),
    "python float": (2.5, {"loss": 2.5}),
    "one in a tuple": ((LOSS,), {"loss": 2.5}),
    "loss scale cell": ((LOSS, NO, SCALE), BASE),
    "loss scale cell, overflow": ((LOSS, YES, SCALE), {**BASE, "overflow": 1.0}),
    "loss scale cell, python flag": ((LOSS, True, 1024.0), {**BASE, "overflow": 1.0}),
    "four": ((LOSS, NO, SCALE, LR), {**BASE, "lr": pytest.approx(0.01)}),
    "mindformers": ((LOSS, NO, SCALE, LR, NORM), {**BASE, "lr": pytest.approx(0.01), "grad_norm": 3.0}),
    "mindformers as a list": ([LOSS, NO, SCALE, LR, NORM], {**BASE, "lr": pytest.approx(0.01), "grad_norm": 3.0}),
    "mindformers without clipping": ((LOSS, NO, SCALE, LR, None), {**BASE, "lr": pytest.approx(0.01)}),
    "mindformers without lr": ((LOSS, NO, SCALE, None, NORM), {**BASE, "grad_norm": 3.0}),
    "mindformers, fixed grouped lr": (
        (LOSS, NO, SCALE, ParameterTuple([Parameter(LR, name="a"), Parameter(NORM, name="b")]), NORM),
        {**BASE, "lr": pytest.approx(0.01), "grad_norm": 3.0},
    ),
    "mindformers local norms": (
        (LOSS, NO, SCALE, LR, NORM, Tensor([1.0, 2.0, 2.0]), Tensor([3, 4, 5])),
        {**BASE, "lr": pytest.approx(0.01), "grad_norm": 3.0},
    ),
    "dict by role": ({"loss": LOSS, "grad_norm": NORM, "logits": Tensor([1.0])}, {"loss": 2.5, "grad_norm": 3.0}),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_forms(name):
    outputs, expected = KNOWN[name]
    read = read_step_outputs(outputs)
    assert dict(read.values) == expected
    assert read.not_understood == ""


def test_declared_outputs_win():
    read = read_step_outputs((LOSS, NORM, SCALE), ("loss", "grad_norm", "accuracy"))
    assert dict(read.values) == {"loss": 2.5, "grad_norm": 3.0, "accuracy": 1024.0}


def test_declared_outputs_that_are_no_roles_are_left_out():
    assert dict(read_step_outputs((LOSS, NORM), ("loss", "logits")).values) == {"loss": 2.5}


def test_nan_and_infinity_are_kept():
    values = read_step_outputs((Tensor(math.nan), NO, SCALE, LR, Tensor([math.inf]))).values
    assert math.isnan(values["loss"])
    assert values["grad_norm"] == math.inf


UNKNOWN = {
    "loss and logits": (
        (LOSS, Tensor(np.zeros((8, 10), np.float32))),
        {"loss": 2.5},
        r"2 outputs \(Tensor\[\], Tensor\[8, 10\]\)",
    ),
    "loss, logits, labels": ((LOSS, Tensor(np.zeros((8, 10), np.float32)), Tensor([1, 2])), {"loss": 2.5}, "3 outputs"),
    "loss and gradients": ((LOSS, {"w": NORM}), {"loss": 2.5}, r"Tensor\[\], dict"),
    "six": ((LOSS,) * 6, {"loss": 2.5}, "6 outputs"),
    "nested": (((LOSS, NORM), NORM), {}, r"2 outputs \(tuple"),
    "text": (("unavailable", NORM), {}, "2 outputs"),
    "nothing": ((), {}, "0 outputs"),
    "none": (None, {}, r"the loss is no number \(NoneType\)"),
    "empty": (Tensor(np.zeros((0,), np.float32)), {}, "the loss is no number"),
    "dict without loss": ({"logits": LOSS}, {}, "a dict without 'loss'"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_forms_give_the_loss_if_there_is_one_and_say_what_they_are(name):
    outputs, expected, said = UNKNOWN[name]
    read = read_step_outputs(outputs)
    assert dict(read.values) == expected
    assert re.search(said, read.not_understood)


def test_text_where_the_scale_belongs_costs_the_scale_alone():
    read = read_step_outputs((LOSS, False, "unavailable", LR, NORM))
    assert read.values["loss"] == 2.5
    assert "loss_scale" not in read.values


def test_a_live_scale_parameter_is_read_at_once():
    scale = Parameter(Tensor(8.0, ms.float32), name="live")
    read = read_step_outputs((LOSS, NO, scale))
    scale.set_data(Tensor(4.0, ms.float32))
    assert read.values["loss_scale"] == 8.0
