"""Numbers out of tensors.

Reading a tensor waits for the device, so these are called on logged steps only.
"""

from __future__ import annotations

import numbers
from typing import Any, Optional

import numpy as np
from mindspore import Tensor
from mindspore import dtype as mstype

_PLAIN = (mstype.float32, mstype.int32, mstype.bool_, mstype.float16, mstype.int64, mstype.float64)


def as_float(value: Any) -> Optional[float]:
    """Returns `value` as one float: the mean, where it has many elements.

    Args:
      value: a Tensor or Parameter (any shape and real dtype, bfloat16 included), a numpy array or
        scalar, or a Python number.

    Returns:
      The float, or None where `value` is no number, is empty or is complex.
    """
    if type(value) is float:
        return value
    if isinstance(value, Tensor):
        if value.size == 1 and value.dtype in _PLAIN:
            return float(value.item())  # what nearly all are; an array of it would take four times as long to make
        value = value.asnumpy()
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "fiu":
        return float(value.item())
    if not isinstance(value, (np.ndarray, np.generic, numbers.Real)):
        return None
    array = np.asarray(value)
    if array.size == 0 or array.dtype.kind in "cOSUM":
        return None
    with np.errstate(all="ignore"):
        return float(array.astype(np.float64).mean())


def element_count(value: Any) -> Optional[int]:
    """Returns how many numbers `value` holds, without reading the device; None if it is no number."""
    if isinstance(value, Tensor):
        return int(value.size)
    if isinstance(value, (np.ndarray, np.generic)):
        return int(np.size(value))
    return 1 if isinstance(value, numbers.Real) else None


def is_flag(value: Any) -> bool:
    """Tells whether `value` is one boolean, without reading the device."""
    if isinstance(value, (bool, np.bool_)):
        return True
    return element_count(value) == 1 and str(getattr(value, "dtype", "")).lower() in ("bool", "bool_")
