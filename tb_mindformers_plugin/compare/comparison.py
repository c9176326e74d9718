"""One run against its baseline, with a verdict."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Mapping, Optional, Tuple

import numpy as np

from tb_mindformers_plugin.compare import wording
from tb_mindformers_plugin.compare.align import AlignmentError, Pairs, align, axis_note, default_axis
from tb_mindformers_plugin.compare.constant import Constant, best_shift, constant
from tb_mindformers_plugin.compare.errors import Errors, Tolerance, measure
from tb_mindformers_plugin.compare.settings import Setting, differing_settings
from tb_mindformers_plugin.language import Text
from tb_mindformers_plugin.roles import ROLES
from tb_mindformers_plugin.runs.contents import RunContents
from tb_mindformers_plugin.strict_json import json_value

#: What a comparison can come to.
VERDICTS = ("same", "ratio", "offset", "differs")

# The learning rate is computed, not measured: two runs with one schedule agree to the digits of float32.
_LR_TOLERANCE = Tolerance(relative=1e-3, points=1)
# Pairs at the beginning that show a constant before the curves part.
_BEGINNING = 20


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison:
    """A run against its baseline, in one role.

    Attributes:
      pairs: the points that both have.
      tolerance: from when on two of them are not the same.
      errors: how far they are apart.
      verdict: one of `VERDICTS`: same within the tolerance, a constant ratio or offset, or parted.
      constant: what explains the difference, over all pairs; of parted curves over their beginning.
      lr: errors of the learning rate, where both log it (tolerance 0.1 %); `lr_pairs` its points.
      settings: fields of the manifests that differ.
      speed: median seconds of a step of the run and of the baseline, where both are known.
      axis_note: what a reader must know of the axis, or None.
      shift: by how many points the run is to be moved to lie on the baseline (0: none).
    """

    pairs: Pairs
    tolerance: Tolerance
    errors: Errors
    verdict: str
    constant: Optional[Constant]
    lr: Optional[Errors]
    lr_pairs: Optional[Pairs]
    settings: Tuple[Setting, ...]
    speed: Optional[Tuple[float, float]]
    axis_note: Optional[Text]
    shift: int

    @property
    def parted_step(self) -> Optional[int]:
        """The run's step from which on the curves part; None where they do not."""
        return None if self.errors.parted is None else int(self.pairs.step[self.errors.parted])

    @property
    def first_step_beyond(self) -> Optional[int]:
        """The run's first step that is beyond the tolerance; None where there is none."""
        return None if self.errors.first_beyond is None else int(self.pairs.step[self.errors.first_beyond])

    def to_dict(self, run: str, baseline: str, language: str = "en") -> dict[str, Any]:
        """Returns the comparison as JSON types, without its points; words in one of `LANGUAGES`."""
        errors = dataclasses.asdict(self.errors)
        for name in ("first_beyond", "parted", "worst"):
            place = errors.pop(name)
            errors[f"{name}_step"] = None if place is None else int(self.pairs.step[place])
        return {
            "run": run,
            "baseline": baseline,
            "role": self.pairs.role,
            "tag": self.pairs.tag,
            "baseline_tag": self.pairs.baseline_tag,
            "unit": self.pairs.unit,
            "x": self.pairs.axis,
            "verdict": self.verdict,
            "title": wording.title(self).in_language(language),
            "message": wording.message(self).in_language(language),
            "notes": [note.in_language(language) for note in wording.notes(self)],
            "tolerance": dataclasses.asdict(self.tolerance),
            "errors": {name: _json(value) for name, value in errors.items()},
            "constant": self.constant and {**dataclasses.asdict(self.constant), "whole": self.constant.whole},
            "only_run": self.pairs.only_run,
            "only_baseline": self.pairs.only_baseline,
            "lr": self._lr_dict(),
            "seconds_per_step": None if self.speed is None else {"run": self.speed[0], "baseline": self.speed[1]},
            "settings": [dataclasses.asdict(setting) for setting in self.settings],
        }

    def _lr_dict(self) -> Optional[Mapping[str, Any]]:
        if self.lr is None or self.lr_pairs is None:
            return None
        first = self.lr.first_beyond
        return {
            "same": first is None,
            "first_step": None if first is None else int(self.lr_pairs.step[first]),
            "run": None if first is None else _json(float(self.lr_pairs.value[first])),
            "baseline": None if first is None else _json(float(self.lr_pairs.baseline[first])),
            "max_relative": _json(self.lr.max_relative),
        }


def compare(
    run: RunContents,
    baseline: RunContents,
    role: str = "loss",
    axis: Optional[str] = None,
    tolerance: Optional[Tolerance] = None,
) -> Comparison:
    """Returns how one role of a run compares with that of its baseline, at every point that both logged.

    Args:
      run: what was read of the run.
      baseline: what was read of its baseline.
      role: which series.
      axis: "step", "from_start", "tokens" or "samples"; None: steps, unless a step of one run is not a step of the
        other.
      tolerance: from when on they are not the same; 1 % where None.

    Raises:
      AlignmentError: they cannot be laid side by side; it says why and what to do.
      ValueError: an unknown role or axis.
    """
    tolerance = tolerance or Tolerance()
    axis = axis or default_axis(run, baseline)
    pairs = align(run, baseline, role, axis)
    errors = measure(pairs.value, pairs.baseline, tolerance)
    if errors.both_not_finite == errors.points:
        # Equal they are not: a check that nothing was checked by must not pass.
        raise AlignmentError(
            f"the {ROLES[role].title} is NaN or infinite in both runs at all {errors.points:,} common points: there is "
            "nothing to compare; compare with a run that has numbers"
        )
    value, base = _finite(pairs)
    verdict, explained = "same", None
    if errors.parted is not None:
        explained = None if errors.not_finite else constant(value, base, tolerance.relative)
        verdict = "differs" if explained is None else explained.kind
        if explained is None:
            explained = constant(value[:_BEGINNING], base[:_BEGINNING], tolerance.relative)
    lr = _optional(run, baseline, "lr", axis)
    return Comparison(
        pairs=pairs,
        tolerance=tolerance,
        errors=errors,
        verdict=verdict,
        constant=explained,
        lr=None if lr is None else measure(lr.value, lr.baseline, _LR_TOLERANCE),
        lr_pairs=lr,
        settings=tuple(differing_settings(run.manifest, baseline.manifest)),
        speed=_speed(_optional(run, baseline, "step_time", axis)),
        axis_note=axis_note(run, baseline, axis),
        shift=best_shift(value, base) if errors.parted is not None else 0,
    )


def _finite(pairs: Pairs) -> Tuple[Any, Any]:
    good = np.isfinite(pairs.value) & np.isfinite(pairs.baseline)
    return pairs.value[good], pairs.baseline[good]


def _optional(run: RunContents, baseline: RunContents, role: str, axis: str) -> Optional[Pairs]:
    try:
        return align(run, baseline, role, axis)
    except AlignmentError:
        return None


def _speed(pairs: Optional[Pairs]) -> Optional[Tuple[float, float]]:
    if pairs is None or (pairs.unit != "s" and pairs.unit != "ms"):
        return None
    value, base = _finite(pairs)
    scale = 1e-3 if pairs.unit == "ms" else 1.0
    return (float(np.median(value)) * scale, float(np.median(base)) * scale) if len(value) else None


def _json(value: Any) -> Any:
    """As `json_value`, but null where there is nothing to say."""
    return None if isinstance(value, float) and math.isnan(value) else json_value(value)
