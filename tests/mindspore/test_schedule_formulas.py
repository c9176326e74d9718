"""Each schedule formula gives what its cell gives."""

from __future__ import annotations

import json

import mindspore as ms
import numpy as np
import pytest
from mindformers.core.lr import lr_schedule as mf
from mindspore import Parameter, Tensor, nn

from tb_mindformers_plugin.callback.schedule import describe
from tb_mindformers_plugin.schedules import learning_rate, learning_rates

CELLS = {
    "ExponentialDecayLR": lambda: nn.ExponentialDecayLR(0.1, 0.9, 4),
    "ExponentialDecayLR staircase": lambda: nn.ExponentialDecayLR(0.1, 0.9, 4, True),
    "NaturalExpDecayLR": lambda: nn.NaturalExpDecayLR(0.1, 0.05, 4),
    "NaturalExpDecayLR staircase": lambda: nn.NaturalExpDecayLR(0.1, 0.05, 4, True),
    "InverseDecayLR": lambda: nn.InverseDecayLR(0.1, 0.5, 4),
    "InverseDecayLR staircase": lambda: nn.InverseDecayLR(0.1, 0.5, 4, True),
    "CosineDecayLR": lambda: nn.CosineDecayLR(0.01, 0.1, 30),
    "PolynomialDecayLR": lambda: nn.PolynomialDecayLR(0.1, 0.01, 30, 0.5),
    "PolynomialDecayLR cycle": lambda: nn.PolynomialDecayLR(0.1, 0.01, 12, 2.0, True),
    "WarmUpLR": lambda: nn.WarmUpLR(0.1, 20),
    "ConstantWarmUpLR": lambda: mf.ConstantWarmUpLR(0.1, warmup_steps=10, warmup_lr_init=0.01),
    "ConstantWarmUpLR without warm-up": lambda: mf.ConstantWarmUpLR(0.1, warmup_steps=0),
    "LinearWithWarmUpLR": lambda: mf.LinearWithWarmUpLR(0.1, 40, warmup_steps=10),
    "CosineWithWarmUpLR": lambda: mf.CosineWithWarmUpLR(0.1, warmup_steps=10, total_steps=40, lr_end=0.01),
    "CosineWithWarmUpLR decay steps": lambda: mf.CosineWithWarmUpLR(
        0.1, warmup_steps=10, total_steps=60, decay_steps=35, lr_end=0.01, num_cycles=1.5
    ),
    "CosineWithRestartsAndWarmUpLR": lambda: mf.CosineWithRestartsAndWarmUpLR(
        0.1, warmup_steps=5, total_steps=50, num_cycles=3.0, lr_end=0.01
    ),
    "CosineWithRestartsAndWarmUpLR past its end": lambda: mf.CosineWithRestartsAndWarmUpLR(
        0.1, warmup_steps=5, total_steps=25, decay_steps=60, lr_end=0.01
    ),
    "PolynomialWithWarmUpLR": lambda: mf.PolynomialWithWarmUpLR(0.1, 40, warmup_steps=10, lr_end=0.01, power=2.0),
    "PolynomialWithWarmUpLR power 0.5": lambda: mf.PolynomialWithWarmUpLR(
        0.1, 50, warmup_steps=10, lr_end=0.01, power=0.5, decay_steps=20
    ),
    "ConstantWithCoolDownLR": lambda: mf.ConstantWithCoolDownLR(
        0.1, warmup_steps=8, keep_steps=10, decay_steps=20, final_steps=10, lr_end1=0.02, lr_end2=0.01, total_steps=60
    ),
    "WarmUpStableDecayLR": lambda: mf.WarmUpStableDecayLR(
        0.1, 0.01, warmup_steps=6, total_steps=50, decay_start_steps=30
    ),
    "WarmUpStableDecayLR without warm-up": lambda: mf.WarmUpStableDecayLR(
        0.1, 0.01, warmup_steps=0, total_steps=50, decay_start_steps=30
    ),
    "CosineAnnealingLR": lambda: mf.CosineAnnealingLR(0.1, 20, 0.01),
    "CosineAnnealingWarmRestarts": lambda: mf.CosineAnnealingWarmRestarts(0.1, 15, 1, 0.01),
    "CosineAnnealingWarmRestarts growing": lambda: mf.CosineAnnealingWarmRestarts(0.1, 8, 2, 0.01),
    "LearningRateWiseLayer": lambda: mf.LearningRateWiseLayer(mf.CosineWithWarmUpLR(0.1, 10, 40), 0.5),
}


@pytest.mark.parametrize("name", CELLS)
def test_formula_gives_what_the_cell_gives(name):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    cell = CELLS[name]()
    schedule = json.loads(json.dumps(describe(cell)))  # it goes into the manifest
    steps = range(58)
    # The cell's lr is only defined for float steps in some of them: PyNative promotes int32 as the optimizer does.
    theirs = [float(cell(Tensor([step], ms.int32)).asnumpy().reshape(-1)[0]) for step in steps]
    ours = learning_rates(schedule, steps)
    np.testing.assert_array_equal(ours, [learning_rate(schedule, step) for step in steps])
    at_restart = {8, 24, 56} if "growing" in name else set()  # float32 logarithms land on either side
    kept = [step for step in steps if step not in at_restart]
    np.testing.assert_allclose(ours[kept], np.array(theirs)[kept], rtol=2e-5, atol=2e-8)
    assert len(set(np.round(theirs, 7))) > 2 or "Constant" in name


def test_every_known_schedule_of_mindformers_is_covered():
    classes = {
        name
        for name, kind in vars(mf).items()
        if isinstance(kind, type) and issubclass(kind, nn.learning_rate_schedule.LearningRateSchedule)
    } - {"LearningRateSchedule"}
    assert classes <= {name.split()[0] for name in CELLS}


def test_a_subclass_is_not_taken_for_its_parent():
    class Other(nn.CosineDecayLR):
        def construct(self, global_step):
            return super().construct(global_step) * 2

    assert describe(Other(0.01, 0.1, 30)) is None


def test_a_schedule_that_can_be_assigned_is_not_taken_for_constant():
    cell = nn.CosineDecayLR(0.01, 0.1, 30)
    cell.delta = 1.0  # no parameter of the description
    assert describe(cell) is not None
    changing = nn.WarmUpLR(0.1, 20)
    del changing.learning_rate
    changing.learning_rate = Parameter(Tensor(0.1, ms.float32), name="rate")
    assert describe(changing) is None


def test_unknown_cells_have_no_description():
    assert describe(nn.Dense(2, 2)) is None
    assert describe(None) is None
