"""A mindformers Trainer run from a YAML file alone, then resumed; both against MFLossMonitor's own event files."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import mindspore as ms
import numpy as np
import pytest
from mindformers.core import MFLossMonitor
from mindformers.tools import MindFormerModuleType, MindFormerRegister
from mindspore import Tensor
from mindspore.mindrecord import FileWriter
from msrun import run_two
from run_reading import read_histograms, read_run, read_scalars
from small_trainings import HandDriven

from tb_mindformers_plugin import TrainingHealthCallback
from tb_mindformers_plugin.registration import REGISTER_PATH

CONFIG = pathlib.Path(__file__).with_name("tiny_llama.yaml")
STEPS, PER_EPOCH, BATCH, LENGTH = 24, 12, 8, 32

# Nothing of this package: the entry in the file names it.
BY_NAME = """
from mindformers import MindFormerConfig, Trainer, build_context
from scenarios.cpu_overflow import overflow_seen_on_cpu
build_context(MindFormerConfig("config.yaml"))
with overflow_seen_on_cpu():
    Trainer(args="config.yaml").train()
"""

BY_IMPORT = """
import tb_mindformers_plugin
from mindformers import MindFormerConfig, Trainer, build_context
from scenarios.cpu_overflow import overflow_seen_on_cpu
build_context(MindFormerConfig("config.yaml"))
by_hand = tb_mindformers_plugin.TrainingHealthCallback("by_hand", log_every=5)
with overflow_seen_on_cpu():
    Trainer(args="config.yaml", callbacks=[by_hand]).train()
"""


# msrun ends the other process once one has failed: each waits until both have.
FAILING_TOGETHER = f"""
import os, pathlib, time
try:
{textwrap.indent(BY_IMPORT, "    ")}
finally:
    pathlib.Path(f"failed_{{os.getpid()}}").touch()
    given_up = time.monotonic() + 120
    while len(list(pathlib.Path().glob("failed_*"))) < 2 and time.monotonic() < given_up:
        time.sleep(0.1)
"""


# On one process mindformers would set the accumulation steps to 1: it has them under (semi-)auto parallelism alone,
# which a CPU has not.
ACCUMULATING = """
import tb_mindformers_plugin
from mindformers import MindFormerConfig, Trainer, build_context
from mindformers.trainer.base_trainer import BaseTrainer
from scenarios.cpu_overflow import overflow_seen_on_cpu
BaseTrainer._check_grad_accumulation_steps = lambda trainer: None
build_context(MindFormerConfig("config.yaml"))
with overflow_seen_on_cpu():
    Trainer(args="config.yaml").train()
"""


def write_config(directory, code, changes):
    text = CONFIG.read_text()
    for old, new in changes.values():
        assert old in text
        text = text.replace(old, new)
    (directory / "config.yaml").write_text(text)
    (directory / "train.py").write_text(code)


def run_trainer(directory, code, **changes):
    write_config(directory, code, changes)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "REGISTER_PATH": str(REGISTER_PATH)}
    done = subprocess.run(
        [sys.executable, "train.py"],
        env=environment,
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-4000:]


def write_records(directory, samples):
    directory.mkdir()
    writer = FileWriter(str(directory / "samples.mindrecord"), 1)
    writer.add_schema({"input_ids": {"type": "int32", "shape": [-1]}})
    writer.write_raw_data([{"input_ids": sample} for sample in samples])
    writer.commit()


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Where 24 steps were trained, two copies of each batch interleaved, and then the last 12 of them again."""
    directory = tmp_path_factory.mktemp("yaml")
    samples = np.random.RandomState(0).randint(0, 8, (BATCH * PER_EPOCH, LENGTH + 1)).astype(np.int32)
    write_records(directory / "data", samples)
    write_records(directory / "eval_data", samples[: 2 * BATCH, :LENGTH])  # a Llama is evaluated on one token less

    interleaved = ("\nmicro_batch_interleave_num: 1", "\nmicro_batch_interleave_num: 2")
    named = (
        "- type: TrainingHealthCallback",
        "- type: TrainingHealthCallback\n    auto_register: training_health.TrainingHealthCallback",
    )
    run_trainer(directory, BY_NAME, interleaved=interleaved, named=named)
    shutil.copytree(directory / "run", directory / "first_run")
    (directory / "monitor").rename(directory / "first_monitor")
    checkpoints = directory / "output" / "checkpoint"
    name = next((checkpoints / "rank_0").glob(f"*-1_{PER_EPOCH}.ckpt")).name
    resumed = (
        'load_checkpoint: ""\nresume_training: False',
        f"load_checkpoint: {checkpoints}\nresume_training: {name}",
    )
    more = (
        "tokens_per_step: 256",
        "tokens_per_step: 256\n    layer_grad_norms: 2\n    histogram_every: 12\n    histogram_tags: ['*norm*']",
    )
    norms = ("  use_clip_grad: True", "  use_clip_grad: True\n  local_norm: True")
    grads = ("type: MFTrainOneStepCell", "type: MFTrainOneStepCellWithGrads\n  keep_grads: ['*norm*']")
    evaluated = (
        "\ntensorboard:",
        "\ndo_eval: True\neval_step_interval: 6\nmetric: {type: PerplexityMetric}\n"
        "eval_dataset: &eval_dataset\n  <<: *train_dataset\n"
        "  data_loader: {type: MindDataset, dataset_dir: eval_data, shuffle: False}\n"
        "eval_dataset_task:\n  type: CausalLanguageModelDataset\n  dataset_config: *eval_dataset\ntensorboard:",
    )
    run_trainer(
        directory,
        BY_IMPORT,
        interleaved=interleaved,
        resumed=resumed,
        more=more,
        norms=norms,
        grads=grads,
        evaluated=evaluated,
    )
    return directory


