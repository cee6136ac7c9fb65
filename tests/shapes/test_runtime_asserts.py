"""Checks of what was presumed: where they stand, what they say, when they raise."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
from torch.fx import symbolic_trace
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import framelift
from framelift.graph.emission.runtime_asserts import ASSERT, CannotCheck, insert_deferred_runtime_asserts
from tests.helpers import check


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


def operations(module: Any) -> list[str]:
    calls = [node for node in module.graph.nodes if node.op.startswith("call")]
    return [getattr(node.target, "__name__", str(node.target)) for node in calls]


class TestSizes:
    """Sizes that follow from others are not asked for."""

    def test_a_tensor_that_is_needed_for_its_size_only_is_not_made(self) -> None:
        def fn(x, y):
            z = torch.cat([x, x])
            w = z.repeat(y.shape[0])
            return torch.ones(w.shape[0])

        shapes = {"x": {0: True}, "y": {0: True}}
        module, _ = framelift.export(fn, torch.ones(3), torch.ones(4), dynamic_shapes=shapes)
        assert not {"cat", "repeat"} & set(operations(module))
        for x, y in ((3, 4), (5, 2)):
            assert module(torch.ones(x), torch.ones(y)).shape == (2 * x * y,)

    def test_what_may_raise_is_made(self) -> None:
        def fn(x, index):
            return torch.ones(torch.nn.functional.embedding(index, x).shape[0])

        shapes = {"index": {0: True}}
        module, _ = framelift.export(fn, torch.ones(3, 2), torch.tensor([0, 2, 1]), dynamic_shapes=shapes)
        with pytest.raises(IndexError):
            module(torch.ones(3, 2), torch.tensor([0, 9]))

    def test_in_lifted_code(self) -> None:
        def fn(x, y):
            return torch.cat([x, x], 1) * x.shape[1], torch.ones(torch.cat([x, y]).shape)

        calls = [(torch.ones(m, n), torch.ones(m + 1, n)) for m, n in ((3, 4), (5, 6), (7, 2), (1, 4))]
        for backend in ("eager", "aot_eager"):
            check(fn, *calls[0], changed=calls[1:], backend=backend)

    def test_the_size_of_what_depends_on_data_is_one_number(self) -> None:
        def fn(x):
            found = torch.nonzero(x)
            torch._check(found.shape[0] >= 3)
            torch._check(found.shape[0] >= 3)
            return found.float().sum() / found.shape[0] + found.shape[0]

        module = exported(fn, torch.ones(5))
        assert operations(module).count("sym_size.int") == 1
        assert checks(module) == ["not so: u0 >= 3", "not so: u0 <= 5"]  # and no more than there are elements
        with pytest.raises(RuntimeError, match="not so: u0 >= 3, where u0 is nonzero"):
            module(torch.tensor([0.0, 1.0, 1.0, 0.0, 0.0]))


def test_checks_that_a_graph_brings_along() -> None:
    """They are kept, as the operator compilers know; what is literally true is not checked."""
    env = ShapeEnv()
    number = env.create_unbacked_symint()
    symbol = number.node.expr
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    item = graph.call_method("item", (x,))
    item.meta.update(example_value=number, unbacked_bindings={symbol: ()})
    positive, large = graph.call_function(operator.gt, (item, 0)), graph.call_function(operator.ge, (item, 2))
    positive.meta["example_value"], large.meta["example_value"] = number > 0, number >= 2
    graph.call_function(torch._check, (positive, "must be positive"))
    graph.call_function(torch._check, (large,))
    graph.call_function(torch._check, (True,))
    graph.output((item,))
    env.guard_or_defer_runtime_assert((number >= 2).node.expr, "a test")
    module = insert_deferred_runtime_asserts(torch.fx.GraphModule({}, graph), env, "a test")
    messages = [node.args[1].partition(",")[0] for node in module.graph.nodes if node.target is ASSERT]
    assert messages == ["must be positive", "not so: u0 >= 2"] and torch._check not in {n.target for n in graph.nodes}
    assert module(torch.tensor(3)) == (3,)
    with pytest.raises(RuntimeError, match="must be positive"):
        module(torch.tensor(-1))
    before = str(graph)
    assert str(insert_deferred_runtime_asserts(module, env, "a test").graph) == before


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
