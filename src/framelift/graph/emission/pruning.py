"""Removing what a graph computes for nobody, and then the inputs it does not need.

Whoever calls the graph must leave out the same arguments, so the inputs that are left are told by their places.

    >>> graph = torch.fx.Graph()
    >>> x, n = graph.placeholder("x"), graph.placeholder("n")
    >>> unused, _ = graph.call_function(operator.mul, (n, 2)), graph.output((x,))
    >>> prune_dead_arguments(graph), [str(node) for node in graph.nodes]
    ([0], ['x', 'output'])
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import free_symbols

from framelift.graph.emission.lowering import value_of

aten = torch.ops.aten
_ARITHMETIC = frozenset(
    {
        *(operator.add, operator.sub, operator.mul, operator.floordiv, operator.truediv, operator.mod, operator.pow),
        *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.neg),
        *(torch.sym_max, torch.sym_min, torch.sym_not, torch.sym_float, torch.sym_int, torch.sym_ite),
    }
)
_QUESTIONS = frozenset(
    {
        *(aten.sym_size.int, aten.sym_stride.int, aten.sym_numel.default, aten.sym_storage_offset.default),
        operator.getitem,
    }
)


def prune_dead_arguments(graph: Graph, may_go: Callable[[Node], bool] = lambda node: False) -> list[int]:
    """Remove, last first, what nobody uses; the places of the inputs that stay.

    Numbers, sizes, items and attributes go by themselves; what else has no effect is for `may_go` to say.
    """
    for node in reversed(graph.nodes):
        if not node.users and (_is_plain(node) or (node.op.startswith("call_") and may_go(node))):
            graph.erase_node(node)
    inputs = graph.find_nodes(op="placeholder")
    needed = {symbol for node in inputs if node.users for symbol in _symbols(node, torch.Tensor)}
    kept = [i for i, node in enumerate(inputs) if node.users or needed & _symbols(node, torch.SymInt)]
    for i in set(range(len(inputs))).difference(kept):
        graph.erase_node(inputs[i])
    return kept


def _is_plain(node: Node) -> bool:
    """Whether a node is a number that is computed, a question about metadata, or a part of something."""
    if node.op == "get_attr":
        return True
    if node.op != "call_function":
        return False
    return node.target in _QUESTIONS or (node.target in _ARITHMETIC and not isinstance(value_of(node), torch.Tensor))


def _symbols(node: Node, kind: type) -> set[Any]:
    """The symbols of a number, or of the sizes of a tensor, as compilers see them."""
    value = value_of(node)
    return set(free_symbols(value)) if isinstance(value, kind) else set()
