"""CRC-32C (Castagnoli) of many byte ranges at once, in numpy.

TFRecord files carry a masked CRC-32C of every length and of every payload. The CRC of one range is
a loop over its bytes; here the loop runs over byte positions and each turn handles all ranges.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint32]
Positions = npt.NDArray[np.int64]

_POLYNOMIAL = 0x82F63B78  # reflected Castagnoli polynomial (RFC 3720, section 12.1)
_MASK_DELTA = 0xA282EAD8  # TFRecord stores rotate_right(crc, 15) + this

# Ranges are cut into rows of at most this many bytes, which are run side by side and then joined.
_ROW = 128
# Short ranges of similar length are run together, padded to the next multiple of this.
_PAD = 8
# Fewer bytes than this are not worth numpy.
_FEW_BYTES = 512
# Bytes gathered at a time: keeps the work in cache.
_BLOCK = 1 << 20


@functools.cache
def _table() -> Words:
    crc: Words = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        crc = np.where(crc & 1, (crc >> np.uint32(1)) ^ np.uint32(_POLYNOMIAL), crc >> np.uint32(1))
    return crc.astype(np.uint32)


def masked(crc: Words) -> Words:
    """Returns CRCs as TFRecord stores them."""
    rotated: Words = (crc >> np.uint32(15)) | (crc << np.uint32(17))
    return np.add(rotated, np.uint32(_MASK_DELTA))


def crc32c(buffer: Bytes, starts: Positions, lengths: Positions) -> Words:
    """CRC-32C of `buffer[s : s + n]` for every s, n in `starts`, `lengths`.

    Args:
      buffer: bytes.
      starts: (k,) positions; every range lies inside the buffer.
      lengths: (k,) bytes of each range.

    Returns:
      (k,) CRCs, not masked.
    """
    if int(lengths.sum()) < _FEW_BYTES:
        ranges = zip(starts.tolist(), lengths.tolist())
        return np.array([of_bytes(buffer[start : start + length].tobytes()) for start, length in ranges], np.uint32)
    result = np.zeros(len(starts), np.uint32)  # 0 is the CRC of no bytes
    padded = _padded(lengths)
    order = np.argsort(padded, kind="stable")
    edges = np.flatnonzero(np.diff(padded[order])) + 1
    for group in np.split(order, edges):
        if len(group) == 0 or padded[group[0]] == 0:
            continue
        width = int(padded[group[0]])
        step = max(1, _BLOCK // width)
        for first in range(0, len(group), step):
            some = group[first : first + step]
            result[some] = _crc_of_width(buffer, starts[some], lengths[some], width)
    return result


def _padded(lengths: Positions) -> Positions:
    unit = np.where(lengths <= _ROW, _PAD, _ROW)
    return -(-lengths // unit) * unit


def _crc_of_width(buffer: Bytes, starts: Positions, lengths: Positions, width: int) -> Words:
    """CRCs of ranges of at most `width` bytes, padded in front.

    A CRC that begins with state 0 passes leading zero bytes unchanged, and beginning with
    0xFFFFFFFF is the same as inverting the first 32 bits of the message.
    """
    pad = width - lengths
    position = np.arange(width)[None, :] - pad[:, None]  # in the range; negative in the padding
    data = buffer[np.maximum(starts[:, None] + position, 0)]
    if np.any(pad):
        data[position < 0] = 0
    data[(position >= 0) & (position < 4)] ^= 0xFF
    rows = data.reshape(-1, min(width, _ROW))
    state = np.zeros(len(rows), np.uint32)
    for column in np.ascontiguousarray(rows.T):
        state = _advance(state, column)
    crc = _joined(state.reshape(len(starts), -1))
    # Of fewer than 4 bytes, the rest of the inverted bits meets the state after the last byte.
    short = (np.uint32(0xFFFFFFFF) >> (8 * np.minimum(lengths, 4)).astype(np.uint64)).astype(np.uint32)
    return np.bitwise_xor(crc ^ short, np.uint32(0xFFFFFFFF))


def of_bytes(data: bytes) -> int:
    """CRC-32C of one short range, not masked: byte by byte, which for so few is faster than in numpy."""
    table = _table_list()
    state = 0xFFFFFFFF
    for byte in data:
        state = table[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state ^ 0xFFFFFFFF


@functools.cache
def _table_list() -> list[int]:
    return _table().tolist()


def _advance(state: Words, byte: Bytes) -> Words:
    return np.bitwise_xor(_table()[(state ^ byte) & np.uint32(0xFF)], state >> np.uint32(8))


def _joined(state: Words) -> Words:
    """Joins the states of (k, rows) rows of `_ROW` bytes into the k states of the whole ranges.

    Two by two: the state after `a + b` is that after `a`, moved past len(b) zero bytes, XOR that
    after `b`.
    """
    level = 0
    while state.shape[1] > 1:
        if state.shape[1] % 2:
            state = np.concatenate([np.zeros((len(state), 1), np.uint32), state], axis=1)
        state = _apply(_zeros_operator(level), state[:, 0::2]) ^ state[:, 1::2]
        level += 1
    return state[:, 0]


def _apply(operator: Words, words: Words) -> Words:
    """Applies a linear map of 32-bit words over GF(2), given as a (4, 256) table by byte."""
    result: Words = operator[0][words & np.uint32(0xFF)]
    for byte in range(1, 4):
        result = np.bitwise_xor(result, operator[byte][(words >> np.uint32(8 * byte)) & np.uint32(0xFF)])
    return result


@functools.cache
def _zeros_operator(level: int) -> Words:
    """The (4, 256) table of the map that moves a state past `_ROW` x 2^level zero bytes."""
    words = np.arange(256, dtype=np.uint32)[None, :] << np.array([[0], [8], [16], [24]], np.uint32)
    if level:
        half = _zeros_operator(level - 1)
        return _apply(half, _apply(half, words))
    zero = np.zeros((4, 256), np.uint8)
    for _ in range(_ROW):
        words = _advance(words, zero)
    return words


@functools.lru_cache(maxsize=4096)
def contribution(distance: int) -> Words:
    """What a byte adds to a CRC (by XOR) when `distance` bytes follow it: (256,) by its value."""
    if distance == 0:
        return _table()
    if distance % 256 == 0:
        # Far ones by a jump, so that the chain of calls below stays short.
        words = contribution(0)
        for bit in range(distance.bit_length()):
            if distance >> bit & 1:
                words = _past_zeros(words, bit)
        return words
    return _advance(contribution(distance - 1), np.zeros(256, np.uint8))


@functools.lru_cache(maxsize=128)
def pair_contribution(distance: int) -> Words:
    """What a little-endian pair of bytes adds to a CRC, its first byte `distance` before the last byte: (65536,)."""
    first, second = contribution(distance), contribution(distance - 1)
    return np.bitwise_xor(second[:, None], first[None, :]).reshape(-1)


def _past_zeros(words: Words, bit: int) -> Words:
    """Moves states past 2^bit zero bytes."""
    level = bit - _ROW.bit_length() + 1
    if level >= 0:
        return _apply(_zeros_operator(level), words)
    zero = np.zeros(words.shape, np.uint8)
    for _ in range(1 << bit):
        words = _advance(words, zero)
    return words
