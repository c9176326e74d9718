"""What two runs say of themselves, laid side by side."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping

from tb_mindformers_plugin.metadata import RunManifest

# What differs between any two runs, and says nothing.
_OF_THE_START = ("version", "roles", "units", "started_at", "resumed_from")


@dataclasses.dataclass(frozen=True)
class Setting:
    """One field of the manifests that is not the same in both.

    Attributes:
      name: the field; a dot leads into it (``hparams.seed``).
      value: the run's; None where it does not say.
      baseline: the baseline's.
    """

    name: str
    value: Any
    baseline: Any


def differing_settings(manifest: RunManifest, baseline: RunManifest) -> list[Setting]:
    """Returns the fields that differ, sorted by name; none where one of the runs has no manifest to speak of.

    >>> differing_settings(RunManifest(hparams={"lr": 1e-3}), RunManifest(hparams={"lr": 3e-4, "seed": 1}))
    [Setting(name='hparams.lr', value=0.001, baseline=0.0003), Setting(name='hparams.seed', value=None, baseline=1)]
    """
    mine, theirs = settings_of(manifest), settings_of(baseline)
    if not mine or not theirs:
        return []
    return [
        Setting(name, mine.get(name), theirs.get(name))
        for name in sorted({*mine, *theirs})
        if mine.get(name) != theirs.get(name)
    ]


def settings_of(manifest: RunManifest) -> dict[str, Any]:
    """Returns what a run says of its set-up, by dotted names; what only its start or the data contract is left out.

    >>> settings_of(RunManifest(total_steps=10, hparams={"lr": 1e-3, "betas": [0.9, 0.95]}))
    {'total_steps': 10, 'hparams.lr': 0.001, 'hparams.betas': [0.9, 0.95]}
    """
    return _flat(manifest.to_dict())


def _flat(fields: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if not before and name in _OF_THE_START:
            continue
        if isinstance(value, Mapping) and value:
            found.update(_flat(value, f"{before}{name}."))
        else:
            found[f"{before}{name}"] = value
    return found
