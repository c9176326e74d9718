"""A small causal transformer over characters, and what trains it."""

from __future__ import annotations

import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore import dtype as mstype
from mindspore.common.initializer import Normal, initializer

from scenarios.corpus import CHARACTERS

WINDOW = 32  # characters a sample
WIDTH = 48
BATCH = 16  # samples a step
CHARACTERS_PER_STEP = WINDOW * BATCH


class Block(nn.Cell):
    """One transformer layer: causal attention and a feed-forward net, each with a residual."""

    def __init__(self, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm((WIDTH,)), nn.LayerNorm((WIDTH,))
        self.qkv = nn.Dense(WIDTH, 3 * WIDTH, weight_init=Normal(0.05))
        self.out = nn.Dense(WIDTH, WIDTH, weight_init=Normal(0.05))
        self.up = nn.Dense(WIDTH, 4 * WIDTH, weight_init=Normal(0.05))
        self.down = nn.Dense(4 * WIDTH, WIDTH, weight_init=Normal(0.05))
        self.mask = Tensor(np.triu(np.full((WINDOW, WINDOW), -1e4, np.float32), 1))

    def construct(self, x):  # type: ignore[no-untyped-def]
        """Maps [batch, WINDOW, WIDTH] to the same shape."""
        x = x + self.attend(self.norm1(x))
        return x + self.down(ops.gelu(self.up(self.norm2(x))))

    def attend(self, x):  # type: ignore[no-untyped-def]
        """Causal multi-head self-attention."""
        batch = x.shape[0]
        qkv = self.qkv(x).reshape((batch, WINDOW, 3, self.heads, WIDTH // self.heads))
        qkv = ops.transpose(qkv, (2, 0, 3, 1, 4))
        weights = ops.matmul(qkv[0], qkv[1].swapaxes(-1, -2)) * ((WIDTH // self.heads) ** -0.5)
        weights = ops.softmax(weights + self.mask.astype(weights.dtype), -1)
        mixed = ops.transpose(ops.matmul(weights, qkv[2]), (0, 2, 1, 3))
        return self.out(mixed.reshape((batch, WINDOW, WIDTH)))


class CharModel(nn.Cell):
    """Logits [batch, WINDOW, 96] of the next character, from characters [batch, WINDOW]."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(CHARACTERS), WIDTH, embedding_table=Normal(0.05))
        self.place = Parameter(initializer(Normal(0.05), (WINDOW, WIDTH)), name="place")
        self.blocks = nn.SequentialCell(*[Block() for _ in range(layers)])
        self.norm = nn.LayerNorm((WIDTH,))
        self.head = nn.Dense(WIDTH, len(CHARACTERS), weight_init=Normal(0.05))

    def construct(self, characters):  # type: ignore[no-untyped-def]
        """Predicts the next characters."""
        return self.head(self.norm(self.blocks(self.embed(characters) + self.place)))


class CrossEntropy(nn.Cell):
    """Mean cross entropy over all characters, in nats, computed in float32."""

    def construct(self, logits, target):  # type: ignore[no-untyped-def]
        """Takes logits [batch, WINDOW, 96] and characters [batch, WINDOW]."""
        logits = ops.cast(logits.reshape((-1, logits.shape[-1])), mstype.float32)
        return ops.cross_entropy(logits, target.reshape((-1,)))
