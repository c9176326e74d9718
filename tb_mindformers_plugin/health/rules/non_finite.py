"""Rule `non_finite`: the loss or the grad norm became NaN or infinite.

Definition: points of the current curve that are NaN, +Inf or -Inf. For the loss: critical if three or
more follow one another or the curve never comes back, else warning. For the grad norm alone: info if
it comes back and is shorter than three points, or if every such step was skipped by the loss scaler;
else critical.

Source: measured definition of this project.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from tb_mindformers_plugin.health.finding import Finding
from tb_mindformers_plugin.roles import ROLES

RULE = "non_finite"
ROLES_READ = ("loss", "grad_norm")

# So many in a row are no longer one unlucky batch.
_STRETCH = 3

_ADVICE = {
    "loss": "Look at the batches just before, and at the grad norm there; lower the learning rate or clip "
    "gradients, and resume from the checkpoint before that step.",
    "grad_norm": "With a dynamic loss scale single ones are skipped updates and harmless; more of them ask for "
    "a lower learning rate or clipping.",
}


def non_finite(
    step: npt.NDArray[np.int64],
    value: npt.NDArray[Any],
    role: str,
    tag: str,
    skipped: Optional[npt.NDArray[np.bool_]] = None,
) -> Optional[Finding]:
    """Returns the finding of one curve, or None where every value is finite.

    Args:
      step: (n,) ascending steps.
      value: (n,) values.
      role: "loss" or "grad_norm".
      tag: the curve's tag.
      skipped: (n,) whether the loss scaler skipped the step; None where there is no loss scaler. Only
        the grad norm looks at it: an overflow is what a loss scaler is for.

    >>> found = non_finite(np.arange(5), np.array([2.0, np.nan, np.nan, np.nan, 2.0]), "loss", "train/loss")
    >>> found.severity, found.first_step, found.last_step
    ('critical', 1, 3)
    """
    bad = ~np.isfinite(value)
    if not bad.any():
        return None
    at = np.flatnonzero(bad)
    excused = skipped is not None and role == "grad_norm" and bool(skipped[bad].all())
    longest = _longest_run(bad)
    recovers = bool(np.isfinite(value[-1]))
    if excused:
        severity = "info"
    elif longest >= _STRETCH or not recovers:
        severity = "critical"
    else:
        severity = "warning" if role == "loss" else "info"
    first, last = int(step[at[0]]), int(step[at[-1]])
    kinds = [
        name
        for name, mask in (("NaN", np.isnan(value)), ("+Inf", np.isposinf(value)), ("-Inf", np.isneginf(value)))
        if mask.any()
    ]
    where = f"at step {first:,}" if first == last else f"from step {first:,} to {last:,}"
    ending = "" if recovers else ", and has not come back"
    if excused:
        ending = ", where the loss scaler skipped the update"
    title = ROLES[role].title
    what = f"{title[0].upper()}{title[1:]} was {' and '.join(kinds)}"
    share = "" if len(at) == 1 else f" at {len(at):,} of {len(value):,} logged steps"
    message = f"{what}{share} {where}{ending}."
    return Finding(
        rule=RULE,
        severity=severity,
        role=role,
        tag=tag,
        first_step=first,
        last_step=last,
        peak_step=first,
        message=message,
        advice=_ADVICE[role],
        evidence={"points": len(at), "longest": longest, "of": len(value), "recovers": recovers, "skipped": excused},
    )


def _longest_run(mask: npt.NDArray[np.bool_]) -> int:
    """Length of the longest stretch of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return int((edges[1::2] - edges[::2]).max(initial=0))
