"""Reads an event file that may still grow."""

from __future__ import annotations

import dataclasses
import os

import numpy as np

from tb_mindformers_plugin.eventfile import framing
from tb_mindformers_plugin.eventfile.columns import Chunk
from tb_mindformers_plugin.eventfile.decode import Decoder


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

    def read(self, most_bytes: int = -1) -> Chunk:
        """Returns what the file gained since the last call.

        A record that is not complete yet waits for a later call. A file that shrank or was replaced
        is read from its beginning, and the chunk says so.

        Args:
          most_bytes: read no more than this (-1: all there is).

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
            file.seek(self._position)
            buffer = np.frombuffer(file.read(most_bytes), np.uint8)
        frames = framing.scan(buffer)
        chunk = self._decoder.decode(buffer, frames)
        base, self._position = self._position, self._position + frames.end
        self._size = base + len(buffer)
        damage = tuple(dataclasses.replace(d, start=d.start + base, stop=d.stop + base) for d in chunk.damage)
        return dataclasses.replace(chunk, anew=anew, damage=damage)
