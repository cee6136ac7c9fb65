"""Programs with `assert`: in a file of their own, since pytest rewrites the assertions of its test files."""

from __future__ import annotations

import torch


def asserts(x: torch.Tensor) -> torch.Tensor:
    assert (x >= 0).all(), "negative"
    return x * 2


def after_a_write(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    assert (x >= 1).all()
    return x * 2


def after_random(x: torch.Tensor) -> torch.Tensor:
    y = torch.rand(3)
    assert (x >= 0).all()
    return x + y


CALLS = [0]


def after_an_effect(x: torch.Tensor) -> torch.Tensor:
    CALLS[0] += 1
    assert (x >= 0).all()
    CALLS[0] += 10
    return x + 1


def several_numbers(x: torch.Tensor) -> torch.Tensor:
    assert x > 0
    return x + 1
