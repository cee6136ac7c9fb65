"""Sizes and numbers that depend on data: unbacked symbols, which have no value while a program is captured.

torch's rules for operations guess where such a symbol would decide ("no size is 1"). A guess that does not come true is
a wrong result, so every guess is a *presumption* here: a fact that the graph checks when it runs. If the check fails,
the graph raises and Python runs the program. The plainest presumption is that no size is 0 or 1, because operations,
and compilers after them, treat these two as cases of their own.

    >>> env = PresumingEnv()
    >>> n = env.create_unbacked_symint()
    >>> guard_or_false(n == 7), [str(fact.expr) for fact in env.presumptions]
    (False, ['Ne(u0, 7)'])
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import (
    SYMPY_INTERP,
    PendingUnbackedSymbolNotFound,
    ShapeEnv,
    SLoc,
    compute_unbacked_bindings,
    free_unbacked_symbols,
    guard_or_false,
)
from torch.utils._sympy.printers import PythonPrinter
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from framelift.shapes.leaves import tensors_in

__all__ = ["LEAST_SIZE", "Presumed", "PresumingEnv", "Unlikely", "bindings_of", "depends_on_data", "guard_or_false"]

# Where in the result of an operation the number is found that a symbol stands for.
Bindings = dict[sympy.Symbol, tuple[Any, ...]]

LEAST_SIZE = 2


class Unlikely(Exception):
    """What would have to be presumed is known to be false."""


@dataclass(frozen=True, slots=True)
class Presumed:
    """What was presumed at some time: facts, and between which bounds symbols lie."""

    env: PresumingEnv
    facts: frozenset[Any]
    bounds: dict[sympy.Symbol, ValueRanges[Any]]

    def missing(self) -> list[Any]:
        """What was presumed since, and does not follow. A compiler that traces a graph makes its symbols once more."""
        env = self.env
        facts = {fact.expr.xreplace(env.unbacked_renamings) for fact in env.presumptions} - self.facts
        new = (fact for fact in facts if free_unbacked_symbols(fact) - env.unbacked_inputs)
        return [fact for fact in new if bound_sympy(fact, self.bounds).lower != sympy.true]


class PresumingEnv(ShapeEnv):
    """A ShapeEnv that asserts what it guesses.

    Where `takes_data` is false, operations whose sizes or numbers depend on data raise instead.
    """

    takes_data = False
    # Whether a guess is presumed. A compiler that makes no checks of it guesses for speed only.
    presumes = True
    # Whether the sizes of all tensors that are to have fakes are constants.
    is_static = False

    def __init__(self) -> None:
        super().__init__()
        # Sizes of inputs that the program is not to know.
        self._given: dict[sympy.Symbol, sympy.Integer] = {}

    @property
    def allow_scalar_outputs(self) -> bool:
        return self.takes_data

    @property
    def allow_dynamic_output_shape_ops(self) -> bool:
        return self.takes_data

    @property
    def presumptions(self) -> list[Any]:
        """The facts that are to be checked when the graph runs, as torch's RuntimeAsserts."""
        return [fact for facts in self.deferred_runtime_asserts.values() for fact in facts]

    def presumed(self) -> Presumed:
        """What is presumed so far."""
        return Presumed(self, frozenset(fact.expr for fact in self.presumptions), dict(self.var_to_range))

    def presume(self, fact: Any, why: str) -> None:
        """Take a fact for true; it is guarded if it can be, and else checked when the graph runs."""
        if isinstance(fact, torch.SymBool):
            fact = fact.node.expr
        if fact in (True, sympy.true):
            return
        if fact in (False, sympy.false) or not self.guard_or_defer_runtime_assert(fact, why):
            raise Unlikely(str(fact))

    def given_size(self, value: int, lower: int | None, upper: int | None) -> Any:
        """The size of an input that the program is not to know, within bounds; what is presumed about it is guarded."""
        size = self.create_unbacked_symint()
        symbol = size.node.expr
        self._given[symbol] = sympy.Integer(value)
        self.pending_fresh_unbacked_symbols.remove(symbol)  # no operation brings it along
        self.unbacked_inputs.add(symbol)
        self._constrain_range_for_size(symbol)
        for bound, relation in ((lower, sympy.Ge), (upper, sympy.Le)):
            if bound is not None:
                self.presume(relation(symbol, bound), "the user says so")
        return size

    def value_at_capture(self, symbol: sympy.Symbol) -> Any:
        """What the number of an input is in the call that is captured."""
        return self._given[symbol] if symbol in self._given else self.backed_var_to_val[symbol]

    def produce_guards_expression(self, placeholders: Sequence[Any], **_: Any) -> str | None:
        """For which numbers a graph was compiled that torch keeps on disk.

        torch says that of the numbers among the inputs of the graph, for the numbers of another process. Here graphs
        read sizes off tensors, and backward computes with sizes of inputs it is not given: it is said of all symbols.
        """
        facts = [guard.expr for guard in self.guards]
        for symbol in self.backed_var_to_val:
            bounds = self.var_to_range[symbol]
            facts += [sympy.Ge(symbol, bounds.lower)] if isinstance(bounds.lower, sympy.Integer) else []
            facts += [sympy.Le(symbol, bounds.upper)] if isinstance(bounds.upper, sympy.Integer) else []
        return " and ".join(f"({PythonPrinter().doprint(fact)})" for fact in facts if fact != sympy.true) or None

    def evaluate_guards_expression(self, code: str, args: Sequence[object]) -> bool:
        """Whether a graph on disk serves here; if so, what it was compiled for is guarded from now on."""
        numbers = {str(symbol): _plain(value) for symbol, value in self.backed_var_to_val.items()}
        names = compile(code, "<guards>", "eval").co_names
        if not all(name in numbers or name in SYMPY_INTERP or hasattr(builtins, name) for name in names):
            return False  # it is about other symbols
        if not eval(code, SYMPY_INTERP, numbers):
            return False
        symbols = {
            str(symbol): self.create_symintnode(symbol, hint=numbers[str(symbol)], source=None)
            for symbol in self.backed_var_to_val
            if isinstance(numbers[str(symbol)], int)
        }
        return bool(eval(code, SYMPY_INTERP, {**numbers, **symbols}))

    def guard_or_defer_runtime_assert(self, orig_expr: Any, msg: str, fx_node: Any = None) -> bool:
        """What is false of the sizes that were given cannot be presumed: no call would pass its own guards."""
        if self._given and orig_expr.xreplace({**self.backed_var_to_val, **self._given}) == sympy.false:
            raise Unlikely(str(orig_expr))
        return super().guard_or_defer_runtime_assert(orig_expr, msg, fx_node)

    def _create_symbolic_sizes_strides_storage_offset(
        self, ex_size: Sequence[Any], ex_stride: Sequence[Any], ex_storage_offset: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """How torch makes symbols for a tensor that nobody has said anything about."""
        if self.is_static:
            return tuple(ex_size), tuple(ex_stride), ex_storage_offset
        return super()._create_symbolic_sizes_strides_storage_offset(
            ex_size, ex_stride, ex_storage_offset, *args, **kwargs
        )

    def _constrain_range_for_size(self, a: sympy.Symbol, min: int | None = None, max: int | None = None) -> None:
        """torch says that a symbol is a size."""
        super()._constrain_range_for_size(a, min, max)
        if self.presumes:
            self.presume(sympy.Ge(a, LEAST_SIZE), "a size is neither 0 nor 1")

    def _set_replacement(self, a: sympy.Symbol, tgt: Any, msg: str) -> None:
        """What is presumed of data is no constant: a compiler would take a check of it for true, and leave it out."""
        if isinstance(tgt, sympy.Integer) and free_unbacked_symbols(a) and a not in self.unbacked_inputs:
            if self.var_to_range[a] != ValueRanges(tgt, tgt):
                self._update_var_to_range(a, ValueRanges(tgt, tgt))
        else:
            super()._set_replacement(a, tgt, msg)

    def _get_stack_summary(self, *_: Any, **__: Any) -> tuple[SLoc, str]:
        """Where a guard comes from is known to `Symbols`: torch need not walk the stack, and import half of itself."""
        return SLoc(None, None), ""

    def _log_create_unbacked_symbol(self, *_: Any, **__: Any) -> None:
        """torch logs where a symbol comes from, in torch's own code."""

    def presume_sizes(self, result: Any) -> None:
        """No size of these tensors that depends on data is 0 or 1."""
        for tensor in tensors_in(result):
            for size in tensor.shape:
                if depends_on_data(size):
                    self.presume(size >= LEAST_SIZE, "a size is neither 0 nor 1")

    def _log_suppressed_dde(self, a: Any, assumed_value: bool) -> None:
        """torch could not decide `a` and goes on as if it were `assumed_value`."""
        if self.presumes:
            self.presume(a if assumed_value else sympy.Not(a), "torch goes on as if it were so")


def depends_on_data(number: Any) -> bool:
    """Whether a number is an unbacked symbol, or computed from one."""
    return not isinstance(number, int | float) and bool(free_unbacked_symbols(number))


def bindings_of(env: PresumingEnv, result: Any, known: Any) -> Bindings:
    """The symbols that a result brings with it, beside those that are known, and where in it they are found."""
    found = {symbol for number in _numbers(result) for symbol in number.node._expr.free_symbols}
    new = [symbol for symbol in sorted(found - env.unbacked_inputs, key=str) if free_unbacked_symbols(symbol)]
    pending = env.pending_fresh_unbacked_symbols
    # torch remembers results; whoever first brought a symbol along may have been taken back.
    pending.extend(symbol for symbol in new if symbol not in known and symbol not in pending)
    try:
        return compute_unbacked_bindings(env, result) or {}
    except PendingUnbackedSymbolNotFound as error:
        raise Unlikely(str(error).partition("\n")[0]) from None


def _plain(number: Any) -> int | float:
    return int(number) if number.is_Integer else float(number)


def _numbers(result: Any) -> Iterator[Any]:
    """The symbolic numbers in a result, and in the metadata of its tensors."""
    if isinstance(result, torch.SymInt | torch.SymFloat | torch.SymBool):
        yield result
    elif isinstance(result, torch.Tensor):
        if result.layout is torch.strided and not result.is_nested:
            yield from _numbers([*result.shape, *result.stride(), result.storage_offset()])
    elif isinstance(result, list | tuple):
        for item in result:
            yield from _numbers(item)
    elif isinstance(result, dict):
        yield from _numbers(list(result.values()))
