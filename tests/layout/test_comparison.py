"""Which charts a layout has, and what TensorBoard draws in them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_mindformers_plugin.layout import Category, LayoutError, comparison_layout
from tb_mindformers_plugin.layout.charts import Chart, layout_of, preview
from tb_mindformers_plugin.layout.comparison import comparison_categories
from tb_mindformers_plugin.layout.handmade import parse_layout
from tb_mindformers_plugin.layout.making import Held
from tb_mindformers_plugin.roles import resolve
from tb_mindformers_plugin.runs import open_logdir
from tb_mindformers_plugin.writer import HealthWriter


def holding(*tags):
    return Held(resolve(tags), sorted(tags))


RUNS = {
    "ours": holding("train/loss", "train/loss_ema", "train/lr", "train/throughput", "eval/loss"),
    "megatron": holding("lm loss", "learning-rate", "grad-norm", "throughput", "lm loss validation", "moe/aux"),
    "hf": holding("train/loss", "train/learning_rate", "train/grad_norm", "eval/loss", "train/loss_extra"),
    "olmo": holding("train/CE loss", "optim/LR (group 0)", "throughput/device/TPS", "optim/total grad norm"),
}


def drawn(layout, runs):
    """Title -> {(run, tag)}, by TensorBoard's own rule: `re.match` of the joined expressions."""
    found = {}
    for category in layout.category:
        for chart in category.chart:
            regex = re.compile("|".join(f"({tag})" for tag in chart.multiline.tag))
            found[chart.title] = {(name, tag) for name, run in runs.items() for tag in run.tags if regex.match(tag)}
    return found


def test_frameworks_are_joined_in_one_chart_by_exact_tags():
    shown = drawn(comparison_layout(RUNS), RUNS)
    assert shown["loss"] == {
        ("ours", "train/loss"),
        ("hf", "train/loss"),
        ("megatron", "lm loss"),
        ("olmo", "train/CE loss"),
    }
    assert shown["loss EMA"] == {("ours", "train/loss_ema")}
    assert shown["learning rate"] == {
        ("ours", "train/lr"),
        ("hf", "train/learning_rate"),
        ("megatron", "learning-rate"),
        ("olmo", "optim/LR (group 0)"),
    }
    assert shown["loss and eval loss"] == shown["loss"] | shown["eval loss"]
    assert shown["eval loss"] == {
        ("ours", "eval/loss"),
        ("hf", "eval/loss"),
        ("megatron", "lm loss validation"),
    }


def test_units_are_never_on_one_axis_without_a_word():
    charts = drawn(comparison_layout(RUNS), RUNS)
    assert charts["throughput (tokens/s)"] == {("ours", "train/throughput")}
    assert charts["throughput (TFLOP/s/device)"] == {("megatron", "throughput")}
    # MindSpore Transformers and Megatron-LM call it alike, and it cannot be told apart by its tag.
    runs = {"a": holding("loss", "throughput", "lm_loss"), "b": holding("lm loss", "grad-norm", "throughput")}
    assert "throughput (TFLOP/s/device or samples/s/device)" in drawn(comparison_layout(runs), runs)


def test_categories_and_order():
    assert [category.title for category in comparison_categories(RUNS)] == [
        "Loss",
        "Optimizer",
        "Speed",
        "Train against eval",
    ]
    chosen = comparison_categories(RUNS, ["lr", "eval_loss", "grad_norm", "lr"])
    assert [(c.title, [chart.title for chart in c.charts]) for c in chosen] == [
        ("Optimizer", ["learning rate", "grad norm"]),
        ("Loss", ["eval loss"]),
    ]


def test_extra_patterns():
    (more,) = [c for c in comparison_categories(RUNS, None, ["moe/.*", "extra=loss_ex"]) if c.title == "More series"]
    assert more.charts == (Chart("moe/.*", ("moe/aux",)), Chart("extra", ("train/loss_extra",)))


def test_strangers_are_told():
    runs = {"megatron": holding("lm loss", "grad-norm"), "ms": holding("loss", "lm loss", "learning-rate")}
    loss = preview(comparison_categories(runs), runs)[0]["charts"][0]
    assert loss["runs"] == {"megatron": ["lm loss"], "ms": ["loss"]}
    assert loss["strangers"] == {"ms": ["lm loss"]}
    assert drawn(comparison_layout(runs), runs)["loss"] == {("megatron", "lm loss"), ("ms", "loss"), ("ms", "lm loss")}


