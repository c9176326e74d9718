"""Writes the sets of event files that the benchmarks read. Seeded: the same shape gives the same bytes.

python benchmarks/generate.py --sets A,B --scale 1.0 --out DIR
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import shutil
from typing import Iterator

import numpy as np
import numpy.typing as npt
from event_records import Layout, encoded, file_version, framed
from tensorboard.compat.proto import event_pb2

from tb_mindformers_plugin.roles import ROLES

# A new number makes sets that are there already be written again.
_VERSION = 1
_SEED = 20240607

SIX = ("loss", "lr", "grad_norm", "loss_scale", "throughput", "step_time")
EIGHT = (*SIX, "loss_ema", "overflow")
FOUR = ("loss", "grad_norm", "lr", "loss_scale")
# Role -> logged at every so manieth step, in the irregular set.
MIXED = {"loss": 1, "lr": 1, "grad_norm": 2, "step_time": 5, "loss_scale": 10, "eval_loss": 100}


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a set looks like.

    Attributes:
      name: its letter.
      about: what it is, in words.
      runs: number of runs.
      steps: steps of each run.
      megabytes: size of what is no scalar.
    """

    name: str
    about: str
    runs: int = 1
    steps: int = 0
    megabytes: int = 0

    def scaled(self, scale: float) -> Shape:
        """A smaller (or larger) set of the same kind: fewer runs where it has many, else fewer steps."""
        if self.megabytes:
            return dataclasses.replace(self, megabytes=max(2, round(self.megabytes * scale)))
        if self.runs > 1:
            return dataclasses.replace(self, runs=max(2, round(self.runs * scale)))
        return dataclasses.replace(self, steps=max(1000, round(self.steps * scale)))

    @property
    def directory(self) -> str:
        """Its name below the directory of all sets."""
        return f"{self.name}-{self.runs}x{self.steps}" + (f"-{self.megabytes}MB" if self.megabytes else "")


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("A", "one run x 6 tags x 1M steps, one record a value", steps=1_000_000),
        Shape("B", "100 runs x 6 tags x 10k steps", runs=100, steps=10_000),
        Shape("C", "1,000 runs x 6 tags x 1k steps", runs=1000, steps=1000),
        Shape("M", "one run, 500k records of 8 values each", steps=500_000),
        Shape("I", "irregular: mixed cadences, 10 % random gaps, 600k records", steps=237_000),
        Shape("D", "tensors with the metadata on every record, 300k records", steps=50_000),
        Shape("Z", "50 runs x 4 tags x 100k steps, one record a step", runs=50, steps=100_000),
        Shape("G", "200 MB of graphs, images and profiles around 3 scalars", steps=3, megabytes=200),
    )
}


@dataclasses.dataclass(frozen=True)
class Written:
    """A set on disk.

    Attributes:
      shape: what it looks like.
      path: its logdir.
      points: scalar points.
      records: records that hold them.
      bytes: size of all its event files.
    """

    shape: Shape
    path: str
    points: int
    records: int
    bytes: int

    @property
    def tag(self) -> str:
        """A tag that every run has: that of the loss."""
        return ROLES["loss"].tag

    @property
    def run_paths(self) -> list[pathlib.Path]:
        """The runs' directories, in the order of their names."""
        return sorted(path for path in pathlib.Path(self.path).iterdir() if path.is_dir())


def written(shape: Shape, out: pathlib.Path) -> Written:
    """Writes a set below `out`, unless it is there already with the same parameters."""
    directory = out / shape.directory
    # Beside the logdir, and written last: its presence says that the set is complete.
    mark = out / f"{shape.directory}.json"
    parameters = {"version": _VERSION, "seed": _SEED, **dataclasses.asdict(shape)}
    if mark.is_file() and directory.is_dir():
        found = json.loads(mark.read_text())
        if found["parameters"] == parameters:
            return Written(shape, str(directory), **found["counts"])
    shutil.rmtree(directory, ignore_errors=True)
    points = records = size = 0
    for run in range(shape.runs):
        path = directory / f"run_{run:04d}"
        path.mkdir(parents=True)
        file_path = path / "events.out.tfevents.1700000000.benchmark.1.0"
        with open(file_path, "wb") as file:
            file.write(file_version())
            for blocks, more_points, more_records in _contents(shape, run):
                points, records = points + more_points, records + more_records
                file.writelines(blocks)
        size += file_path.stat().st_size
    counts = {"points": points, "records": records, "bytes": size}
    mark.write_text(json.dumps({"parameters": parameters, "counts": counts}))
    return Written(shape, str(directory), **counts)


def points_of(run: int, first: int, count: int, layouts: list[Layout]) -> list[bytes]:
    """Bytes of `count` steps of a run from step `first` on, one record a value, as in sets A, B and C."""
    rng = np.random.default_rng([_SEED, run, first])
    step = np.arange(first, first + count)
    values = np.stack([curve(role, step, rng) for role in SIX], axis=1)
    which = np.tile(np.arange(len(SIX)), count)
    return encoded(layouts, which, np.repeat(step, len(SIX)), _walls(step, rng).repeat(len(SIX)), values.reshape(-1, 1))


def one_layout_a_role() -> list[Layout]:
    """The layouts of `points_of`."""
    return [Layout([ROLES[role].tag]) for role in SIX]