def test_importing_the_package_after_mindformers_registers_the_callback():
    registered = MindFormerRegister.get_cls(MindFormerModuleType.CALLBACK, "TrainingHealthCallback")
    assert registered is TrainingHealthCallback


TAGS = {
    "train/loss": "loss",
    "train/lr": "learning-rate",
    "train/grad_norm": "grad-norm",
    "train/loss_scale": "loss-scale",
}


def test_each_number_is_the_one_in_the_event_file_of_mindformers(directory):
    run, monitor = read_scalars(directory / "first_run"), read_scalars(directory / "first_monitor" / "rank_0")
    for tag, theirs in TAGS.items():
        assert [step for step, _ in run[tag]] == list(range(1, STEPS + 1))
        assert run[tag] == monitor[theirs], tag  # bit for bit
    manifest = read_run(directory / "first_run").manifests[0]
    assert manifest["global_batch_size"] * 1.0 == monitor["batch-size"][0][1]
    assert (manifest["total_steps"], manifest["steps_per_epoch"]) == (STEPS, PER_EPOCH)
    assert manifest["hparams"] == {"lr": 0.002, "layers": 1}
    epochs = [value for _, value in run["train/epoch"]]
    np.testing.assert_allclose(epochs, np.arange(1, STEPS + 1) / PER_EPOCH, rtol=1e-6)


def test_a_resumed_training_goes_on_as_mindformers_counts(directory):
    run, monitor = read_run(directory / "run"), read_scalars(directory / "monitor" / "rank_0")
    steps = list(range(PER_EPOCH + 1, STEPS + 1))
    assert run.steps() == [*range(1, STEPS + 1), *steps]
    for tag, theirs in TAGS.items():
        assert list(zip(*run.series(tag)))[STEPS:] == monitor[theirs], tag
    assert run.manifests[1]["resumed_from"] == PER_EPOCH
    assert run.manifests[1]["total_steps"] == STEPS
    assert {"kind": "resume", "step": PER_EPOCH, "resumed_from": PER_EPOCH} in run.events
    # The same weights, optimizer and data: the same curve once more.
    losses = run.values("train/loss")
    np.testing.assert_allclose(losses[STEPS:], losses[PER_EPOCH:STEPS], rtol=1e-4)


def test_evaluations_of_mindformers_are_logged(directory):
    run = read_run(directory / "run")
    assert run.steps("eval/loss") == run.steps("eval/PPL") == [18, 24]
    np.testing.assert_allclose(run.values("eval/PPL"), np.exp(run.values("eval/loss")), rtol=1e-4)
    # Of the same batches that were trained on, about the loss of the training.
    np.testing.assert_allclose(run.values("eval/loss"), np.mean(run.values("train/loss")[-6:]), rtol=0.2)


def test_norms_of_layers_and_histograms(directory):
    run = read_run(directory / "run")
    layers = [tag for _, values in run.records for tag in values if tag.startswith("grad_norm/")]
    assert len(set(layers)) >= 2
    for step, values in run.records[STEPS:]:
        norms = [value for tag, value in values.items() if tag.startswith("grad_norm/")]
        if norms:
            assert 0 < max(norms) <= values["train/grad_norm"] * 1.001, step
    histograms = read_histograms(directory / "run")
    assert all("norm" in tag and [step for step, _ in points] == [13, 24] for tag, points in histograms.items())
    weights = {tag.removeprefix("weights/") for tag in histograms if tag.startswith("weights/")}
    assert {tag.removeprefix("grads/") for tag in histograms if tag.startswith("grads/")} == weights != set()
    assert all(rows[:, 2].sum() == 32 for points in histograms.values() for _, rows in points)
    checkpoint = next((directory / "output" / "checkpoint" / "rank_0").glob(f"*-2_{PER_EPOCH}.ckpt"))
    assert not [name for name in ms.load_checkpoint(str(checkpoint)) if "accu_grads" in name]


