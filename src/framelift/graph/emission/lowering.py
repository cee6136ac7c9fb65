"""Expressions of symbols as nodes of a graph, each computed once.

The table knows which node gives which expression. What is not known is computed from what is: symbols from the inputs
that have them in their sizes, sums and products from their terms.

    >>> graph = torch.fx.Graph()
    >>> n = sympy.Symbol("n", integer=True)
    >>> table = Lowering(graph, "a test")
    >>> table.anchor = table.known[n] = graph.placeholder("n")
    >>> table.node_of(2 * n) is table.node_of(2 * n), [str(node) for node in graph.nodes]
    (True, ['n', 'mul'])
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import sympy
import torch
from sympy.logic.boolalg import BooleanFalse, BooleanTrue
from torch.fx import Graph, Node
from torch.utils._sympy.functions import (
    CeilToInt,
    CleanDiv,
    FloatTrueDiv,
    FloorDiv,
    FloorToInt,
    IntTrueDiv,
    Max,
    Min,
    Mod,
    PowByNatural,
    PythonMod,
    ToFloat,
    TruncToInt,
)

from framelift.shapes.bindings import CannotCheck

# Nodes carry what they stand for under one of these names: graphs of ours, graphs of AOTAutograd's.
_VALUES = ("example_value", "val")
# How to find a number in an input: a function, its arguments, and what it gives.
Access = tuple[Callable[..., Any], tuple[Any, ...], Any]


class Lowering:
    """The table of one graph. New nodes stand behind `anchor`, which moves along."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.name = name
        self.anchor: Node | None = None
        # The node that computes an expression.
        self.known: dict[Any, Node] = {}
        self.made: list[Node] = []
        # Symbols that inputs show in their metadata: nodes for them are made when they are needed.
        self._shown: dict[sympy.Symbol, Access] = {}
        self._last_input: Node | None = None

    def take_input(self, node: Node) -> None:
        """Learn the symbols of an input: a number, or a tensor with sizes and strides."""
        self.anchor = self._last_input = node
        value = value_of(node)
        if isinstance(value, torch.SymInt | torch.SymFloat):
            self.known.setdefault(value.node._expr, node)
        for function, args, number in metadata_at_entry(node):
            symbol = number.node._expr if isinstance(number, torch.SymInt) else None
            if isinstance(symbol, sympy.Symbol):
                self._shown.setdefault(symbol, (function, args, number))

    def has(self, symbol: sympy.Symbol) -> bool:
        """Whether something before the anchor gives a symbol."""
        return symbol in self.known or symbol in self._shown

    def can_compute(self, expression: Any) -> bool:
        """Whether `node_of` would give something."""
        if expression in self.known or isinstance(expression, _CONSTANTS):
            return True
        if isinstance(expression, sympy.Symbol):
            return expression in self._shown
        return _function_for(expression) is not None and all(map(self.can_compute, expression.args))

    def node_of(self, expression: Any) -> Any:
        """The node, or the plain number, that an expression is; equal ones are computed once."""
        if isinstance(expression, _CONSTANTS):
            return _constant(expression)
        found = self.known.get(expression)
        if found is None:
            found = self.known[expression] = self._computed(expression)
        return found

    def _computed(self, expression: Any) -> Node:
        if expression in self._shown:
            anchor, self.anchor = self.anchor, self._last_input
            node = self._last_input = self._insert(*self._shown[expression])
            self.anchor = node if anchor is node.prev else anchor
            return node
        function = _function_for(expression)
        if function is None:
            raise CannotCheck(f"{self.name}: {expression}")
        arguments = [self.node_of(argument) for argument in expression.args]
        if len(arguments) == 1:
            return self.add(function, (arguments[0],))
        result = arguments[0]
        for argument in arguments[1:]:
            result = self.add(function, (result, argument))
        return result

    def add(self, function: Callable[..., Any], args: tuple[Any, ...], effect: bool = False) -> Node:
        """A call behind the anchor. Symbols are computed with, not decided: nothing is assumed by it."""
        return self._insert(function, args, None if effect else function(*[_plain(argument) for argument in args]))

    def _insert(self, function: Callable[..., Any], args: tuple[Any, ...], value: Any) -> Node:
        assert self.anchor is not None, "a graph without inputs has no symbols"
        with self.graph.inserting_after(self.anchor):
            node = self.graph.call_function(function, args)
        key = next((key for key in _VALUES if key in self.anchor.meta), _VALUES[0])
        node.meta[key] = value
        if "stack_trace" in self.anchor.meta:
            node.meta["stack_trace"] = self.anchor.meta["stack_trace"]
        self.anchor = node
        self.made.append(node)
        return node

    def drop_unused(self) -> None:
        """Remove what was computed and is not needed."""
        for node in reversed(self.made):
            if not node.users and value_of(node) is not None:
                self.graph.erase_node(node)


def value_of(node: Node) -> Any:
    """What a node stands for."""
    return next((node.meta[key] for key in _VALUES if node.meta.get(key) is not None), None)


def _plain(argument: Any) -> Any:
    return value_of(argument) if isinstance(argument, Node) else argument


def metadata_at_entry(node: Node) -> Iterator[Access]:
    """Sizes, strides and offset of an input, as they are when the graph begins, and how to ask for them.

    The fake of an input shows what the graph made of it: as the `out=` of an operation it may get another's sizes.
    """
    aten = torch.ops.aten
    tensor = value_of(node)
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        return
    shown: Any = node.meta.get("symbolic")
    if shown is None and node.meta.get("input_source") is not None:
        return  # it was captured with plain numbers
    sizes, strides = (tensor.shape, tensor.stride()) if shown is None else shown
    for dim, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        yield aten.sym_size.int, (node, dim), size
        yield aten.sym_stride.int, (node, dim), stride
    if shown is None:
        yield aten.sym_storage_offset.default, (node,), tensor.storage_offset()


_CONSTANTS = (BooleanTrue, BooleanFalse, sympy.Integer, sympy.Float)


def _constant(expression: Any) -> bool | int | float:
    if isinstance(expression, sympy.Integer):
        return int(expression)
    return float(expression) if isinstance(expression, sympy.Float) else bool(expression)


def _function_for(expression: Any) -> Callable[..., Any] | None:
    if type(expression) is sympy.Pow and not (expression.exp.is_Integer and expression.exp > 0):
        return None  # a root, or a division
    return _FUNCTIONS.get(type(expression))


_FUNCTIONS: dict[type, Callable[..., Any]] = {
    sympy.Add: operator.add,
    sympy.Mul: operator.mul,
    sympy.Pow: operator.pow,
    sympy.Eq: operator.eq,
    sympy.Ne: operator.ne,
    sympy.Lt: operator.lt,
    sympy.Le: operator.le,
    sympy.Gt: operator.gt,
    sympy.Ge: operator.ge,
    sympy.And: operator.and_,
    sympy.Or: operator.or_,
    sympy.Not: torch.sym_not,
    sympy.Max: torch.sym_max,
    sympy.Min: torch.sym_min,
    Max: torch.sym_max,
    Min: torch.sym_min,
    FloorDiv: operator.floordiv,
    CleanDiv: operator.floordiv,
    PythonMod: operator.mod,
    Mod: operator.mod,
    IntTrueDiv: operator.truediv,
    FloatTrueDiv: operator.truediv,
    PowByNatural: operator.pow,
    ToFloat: torch.sym_float,
    FloorToInt: math.floor,
    CeilToInt: math.ceil,
    TruncToInt: math.trunc,
}
