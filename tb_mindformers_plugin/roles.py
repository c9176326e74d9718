"""Roles: what a series means, whatever a framework calls it.

A role is found from the run's manifest first, then from the table of framework names below, and
otherwise not at all: values are never used to guess.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from typing import Iterable, Mapping, Optional, Sequence, Tuple


@dataclasses.dataclass(frozen=True)
class Role:
    """A kind of series.

    Attributes:
      name: the role.
      tag: tag under which this package writes it.
      unit: unit of that series ("" for none); s for seconds.
      title: how it is named to people.
    """

    name: str
    tag: str
    unit: str
    title: str


ROLES: Mapping[str, Role] = {
    role.name: role
    for role in (
        Role("loss", "train/loss", "", "loss"),
        Role("loss_ema", "train/loss_ema", "", "loss EMA"),
        Role("eval_loss", "eval/loss", "", "eval loss"),
        Role("accuracy", "train/accuracy", "", "accuracy"),
        Role("eval_accuracy", "eval/accuracy", "", "eval accuracy"),
        Role("lr", "train/lr", "", "learning rate"),
        Role("grad_norm", "train/grad_norm", "", "grad norm"),
        Role("loss_scale", "train/loss_scale", "", "loss scale"),
        Role("overflow", "train/overflow", "", "overflow"),
        Role("throughput", "train/throughput", "tokens/s", "throughput"),
        Role("step_time", "train/step_time", "s", "step time"),
        Role("epoch", "train/epoch", "", "epoch"),
        Role("tokens", "train/tokens", "tokens", "tokens"),
        Role("samples", "train/samples", "samples", "samples"),
        Role("reward", "train/reward", "", "reward"),
        Role("kl", "train/kl", "", "KL"),
        Role("clip_fraction", "train/clip_fraction", "", "clip fraction"),
    )
}


@dataclasses.dataclass(frozen=True)
class Framework:
    """How one framework names its series.

    Attributes:
      name: the framework, as people write it.
      tags: role -> tags as `normalise` gives them (glob patterns allowed), the best first.
      units: role -> unit, where it is not the unit of `ROLES`.
      steps: what its steps count: "steps" or "samples".
    """

    name: str
    tags: Mapping[str, tuple[str, ...]]
    units: Mapping[str, str] = dataclasses.field(default_factory=dict)
    steps: str = "steps"


# In each entry the order of a role's tags is the order of preference; across entries the framework
# that explains most of a run's tags goes first, then the order of this list.
FRAMEWORKS: tuple[Framework, ...] = (
    Framework("tb-mindformers-plugin", {role.name: (role.tag,) for role in ROLES.values()}),
    Framework(
        "MindSpore Transformers",
        {
            "loss": ("loss", "lm_loss"),
            "lr": ("learning_rate",),
            "grad_norm": ("grad_norm",),
            "loss_scale": ("loss_scale",),
            "step_time": ("iteration_time",),
            "throughput": ("throughput",),
        },
        {"step_time": "ms", "throughput": "samples/s/device"},
    ),
    Framework(
        "Megatron-LM",
        {
            "loss": ("lm_loss",),
            "eval_loss": ("lm_loss_validation",),
            "lr": ("learning_rate",),
            "grad_norm": ("grad_norm",),
            "loss_scale": ("loss_scale",),
            "step_time": ("iteration_time",),
            "throughput": ("throughput",),
        },
        {"throughput": "TFLOP/s/device"},
    ),
    Framework(
        "Hugging Face Trainer",
        {
            "loss": ("train/loss",),
            "eval_loss": ("eval/loss",),
            "lr": ("train/learning_rate",),
            "grad_norm": ("train/grad_norm",),
            "epoch": ("train/epoch",),
            "tokens": ("train/num_input_tokens_seen",),
            "accuracy": ("train/token_acc", "train/mean_token_accuracy"),
            "eval_accuracy": ("eval/token_acc", "eval/mean_token_accuracy", "eval/accuracy"),
            "reward": ("train/reward", "train/rewards/chosen"),
            "kl": ("train/kl", "train/objective/kl", "train/policy/approxkl_avg"),
            "clip_fraction": ("train/clip_ratio/region_mean", "train/policy/clipfrac_avg"),
        },
    ),
    Framework(
        "DeepSpeed",
        {
            "loss": ("train/samples/train_loss",),
            "eval_loss": ("train/samples/eval_loss",),
            "lr": ("train/samples/lr",),
            "loss_scale": ("train/samples/loss_scale",),
        },
        steps="samples",
    ),
    Framework(
        "PyTorch Lightning",
        {
            "loss": ("train_loss", "train_loss_step", "train_loss_epoch"),
            "eval_loss": ("val_loss",),
            "epoch": ("epoch",),
            "lr": ("lr_*",),
            "grad_norm": ("grad_2.0_norm_total",),
            "accuracy": ("train_acc", "train_accuracy"),
            "eval_accuracy": ("val_acc", "val_accuracy"),
        },
    ),
    Framework(
        "NeMo",
        {
            "loss": ("reduced_train_loss",),
            "eval_loss": ("val_loss",),
            "lr": ("lr",),
            "loss_scale": ("loss_scale",),
            "grad_norm": ("gradient_norm", "grad_norm"),
            "samples": ("consumed_samples",),
            "step_time": ("train_step_timing_in_s",),
            "epoch": ("epoch",),
        },
    ),
    Framework(
        "torchtitan",
        {
            "loss": ("loss_metrics/global_avg_loss",),
            "eval_loss": ("validation_metrics/loss",),
            "grad_norm": ("grad_norm",),
            "lr": ("lr/*", "lr"),
            "throughput": ("throughput(tps)",),
        },
    ),
    Framework(
        "OLMo-core",
        {
            "loss": ("train/ce_loss",),
            "grad_norm": ("optim/total_grad_norm",),
            "lr": ("optim/lr", "optim/lr_(group_*)"),
            "overflow": ("optim/step_skipped",),
            "throughput": ("throughput/device/tps",),
        },
        {"throughput": "tokens/s/device"},
    ),
    Framework(
        "mmengine",
        {
            "loss": ("loss",),
            "lr": ("lr",),
            "grad_norm": ("grad_norm",),
            "step_time": ("time",),
            "epoch": ("epoch",),
        },
    ),
    Framework(
        "Detectron2",
        {
            "loss": ("total_loss",),
            "lr": ("lr",),
            "step_time": ("time",),
            "loss_scale": ("[metric]grad_scaler",),
        },
    ),
    Framework(
        "verl",
        {
            "loss": ("actor/pg_loss", "train/loss"),
            "eval_loss": ("val/loss",),
            "grad_norm": ("actor/grad_norm", "train/grad_norm"),
            "lr": ("actor/lr", "train/lr"),
            "kl": ("actor/ppo_kl",),
            "clip_fraction": ("actor/pg_clipfrac",),
            "reward": ("critic/rewards/mean",),
            "throughput": ("perf/throughput",),
            "step_time": ("perf/time_per_step",),
        },
        {"throughput": "tokens/s/device"},
    ),
    Framework(
        "Keras",
        {
            "loss": ("epoch_loss", "batch_loss"),
            "eval_loss": ("val_loss",),
            "lr": ("epoch_learning_rate", "epoch_lr"),
            "accuracy": ("epoch_accuracy", "acc", "accuracy"),
            "eval_accuracy": ("val_acc", "val_accuracy"),
        },
    ),
    Framework("MindSpore SummaryCollector", {"loss": ("loss/auto",)}),
    # Names that hand-written loops use.
    Framework(
        "custom loop",
        {
            "loss": ("training/loss", "loss/train", "loss"),
            "eval_loss": ("eval/loss", "evaluation/loss", "validation/loss", "loss/val", "val/loss", "eval_loss"),
            "accuracy": ("training/accuracy", "accuracy/train"),
            "eval_accuracy": ("eval/accuracy", "evaluation/accuracy", "accuracy/val"),
            "lr": ("hyperparams/lr", "learning_rate", "lr"),
            "grad_norm": ("gnorm", "gradient_norm", "grad_norm"),
            "reward": ("eval/reward",),
        },
    ),
)

# The same series on another axis, never a role of its own.
_OTHER_AXIS = ("_vs_samples", "_vs_steps")


@dataclasses.dataclass(frozen=True)
class RoleMatch:
    """The series that plays a role in one run.

    Attributes:
      tag: its tag, as logged.
      unit: its unit, "" for none.
      source: "given" by whoever looks, "manifest", or the name of the framework whose naming it follows.
    """

    tag: str
    unit: str
    source: str


#: (role, tag) as whoever looks gave roles to tags, what is wanted most first.
Given = Sequence[Tuple[str, str]]


def normalise(tag: str) -> str:
    """Returns `tag` as the table of names spells it: lower case, ``-`` and space as ``_``."""
    return tag.lower().replace("-", "_").replace(" ", "_")


def resolve(
    tags: Iterable[str],
    manifest_roles: Optional[Mapping[str, str]] = None,
    manifest_units: Optional[Mapping[str, str]] = None,
    given: Given = (),
) -> dict[str, RoleMatch]:
    """Finds which of a run's `tags` plays which role.

    Args:
      tags: the run's scalar tags.
      manifest_roles: role -> tag as the run's manifest has it; it wins over the table. A tag that
        was never logged is passed over.
      manifest_units: tag -> unit as the manifest has it.
      given: what whoever looks says of tags; it wins over all else. Of several tags for a role the first that
        was logged plays it, and a tag that was given a role plays no other.

    Returns:
      Role -> match, in the order of `ROLES`; roles that no tag plays are absent.
    """
    names = list(tags)
    present = set(names)
    units = manifest_units or {}
    found: dict[str, RoleMatch] = {}
    taken = {tag for _, tag in given}
    declared = [(role, tag) for role, tag in (manifest_roles or {}).items() if tag not in taken]
    for source, pairs in (("given", given), ("manifest", declared)):
        for role, tag in pairs:
            if role in ROLES and tag in present and role not in found:
                found[role] = RoleMatch(tag, units.get(tag, ROLES[role].unit), source)
    by_normal: dict[str, str] = {}
    for tag in sorted(present - taken):
        normal = normalise(tag)
        if not normal.endswith(_OTHER_AXIS):
            by_normal.setdefault(normal, tag)

    for framework in _by_fit(by_normal):
        for role, patterns in framework.tags.items():
            if role in found:
                continue
            tag_found = _first(patterns, by_normal)
            if tag_found is not None:
                unit = units.get(tag_found, framework.units.get(role, ROLES[role].unit))
                found[role] = RoleMatch(tag_found, unit, framework.name)
    return {role: found[role] for role in ROLES if role in found}


_EVALUATION = frozenset(("eval", "evaluation", "val", "valid", "validation", "test", "dev"))

# Role -> words of which all are in a tag, in any of several ways; before it the role of the same on held-out data.
_SUGGESTED: tuple[tuple[str, str, tuple[frozenset[str], ...]], ...] = tuple(
    (role, held_out, tuple(frozenset(words.split()) for words in ways))
    for role, held_out, ways in (
        ("loss_scale", "loss_scale", ("loss scale", "scaler", "lossscale")),
        ("grad_norm", "grad_norm", ("grad norm", "gradient norm", "gnorm", "gradnorm")),
        ("lr", "lr", ("lr", "learning rate", "step size", "learningrate")),
        ("overflow", "overflow", ("overflow",)),
        ("throughput", "throughput", ("throughput", "tps")),
        ("step_time", "step_time", ("step time", "iteration time", "iter time")),
        ("accuracy", "eval_accuracy", ("acc", "accuracy")),
        ("loss", "eval_loss", ("loss", "nll", "ce", "xent", "objective", "cost")),
        ("kl", "kl", ("kl",)),
        ("reward", "reward", ("reward", "rewards")),
    )
)


def suggested(tag: str) -> Optional[str]:
    """Returns the role that the words of a tag speak of, for a person to agree to; None where they speak of none.

    >>> suggested("objective/total"), suggested("opt/step_size"), suggested("Val NLL"), suggested("opt/g2")
    ('loss', 'lr', 'eval_loss', None)
    """
    words = frozenset(re.split(r"[^a-z0-9]+", normalise(tag)))
    for role, held_out, ways in _SUGGESTED:
        if any(way <= words for way in ways):
            return held_out if words & _EVALUATION else role
    return None


def on_another_axis(tag: str) -> bool:
    """Whether a tag is a copy of a series on another x axis, which never plays a role of its own."""
    return normalise(tag).endswith(_OTHER_AXIS)


def framework_of(tags: Iterable[str]) -> Optional[str]:
    """Returns the framework whose names explain most of `tags`, or None where fewer than two fit."""
    by_normal = {normalise(tag): tag for tag in tags}
    # One name alone (a `loss`) is everybody's and tells nothing.
    best = next((f for f in _by_fit(by_normal) if _fit(f, by_normal) >= 2), None)
    return best.name if best else None


def steps_of(framework: Optional[str]) -> str:
    """Returns what the steps of a framework count: "steps", or "samples".

    >>> steps_of("DeepSpeed"), steps_of(None)
    ('samples', 'steps')
    """
    return next((f.steps for f in FRAMEWORKS if f.name == framework), "steps")


def _by_fit(by_normal: Mapping[str, str]) -> list[Framework]:
    """Frameworks that know any of the tags, the one that explains most of them first."""
    scored = [(framework, _fit(framework, by_normal)) for framework in FRAMEWORKS]
    return [f for f, fit in sorted(scored, key=lambda item: -item[1]) if fit > 0]


def _fit(framework: Framework, by_normal: Mapping[str, str]) -> float:
    # A role's first name is its framework's own; a later one is shared with others. It is what
    # tells `loss` + `lm loss` (MindSpore Transformers) from `lm loss` alone (Megatron-LM).
    fit = 0.0
    for patterns in framework.tags.values():
        if _first(patterns[:1], by_normal) is not None:
            fit += 1.0
        elif _first(patterns, by_normal) is not None:
            fit += 0.5
    return fit


def _first(patterns: Iterable[str], by_normal: Mapping[str, str]) -> Optional[str]:
    for pattern in patterns:
        if pattern in by_normal:
            return by_normal[pattern]
        if "*" in pattern:
            for normal in sorted(by_normal):
                if fnmatch.fnmatchcase(normal, pattern):
                    return by_normal[normal]
    return None
