"""Reads runs with TensorBoard's own code, not with the project's."""

from __future__ import annotations

import dataclasses
import json
import pathlib

from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto import event_pb2
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.util import tensor_util


@dataclasses.dataclass
class Run:
    """What the event files of a directory hold, in the order they were written."""

    records: list  # (step, {tag: value}) of each record with scalars
    manifests: list
    events: list  # {"kind": ..., "step": ..., ...}

    def series(self, tag):
        """Returns the steps and values of a tag."""
        points = [(step, values[tag]) for step, values in self.records if tag in values]
        return [step for step, _ in points], [value for _, value in points]

    def values(self, tag):
        return self.series(tag)[1]

    def steps(self, tag="train/loss"):
        return self.series(tag)[0]


def read_run(directory) -> Run:
    run = Run([], [], [])
    for path in sorted(pathlib.Path(directory).glob("events.out.tfevents.*"), key=_order):
        for record in RawEventFileLoader(str(path)).Load():
            event = event_pb2.Event.FromString(record)
            scalars = {}
            for value in event.summary.value:
                if value.tag == "training_health/run":
                    assert value.metadata.plugin_data.plugin_name == "training_health"
                    run.manifests.append(json.loads(value.metadata.plugin_data.content))
                elif value.tag == "training_health/events":
                    run.events.append({"step": event.step, **json.loads(value.tensor.string_val[0])})
                elif value.metadata.plugin_data.plugin_name not in ("hparams", "histograms"):
                    assert value.WhichOneof("value") == "simple_value"
                    scalars[value.tag] = value.simple_value
            if scalars:
                run.records.append((event.step, scalars))
    return run


def read_histograms(directory) -> dict:
    """Returns {tag: [(step, rows of left, right and count)]}."""
    found: dict = {}
    for path in sorted(pathlib.Path(directory).glob("events.out.tfevents.*"), key=_order):
        for record in RawEventFileLoader(str(path)).Load():
            event = event_pb2.Event.FromString(record)
            for value in event.summary.value:
                if value.metadata.plugin_data.plugin_name == "histograms":
                    found.setdefault(value.tag, []).append((event.step, tensor_util.make_ndarray(value.tensor)))
    return found


def read_hparams(directory) -> list:
    """Returns what the HParams plugin gets."""
    found = []
    for path in sorted(pathlib.Path(directory).glob("events.out.tfevents.*"), key=_order):
        for record in RawEventFileLoader(str(path)).Load():
            for value in event_pb2.Event.FromString(record).summary.value:
                if value.metadata.plugin_data.plugin_name == "hparams":
                    found.append(plugin_data_pb2.HParamsPluginData.FromString(value.metadata.plugin_data.content))
    return found


def read_scalars(directory) -> dict:
    """Returns {tag: [(step, value)]} of all simple values, whoever wrote them."""
    found: dict = {}
    for path in sorted(pathlib.Path(directory).glob("events.out.tfevents.*"), key=_order):
        for record in RawEventFileLoader(str(path)).Load():
            event = event_pb2.Event.FromString(record)
            for value in event.summary.value:
                if value.WhichOneof("value") == "simple_value":
                    found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


def _order(path):
    # events.out.tfevents.<second>.<host>.<pid>.<count in this process>
    parts = path.name.split(".")
    return int(parts[3]), int(parts[-1]) if parts[-1].isdigit() else 0  # tensorboardX counts nothing
