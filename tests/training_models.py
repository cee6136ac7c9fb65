"""Small models that are trained in tests: a perceptron, a residual CNN with batch norm, a transformer block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.0), nn.Linear(16, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x))))))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.blocks = nn.Sequential(Block(4), Block(4))
        self.head = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Transformer(nn.Module):
    """A pre-norm block with causal attention, its output projection tied to the embedding."""

    def __init__(self, words: int = 12, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(words, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind()
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        x = x + self.down(F.silu(self.up(self.norm2(x))))
        return self.head(x).flatten(0, 1)


@dataclass(frozen=True, slots=True)
class Task:
    """A model, its inputs and the classes it is to tell apart."""

    build: Callable[[], nn.Module]
    inputs: Callable[[], torch.Tensor]
    targets: Callable[[], torch.Tensor]


TASKS = {
    "perceptron": Task(Perceptron, lambda: torch.randn(6, 8), lambda: torch.randint(4, (6,))),
    "residual": Task(Residual, lambda: torch.randn(4, 3, 6, 6), lambda: torch.randint(4, (4,))),
    "transformer": Task(Transformer, lambda: torch.randint(12, (2, 5)), lambda: torch.randint(12, (10,))),
}
