"""The windows that ``POST series`` asks for."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.http_api.request import BadRequestError, SeriesRequest
from tb_mindformers_plugin.roles import ROLES
from tb_mindformers_plugin.runs import axes
from tb_mindformers_plugin.runs.contents import RunContents, Segment
from tb_mindformers_plugin.runs.store import Store
from tb_mindformers_plugin.runs.window import Window, window

# A step function: an average between its levels would be a level that never was.
NOT_SMOOTHED = frozenset(("lr", "loss_scale", "overflow", "epoch", "tokens", "samples"))


@dataclasses.dataclass(frozen=True)
class SeriesWindow:
    """The window of one segment of one run's series.

    Attributes:
      run, role, tag, unit: which series.
      current: whether the segment is the curve, or was superseded.
      points: its points or buckets.
    """

    run: str
    role: str
    tag: str
    unit: str
    current: bool
    points: Window


@dataclasses.dataclass(frozen=True)
class SeriesAnswer:
    """All windows asked for, and which series there are none of.

    Attributes:
      windows: in the order of the request's runs, then roles; a series' curve comes first.
      missing: {"run", "role", "reason"} of each series that cannot be shown.
    """

    windows: tuple[SeriesWindow, ...]
    missing: tuple[dict[str, str], ...]


def query(store: Store, request: SeriesRequest) -> SeriesAnswer:
    """Answers a request.

    Raises:
      BadRequestError: a run is unknown.
    """
    windows: list[SeriesWindow] = []
    missing: list[dict[str, str]] = []
    try:
        loaded = store.load(request.runs)
    except KeyError as error:
        raise BadRequestError(f"run {error.args[0]!r} is unknown", "GET runs lists the runs") from error
    for name, run in loaded.items():
        for role in request.roles:
            match = run.roles.get(role)
            if match is None:
                missing.append({"run": name, "role": role, "reason": f"no {ROLES[role].title} is logged"})
                continue
            shown = [
                SeriesWindow(name, role, match.tag, match.unit, segment.current, points)
                for place, segment in enumerate(run.segments(match.tag))
                for points in [_window(run, role, place, segment, request)]
                if points is not None
            ]
            if not shown:
                reason = f"the run does not know its {request.x}: {_AXIS_HINTS.get(request.x, '')}"
                missing.append({"run": name, "role": role, "reason": reason})
            windows.extend(shown)
    return SeriesAnswer(tuple(windows), tuple(missing))


_AXIS_HINTS = {
    "epoch": "log an epoch, or give steps_per_epoch in the manifest",
    "tokens": "give the callback tokens_per_step",
    "samples": "give global_batch_size in the manifest",
}


def _window(run: RunContents, role: str, place: int, segment: Segment, request: SeriesRequest) -> Optional[Window]:
    x: Optional[npt.NDArray[Any]] = segment.step  # as they are: whole numbers, and no copy of them
    if request.x != "step":
        x = axes.positions(run, segment, request.x)
    if x is None:
        return None
    # Smoothed over all points in the order of steps, before anything is cut out: the same at any zoom.
    smooth = request.smoothing > 0 and segment.current and role not in NOT_SMOOTHED
    smoothed = run.smoothed(run.roles[role].tag, place, request.smoothing) if smooth else None
    value = segment.value
    if request.x != "step":
        # Clocks go back, and a damaged one is NaN; a window needs ascending positions.
        order = np.argsort(x, kind="stable")
        order = order[np.isfinite(x[order])]
        x, value = x[order], value[order]
        smoothed = None if smoothed is None else smoothed[order]
    return window(x, value, smoothed, request.start, request.stop, request.buckets, request.log_x)
