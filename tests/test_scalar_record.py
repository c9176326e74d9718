"""The bytes of a logged step are those that protobuf makes."""

from __future__ import annotations

import doctest
import math

from hypothesis import given
from hypothesis import strategies as st
from tensorboard.compat.proto import event_pb2, summary_pb2

from tb_mindformers_plugin import scalar_record as module
from tb_mindformers_plugin.scalar_record import scalar_record

TAGS = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=300)


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.dictionaries(TAGS, st.floats(width=32) | st.floats(), min_size=1, max_size=12),
)
def test_any_record_reads_as_it_was_written(step, wall_time, scalars):
    event = event_pb2.Event.FromString(scalar_record(step, wall_time, scalars))
    values = [summary_pb2.Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
    expected = event_pb2.Event(wall_time=wall_time, step=step, summary=summary_pb2.Summary(value=values))
    assert (event.step, event.wall_time) == (step, wall_time)
    assert [value.tag for value in event.summary.value] == list(scalars)
    for value, wanted in zip(event.summary.value, expected.summary.value):
        assert value.simple_value == wanted.simple_value or math.isnan(wanted.simple_value)


def test_bytes_are_those_of_protobuf():
    values = [summary_pb2.Summary.Value(tag=tag, simple_value=1e39) for tag in ("train/loss", "训练/损失")]
    event = event_pb2.Event(wall_time=1.8e9, step=300, summary=summary_pb2.Summary(value=values))
    assert scalar_record(300, 1.8e9, {value.tag: 1e39 for value in values}) == event.SerializeToString()


def test_doctest():
    assert doctest.testmod(module).failed == 0
