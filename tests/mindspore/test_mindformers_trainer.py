"""A real mindformers Trainer with a small Llama."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from run_reading import read_run

STEPS = 60

TRAIN = """
from scenarios.tiny_llama import train_llama
from tb_mindformers_plugin import TrainingHealthCallback
train_llama({steps}, [TrainingHealthCallback({run!r}, log_every=1, tokens_per_step=256)], output_dir="output")
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The run, and what mindformers' own monitor printed. A process of its own: mindformers sets up much globally."""
    directory = tmp_path_factory.mktemp("llama")
    code = TRAIN.format(steps=STEPS, run=str(directory / "run"))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return read_run(directory / "run"), done.stdout


LINE = re.compile(
    r"step:\[ *(\d+)/ *\d+\], loss:\[ *([^/]+)/[^]]*\].*? lr: ([^,]+), overflow cond: (\w+), loss_scale: ([^,]+), "
    r"global_norm: \[([^]]+)\]"
)


def test_each_value_is_the_one_that_mindformers_prints(trained):
    run, printed = trained
    lines = [tuple(match) for match in LINE.findall(printed)]
    assert [int(line[0]) for line in lines] == run.steps() == list(range(1, STEPS + 1))
    np.testing.assert_allclose(run.values("train/loss"), [float(line[1]) for line in lines], atol=1e-5)
    np.testing.assert_allclose(run.values("train/lr"), [float(line[2]) for line in lines], rtol=1e-5, atol=1e-9)
    assert run.values("train/overflow") == [float(line[3] == "True") for line in lines]
    np.testing.assert_allclose(run.values("train/loss_scale"), [float(line[4]) for line in lines], rtol=1e-5)
    np.testing.assert_allclose(run.values("train/grad_norm"), [float(line[5]) for line in lines], rtol=1e-5)


def test_overflow_was_real(trained):
    run, _ = trained
    flags = run.values("train/overflow")
    assert 0 < sum(flags) < STEPS / 2
    norms, scales = run.values("train/grad_norm"), run.values("train/loss_scale")
    for step, flag in enumerate(flags):
        if flag:
            assert not math.isfinite(norms[step])
            assert step == 0 or scales[step] == scales[step - 1] / 2


def test_it_learns_and_the_manifest_says_how(trained):
    run, _ = trained
    losses = run.values("train/loss")
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.5
    (manifest,) = run.manifests
    assert manifest["schedule"]["kind"] == "cosine_warmup"
    assert (manifest["schedule"]["peak"], manifest["schedule"]["warmup_steps"]) == (2e-3, STEPS // 10)
    assert manifest["grad_clip"] == 1.0
    assert (manifest["loss_scale"]["kind"], manifest["loss_scale"]["initial"]) == ("dynamic", 2.0**126)
    assert manifest["total_steps"] == manifest["steps_per_epoch"] == STEPS
    assert manifest["global_batch_size"] == 8
    assert manifest["tokens_per_step"] == 256
    assert manifest["units"]["train/throughput"] == "tokens/s"
    assert set(manifest["framework"]) == {"mindspore", "mindformers"}
    assert run.events[-1] == {"kind": "end", "status": "completed", "step": STEPS}
    times = run.values("train/step_time")
    np.testing.assert_allclose(run.values("train/throughput"), 256 / np.array(times), rtol=1e-5)
