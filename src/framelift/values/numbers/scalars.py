"""Numbers, strings and other plain data that came from an input.

A scalar stays a computation over its sources until the program decides something on it: then the outcome is guarded
(`idx < 3` was true), or the value itself where the outcome is not enough. A sum that is only stored or returned is
computed again by the residual code, so a counter on an object does not need an entry for each of its values.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from framelift.breaks import FL0201, GraphBreak
from framelift.guards.source import Source
from framelift.values.core import protocol as py
from framelift.values.core.base import Raised, Value
from framelift.values.core.constants import SCALAR_TYPES, plain_text
from framelift.values.core.lengths import given_length, given_truth
from framelift.values.core.operator_methods import COMPARE_METHODS
from framelift.values.core.protocol import BINARY, COMPARE, MIRRORED, NUMBER_SLOTS, UNARY, fold
from framelift.values.numbers.specialise import SpecialisedValue

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

_NUMBERS = (int, float, bool)
# The type of a power depends on the sign of its exponent, and a pair is no number: they are decided here.
_DECIDED = ("**", "divmod")
_COMPARABLE = (int, float, bool, str)
# One object per value, as far as a program can tell: the interpreter keeps the small integers for good.
_SINGLETONS = (bool, type(None), type(Ellipsis), type(NotImplemented))
# Told by identity: comparing code objects by value means little, and guards do not.
_BY_IDENTITY = (type(None), types.CodeType)
_TEXTS = (str, bytes)
_SMALL_INTEGERS = range(-5, 257)
# Operations on two ints or two floats that always give a result of that type.
_TOTAL = {"+", "-", "*", "+=", "-=", "*="}
_MAX_EXPRESSION = 16


class Expression(NamedTuple):
    """How the residual code computes a scalar: an operator between scalars or constants."""

    operator: str
    left: Any
    right: Any
    size: int


def _have_no_order(operator: str, left: Any, right: Any) -> bool:
    """Whether plain data of these types cannot be compared so."""
    if operator in ("==", "!=") or type(right) not in SCALAR_TYPES:
        return False
    mine, its = COMPARE_METHODS[operator], COMPARE_METHODS[MIRRORED[operator]]
    return getattr(left, mine)(right) is NotImplemented and getattr(right, its)(left) is NotImplemented


class ScalarValue(SpecialisedValue, models=tuple(SCALAR_TYPES - {range})):
    """`concrete`, computed from the values at `leaves`."""

    __slots__ = ("leaves", "outcome", "expression")
    shared = False

    def __init__(
        self,
        source: Source | None,
        concrete: Any,
        leaves: tuple[tuple[Source, Any], ...] | None = None,
        outcome: tuple[Source, tuple[str, Any, Any]] | None = None,
        expression: Expression | None = None,
    ) -> None:
        super().__init__(source, concrete)
        self.noted = True  # nothing is assumed until the value is used
        self.leaves = ((source, concrete),) if leaves is None and source is not None else (leaves or ())
        self.outcome = outcome  # a comparison (operator, constant, result) with the value at a source
        self.expression = expression

    def constant(self, tracer: Tracer) -> Any:
        if self.outcome is not None:
            tracer.guard(self.outcome[0], "COMPARE", self.outcome[1])
            return self.concrete
        for source, value in self.leaves:
            tracer.guard(source, "IS" if type(value) in _BY_IDENTITY else "EQUALS", value)
        return self.concrete

    def note(self, tracer: Tracer) -> None:
        pass

    def guarded_type(self, tracer: Tracer) -> type:
        for source, leaf in self.leaves:
            tracer.guard(source, "TYPE", type(leaf))
        return type(self.concrete)

    def truth(self, tracer: Tracer) -> bool:
        if self.source is not None and type(self.concrete) in _ZEROS:
            tracer.guard(self.source, "TYPE", type(self.concrete))
            truth = bool(self.concrete)
            tracer.guard(self.source, "COMPARE", ("!=", _ZEROS[type(self.concrete)], truth))
            return truth
        if self.source is not None and type(self.concrete) in _TEXTS:
            tracer.guard(self.source, "TYPE", type(self.concrete))
            return given_truth(tracer, self)
        return bool(fold(tracer, bool, self.constant(tracer)))

    def length(self, tracer: Tracer) -> Any:
        if self.source is None or type(self.concrete) not in _TEXTS:
            return super().length(tracer)
        tracer.guard(self.source, "TYPE", type(self.concrete))
        return given_length(tracer, self)

    def graph_argument(self, tracer: Tracer) -> Any:
        return self.constant(tracer)

    def text(self, tracer: Tracer, conversion: str) -> str:
        return plain_text(self.constant(tracer), conversion)

    def format(self, tracer: Tracer, spec: Any) -> str:
        return py.format_value(tracer, self.constant(tracer), spec)

    # -- computations stay open on numbers, everything else decides --------------------------------------------------

    def unary(self, tracer: Tracer, operator: str) -> Any:
        if type(self.concrete) in _NUMBERS:
            return derive(tracer, UNARY[operator], self)
        return fold(tracer, UNARY[operator], self.constant(tracer))

    def number(self, tracer: Tracer, slot: str, *args: Any) -> Any:
        of_any = slot == "__abs__" and is_number(self)
        if of_any or type(self.concrete) in _CONVERTED.get(slot, ()):
            return derive(tracer, NUMBER_SLOTS[slot], self)
        return NotImplemented

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        return self._combine(tracer, operator, self, other)

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        return self._combine(tracer, operator, other, self)

    def _combine(self, tracer: Tracer, operator: str, left: Any, right: Any) -> Any:
        other = right if left is self else left
        if isinstance(other, Value) and not isinstance(other, ScalarValue):
            return NotImplemented
        kinds = {type(_plain(left)), type(_plain(right))}
        if kinds <= set(_NUMBERS) and operator.removesuffix("=") not in _DECIDED:
            result = derive(tracer, BINARY[operator], left, right)
            _keep_defined(tracer, operator.removesuffix("="), left, right)
            if operator in _TOTAL and (kinds == {int} or kinds == {float}):
                size = 1 + _size(left) + _size(right)
                if size <= _MAX_EXPRESSION:
                    result.expression = Expression(operator, left, right, size)
            return result
        return fold(tracer, BINARY[operator], tracer.constant(left), tracer.constant(right))

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if isinstance(other, ScalarValue):
            return derive(tracer, COMPARE[operator], self, other)
        if isinstance(other, Value):
            return NotImplemented
        if _have_no_order(operator, self.concrete, other):
            self.guarded_type(tracer)
            return NotImplemented  # whoever asked knows which of them stands on the left
        if self.source is not None and type(self.concrete) in _COMPARABLE and type(other) in _COMPARABLE:
            result = _computed(tracer, COMPARE[operator], self, other)
            result.outcome = (self.source, (operator, other, result.concrete))
            result.constant(tracer)  # with something else there it could raise, though nobody looks at the result
            return result
        return fold(tracer, COMPARE[operator], self.constant(tracer), other)

    # -- identity ----------------------------------------------------------------------------------------------------

    def is_same(self, tracer: Tracer, other: Value) -> bool:
        if not isinstance(other, ScalarValue):
            return bool(other.is_constant_object(tracer, self.constant(tracer)))
        if type(self.concrete) is not type(other.concrete) or _has_one_object(self.concrete):
            return self.constant(tracer) is other.constant(tracer)
        if self.source is None or other.source is None:
            raise GraphBreak(FL0201, operation="'is'", type=self.describe())
        same = self.concrete is other.concrete
        if self.source is not other.source:
            tracer.guards.relate("SAME" if same else "DISTINCT", (self.source, other.source))
        return same

    def is_constant_object(self, tracer: Tracer, constant: Any) -> bool:
        if self.source is not None and (constant is None or self.concrete is None):
            tracer.guard(self.source, "IS" if self.concrete is constant else "NOT_IS", constant)
            return self.concrete is constant
        if _has_one_object(constant) or type(constant) is not type(self.concrete):
            return self.constant(tracer) is constant
        if self.source is None:
            raise GraphBreak(FL0201, operation="'is'", type=self.describe())
        tracer.guard(self.source, "IS" if self.concrete is constant else "NOT_IS", constant)
        return self.concrete is constant

    def rebuild(self, emit: Emitter) -> None:
        if self.expression is None:
            emit.constant(self.constant(emit.tracer))
            return
        for source, value in self.leaves:
            emit.tracer.guard(source, "TYPE", type(value))
        emit.value(self.expression.left)
        emit.value(self.expression.right)
        emit.builder.binary_op(self.expression.operator)


_ZEROS: dict[type, Any] = {int: 0, float: 0.0, str: ""}


def derive(tracer: Tracer, function: Callable[..., Any], *operands: Any) -> ScalarValue:
    """A number computed from scalars and constants, by a function that raises nothing on others of their types."""
    result = _computed(tracer, function, *operands)
    result.guarded_type(tracer)
    return result


def _computed(tracer: Tracer, function: Callable[..., Any], *operands: Any) -> ScalarValue:
    """What it raises depends on the values of the operands."""
    try:
        result = fold(tracer, function, *map(_plain, operands))
    except Raised:
        for operand in operands:
            tracer.constant(operand)
        raise
    leaves = {
        source: concrete
        for operand in operands
        if isinstance(operand, ScalarValue)
        for source, concrete in operand.leaves
    }
    return ScalarValue(None, result, tuple(leaves.items()))


# (Kept as they are, so that a guard is noted once.)
_NOT_ZERO = ("!=", 0, True)
_FITS_A_FLOAT = (("<", 2**62, True), (">", -(2**62), True))


def _keep_defined(tracer: Tracer, operator: str, left: Any, right: Any) -> None:
    """Note what keeps an operation that raised nothing from raising, though nobody may look at its result."""
    if operator in ("<<", ">>"):
        tracer.constant(left)
        tracer.constant(right)
    if operator in ("/", "//", "%"):
        _note_outcomes(tracer, right, _NOT_ZERO)
    if operator == "/" or float in (type(_plain(left)), type(_plain(right))):
        for operand in (left, right):
            if type(_plain(operand)) is int:
                _note_outcomes(tracer, operand, *_FITS_A_FLOAT)


def _note_outcomes(tracer: Tracer, operand: Any, *outcomes: tuple[str, int, bool]) -> None:
    """Note that comparisons with a number have these outcomes, or else which number it is."""
    if not isinstance(operand, ScalarValue):
        return
    as_noted = all(COMPARE[operator](operand.concrete, bound) is outcome for operator, bound, outcome in outcomes)
    if operand.source is None or not as_noted:
        operand.constant(tracer)
        return
    for outcome in outcomes:
        tracer.guard(operand.source, "COMPARE", outcome)


# The types from which the conversion to a number raises nothing.
_CONVERTED = {"__int__": (int, bool), "__float__": (float, bool)}


def is_number(value: Any) -> bool:
    """Whether `value` is a plain number of the program or of an input."""
    return type(_plain(value)) in _NUMBERS


def _plain(operand: Any) -> Any:
    return operand.concrete if isinstance(operand, ScalarValue) else operand


def _size(operand: Any) -> int:
    """How many operations the residual code runs for an operand; too many for one that is not recomputed."""
    if not isinstance(operand, ScalarValue) or operand.source is not None:
        return 0
    return _MAX_EXPRESSION if operand.expression is None else operand.expression.size


def _has_one_object(constant: Any) -> bool:
    return type(constant) in _SINGLETONS or (type(constant) is int and constant in _SMALL_INTEGERS)
