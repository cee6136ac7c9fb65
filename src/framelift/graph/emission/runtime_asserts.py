"""What was presumed about unbacked symbols, as checks in the graph.

While a graph is captured, torch's ShapeEnv collects facts about sizes and numbers that depend on data. A fact is
checked as soon as everything it speaks of is computed: right behind the node that brings the last symbol along. On the
way sizes that are known already are not asked for again: the size of `cat([x, x])` is twice that of `x`, and if nothing
else needs the concatenation it need not be made.

    >>> gm = torch.fx.symbolic_trace(lambda x: x.nonzero())
    >>> insert_deferred_runtime_asserts(gm, ShapeEnv(), "nothing was presumed") is gm
    True
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable
from typing import Any

import sympy
import torch
from torch import _assert, _check, _check_index, _check_type, _check_value
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import (
    ShapeEnv,
    free_unbacked_symbols,
    resolve_unbacked_bindings,
)
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.printers import PythonPrinter
from torch.utils._sympy.value_ranges import bound_sympy

from framelift.graph.emission.lowering import Lowering, metadata_at_entry, value_of
from framelift.shapes.bindings import CannotCheck, steps_to
from framelift.torch_names import TORCH_NAMES

__all__ = ["ASSERT", "PROGRAM_RAISES", "CannotCheck", "failed_check", "insert_deferred_runtime_asserts"]

ASSERT = TORCH_NAMES.operator("aten._assert_scalar.default")
# How the message of a check that failed begins.
NOT_SO = "not so: "
# What a graph says where the value of a tensor decides for an error of the program's.
PROGRAM_RAISES = "the program raises"
# Checks that a program writes itself: the condition is their first argument, a message may be the second.
_WRITTEN = frozenset({_check, _check_value, _check_index, _check_type, _assert, ASSERT})
_QUESTIONS = frozenset({torch.ops.aten.sym_size.int, torch.ops.aten.sym_stride.int, torch.ops.aten.sym_numel.default})


def failed_check(error: BaseException | None = None) -> str | None:
    """What the check said that failed, if an exception (the one being handled, unless one is given) is of one."""
    error = error or sys.exception()
    text = str(error) if type(error) is RuntimeError else ""
    return text if text.startswith(NOT_SO) else None


def insert_deferred_runtime_asserts(
    gm: GraphModule, shape_env: ShapeEnv, name: str, export: bool = False
) -> GraphModule:
    """Check in a graph what was presumed while it was captured; changes `gm` and returns it.

    `name` says whose graph it is, for the messages. With `export` a check that the program wrote itself, and that is
    known to hold, stays, and what was assumed about inputs is checked as well: an exported graph meets inputs that
    were never guarded.
    """
    facts = [fact.expr for facts in shape_env.deferred_runtime_asserts.values() for fact in facts]
    if export:
        facts += [guard.expr for guard in shape_env.guards]
    else:  # what is presumed about inputs alone is guarded
        facts = [fact for fact in facts if free_unbacked_symbols(fact) - shape_env.unbacked_inputs]
    _Writer(gm, shape_env, name, facts, export).write()
    gm.recompile()
    return gm


class _Writer:
    """Goes over the nodes of one graph, once."""

    def __init__(self, gm: GraphModule, env: ShapeEnv, name: str, facts: Iterable[Any], export: bool) -> None:
        self.graph = gm.graph
        self.env = env
        self.export = export
        self.table = Lowering(gm.graph, name)
        # Facts that wait for a symbol; what they say is checked once.
        self.waiting: list[Any] = list(dict.fromkeys(facts))
        # What the program checks itself, and what is checked so far.
        self.written = {_fact_of(node) for node in self.graph.nodes if node.target in _WRITTEN}
        self.checked: set[Any] = set()
        self.places: dict[sympy.Symbol, str] = {}

    def write(self) -> None:
        nodes = list(self.graph.nodes)
        for node in nodes:
            if node.op == "placeholder":
                self._take_input(node)
        self._check_inputs()
        for node in nodes:
            if node.op in ("call_function", "call_method"):
                self._take(node)
        if any(free_unbacked_symbols(fact) & self.places.keys() for fact in self.waiting):
            raise CannotCheck(f"{self.table.name}: {self._words(self.waiting[0])}")
        self.table.drop_unused()

    # -- nodes ---------------------------------------------------------------------------------------------------

    def _take_input(self, node: Node) -> None:
        self.table.take_input(node)
        source, value = node.meta.get("input_source") or node.name, value_of(node)
        if isinstance(value, torch.SymInt):
            self.places[value.node._expr] = str(source)
        for function, args, number in metadata_at_entry(node):
            if function is torch.ops.aten.sym_size.int and isinstance(number, torch.SymInt):
                self.places.setdefault(number.node._expr, f"{source}.size()[{args[1]}]")

    def _check_inputs(self) -> None:
        """Numbers among the inputs of which something is known that nobody guards."""
        for symbol in list(self.places):
            if self.export or free_unbacked_symbols(symbol) - self.env.unbacked_inputs:
                self._check_symbol(symbol)
        self._check_facts()

    def _take(self, node: Node) -> None:
        bindings = resolve_unbacked_bindings(self.env, node.meta.get("unbacked_bindings"))
        if bindings:
            self.table.anchor = _last_of(node)
            self._take_results(node, bindings)
        elif node.target in _WRITTEN:
            self._take_written(node)
        else:
            value = value_of(node)
            if isinstance(value, torch.SymInt):
                self._take_number(node, value.node._expr)

    def _take_results(self, node: Node, bindings: dict[sympy.Symbol, Any]) -> None:
        for symbol, path in bindings.items():
            if symbol in self.table.known:
                continue
            found = node
            for function, rest in steps_to(path):
                found = self.table.add(function, (found, *rest))
            self.table.known[symbol] = found
            self.places[symbol] = _place(node)
            self._check_symbol(symbol)
        self._check_facts()

    def _take_number(self, node: Node, expression: Any) -> None:
        """A number that is known already is not computed again, nor a size that follows from others."""
        known = self.table.known.get(expression)
        if known is None and _asks_a_result(node) and self.table.can_compute(expression):
            self.table.anchor = node
            known = self.table.node_of(expression)
        if isinstance(known, Node):
            node.replace_all_uses_with(known)
            self.graph.erase_node(node)
        elif known is None:
            self.table.known[expression] = node

    def _take_written(self, node: Node) -> None:
        """A check of the program's: it stays, unless it is of what is literally true."""
        if node.args and node.args[0] is True and not self.export and not _holds_something(node):
            self.graph.erase_node(node)
        elif node.target is not ASSERT and isinstance(_condition(node), torch.SymBool):
            message = node.args[1] if len(node.args) > 1 and isinstance(node.args[1], str) else None
            fact = _fact_of(node)
            self.table.anchor = node
            check = self.table.add(ASSERT, (node.args[0], message or f"{NOT_SO}{self._words(fact)}"), effect=True)
            check.meta["presumed"] = fact
            self.graph.erase_node(node)

    # -- checks --------------------------------------------------------------------------------------------------

    def _check_symbol(self, symbol: sympy.Symbol) -> None:
        """Its bounds, where it has any."""
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
            if all(map(self.table.has, fact.free_symbols)):
                if not self._is_implied(fact) and (self.table.can_compute(fact) or free_unbacked_symbols(fact)):
                    self._check(fact)
            else:
                self.waiting.append(fact)

    def _is_implied(self, fact: Any) -> bool:
        """Whether the bounds of its symbols, which are checked or guarded, leave no doubt about a fact."""
        if not all(symbol.is_integer for symbol in fact.free_symbols):
            return False
        return bound_sympy(fact, self.env.var_to_range).lower == sympy.true

    def _check(self, fact: Any) -> None:
        if fact in self.checked or fact in self.written:
            return
        self.checked.add(fact)
        condition = self.table.node_of(fact)
        if isinstance(condition, Node):
            check = self.table.add(ASSERT, (condition, f"{NOT_SO}{self._words(fact)}"), effect=True)
            check.meta["presumed"] = fact

    def _words(self, fact: Any) -> str:
        text = PythonPrinter().doprint(fact)
        symbols = sorted(fact.free_symbols & self.places.keys(), key=str)
        where = [f"{symbol} is {self.places[symbol]}" for symbol in symbols]
        return f"{text}, where {' and '.join(where)}" if where else text


