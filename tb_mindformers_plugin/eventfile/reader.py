"""Reads an event file that may still grow."""

from __future__ import annotations

import dataclasses
import os
from typing import BinaryIO, Optional

import numpy as np

from tb_mindformers_plugin.eventfile import framing
from tb_mindformers_plugin.eventfile.columns import Chunk, joined
from tb_mindformers_plugin.eventfile.decode import Decoder

# Bytes read and decoded at a time: bounds the memory beside the columns.
_BLOCK = 1 << 22


class EventFile:
    """One event file, read from where the last look stopped.

    Args:
      path: the file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._identity: tuple[int, int] = (-1, -1)
        self._position = 0
        self._size = -1
        self._decoder = Decoder()

    def read(self, most_bytes: Optional[int] = None) -> Chunk:
        """Returns what the file gained since the last call.

        A record that is not complete yet waits for a later call. A file that shrank or was replaced
        is read from its beginning, and the chunk says so.

        Args:
          most_bytes: read no more than about this much (None: all there is).

        Raises:
          OSError: the file cannot be opened or read.
        """
        # Read, not mapped: a mapped file that is cut short by its writer kills the process with SIGBUS.
        with open(self.path, "rb") as file:
            stat = os.fstat(file.fileno())
            identity = (stat.st_dev, stat.st_ino)
            anew = identity != self._identity or stat.st_size < self._position
            if anew:
                self._identity, self._position, self._decoder = identity, 0, Decoder()
            elif stat.st_size == self._size:
                return Chunk()
            self._size = stat.st_size
            stop = stat.st_size if most_bytes is None else min(stat.st_size, self._position + most_bytes)
            chunks = self._blocks(file, stop)
        return dataclasses.replace(joined(chunks), anew=anew)

    def _blocks(self, file: BinaryIO, stop: int) -> list[Chunk]:
        """Decodes the file up to `stop`, block by block."""
        chunks: list[Chunk] = []
        size = _BLOCK
        while self._position < stop:
            file.seek(self._position)
            data = file.read(min(size, stop - self._position))
            buffer = np.frombuffer(data, np.uint8)
            frames = framing.scan(buffer)
            if frames.end == 0:
                if self._position + len(data) >= stop or len(data) < size:
                    break  # what is left is a record that is not complete yet
                size *= 4  # a record that is larger than the block
                continue
            size = _BLOCK
            chunk = self._decoder.decode(buffer, frames)
            base, self._position = self._position, self._position + frames.end
            damage = tuple(dataclasses.replace(d, start=d.start + base, stop=d.stop + base) for d in chunk.damage)
            chunks.append(dataclasses.replace(chunk, damage=damage))
        return chunks
