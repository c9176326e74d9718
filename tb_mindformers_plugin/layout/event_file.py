"""A layout, or series beside it, as the bytes of an event file."""

from __future__ import annotations

import itertools
from typing import Iterable, Iterator, Sequence

import numpy as np
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.custom_scalar import metadata as custom_scalars

from tb_mindformers_plugin.eventfile.records import framed
from tb_mindformers_plugin.layout.groups import Points
from tb_mindformers_plugin.scalar_record import scalar_record


def layout_file(layout: layout_pb2.Layout, wall_time: float) -> bytes:
    """Returns an event file that holds `layout`.

    TensorBoard's own way of making it (`tensorboard.plugins.custom_scalar.summary`) needs TensorFlow.
    """
    tensor = tensor_pb2.TensorProto(
        dtype=types_pb2.DT_STRING,
        tensor_shape=tensor_shape_pb2.TensorShapeProto(),
        string_val=[layout.SerializeToString()],
    )
    value = summary_pb2.Summary.Value(
        tag=custom_scalars.CONFIG_SUMMARY_TAG, metadata=custom_scalars.create_summary_metadata(), tensor=tensor
    )
    event = event_pb2.Event(wall_time=wall_time, summary=summary_pb2.Summary(value=[value]))
    return _file([event.SerializeToString()], wall_time)


def series_file(series: Sequence[Points], wall_time: float) -> bytes:
    """Returns an event file that holds series, one record a step."""
    return _file(_records(series), wall_time)


def _records(series: Sequence[Points]) -> Iterator[bytes]:
    step = np.concatenate([points.step for points in series])
    which = np.repeat(np.arange(len(series)), [len(points.step) for points in series])
    order = np.argsort(step, kind="stable")
    rows = zip(
        step[order].tolist(),
        which[order].tolist(),
        np.concatenate([points.wall for points in series])[order].tolist(),
        np.concatenate([points.value.astype(np.float64) for points in series])[order].tolist(),
    )
    for at, points_there in itertools.groupby(rows, key=lambda row: row[0]):
        there = list(points_there)
        wall = max((wall for _, _, wall, _ in there if wall == wall), default=0.0)
        yield scalar_record(at, wall, {series[i].tag: value for _, i, _, value in there})


def _file(records: Iterable[bytes], wall_time: float) -> bytes:
    # A start of a session tells TensorBoard's Python loader to forget what an older file of the run said.
    start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
    head = [
        event_pb2.Event(wall_time=wall_time, file_version="brain.Event:2"),
        event_pb2.Event(wall_time=wall_time, session_log=start),
    ]
    return framed([*(event.SerializeToString() for event in head), *records])
