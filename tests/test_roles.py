from __future__ import annotations

import pytest

from tb_mindformers_plugin.roles import FRAMEWORKS, ROLES, framework_of, normalise, resolve, suggested


def tags_of(found):
    return {role: match.tag for role, match in found.items()}


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (
            ["loss", "learning-rate", "grad-norm", "loss-scale", "lm-loss", "throughput", "loss_vs_samples"],
            {
                "loss": "loss",
                "lr": "learning-rate",
                "grad_norm": "grad-norm",
                "loss_scale": "loss-scale",
                "throughput": "throughput",
            },
        ),
        (
            ["lm loss", "lm loss vs samples", "learning-rate", "grad-norm", "lm loss validation", "iteration-time"],
            {
                "loss": "lm loss",
                "eval_loss": "lm loss validation",
                "lr": "learning-rate",
                "grad_norm": "grad-norm",
                "step_time": "iteration-time",
            },
        ),
        (
            ["train/loss", "train/grad_norm", "train/learning_rate", "train/epoch", "eval/loss", "train/train_loss"],
            {
                "loss": "train/loss",
                "eval_loss": "eval/loss",
                "lr": "train/learning_rate",
                "grad_norm": "train/grad_norm",
                "epoch": "train/epoch",
            },
        ),
        (
            ["Train/Samples/train_loss", "Train/Samples/lr"],
            {"loss": "Train/Samples/train_loss", "lr": "Train/Samples/lr"},
        ),
        (
            ["train_loss", "val_loss", "lr-AdamW", "hp_metric"],
            {"loss": "train_loss", "eval_loss": "val_loss", "lr": "lr-AdamW"},
        ),
        (
            ["train/CE loss", "optim/total grad norm", "optim/LR (group 1)", "optim/LR"],
            {"loss": "train/CE loss", "grad_norm": "optim/total grad norm", "lr": "optim/LR"},
        ),
        (
            ["total_loss", "[metric]grad_scaler", "lr"],
            {"loss": "total_loss", "loss_scale": "[metric]grad_scaler", "lr": "lr"},
        ),
        (["loss_metrics/global_avg_loss", "lr/AdamW"], {"loss": "loss_metrics/global_avg_loss", "lr": "lr/AdamW"}),
        (["Training/Loss", "Hyperparams/LR"], {"loss": "Training/Loss", "lr": "Hyperparams/LR"}),
        (["mean_squared_thing", "hp_metric"], {}),
    ],
)
def test_framework_names(tags, expected):
    assert tags_of(resolve(tags)) == expected


def test_the_same_tag_has_the_unit_of_its_framework():
    mindformers = resolve(["loss", "learning-rate", "grad-norm", "iteration-time"])
    megatron = resolve(["lm loss", "learning-rate", "grad-norm", "iteration-time"])
    assert mindformers["step_time"].unit == "ms"
    assert megatron["step_time"].unit == "s"


def test_manifest_wins_over_names():
    found = resolve(["objective/total", "train/loss"], {"loss": "objective/total"}, {"objective/total": "nats"})
    assert found["loss"].tag == "objective/total"
    assert (found["loss"].source, found["loss"].unit) == ("manifest", "nats")


def test_a_manifest_tag_that_was_never_logged_is_passed_over():
    assert resolve(["train/loss"], {"loss": "objective/total"})["loss"].tag == "train/loss"


def test_our_own_tags():
    assert tags_of(resolve([role.tag for role in ROLES.values()])) == {name: role.tag for name, role in ROLES.items()}
    assert framework_of(["train/loss", "train/lr"]) == "tb-mindformers-plugin"


def test_one_name_alone_tells_no_framework():
    assert framework_of(["loss"]) is None


def test_table_is_spelt_as_normalise_gives_it():
    for framework in FRAMEWORKS:
        for role, patterns in framework.tags.items():
            assert role in ROLES, (framework.name, role)
            for pattern in patterns:
                assert normalise(pattern) == pattern, (framework.name, pattern)


def test_what_is_given_wins_over_manifest_and_names():
    tags = ["loss", "objective/total", "learning_rate", "mine"]
    given = [("loss", "gone"), ("loss", "objective/total"), ("loss", "mine"), ("moon", "loss")]
    assert tags_of(resolve(tags, {"loss": "mine"}, None, given)) == {"loss": "objective/total", "lr": "learning_rate"}
    # What was given one role plays no other.
    assert tags_of(resolve(tags, {"loss": "mine"}, None, [("eval_loss", "mine"), ("lr", "loss")])) == {
        "eval_loss": "mine",
        "lr": "loss",
    }
    found = resolve(["t"], None, {"t": "ms"}, [("step_time", "t")])["step_time"]
    assert (found.unit, found.source) == ("ms", "given")


@pytest.mark.parametrize(
    ("tag", "role"),
    [
        *(
            ("model/Loss", "loss"),
            ("val/cost", "eval_loss"),
            ("opt/lr-Adam", "lr"),
            ("Gradient Norm (L2)", "grad_norm"),
        ),
        *(("amp/loss-scale", "loss_scale"), ("test_acc", "eval_accuracy"), ("top1", None), ("floss", None), ("", None)),
    ],
)
def test_words_of_a_tag_suggest_a_role(tag, role):
    assert suggested(tag) == role
