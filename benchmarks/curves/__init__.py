"""Curves of healthy trainings, and faults put into them at a known step. Seeded: same name and number, same run.

A run is drawn in three moves: a family lays out the quantities of a healthy training (`Draft`), a fault may change
them from one point on, and `Draft.run` makes the series of them, as a framework would have logged them.

What is fair was settled before any rule was run on it, in these terms:

- noise of a loss is autocorrelated, multiplicative, and never further out than 5 sigma. What stands out by 8 sigma or
  more in one point, or by 3 sigma (2.5 at a join) for as long as the run lasts, is a fault; between is drawn neither
  in healthy runs nor as a fault. No fault is smaller than the kind's least strength either (a spike: 15 %).
- the norm of the gradients is heavy-tailed: single points up to 25x are healthy.
- data mixes shift a healthy loss by at most 8 %; warm-up bumps are below 25 %.
- no fault begins within 150 points of a join or of a rise of the lr: nobody could say which of the two it was.

Changed after rules had been run, where a run was not what it was called: swings that were of a fixed period in truth
(oscillation); two shifts of a data mix that added up to more than 8 %; fine-tuning at a constant lr that stood still
for half the run; explosions that the loss scaler skipped; overflows counted by logged points rather than by steps; a
scale that falls to where it had been before; a silence of days. And a gradient norm that is raised along with the loss
may saturate clipping: that is no false alarm. Strengths of faults and the noise of healthy runs were left as they were.

The parts: `drafts.py` has the quantities that a run is made of, `families.py` and `surroundings.py` draw healthy ones,
`healthy.py` puts them together; `injection.py` says what a fault is, three modules hold them.
"""

from __future__ import annotations

import zlib
from typing import Mapping

import numpy as np

from curves import gradient_faults, injection, loss_faults, other_faults
from curves.drafts import Fault, Run
from curves.families import FAMILIES
from curves.healthy import draft
from curves.injection import Injected

__all__ = ["FAMILIES", "FAULTS", "Fault", "Run", "run"]

_MODULES = [module.__name__ for module in (loss_faults, gradient_faults, other_faults)]

#: Kind -> how it is made.
FAULTS: Mapping[str, Injected] = dict(
    sorted(injection.KNOWN.items(), key=lambda item: _MODULES.index(item[1].inject.__module__))
)


def run(name: str, number: int, seed: int = 0) -> Run:
    """Draws one run.

    Args:
      name: a fault of `FAULTS`, or a family of `FAMILIES` for a healthy run.
      number: which one.
      seed: of the whole set.
    """
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), number])
    if name in FAMILIES:
        return draft(rng, name).run()
    injected = FAULTS[name]
    while True:
        family = str(rng.choice(injected.families))
        drawn = draft(rng, family, least=injected.least_points, most=injected.most_points, wanted=injected.wanted)
        fault = injected.inject(drawn)
        # None: this run has no place for it.
        if fault is not None:
            return drawn.run(fault)
