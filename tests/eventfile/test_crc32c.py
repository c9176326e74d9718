from __future__ import annotations

import random

import numpy as np
import pytest
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import crc32c as reference

from tb_mindformers_plugin.eventfile.crc32c import crc32c


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5, 7, 8, 9, 127, 128, 129, 255, 256, 257, 1000, 4096, 70_001])
def test_equals_a_plain_crc(length):
    data = random.Random(length).randbytes(length)
    buffer = np.frombuffer(b"before" + data + b"after", np.uint8)
    assert int(crc32c(buffer, np.array([6]), np.array([length]))[0]) == reference(data)


def test_many_ranges_of_many_lengths_at_once():
    rng = random.Random(0)
    data = rng.randbytes(20_000)
    starts = [rng.randrange(15_000) for _ in range(500)]
    lengths = [rng.choice([0, 1, 3, 8, 30, 31, 32, 140, 700, 4000]) for _ in starts]
    found = crc32c(np.frombuffer(data, np.uint8), np.array(starts), np.array(lengths))
    assert found.tolist() == [reference(data[s : s + n]) for s, n in zip(starts, lengths)]
