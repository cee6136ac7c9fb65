"""What is measured: models and functions, each with its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Case = Callable[[], tuple[Any, tuple[torch.Tensor, ...]]]


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(x + self.norm2(self.conv2(y)))


class ResidualNet(nn.Module):
    def __init__(self, blocks: int, channels: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.blocks = nn.ModuleList([Residual(channels) for _ in range(blocks)])
        self.head = nn.Linear(channels, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


class Chain(nn.Module):
    def __init__(self, layers: int, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(layers)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def add_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def chain() -> tuple[Any, tuple[torch.Tensor, ...]]:
    return Chain(100).eval(), (torch.randn(4, 16),)


def residual() -> tuple[Any, tuple[torch.Tensor, ...]]:
    return ResidualNet(16).eval(), (torch.randn(2, 3, 8, 8),)


def one_op() -> tuple[Any, tuple[torch.Tensor, ...]]:
    return add_one, (torch.randn(4, 16),)


CASES: dict[str, Case] = {"MLP-100": chain, "CNN-16": residual, "x+1": one_op}
