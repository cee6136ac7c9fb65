"""What was presumed about symbols without a value, as checks in the graph.

While a graph is captured, torch's ShapeEnv collects facts about sizes and numbers that depend on data. A fact is
checked as soon as everything it speaks of is computed: right behind the node that brings the last symbol along.

    >>> gm = torch.fx.symbolic_trace(lambda x: x.nonzero())
    >>> insert_deferred_runtime_asserts(gm, ShapeEnv(), "nothing was presumed") is gm
    True
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import sympy
import torch
from sympy.logic.boolalg import BooleanFalse, BooleanTrue
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import (
    CallMethodKey,
    ConvertIntKey,
    DivideByKey,
    ShapeEnv,
    free_unbacked_symbols,
    resolve_unbacked_bindings,
)
from torch.utils._pytree import SequenceKey
from torch.utils._sympy import functions as torch_functions
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.printers import PythonPrinter
from torch.utils._sympy.value_ranges import bound_sympy

ASSERT = torch.ops.aten._assert_scalar.default
# How the message of a check that failed begins.
NOT_SO = "not so: "
# Nodes carry what they stand for under one of these names: graphs of ours, graphs of AOTAutograd's.
_VALUES = ("example_value", "val")


def failed_check() -> str | None:
    """What the check said that failed, if the exception being handled is of one."""
    error = sys.exception()
    text = str(error) if type(error) is RuntimeError else ""
    return text if text.startswith(NOT_SO) else None


class CannotCheck(Exception):
    """A fact uses a function that a graph cannot compute, or speaks of a symbol that it does not have."""


def insert_deferred_runtime_asserts(
    gm: GraphModule, shape_env: ShapeEnv, name: str, export: bool = False
) -> GraphModule:
    """Check in a graph what was presumed while it was captured; changes `gm` and returns it.

    `name` says whose graph it is, for the messages. With `export` a check that the program wrote itself, and that is
    known to hold, stays: an exported graph meets inputs that were never guarded.
    """
    facts = [fact.expr for facts in shape_env.deferred_runtime_asserts.values() for fact in facts]
    if not export:  # what is presumed about inputs alone is guarded
        facts = [fact for fact in facts if free_unbacked_symbols(fact) - shape_env.unbacked_inputs]
    writer = _Writer(gm, shape_env, name, facts)
    writer.write()
    if not export:
        writer.drop_what_holds()
    gm.recompile()
    return gm


class _Writer:
    """Goes over the nodes of one graph, once."""

    def __init__(self, gm: GraphModule, shape_env: ShapeEnv, name: str, facts: Iterable[Any]) -> None:
        self.graph = gm.graph
        self.env = shape_env
        self.name = name
        # Facts that wait for a symbol; what they say is checked once.
        self.waiting: list[Any] = list(dict.fromkeys(facts))
        self.wanted = {symbol for fact in self.waiting for symbol in fact.free_symbols}
        # The node that computes an expression.
        self.known: dict[Any, Node] = {}
        self.places: dict[sympy.Symbol, str] = {}
        self.checked: set[Any] = set()
        self.anchor: Node | None = None

    def write(self) -> None:
        nodes = list(self.graph.nodes)
        inputs = [node for node in nodes if node.op == "placeholder"]
        if inputs:
            self.anchor = inputs[-1]
        for node in inputs:
            self._take_input(node)
        self._check_facts()
        for node in nodes:
            bindings = resolve_unbacked_bindings(self.env, node.meta.get("unbacked_bindings"))
            if bindings:
                self.anchor = _last_of(node)
                self._take_results(node, bindings)
        if any(free_unbacked_symbols(fact) & self.places.keys() for fact in self.waiting):
            raise CannotCheck(f"{self.name}: {self._words(self.waiting[0])}")

    # -- symbols -------------------------------------------------------------------------------------------------

    def _take_input(self, node: Node) -> None:
        """Symbols of inputs: numbers, and sizes and strides of tensors, which are computed when they are needed."""
        value = _value(node)
        if isinstance(value, torch.SymInt | torch.SymFloat):
            expression = value.node._expr
            self.known.setdefault(expression, node)
            if free_unbacked_symbols(expression):
                self._check_symbol(expression, str(node.meta.get("input_source") or node.name))
        elif isinstance(value, torch.Tensor) and value.layout is torch.strided:
            for number, function, args in _metadata(node, value):
                symbol = number.node._expr if isinstance(number, torch.SymInt) else None
                if isinstance(symbol, sympy.Symbol) and symbol in self.wanted and symbol not in self.known:
                    self.known[symbol] = self._node(function, args)

    def _take_results(self, node: Node, bindings: dict[sympy.Symbol, Any]) -> None:
        for symbol, path in bindings.items():
            if symbol in self.known:
                continue
            found = node
            for function, rest in _steps(path):
                found = self._node(function, (found, *rest))
            self.known[symbol] = found
            self._check_symbol(symbol, _place(node))
        self._check_facts()

    def _check_symbol(self, symbol: sympy.Symbol, place: str) -> None:
        """Its bounds, where it has any."""
        self.places[symbol] = place
        limits = self.env.var_to_range.get(symbol)
        if limits is None or not symbol.is_integer:
            return
        if limits.lower not in (-int_oo, -sympy.oo) and limits.lower > -(2**63):
            self._check(sympy.Ge(symbol, limits.lower, evaluate=False))
        if limits.upper not in (int_oo, sympy.oo) and limits.upper < 2**63 - 2:
            self._check(sympy.Le(symbol, limits.upper, evaluate=False))

    def _check_facts(self) -> None:
        """Check every fact whose symbols are all there by now."""
        waiting, self.waiting = self.waiting, []
        for fact in waiting:
            if all(symbol in self.known for symbol in fact.free_symbols):
                if not self._is_implied(fact):
                    self._check(fact)
            else:
                self.waiting.append(fact)

    def _is_implied(self, fact: Any) -> bool:
        """Whether the bounds of its symbols, which are checked or guarded, leave no doubt about a fact."""
        if not all(symbol.is_integer for symbol in fact.free_symbols):
            return False
        return bound_sympy(fact, self.env.var_to_range).lower == sympy.true

    # -- code ----------------------------------------------------------------------------------------------------

    def _check(self, fact: Any) -> None:
        if fact in self.checked:
            return
        self.checked.add(fact)
        condition = self._lowered(fact)
        if isinstance(condition, Node):
            check = self._node(ASSERT, (condition, f"{NOT_SO}{self._words(fact)}"))
            check.meta["presumed"] = fact

    def _lowered(self, expression: Any) -> Any:
        """The node, or the plain number, that an expression is; equal ones are computed once."""
        if isinstance(expression, BooleanTrue | BooleanFalse):
            return bool(expression)
        if isinstance(expression, sympy.Integer):
            return int(expression)
        if isinstance(expression, sympy.Float):
            return float(expression)
        found = self.known.get(expression)
        if found is None:
            function = _FUNCTIONS.get(type(expression))
            if function is None:
                raise CannotCheck(f"{self.name}: {expression}")
            arguments = [self._lowered(argument) for argument in expression.args]
            found = self.known[expression] = self._apply(function, arguments)
        return found

    def _apply(self, function: Callable[..., Any], arguments: list[Any]) -> Node:
        if len(arguments) == 1:
            return self._node(function, (arguments[0],))
        result = arguments[0]
        for argument in arguments[1:]:
            result = self._node(function, (result, argument))
        return result

    def _node(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Node:
        assert self.anchor is not None
        with self.graph.inserting_after(self.anchor):
            node = self.graph.call_function(function, args)
        key = next((key for key in _VALUES if key in self.anchor.meta), _VALUES[0])
        # Symbols are computed with, not decided: nothing is assumed by it.
        node.meta[key] = None if function is ASSERT else function(*[_plain(argument) for argument in args])
        if "stack_trace" in self.anchor.meta:
            node.meta["stack_trace"] = self.anchor.meta["stack_trace"]
        self.anchor = node
        return node

    def _words(self, fact: Any) -> str:
        text = PythonPrinter().doprint(fact)
        symbols = sorted(free_unbacked_symbols(fact), key=str)
        where = [f"{symbol} is {self.places[symbol]}" for symbol in symbols if symbol in self.places]
        return f"{text}, where {' and '.join(where)}" if where else text

    def drop_what_holds(self) -> None:
        """Remove checks of what is literally true."""
        for node in list(self.graph.nodes):
            if node.op == "call_function" and node.target is ASSERT and node.args[0] is True:
                self.graph.erase_node(node)


def _metadata(node: Node, tensor: torch.Tensor) -> Iterator[tuple[Any, Callable[..., Any], tuple[Any, ...]]]:
    aten = torch.ops.aten
    for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        yield size, aten.sym_size.int, (node, dim)
        yield stride, aten.sym_stride.int, (node, dim)
    yield tensor.storage_offset(), aten.sym_storage_offset.default, (node,)


def _steps(path: tuple[Any, ...]) -> Iterator[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """How to get from a result to one number in it: functions, and their arguments after the first."""
    aten = torch.ops.aten
    keys = list(path)
    while keys:
        key = keys.pop(0)
        if isinstance(key, CallMethodKey) and key.name in ("size", "stride"):
            dim = keys.pop(0).idx
            read = aten.sym_size.int if key.name == "size" else aten.sym_stride.int
            yield read, (dim,)
        elif isinstance(key, CallMethodKey) and key.name == "storage_offset":
            yield aten.sym_storage_offset.default, ()
        elif isinstance(key, SequenceKey):
            yield operator.getitem, (key.idx,)
        elif isinstance(key, ConvertIntKey):
            yield torch.sym_ite, (1, 0)
        elif isinstance(key, DivideByKey):
            yield operator.floordiv, (key.divisor,)
        else:
            raise CannotCheck(f"the path {path}")


def _last_of(node: Node) -> Node:
    """The node, or the last of those that follow it to take its result apart."""
    last = node
    while last.next.op == "call_function" and last.next.target is operator.getitem and last.next.args[0] is node:
        last = last.next
    return last


def _value(node: Node) -> Any:
    return next((node.meta[key] for key in _VALUES if node.meta.get(key) is not None), None)


def _plain(argument: Any) -> Any:
    return _value(argument) if isinstance(argument, Node) else argument


def _place(node: Node) -> str:
    """What a symbol is to the user: the operation, and the line it stands in."""
    name = getattr(node.target, "__name__", node.target)
    for line in reversed(str(node.meta.get("stack_trace") or "").splitlines()):
        words = line.strip().split(", ")
        if len(words) >= 2 and words[0].startswith("File ") and words[1].startswith("line "):
            return f"{name} in {words[0][5:].strip(chr(34))}:{words[1][5:]}"
    return str(name)


_FUNCTIONS: dict[type, Callable[..., Any]] = {
    sympy.Add: operator.add,
    sympy.Mul: operator.mul,
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
    torch_functions.Max: torch.sym_max,
    torch_functions.Min: torch.sym_min,
    torch_functions.FloorDiv: operator.floordiv,
    torch_functions.CleanDiv: operator.floordiv,
    torch_functions.PythonMod: operator.mod,
    torch_functions.Mod: operator.mod,
    torch_functions.IntTrueDiv: operator.truediv,
    torch_functions.FloatTrueDiv: operator.truediv,
    torch_functions.PowByNatural: operator.pow,
    torch_functions.ToFloat: torch.sym_float,
    torch_functions.FloorToInt: math.floor,
    torch_functions.CeilToInt: math.ceil,
    torch_functions.TruncToInt: math.trunc,
}