@given(st.lists(st.text(st.characters(blacklist_categories=["Cs"]), min_size=1), min_size=1, unique=True), st.data())
def test_any_tag_is_taken_and_no_other(tags, data):
    chosen = data.draw(st.sampled_from(tags))
    runs = {"run": Held({}, [*tags, *(tag + "_more" for tag in tags), *("before" + tag for tag in tags)])}
    (chart,) = drawn(layout_of([Category("c", (Chart("c", (chosen,)),))]), runs).values()
    # Python's $ also stands before a newline at the very end, which no tag of a framework has.
    assert {tag for _, tag in chart if tag != chosen + "\n"} == {chosen}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"roles": ["los"]}, "no role 'los'; known: loss, "),
        ({"roles": ["reward"]}, r"no run has a reward \(reward\); the runs have: loss, "),
        ({"patterns": ["("]}, r"'\(' is no regular expression: "),
        (
            {"patterns": ["nothing_like_it"]},
            "no scalar tag of any run has 'nothing_like_it' in it; the tags there are: ",
        ),
    ],
)
def test_what_is_not_there(arguments, words):
    with pytest.raises(LayoutError, match=words):
        comparison_layout(RUNS, **arguments)


def test_no_role_at_all():
    with pytest.raises(LayoutError, match="no run has a series with a known role"):
        comparison_layout({"run": Held({}, ["x"])})


def test_runs_of_a_logdir(tmp_path):
    with HealthWriter(tmp_path / "run") as writer:
        writer.log(1, loss=1.0)
    (category,) = comparison_layout(open_logdir(str(tmp_path)).runs).category
    assert [chart.title for chart in category.chart] == ["loss"]


BY_HAND = """
categories:
  - title: Mine
    charts:
      - title: losses
        roles: [loss, loss_ema]
      - title: experts
        pattern: moe/.*
        tags: [train/loss_extra]
  - title: Band
    closed: true
    charts:
      - title: band
        margin: {value: train/loss, lower: train/loss_ema, upper: eval/loss}
"""


def test_a_layout_by_hand():
    mine, band = parse_layout(BY_HAND, RUNS)
    assert mine.charts[0] == Chart(
        "losses", ("lm loss", "train/CE loss", "train/loss", "train/loss_ema"), ("loss", "loss_ema")
    )
    assert mine.charts[1].tags == ("moe/aux", "train/loss_extra")
    assert band.closed
    series = layout_of([band]).category[0].chart[0].margin.series[0]
    assert (series.value, series.lower, series.upper) == ("train/loss", "train/loss_ema", "eval/loss")


def chart_with(line):
    return "categories: [{title: A, charts: [{title: B, " + line + "}]}]"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "it is not YAML"),
        ("[" * 3000, "it is not YAML: "),
        ("categories: 2020-13-45", "it is not YAML: month must be in 1..12"),
        ("categories: !!timestamp soon", "it is not YAML"),
        ("- a", "the file is an object with categories, not "),
        ("", "the file is an object with categories, not nothing"),
        ("categories: []", "categories is a list that is not empty"),
        ("categorys: []", "there is no field 'categorys'; known: categories"),
        ("categories: [{title: A}]", r"category 1 \(A\): charts is a list that is not empty, not nothing"),
        ("categories: [{title: 3, charts: []}]", "category 1: title is text, not 3"),
        ("categories: [{title: A, closed: maybe, charts: [{}]}]", "closed is true or false, not 'maybe'"),
        (chart_with("roles: [los]"), r"category 1 \(A\), chart 1 \(B\): there is no role 'los'; known: loss, "),
        (chart_with("roles: [reward]"), r"chart 1 \(B\): no run has a reward"),
        (chart_with("roles: loss"), r"chart 1 \(B\): roles is a list, not 'loss'"),
        (chart_with("pattern: '('"), r"chart 1 \(B\): the tag pattern '\(' is no regular expression"),
        (chart_with("tags: [train/los]"), r"no run has the tag 'train/los'; did you mean train/loss"),
        (chart_with("tags: []"), "it names nothing to draw"),
        (chart_with("colour: red"), "there is no field 'colour'; known: title, roles"),
        (chart_with("margin: {value: train/loss, lower: train/loss}"), "upper is text, not nothing"),
        (chart_with("margin: {}, tags: [train/loss]"), "a title and a margin, nothing else"),
    ],
)
def test_a_layout_by_hand_is_checked(text, words):
    with pytest.raises(LayoutError, match=words):
        parse_layout(text, RUNS)