def test_the_trainer_api_takes_it_as_well(directory):
    assert read_run(directory / "by_hand").steps() == [13, 15, 20, 24]


@pytest.fixture
def data(directory, tmp_path):
    """A directory with the samples of `directory`, for a training of its own."""
    shutil.copytree(directory / "data", tmp_path / "data")
    return tmp_path


def test_accumulated_gradients_are_counted_as_mindformers_does_it(data):
    accumulated = ("{epochs: 2, batch_size: 8,", "{epochs: 1, batch_size: 2, gradient_accumulation_steps: 4,")
    run_trainer(data, ACCUMULATING, accumulated=accumulated)
    run, monitor = read_scalars(data / "run"), read_scalars(data / "monitor" / "rank_0")
    for tag, theirs in TAGS.items():
        assert [step for step, _ in run[tag]] == list(range(1, PER_EPOCH + 1))
        assert run[tag] == monitor[theirs], tag
    assert run["train/loss"][0][1] == pytest.approx(np.log(64), rel=0.05)  # of 64 tokens none is known yet
    assert read_run(data / "run").manifests[0]["global_batch_size"] == BATCH == monitor["batch-size"][0][1]


def test_the_last_stage_of_a_pipeline_writes(data):
    # MindSpore sets up a pipeline on a CPU but does not compile it. When this fails since it does: compare the curves.
    changes = {
        "parallel": ("use_parallel: False", "use_parallel: True"),
        "mode": (
            "parallel: {parallel_mode: 0, gradients_mean: True, enable_parallel_optimizer: False}",
            "parallel: {parallel_mode: 1, full_batch: True, dataset_strategy: full_batch}",
        ),
        "stages": ("pipeline_stage: 1, micro_batch_num: 1", "pipeline_stage: 2, micro_batch_num: 2"),
        "layers": ("num_layers: 1", "num_layers: 2"),
        "batch": ("batch_size: 8, sink_mode", "batch_size: 4, sink_mode"),
    }
    write_config(data, FAILING_TOGETHER, changes)
    status, logs = run_two(data / "train.py", data)
    assert status != 0
    assert "RuntimeError: Invalid backend: CPU" in logs
    for directory in ("run", "by_hand"):
        (_,) = (data / directory).iterdir()  # one process, one file
        run = read_run(data / directory)
        assert [manifest["distributed"] for manifest in run.manifests] == [{"rank": 1, "size": 2, "pipeline_stage": 1}]
        assert run.manifests[0]["global_batch_size"] == BATCH
        (end,) = run.events
        assert (end["kind"], end["status"]) == ("end", "failed")
        assert end["error"].startswith("RuntimeError: Invalid backend: CPU")


@pytest.mark.parametrize(
    "settings",
    [
        {"micro_batch_num": 4},
        {"micro_batch_num": 4, "calculate_per_token_loss": True},
        {"micro_batch_interleave_num": 2, "gradient_accumulation_steps": 8},
        {"micro_batch_interleave_num": 2, "gradient_accumulation_steps": 8, "calculate_per_token_loss": True},
        {"micro_batch_num": 4, "micro_batch_interleave_num": 2},
    ],
    ids=repr,
)
@pytest.mark.parametrize("stages", [1, 2])
def test_loss_is_scaled_as_mindformers_does_it(settings, stages, tmp_path, monkeypatch):
    if stages > 1:
        context = ms.get_auto_parallel_context
        monkeypatch.setattr(
            ms, "get_auto_parallel_context", lambda name: 2 if name == "pipeline_stages" else context(name)
        )
        monkeypatch.setattr(ms.context, "get_auto_parallel_context", ms.get_auto_parallel_context)
    monitor = MFLossMonitor(origin_epochs=1, dataset_size=10, global_batch_size=8, **settings)
    by_hand = HandDriven(TrainingHealthCallback(tmp_path, log_every=1), list_callback=[monitor]).begin()
    by_hand.step(Tensor(48.0))
    by_hand.end()
    assert read_run(tmp_path).values("train/loss") == [np.float32(monitor._fix_loss_for_parallel(48.0))]
