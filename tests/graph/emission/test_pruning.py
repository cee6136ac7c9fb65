"""What nobody uses goes, and with it the inputs that were for it only."""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import framelift
from framelift.graph.emission.pruning import prune_dead_arguments
from tests.helpers import check


def names(graph: Graph) -> list[str]:
    return [node.name for node in graph.nodes]


def test_chains_of_numbers_go() -> None:
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    size = graph.call_function(torch.ops.aten.sym_size.int, (y, 0))
    graph.call_function(operator.mul, (size, 2))
    graph.output((x,))
    assert prune_dead_arguments(graph) == [0]
    assert names(graph) == ["x", "output"]


def test_operations_go_only_if_they_may() -> None:
    for may_go in (False, True):
        graph = Graph()
        x, y = graph.placeholder("x"), graph.placeholder("y")
        graph.call_function(torch.relu_, (y,))
        graph.output((x,))
        assert prune_dead_arguments(graph, lambda node, may_go=may_go: may_go) == ([0] if may_go else [0, 1])


def test_checks_keep_what_they_are_about() -> None:
    graph = Graph()
    x, n = graph.placeholder("x"), graph.placeholder("n")
    graph.call_function(torch.ops.aten._assert_scalar.default, (graph.call_function(operator.gt, (n, 2)), "few"))
    graph.output((x,))
    assert prune_dead_arguments(graph) == [0, 1]


def test_a_number_that_is_a_size_stays() -> None:
    """A compiler would ask where the symbol in the size of the tensor comes from."""
    number = ShapeEnv().create_unbacked_symint()
    graph = Graph()
    x, n, m = (graph.placeholder(name) for name in "xnm")
    x.meta["example_value"] = torch.empty(number, device="meta")
    n.meta["example_value"], m.meta["example_value"] = number, ShapeEnv().create_unbacked_symint() + 0
    m.meta["example_value"] = 3
    graph.output((x,))
    assert prune_dead_arguments(graph) == [0, 1]


def test_a_size_that_must_be_a_number_of_the_program() -> None:
    def fn(x, n):
        return x.sin() if x.shape[0] == n else x.cos()

    calls = [(torch.ones(size, 2), size) for size in (3, 4, 5, 6)]
    for backend in ("eager", "aot_eager", "inductor"):
        check(fn, *calls[0], changed=calls[1:], backend=backend)


def test_arguments_that_only_gave_a_size() -> None:
    def fn(x, y):
        return x * 2, torch.cat([y, y]).shape[0]

    lifted = framelift.compile(fn, backend="eager", dynamic=True)
    for size in (3, 4, 5):
        doubled, rows = lifted(torch.ones(2), torch.ones(size))
        assert rows == 2 * size and torch.equal(doubled, torch.full((2,), 2.0))
