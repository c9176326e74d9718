"""An independent reader of the binary series response, as docs/http-api.md describes it."""

from __future__ import annotations

import json
import struct

import numpy as np


def decode(data: bytes) -> dict:
    """The response's header, with the offsets in its segments replaced by arrays."""
    assert data[:4] == b"THB1"
    (length,) = struct.unpack_from("<I", data, 4)
    header = json.loads(data[8 : 8 + length])
    body = 8 + length
    assert body % 8 == 0

    def column(dtype, offset, count):
        assert offset % np.dtype(dtype).itemsize == 0
        return np.frombuffer(data, dtype, count, body + offset)

    for segment in header["segments"]:
        n = segment["n"]
        segment["x"] = column("<f8", segment["x"], n)
        for name in ("min", "max", "last", "smoothed"):
            if segment[name] is not None:
                segment[name] = column("<f4", segment[name], n)
        if segment["nonfinite"] is not None:
            k = segment["nonfinite"].pop("n")
            segment["nonfinite"] = {name: column("<u4", at, k) for name, at in segment["nonfinite"].items()}
    return header
