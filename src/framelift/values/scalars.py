"""Numbers, strings and other plain data that came from an input.

A scalar stays a computation over its sources until the program decides something on it: then the outcome is guarded
(`idx < 3` was true), or the value itself where the outcome is not enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framelift.guards.source import Source
from framelift.values import protocol as py
from framelift.values.base import Value
from framelift.values.constants import SCALAR_TYPES
from framelift.values.protocol import BINARY, COMPARE, UNARY, fold

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator

_NUMBERS = (int, float, bool)
_COMPARABLE = (int, float, bool, str)


class ScalarValue(Value, models=tuple(SCALAR_TYPES)):
    """`concrete`, computed from the values at `leaves`."""

    __slots__ = ("leaves", "outcome")
    shared = False

    def __init__(
        self,
        source: Source | None,
        concrete: Any,
        leaves: tuple[tuple[Source, Any], ...] | None = None,
        outcome: tuple[Source, str, Any] | None = None,
    ) -> None:
        super().__init__(source, concrete)
        self.noted = True  # nothing is assumed until the value is used
        self.leaves = ((source, concrete),) if leaves is None and source is not None else (leaves or ())
        self.outcome = outcome  # a comparison (source, operator, constant) whose result this is

    def constant(self, lift: Lift) -> Any:
        if self.outcome is not None:
            source, operator, constant = self.outcome
            lift.guard(source, "COMPARE", (operator, constant, self.concrete))
            return self.concrete
        for source, value in self.leaves:
            lift.guard(source, "IS" if value is None else "EQUALS", value)
        return self.concrete

    def note(self, lift: Lift) -> None:
        pass

    def truth(self, lift: Lift) -> bool:
        value = self.constant(lift)
        return bool(value)

    def key(self, lift: Lift) -> Any:
        return self.constant(lift)

    def graph_argument(self, lift: Lift) -> Any:
        return self.constant(lift)

    def text(self, lift: Lift, conversion: str) -> str:
        constant = self.constant(lift)
        return repr(constant) if conversion == "repr" else str(constant)

    # -- computations stay open on numbers, everything else decides --------------------------------------------------

    def unary(self, lift: Lift, operator: str) -> Any:
        if isinstance(self.concrete, _NUMBERS):
            return self._derived(fold(lift, UNARY[operator], self.concrete), self)
        return fold(lift, UNARY[operator], self.constant(lift))

    def binary(self, lift: Lift, operator: str, other: Any) -> Any:
        return self._combine(lift, operator, self, other)

    def reflected(self, lift: Lift, operator: str, other: Any) -> Any:
        return self._combine(lift, operator, other, self)

    def _combine(self, lift: Lift, operator: str, left: Any, right: Any) -> Any:
        other = right if left is self else left
        if isinstance(other, ScalarValue):
            other_concrete = other.concrete
        elif isinstance(other, Value):
            return NotImplemented
        else:
            other_concrete = other
        if type(self.concrete) in _NUMBERS and type(other_concrete) in _NUMBERS:
            left_concrete = left.concrete if isinstance(left, ScalarValue) else left
            right_concrete = right.concrete if isinstance(right, ScalarValue) else right
            return self._derived(fold(lift, BINARY[operator], left_concrete, right_concrete), self, other)
        return fold(lift, BINARY[operator], lift.constant(left), lift.constant(right))

    def _derived(self, result: Any, *operands: Any) -> ScalarValue:
        leaves: dict[Source, Any] = {}
        for operand in operands:
            if isinstance(operand, ScalarValue):
                if operand.outcome is not None:
                    source = operand.outcome[0]
                    leaves.update({s: c for s, c in operand.leaves if s is source})
                leaves.update(operand.leaves)
        return ScalarValue(None, result, tuple(leaves.items()))

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        if isinstance(other, ScalarValue):
            result = fold(lift, COMPARE[operator], self.concrete, other.concrete)
            return self._derived(result, self, other)
        if isinstance(other, Value):
            return NotImplemented
        if self.source is not None and type(self.concrete) in _COMPARABLE and type(other) in _COMPARABLE:
            result = fold(lift, COMPARE[operator], self.concrete, other)
            return ScalarValue(None, result, self.leaves, (self.source, operator, other))
        return fold(lift, COMPARE[operator], self.constant(lift), other)

    def is_same(self, lift: Lift, other: Value) -> bool:
        if isinstance(other, ScalarValue):
            return self.constant(lift) is other.constant(lift)
        return bool(other.is_constant_object(lift, self.constant(lift)))

    def is_constant_object(self, lift: Lift, constant: Any) -> bool:
        if self.source is not None and (constant is None or self.concrete is None):
            lift.guard(self.source, "IS" if self.concrete is constant else "NOT_IS", constant)
            return self.concrete is constant
        return self.constant(lift) is constant

    # -- the rest needs the value ------------------------------------------------------------------------------------

    def length(self, lift: Lift) -> Any:
        return fold(lift, len, self.constant(lift))

    def item(self, lift: Lift, key: Any) -> Any:
        return py.item(lift, self.constant(lift), key)

    def iterate(self, lift: Lift) -> Any:
        return py.iterate(lift, self.constant(lift))

    def contains(self, lift: Lift, item: Any) -> Any:
        return py.contains(lift, self.constant(lift), item)

    def attribute(self, lift: Lift, name: str) -> Any:
        return lift.constant_attribute(self.constant(lift), name)

    def call(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return py.call(lift, self.constant(lift), args, kwargs)

    def rebuild(self, generate: Generator) -> None:
        generate.constant(self.constant(generate.lift))