def _asks_a_result(node: Node) -> bool:
    """Whether a node asks for a size of what the graph computes."""
    return node.target in _QUESTIONS and isinstance(node.args[0], Node) and node.args[0].op != "placeholder"


def _condition(node: Node) -> Any:
    """What the first argument of a node stands for."""
    return value_of(node.args[0]) if node.args and isinstance(node.args[0], Node) else None


def _fact_of(node: Node) -> Any:
    """What a check of the program's is about; None if that is no matter of symbols."""
    value = _condition(node)
    return value.node._expr if isinstance(value, torch.SymBool) else None


def _holds_something(node: Node) -> bool:
    """Whether a check of nothing keeps another node in the graph."""
    return any(isinstance(argument, Node) for argument in node.args)


def _last_of(node: Node) -> Node:
    """The node, or the last of those that follow it to take its result apart."""
    last = node
    while last.next.op == "call_function" and last.next.target is operator.getitem and last.next.args[0] is node:
        last = last.next
    return last


def _place(node: Node) -> str:
    """What a symbol is to the user: the operation, and the line it stands in."""
    name = getattr(node.target, "__name__", node.target)
    for line in reversed(str(node.meta.get("stack_trace") or "").splitlines()):
        words = line.strip().split(", ")
        if len(words) >= 2 and words[0].startswith("File ") and words[1].startswith("line "):
            return f"{name} in {words[0][5:].strip(chr(34))}:{words[1][5:]}"
    return str(name)
