"""What a compiler finds around it, and what it leaves as it was."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.hooks import RemovableHandle

import framelift
from tests.backends.test_users_backends import simplified_boxed
from tests.helpers import assert_same, check


@pytest.mark.parametrize("backend", ["aot_eager", simplified_boxed])
def test_the_values_of_a_sparse_tensor_are_a_tensor_like_others(backend: Any) -> None:
    def f(values):
        values.mul_(2)
        return values + 1

    check(
        lambda grid: f(grid._values()),
        torch.eye(2).to_sparse(),
        changed=[(torch.eye(size).to_sparse(),) for size in (3, 4, 5)],
        backend=backend,
        expect_breaks=None,
    )
    lifted = framelift.compile(f, backend=backend, fullgraph=True)
    for size in (2, 3, 4, 5):
        values = torch.eye(size).to_sparse()._values()
        assert torch.equal(lifted(values), torch.full((size,), 3.0))
        assert torch.equal(values, torch.full((size,), 2.0))


@pytest.mark.parametrize("backend", ["aot_eager", simplified_boxed])
def test_backward_is_called_outside_of_autocast(backend: Any) -> None:
    def f(x, weight):
        y = torch.nn.functional.linear(x, weight)
        with torch.autocast("cpu"):
            framelift.graph_break()
            return y, torch.nn.functional.linear(x, weight)

    weight = torch.randn(3, 3, requires_grad=True)
    check(f, torch.randn(4, 3), weight, backend=backend, expect_breaks=1)


@pytest.mark.parametrize("backend", ["aot_eager", simplified_boxed])
def test_hooks_of_compilers_are_not_counted_among_the_programs(backend: Any) -> None:
    linear = torch.nn.Linear(3, 3)

    def f(x):
        handle = linear.register_forward_hook(lambda module, args, output: output + 1)
        try:
            return linear(x)
        finally:
            handle.remove()

    lifted = framelift.compile(f, backend=backend)
    for size in (2, 3, 4):
        before = RemovableHandle.next_id
        x = torch.ones(size, 3)
        assert torch.equal(lifted(x), linear(x) + 1)
        assert RemovableHandle.next_id == before + 1


def switched_before_a_break(x: torch.Tensor, linear: torch.nn.Module) -> torch.Tensor:
    with torch.autocast("cpu"):
        framelift.graph_break()
    return linear(x)


def switched_off_inside(x: torch.Tensor, linear: torch.nn.Module) -> torch.Tensor:
    with torch.autocast("cpu", enabled=False):
        y = linear(x)
    return y + linear(x)


@pytest.mark.parametrize("backend", ["aot_eager", simplified_boxed])
@pytest.mark.parametrize("function, around", [(switched_before_a_break, False), (switched_off_inside, True)])
def test_what_ran_in_full_precision_has_such_gradients(function: Any, around: bool, backend: Any) -> None:
    """A product in full precision has its gradients in full precision, whatever the graph began with."""
    found = []
    for each in (function, framelift.compile(function, backend=backend)):
        torch.manual_seed(0)
        linear, x = torch.nn.Linear(5, 5), torch.randn(4, 5, requires_grad=True)
        with torch.autocast("cpu", enabled=around):
            loss = each(x, linear).sum()
        loss.backward()
        found.append([x.grad, linear.weight.grad, linear.bias.grad])
    assert_same(*found)
