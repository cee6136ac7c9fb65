"""Sizes and numbers that depend on data: unbacked symbols, which have no value while a program is captured.

torch's rules for operations ask about such symbols ("is this size 1?"). What a symbol is in the call that is captured
answers them, where that can be found out (`graph.evidence`); else torch's own guess does. Either way an answer that
does not come true is a wrong result, so every answer is a *presumption*: a fact that the graph checks when it runs. If
the check fails, the graph raises and Python runs the program.

    >>> env = PresumingEnv()
    >>> n = env.create_unbacked_symint()
    >>> guard_or_false(n == 7), [str(fact.expr) for fact in env.presumptions]
    (False, ['Ne(u0, 7)'])
    >>> env.evidence = {n.node.expr: 5}.get
    >>> guard_or_false(n == 5), [str(fact.expr) for fact in env.presumptions]
    (True, ['Ne(u0, 7)', 'Eq(u0, 5)'])
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
import torch.fx.traceback
from sympy.logic.boolalg import Boolean
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import (
    SYMPY_INTERP,
    ShapeEnv,
    SLoc,
    free_unbacked_symbols,
    guard_or_false,
)
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.printers import PythonPrinter
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from framelift.shapes.bindings import Foreseen, Unlikely
from framelift.shapes.leaves import tensors_in
from framelift.shapes.truth import truth

__all__ = ["LEAST_SIZE", "Asked", "Presumed", "PresumingEnv", "depends_on_data", "guard_or_false"]

LEAST_SIZE = 2


@dataclass(slots=True)
class Asked:
    """What the rule of one operation asked about symbols without a value, and was answered; what it claims of them."""

    questions: dict[Any, bool] = field(default_factory=dict)
    claims: list[tuple[Any, str]] = field(default_factory=list)


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
    # What a symbol is in the call that is captured; None: nobody knows.
    evidence: Callable[[sympy.Symbol], int | float | None] = staticmethod(lambda symbol: None)
    # Sizes are presumed to be at least this, the first that is so in the call that is captured: operations, and
    # compilers after them, treat 0 and 1 as cases of their own.
    least_sizes: tuple[int, ...] = (LEAST_SIZE,)
    # Whether the graph is compiled: what compilers make of a reduction does not raise for an empty one.
    compiles = False
    # Whether anything is presumed that the program does not say itself.
    may_presume = True
    # Whether a call is not captured that is going to raise.
    foresees = False
    # Whether a guess is presumed. A compiler that makes no checks of it guesses for speed only.
    presumes = True
    # Whether the sizes of all tensors that are to have fakes are constants.
    is_static = False

    def __init__(self) -> None:
        super().__init__()
        # Sizes of inputs that the program is not to know.
        self._given: dict[sympy.Symbol, sympy.Integer] = {}
        # Symbols that an operation makes once more, and what answers the questions of its rule meanwhile.
        self._again: list[sympy.Symbol] = []
        self._answer_again: Callable[[Any], bool | None] | None = None
        self._values: dict[sympy.Symbol, Any] = {}
        # Answers that are collected, not presumed.
        self._asked: Asked | None = None

    @property
    def allow_scalar_outputs(self) -> bool:
        return self.takes_data

    @property
    def allow_dynamic_output_shape_ops(self) -> bool:
        return self.takes_data

    @property
    def has_data(self) -> bool:
        """Whether there are symbols without a value."""
        return bool(self.unbacked_symint_counter or self.unbacked_symfloat_counter)

    @property
    def presumptions(self) -> list[Any]:
        """The facts that are to be checked when the graph runs, as torch's RuntimeAsserts."""
        return [fact for facts in self.deferred_runtime_asserts.values() for fact in facts]

    def presumed(self) -> Presumed:
        """What is presumed so far."""
        return Presumed(self, frozenset(fact.expr for fact in self.presumptions), dict(self.var_to_range))

    def presume(self, fact: Any, why: str, is_said: bool = False) -> None:
        """Take a fact for true; it is guarded if it can be, and else checked when the graph runs.

        `is_said`: the program says so itself, or raises.
        """
        if isinstance(fact, torch.SymBool):
            fact = fact.node.expr
        if fact in (True, sympy.true):
            return
        if not (is_said or self.may_presume) and self._maybe_evaluate_static(fact) is None:
            raise Unlikely(str(fact))
        if is_said and self.foresees and not isinstance(fact, bool) and self.truth_of(fact) is False:
            raise Foreseen(str(fact))
        if fact in (False, sympy.false) or not self.guard_or_defer_runtime_assert(fact, why):
            raise Unlikely(str(fact))

    def is_any_number(self, symbol: sympy.Symbol) -> bool:
        """Whether nothing is known of an integer: it is no size, and has no bounds."""
        limits = self.var_to_range[symbol]
        return limits.lower in (-int_oo, -sympy.oo) and limits.upper in (int_oo, sympy.oo)

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

    # -- what is known of symbols ---------------------------------------------------------------------------------

    def create_unbacked_symint(self, *args: Any, **kwargs: Any) -> Any:
        again = self._made_again()
        return self._made(super().create_unbacked_symint(*args, **kwargs)) if again is None else again

    def create_unbacked_symfloat(self, *args: Any, **kwargs: Any) -> Any:
        again = self._made_again()
        return self._made(super().create_unbacked_symfloat(*args, **kwargs)) if again is None else again

    def _made_again(self) -> torch.SymInt | torch.SymFloat | None:
        if not self._again:
            return None
        symbol = self._again.pop(0)
        self.pending_fresh_unbacked_symbols.append(symbol)
        kind, number = (int, torch.SymInt) if symbol.is_integer else (float, torch.SymFloat)
        return number(SymNode(symbol, self, kind, None))

    def _made(self, number: Any) -> Any:
        """Note what a new symbol is, if a compiler goes over the nodes of a graph and makes theirs once more."""
        again = torch.fx.traceback.get_current_meta().get("unbacked_bindings")
        if again and self._asked is None:
            known = self.value_of(next(iter(again))) if len(again) == 1 else None
            if known is not None:
                self._values[number.node.expr] = known
        return number

    def value_of(self, symbol: sympy.Symbol) -> Any:
        """What a symbol is in the call that is captured; None if that is not known."""
        found = self._values.get(symbol)
        if found is None:
            renamed = self.unbacked_renamings.get(symbol)
            if renamed is not None:
                return self.value_of(renamed)
            if self._asked is not None:  # a rule for fake tensors is being run, in modes that real ones must not meet
                return None
            number = self.evidence(symbol)
            if number is None or (isinstance(number, float) and not math.isfinite(number)):
                return None
            found = self._values[symbol] = sympy.sympify(number)
        return found

    def truth_of(self, expression: Any) -> bool | None:
        """Whether something is true in the call that is captured; None if that is not known."""
        values = {}
        for symbol in expression.free_symbols:
            value = self.backed_var_to_val.get(symbol)
            if value is None:
                value = self.value_of(symbol)
            if value is None:
                return None
            values[symbol] = _plain(value)
        return truth(expression, values)

    @contextmanager
    def asking(self) -> Iterator[Asked]:
        """A block in which a rule is run: what is answered about data is collected."""
        before, self._asked = self._asked, Asked()
        try:
            yield self._asked
        finally:
            self._asked = before

    @contextmanager
    def answering(self, answer: Callable[[Any], bool | None], symbols: Sequence[sympy.Symbol]) -> Iterator[None]:
        """A block in which a rule is run again: questions are answered so, and its new symbols are these."""
        before = self._again, self._answer_again
        self._again, self._answer_again = sorted(symbols, key=_number_of), answer
        try:
            yield
        finally:
            self._again, self._answer_again = before

    def forget(self, symbols: Iterable[sympy.Symbol]) -> None:
        """The operation that brought them along was taken back."""
        for symbol in symbols:
            self._values.pop(symbol, None)

    def evaluate_expr(self, orig_expr: Any, *args: Any, **kwargs: Any) -> Any:
        """torch asks what a truth value or a number is."""
        is_question = isinstance(orig_expr, Boolean) and not orig_expr.is_Symbol
        if is_question and not orig_expr.free_symbols <= self.backed_var_to_val.keys():
            guess = kwargs.get("fallback_value")
            if guess is None and len(args) > 2 and args[2]:  # torch takes sizes for ordinary ones without saying so
                guess = self._maybe_evaluate_static(orig_expr, size_oblivious=True)
            answer = self._answer(orig_expr, None if guess is None else bool(guess))
            if answer is not None:
                return answer
        return super().evaluate_expr(orig_expr, *args, **kwargs)

    def _answer(self, question: Any, guess: bool | None) -> Any:
        """The answer to a question about data; None: leave it to torch."""
        if self._asked is not None and question in self._asked.questions:
            return sympy.true if self._asked.questions[question] else sympy.false
        known = self._maybe_evaluate_static(question)
        if known is not None:
            return known
        rest = self._maybe_evaluate_static(question, unbacked_only=True)
        if rest.free_symbols <= self.backed_var_to_val.keys():
            return None
        if self._asked is None:
            truth = self.truth_of(question)
            answer = guess if truth is None else truth
        elif self._answer_again is not None:
            truth = self._answer_again(question)
            answer = guess if truth is None else truth
        else:  # the general case
            answer = self.truth_of(question) if guess is None else guess
        if answer is None:
            return None
        if self._asked is not None:
            self._asked.questions[question] = answer
        elif self.presumes:
            self.presume(question if answer else sympy.Not(question), "the program goes on as if it were so")
        return sympy.true if answer else sympy.false

    def guard_or_defer_runtime_assert(self, orig_expr: Any, msg: str, fx_node: Any = None) -> bool:
        """What is false in the call that is captured cannot be presumed: no call would pass its own checks."""
        if self._given and orig_expr.xreplace({**self.backed_var_to_val, **self._given}) == sympy.false:
            raise Unlikely(str(orig_expr))
        if not orig_expr.free_symbols <= self.backed_var_to_val.keys():
            again = self._answer_again
            truth = self.truth_of(orig_expr) if again is None else again(orig_expr)
            if truth is False and (self._asked is None or again is not None):
                raise (
                    Foreseen(str(orig_expr)) if self.foresees and self._asked is not None else Unlikely(str(orig_expr))
                )
            if self._asked is not None and (not truth or again is not None):
                self._asked.claims.append((orig_expr, msg))
                return True
        return super().guard_or_defer_runtime_assert(orig_expr, msg, fx_node)

    # -- torch's ways -----------------------------------------------------------------------------------------------

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
        if self._asked is None:
            self.presume_order(a)

    def _set_replacement(self, a: sympy.Symbol, tgt: Any, msg: str) -> None:
        """What is presumed of data is no constant: a compiler would take a check of it for true, and leave it out."""
        if isinstance(tgt, sympy.Integer) and free_unbacked_symbols(a) and a not in self.unbacked_inputs:
            if self.var_to_range[a] != ValueRanges(tgt, tgt):
                self._update_var_to_range(a, ValueRanges(tgt, tgt))
        else:
            super()._set_replacement(a, tgt, msg)

    def _get_stack_summary(self, *_: Any, **__: Any) -> tuple[SLoc, str]:
        """Where a guard comes from is known to `Symbols`: torch need not walk the stack, and import half of itself."""
        return SLoc("", None), ""

    def _log_create_unbacked_symbol(self, *_: Any, **__: Any) -> None:
        """torch logs where a symbol comes from, in torch's own code."""

    def presume_sizes(self, result: Any) -> None:
        """Presume of what order the sizes of these tensors are that depend on data."""
        for tensor in tensors_in(result):
            for size in tensor.shape:
                if depends_on_data(size):
                    self.presume_order(size.node.expr)

    def presume_order(self, size: Any) -> None:
        """Presume of a size that it is not as small as none is in this call."""
        if not self.presumes or not self.may_presume:
            return
        for least in self.least_sizes:
            fact = sympy.Ge(size, least)
            if self.truth_of(fact) is not False:
                return self.presume(fact, "a size is not that small")

    def may_be_zero(self, values: Iterable[Any]) -> list[Any]:
        """The sizes of these tensors that depend on data, and may be 0."""
        sizes = {
            size.node.expr: None
            for value in values
            if isinstance(value, torch.Tensor)
            for size in value.shape
            if depends_on_data(size)
        }
        return [size for size in sizes if bound_sympy(size, self.var_to_range).lower < 1]

    def still_open(self, questions: Mapping[Any, bool]) -> dict[Any, bool]:
        """Those of the questions that nothing decides that is presumed by now."""
        return {
            question: answer for question, answer in questions.items() if self._maybe_evaluate_static(question) is None
        }

    def is_so(self, questions: Mapping[Any, bool], claims: Iterable[tuple[Any, str]]) -> bool:
        """Whether nothing is known to be otherwise in the call that is captured."""
        if any(self.truth_of(question) is (not answer) for question, answer in questions.items()):
            return False
        return all(self.truth_of(claim) is not False for claim, _ in claims)

    def presume_all(self, questions: Mapping[Any, bool], claims: Iterable[tuple[Any, str]]) -> None:
        """Presume what a rule was answered, and what it claims."""
        for question, answer in questions.items():
            self.presume(question if answer else sympy.Not(question), "the program goes on as if it were so")
        for claim, why in claims:
            self.presume(claim, why, is_said=True)


def depends_on_data(number: Any) -> bool:
    """Whether a number is an unbacked symbol, or computed from one."""
    return not isinstance(number, int | float) and bool(free_unbacked_symbols(number))


def _number_of(symbol: sympy.Symbol) -> tuple[int, str]:
    """Symbols in the order in which they were made."""
    return len(symbol.name), symbol.name


def _plain(number: Any) -> int | float:
    return int(number) if number.is_Integer else float(number)
