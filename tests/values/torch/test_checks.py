"""`torch._check` and its kin, of what is in tensors: checks of the graph; errors are Python's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.helpers import check

CHECKS: list[Callable[[torch.Tensor, torch.Tensor], Any]] = []


def _is_checked(function: Any) -> Any:
    """It takes numbers below 4."""
    CHECKS.append(function)
    return function


@_is_checked
def plain(x, n):
    torch._check((n < 4).item())
    return x + 1


@_is_checked
def with_a_message(x, n):
    u = n.item()
    torch._check(u < 4, lambda: f"{u} is too much for {tuple(x.shape)}")
    return x * u


@_is_checked
def of_a_value(x, n):
    torch._check_value(n.item() < 4, lambda: "value")
    return x + 1


@_is_checked
def of_an_index(x, n):
    torch._check_index(n.item() < 4, lambda: "index")
    return x + 1


@_is_checked
def of_a_type(x, n):
    torch._check_type(n.item() < 4)
    return x + 1


@_is_checked
def of_what_is_implemented(x, n):
    torch._check_not_implemented(n.item() < 4, lambda: "later")
    return x + 1


@_is_checked
def with_an_error(x, n):
    torch._check_with(KeyError, n.item() < 4, lambda: "key")
    return x + 1


@_is_checked
def of_all(x, n):
    torch._check_tensor_all(x * 0 + n < 4, lambda: f"of {n.item()}")
    return x + 1


@_is_checked
def of_all_with_an_error(x, n):
    torch._check_tensor_all_with(ValueError, n < 4, lambda: "all")
    return x + 1


@_is_checked
def asserted_by_torch(x, n):
    torch._assert(n < 4, "tensor")
    torch._assert(n.item() < 5, "number")
    return x + 1


@_is_checked
def asserted_later(x, n):
    torch._assert_async(n < 4)
    torch._assert_async((n < 4).all(), "message")
    return x + 1


@_is_checked
def sizes(x, n):
    rows = x[torch.arange(6) < n]
    torch._check(rows.shape[0] == x[:3].shape[0], lambda: f"{rows.shape[0]} rows")
    return x.sum(0) + rows.numel()


@pytest.mark.parametrize("function", CHECKS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_checks(function: Any, backend: str) -> None:
    x = torch.arange(12.0).reshape(6, 2)
    others = [(x, torch.tensor(n)) for n in (2, 7, 1, 0, 4, 3)]
    check(function, x, torch.tensor(3), changed=others, backend=backend, expect_breaks=0)


@pytest.mark.filterwarnings("ignore:_check_is_size")
def test_is_size() -> None:
    def function(x, n):
        u = n.item()
        torch._check_is_size(u)
        return x[:u] * 2

    x = torch.arange(12.0).reshape(6, 2)
    check(function, x, torch.tensor(3), changed=[(x, torch.tensor(n)) for n in (5, 0, -1)], expect_breaks=0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_of_what_nobody_needs(backend: str) -> None:
    """Sizes that the graph has no other use for are checked all the same, also where they are taken for constants."""

    def function(x, n):
        rows = x[torch.arange(6) < n]
        torch._check(rows.shape[0] == 3, lambda: f"{rows.shape[0]} rows")
        others = x[torch.arange(6) < n + 1]
        others + x[:4]
        return x.sum(0) + rows.numel()

    x = torch.arange(12.0).reshape(6, 2)
    others = [(x, torch.tensor(n)) for n in (2, 4)]
    check(function, x, torch.tensor(3), changed=others, backend=backend, expect_breaks=0)
