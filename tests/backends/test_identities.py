"""What Inductor makes of operations that change nothing: another tensor, as in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from tests.helpers import check

IDENTITIES: dict[str, Callable[[Any], Any]] = {
    "times one": lambda x: x * 1,
    "one times": lambda x: 1 * x,
    "times 1.0": lambda x: x * 1.0,
    "plus zero": lambda x: x + 0,
    "minus zero": lambda x: x - 0,
    "over one": lambda x: x / 1,
    "seen as another": lambda x: (x * 1).view(-1),
    "twice": lambda x: ((x * 1) + 0).t(),
    "two results": lambda x: (y := x.sin(), y * 1),
    "an integer": lambda x: x.long() * 1,
}


@pytest.mark.parametrize("is_trained", [False, True])
@pytest.mark.parametrize("name", IDENTITIES)
def test_a_result_is_another_tensor(name: str, is_trained: bool) -> None:
    x = torch.randn(2, 3)
    if is_trained:
        x.requires_grad_()
    check(IDENTITIES[name], x, backend="inductor")


def test_what_is_done_to_the_result_leaves_the_operand_alone() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 1
        framelift.graph_break()
        return y.add_(1)

    check(f, torch.ones(3), backend="inductor", expect_breaks=1)
