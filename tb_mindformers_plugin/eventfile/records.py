"""Payloads to the bytes of an event file: the way back from `framing`."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from tb_mindformers_plugin.eventfile.crc32c import crc32c, masked


def framed(payloads: Sequence[bytes]) -> bytes:
    """Returns `payloads` as TFRecords: length, its masked CRC, payload, its masked CRC."""
    lengths = np.array([len(payload) for payload in payloads], np.int64)
    data = np.frombuffer(b"".join(payloads), np.uint8)
    heads = np.frombuffer(lengths.astype("<u8").tobytes(), np.uint8)
    head_crcs = masked(crc32c(heads, np.arange(len(lengths)) * 8, np.full(len(lengths), 8))).astype("<u4")
    crcs = masked(crc32c(data, np.cumsum(lengths) - lengths, lengths)).astype("<u4")
    parts = zip(lengths.astype("<u8"), head_crcs, payloads, crcs)
    return b"".join(
        piece
        for length, head, payload, crc in parts
        for piece in (length.tobytes(), head.tobytes(), payload, crc.tobytes())
    )
