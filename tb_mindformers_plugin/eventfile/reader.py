"""Reads an event file that may still grow."""

from __future__ import annotations

import dataclasses
from typing import Optional, Sequence, Tuple, Union

import numpy as np

from tb_mindformers_plugin.eventfile import storage
from tb_mindformers_plugin.eventfile.columns import NOTHING, Chunk, joined
from tb_mindformers_plugin.eventfile.crc32c import Bytes
from tb_mindformers_plugin.eventfile.decode import LARGE_RECORD, Decoder, decode_together
from tb_mindformers_plugin.eventfile.large import passed_over

# Bytes read and decoded at a time: bounds the memory beside the columns.
_BLOCK = 1 << 22
# Small files are decoded together until they are so many bytes.
_BATCH = 1 << 24

# Bytes before the position that are looked at again, to tell whether a file grew or was written anew.
# A record ends with a checksum of its wall time and values, so other bytes differ here.
_TAIL = 64


class EventFile:
    """One event file, read from where the last look stopped.

    A file is taken to have grown where it is no shorter than what was read of it and the last bytes
    that were read are still there; they come with the new ones, in one request. An inode does not
    tell: a file that is written anew may keep it, and an object store has none.

    Args:
      path: the file, or its URL.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._storage, self._place = storage.locate(path)
        self._identity: Optional[Tuple[int, ...]] = None
        self._position = 0
        self._tail = b""
        self._seen: Tuple[int, object] = (-1, None)
        self._decoder = Decoder()

    def read(self) -> Chunk:
        """Returns what the file gained since the last call.

        A record that is not complete yet waits for a later call. A file that shrank or was replaced
        is read from its beginning, and the chunk says so.

        Raises:
          OSError: the file cannot be opened or read.
        """
        if self._identity is not None and self._is_as_it_was(self._storage.stat(self._place)):
            return NOTHING  # the most frequent answer of all, without opening the file
        with self._storage.open(self._place) as file:
            stat = file.stat
            anew = stat.identity != self._identity or stat.size < self._position
            ready = b""
            if not anew and self._position:
                data = file.read(self._position - len(self._tail), min(stat.size, self._position + _BLOCK))
                anew = not data.startswith(self._tail)
                ready = data[len(self._tail) :]
            if anew:
                self._identity, self._position, self._decoder = stat.identity, 0, Decoder()
                self._tail = ready = b""
            self._seen = (stat.size, stat.version)
            try:
                chunks = self._blocks(file, stat.size, ready)
            except OSError:
                if anew:
                    self._identity = None
                raise
        return dataclasses.replace(joined(chunks), anew=anew)

    def _is_as_it_was(self, stat: storage.Stat) -> bool:
        return stat.identity == self._identity and self._seen == (stat.size, stat.version)

    def _blocks(self, file: storage.OpenFile, stop: int, ready: bytes) -> list[Chunk]:
        """Decodes the file up to `stop`, block by block; `ready` is what was read already."""
        chunks: list[Chunk] = []
        size = _BLOCK
        while self._position < stop:
            try:
                data = ready or file.read(self._position, min(self._position + size, stop))
            except OSError:
                self._seen = (-1, None)
                if not chunks:
                    raise
                break  # what came before is not lost; the next call tries again
            ready = b""
            there = self._position + len(data)
            chunk, end = self._decoder.decode(np.frombuffer(data, np.uint8), beyond=max(stop - there, 0))
            if end == 0:
                if there >= stop or len(data) < size:
                    break  # what is left is a record that is not complete yet
                behind = passed_over(file, data, self._position, stop, _TAIL)
                if behind is None:
                    size *= 4  # a record that is larger than the block
                    continue
                chunks.append(Chunk(other_records={LARGE_RECORD: 1}))
                self._position, self._tail = behind
                size = _BLOCK
                continue
            size = _BLOCK
            chunks.append(_moved(chunk, self._position))
            self._position += end
            if there >= stop:
                ready = data[end:]  # the beginning of a record, most likely: not worth another request
            self._tail = data[end - _TAIL : end] if end >= _TAIL else (self._tail + data[:end])[-_TAIL:]
        return chunks


def read_together(files: Sequence[EventFile]) -> list[Union[Chunk, OSError]]:
    """Reads many files that were not read yet; what `EventFile.read` would return, or raise, for each.

    Small files are decoded together: most of what a thousand of them cost is for each file, not for
    each byte.
    """
    found: dict[int, Union[Chunk, OSError]] = {}
    batch: list[tuple[int, storage.Stat]] = []
    buffer = np.empty(0 if len(files) < 2 else _BATCH + _BLOCK, np.uint8)  # the same for all batches
    bounds = [0]
    for i, file in enumerate(files):
        try:
            with file._storage.open(file._place) as opened:
                size = opened.stat.size
                if size <= min(_BLOCK, len(buffer)) and not file._position:
                    read = opened.read_into(buffer.data[bounds[-1] : bounds[-1] + size])
                    batch.append((i, opened.stat))
                    bounds.append(bounds[-1] + read)
                else:
                    found[i] = file.read()
        except OSError as error:
            found[i] = error
        if bounds[-1] >= _BATCH:
            found.update(_decode_batch(files, batch, buffer, bounds))
            batch, bounds = [], [0]
    found.update(_decode_batch(files, batch, buffer, bounds))
    return [found[i] for i in range(len(files))]


def _decode_batch(
    files: Sequence[EventFile], batch: Sequence[tuple[int, storage.Stat]], buffer: Bytes, bounds: Sequence[int]
) -> dict[int, Union[Chunk, OSError]]:
    """Decodes the beginnings of files, and has each file go on behind what was read."""
    decoders = [Decoder() for _ in batch]
    found: dict[int, Union[Chunk, OSError]] = {}
    decoded = decode_together(buffer[: bounds[-1]], np.array(bounds), decoders) if batch else []
    for (i, stat), base, decoder, (chunk, stop) in zip(batch, bounds, decoders, decoded):
        file = files[i]
        file._identity, file._position, file._decoder = stat.identity, stop - base, decoder
        file._seen, file._tail = (stat.size, stat.version), buffer[max(base, stop - _TAIL) : stop].tobytes()
        found[i] = dataclasses.replace(_moved(chunk, -base), anew=True)
    return found


def _moved(chunk: Chunk, by: int) -> Chunk:
    if not (by and chunk.damage):
        return chunk
    damage = tuple(dataclasses.replace(d, start=d.start + by, stop=d.stop + by) for d in chunk.damage)
    return dataclasses.replace(chunk, damage=damage)