def curve(role: str, step: npt.NDArray[np.int64], rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Values such as a training gives."""
    noise = rng.standard_normal(len(step))
    if role in ("loss", "loss_ema", "eval_loss"):
        value = 2 + 8 / np.sqrt(step) + (0.1 if role == "loss" else 0.01) * noise
    elif role == "lr":
        value = 3e-4 * np.minimum(step / 1000, 1) * (0.55 + 0.45 * np.cos(step * 1e-6))
    elif role == "grad_norm":
        value = np.exp(0.4 * noise)
    elif role == "loss_scale":
        value = 2.0 ** (10 + step // 2000 % 8)
    elif role == "overflow":
        value = (rng.random(len(step)) < 0.001).astype(float)
    elif role == "throughput":
        value = 41_000 * (1 + 0.02 * noise)
    else:
        value = 0.25 * (1 + 0.02 * noise)
    return value.astype(np.float32)


def _walls(step: npt.NDArray[np.int64], rng: np.random.Generator) -> npt.NDArray[np.float64]:
    return 1.7e9 + 0.25 * step + 0.01 * rng.random(len(step))


def _contents(shape: Shape, run: int) -> Iterator[tuple[list[bytes], int, int]]:
    """Yields (blocks of bytes, points, records) of one run's file."""
    rng = np.random.default_rng([_SEED, run])
    step = np.arange(1, shape.steps + 1)
    if shape.name in ("A", "B", "C"):
        for first in range(1, shape.steps + 1, 50_000):
            count = min(50_000, shape.steps + 1 - first)
            yield points_of(run, first, count, one_layout_a_role()), count * len(SIX), count * len(SIX)
    elif shape.name == "M":
        values = np.stack([curve(role, step, rng) for role in EIGHT], axis=1)
        layout = Layout([ROLES[role].tag for role in EIGHT])
        yield encoded([layout], np.zeros(len(step), int), step, _walls(step, rng), values), values.size, len(step)
    elif shape.name == "Z":
        values = np.stack([curve(role, step, rng) for role in FOUR], axis=1)
        values *= 1 + 0.03 * run  # curves that lie on each other cost less to draw
        layout = Layout([ROLES[role].tag for role in FOUR])
        yield encoded([layout], np.zeros(len(step), int), step, _walls(step, rng), values), values.size, len(step)
    elif shape.name == "I":
        yield _irregular(step, rng)
    elif shape.name == "D":
        values = np.stack([curve(role, step, rng) for role in SIX], axis=1)
        layouts = [Layout([ROLES[role].tag], tensor=True) for role in SIX]
        which = np.tile(np.arange(len(SIX)), len(step))
        walls = _walls(step, rng).repeat(len(SIX))
        blocks = encoded(layouts, which, step.repeat(len(SIX)), walls, values.reshape(-1, 1))
        yield blocks, values.size, values.size
    else:
        yield from _large(shape, step, rng)


def _irregular(step: npt.NDArray[np.int64], rng: np.random.Generator) -> tuple[list[bytes], int, int]:
    steps, which, values = [], [], []
    for kind, (role, every) in enumerate(MIXED.items()):
        logged = step[::every]
        logged = logged[rng.random(len(logged)) >= 0.1]
        steps.append(logged)
        which.append(np.full(len(logged), kind))
        values.append(curve(role, logged, rng))
    order = np.lexsort([np.concatenate(which), np.concatenate(steps)])
    step = np.concatenate(steps)[order]
    layouts = [Layout([ROLES[role].tag]) for role in MIXED]
    value = np.concatenate(values)[order][:, None]
    return encoded(layouts, np.concatenate(which)[order], step, _walls(step, rng), value), len(step), len(step)


def _large(
    shape: Shape, step: npt.NDArray[np.int64], rng: np.random.Generator
) -> Iterator[tuple[list[bytes], int, int]]:
    """A fifth in two graphs, a fifth in profiles, the rest in images of 1 MB; a scalar after each kind."""
    layout = Layout([ROLES["loss"].tag])
    fifth = max(1, shape.megabytes // 5)
    left = 3 * fifth
    for place, (count, size) in enumerate(((2, fifth / 2), (2, fifth / 2), (left, 1))):
        for number in range(count):
            content = rng.bytes(int(size * 1e6))
            event = event_pb2.Event(wall_time=1.7e9 + place, step=place + 1)
            if place == 0:
                event.graph_def = content
            elif place == 1:
                event.tagged_run_metadata.tag = f"step_{number}"
                event.tagged_run_metadata.run_metadata = content
            else:
                value = event.summary.value.add(tag=f"image/{number % 8}")
                value.image.height = value.image.width = 1024
                value.image.encoded_image_string = content
            yield [framed(event.SerializeToString()).tobytes()], 0, 0
        index = step[place : place + 1]
        yield encoded([layout], np.zeros(1, int), index, 1.7e9 + index, curve("loss", index, rng)[:, None]), 1, 1


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SHAPES), help="letters, separated by commas (default: all)")
    parser.add_argument("--scale", type=float, default=1.0, help="fewer runs or steps, for a quick try (default: 1)")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="directory of the sets")
    arguments = parser.parse_args()
    for name in arguments.sets.split(","):
        if name not in SHAPES:
            parser.error(f"set {name!r} is unknown; known: {', '.join(SHAPES)}")
    for name in arguments.sets.split(","):
        one = written(SHAPES[name].scaled(arguments.scale), arguments.out)
        print(f"{name}: {one.path}: {one.records:,} records, {one.points:,} points, {one.bytes / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
