"""Scales that show what there is, and paths that say it."""

from __future__ import annotations

import doctest
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_mindformers_plugin.language import Text
from tb_mindformers_plugin.report import charts, svg
from tb_mindformers_plugin.report.charts import Line, Scale, chart
from tb_mindformers_plugin.runs.window import window


def line(values, steps=None, run="run", buckets=1000):
    steps = np.arange(len(values)) if steps is None else np.asarray(steps)
    return Line(run, window(steps, np.asarray(values, np.float64), None, None, None, buckets))


def drawn(values, kind="linear", **options):
    return chart("loss", Text("loss", "损失"), "", [line(values, **options)], kind)


def test_doctests():
    assert doctest.testmod(charts).failed == 0


def test_a_spike_is_shown_and_a_blow_up_does_not_hide_the_rest():
    loss = 2 + 0.1 * np.random.default_rng(0).standard_normal(1000)
    loss[500] = 2.9
    assert drawn(loss).scale.high > 2.9
    assert drawn(loss).notes == ()
    loss[501] = 1e23
    found = drawn(loss)
    assert found.scale.high < 10
    assert "values up to 1e+23" in found.notes[0].en


def test_a_wide_spread_is_logarithmic_and_a_role_may_ask_for_it():
    assert drawn(np.geomspace(1e-3, 1e3, 100)).scale.kind == "log10"
    assert drawn(np.linspace(-1, 1e3, 100)).scale.kind == "linear"
    assert drawn([1.0, 1.5], "log10").scale.kind == "log10"
    assert drawn([65536.0, 32768.0], "log2").scale.ticks() == [32768.0, 65536.0]
    assert drawn([0.0, -1.0], "log10").scale.kind == "linear"


@given(st.lists(st.floats(width=32), min_size=1, max_size=50), st.sampled_from(["linear", "log10", "log2"]))
def test_any_values_have_a_scale_with_ticks_and_a_picture(values, kind):
    found = drawn(values, kind)
    assert found.scale.low < found.scale.high
    assert len(found.scale.ticks()) <= 14
    picture = svg.chart_svg(found, "c", "en")
    assert not re.search(r"nan|inf|\de[+-]?\d", " ".join(re.findall(r' d="([^"]*)"', picture)))


def test_ticks():
    assert Scale("linear", 0, 10).ticks() == [0, 2, 4, 6, 8, 10]
    assert Scale("linear", -0.11, 0.31).ticks() == pytest.approx([-0.1, 0, 0.1, 0.2, 0.3])
    assert Scale("log10", 0.5, 2000).ticks() == pytest.approx([1, 10, 100, 1000])
    assert Scale("log10", 1.2, 3).ticks() == pytest.approx([1.5, 2, 2.5, 3])


def test_a_line_breaks_where_a_value_is_none_and_says_so():
    found = drawn([1.0, 2.0, np.nan, 3.0, np.inf, 4.0, 5.0])
    path = re.search(r'class="line"[^>]* d="([^"]*)"', svg.chart_svg(found, "c", "en"))[1]
    assert len(re.findall("M", path)) == 3
    assert path.count("h.1") == 1  # a point alone
    assert "2 values are NaN or infinite" in found.notes[0].en
    assert 'class="lost"' in svg.chart_svg(found, "c", "en")


def test_the_extremes_of_a_long_run_are_in_its_band():
    loss = np.ones(100_000)
    loss[54_321] = 1.5
    found = drawn(loss, buckets=100)
    band = re.search(r'class="band"[^>]* d="([^"]*)"', svg.chart_svg(found, "c", "en"))[1]
    assert len(re.findall("M", band)) == 1
    heights = [float(at) for at in re.findall(r"V([\d.]+)", band)]
    expected = svg.HEIGHT - 26 - found.scale.place(np.array([1.5]))[0] * (svg.HEIGHT - 18 - 26)
    assert heights == [pytest.approx(expected, abs=0.06)]


def test_names_are_text():
    found = chart("loss", Text("l", "l"), "", [line([1.0, 2.0], run='</script><b title="x">&')], "linear")
    picture = svg.chart_svg(found, "c", "en") + svg.legend(found.lines)
    assert "<b title" not in picture
    assert "&lt;/script&gt;" in picture
    assert "<" not in svg.json_in_html(svg.chart_values(found))


def test_values_for_the_pointer_are_logged_ones():
    values = svg.chart_values(drawn([1.23456789, float("nan"), 3.0], steps=[10, 20, 30]))
    assert values["lines"][0]["x"] == [10, 20, 30]
    assert values["lines"][0]["y"] == [1.2346, None, 3.0]
