"""A look at the beginning and the end of an event file, for a listing that must not read it all."""

from __future__ import annotations

import dataclasses

import numpy as np

from tb_mindformers_plugin.eventfile import storage
from tb_mindformers_plugin.eventfile.columns import Chunk, joined
from tb_mindformers_plugin.eventfile.decode import Decoder

# Some dozens of records of a step each, or the manifest and some.
_HEAD_BYTES = 1 << 14
_TAIL_BYTES = 1 << 13


def peek(path: str) -> tuple[Chunk, bool]:
    """Returns the records at the beginning and the end of a file, and whether they tell what the file is.

    They do where that is all of it, or where there are scalars at its end.

    Raises:
      OSError: the file cannot be opened or read.
    """
    place, name = storage.locate(path)
    with place.open(name) as file:
        size = file.stat.size
        head = np.frombuffer(file.read(0, size if _is_small(size) else _HEAD_BYTES), np.uint8)
        decoder = Decoder()
        first, _ = decoder.decode(head)
        if _is_small(size):
            return first, True
        tail = np.frombuffer(file.read(size - _TAIL_BYTES, size), np.uint8)
    # A tail begins in the middle of a record, which is no damage.
    last = dataclasses.replace(decoder.decode(tail)[0], damage=())
    return joined([first, last]), bool(last.columns)


def _is_small(size: int) -> bool:
    return size <= _HEAD_BYTES + _TAIL_BYTES
