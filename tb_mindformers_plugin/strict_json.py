"""Values as strict JSON can say them."""

from __future__ import annotations

import math
from typing import Any


def json_value(value: Any) -> Any:
    """Returns a value for JSON, which has no word for what is not finite: TensorBoard's words for it.

    >>> json_value(float("nan")), json_value(float("-inf")), json_value(1.5), json_value("x")
    ('NaN', '-Infinity', 1.5, 'x')
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
