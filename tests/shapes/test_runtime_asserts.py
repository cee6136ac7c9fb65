"""Checks of what was presumed: where they stand, what they say, when they raise."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx import symbolic_trace
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import framelift
from framelift.graph.runtime_asserts import ASSERT, CannotCheck, insert_deferred_runtime_asserts


def exported(fn: Any, *args: Any) -> Any:
    module, _ = framelift.export(fn, *args)
    return module


def checks(module: Any) -> list[str]:
    return [node.args[1].partition(",")[0] for node in module.graph.nodes if node.target is ASSERT]


def test_bounds_that_the_program_gives() -> None:
    def fn(x, n):
        u = n.item()
        torch._check(u >= 2)
        torch._check(u <= 8)
        return torch.zeros(u) + x.sum()

    module = exported(fn, torch.ones(3), torch.tensor(4))
    assert checks(module) == ["not so: u0 >= 2", "not so: u0 <= 8"]
    assert module(torch.ones(3), torch.tensor(5)).shape == (5,)
    for wrong in (1, 9):
        with pytest.raises(
            RuntimeError, match=r"not so: u0 [<>]= \d, where u0 is item in .*test_runtime_asserts.py:\d+"
        ):
            module(torch.ones(3), torch.tensor(wrong))


def test_a_relation_is_checked_before_it_is_used() -> None:
    def fn(x, n):
        u = n.item()
        torch._check(u * 2 == x.shape[0])
        return x.view(2, u) + 1

    module = exported(fn, torch.ones(6), torch.tensor(3))
    names = [str(node.target) for node in module.graph.nodes]
    assert names.index(str(ASSERT)) < names.index("view")
    with pytest.raises(RuntimeError, match="not so"):
        module(torch.ones(6), torch.tensor(2))


def test_two_sizes_are_equal() -> None:
    def fn(x, m1, m2):
        return x[m1] + x[m2]

    masks = [torch.arange(6) < n for n in (3, 2, 1)]
    module = exported(fn, torch.arange(6.0), masks[0], masks[0].clone())
    assert "not so: u0 == u1" in checks(module)
    for pair in ((0, 1), (2, 1), (2, 2)):
        with pytest.raises(RuntimeError, match="not so"):
            module(torch.arange(6.0), *[masks[index] for index in pair])


def test_nothing_presumed_nothing_checked() -> None:
    module = symbolic_trace(lambda x: x.nonzero() + 1)
    before = str(module.graph)
    assert insert_deferred_runtime_asserts(module, ShapeEnv(), "a test") is module
    assert str(module.graph) == before


def test_what_cannot_be_computed_is_refused() -> None:
    """A graph whose facts cannot all be checked is not to be run."""
    env = ShapeEnv()
    number = env.create_unbacked_symint()
    env.guard_or_defer_runtime_assert((torch.sym_sqrt(number) > 2).node.expr, "a test")
    module = symbolic_trace(lambda x: x.item() + 1)
    item = next(node for node in module.graph.nodes if node.target == "item")
    item.meta["unbacked_bindings"] = {number.node.expr: ()}
    item.meta["example_value"] = number
    with pytest.raises(CannotCheck):
        insert_deferred_runtime_asserts(module, env, "a test")
