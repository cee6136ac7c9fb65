"""Numbers that differ from call to call: the graph computes with them, and what a program decides on them is guarded.

They come from inputs (`shapes.history` says which) and from the sizes of tensors. Arithmetic gives further ones. Where
a program needs the number itself (`range(n)`, a key, text) it is settled: guarded to be what it is now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from framelift.graph import NumberRef
from framelift.guards.quantity import Calculated, Quantity
from framelift.guards.source import Source
from framelift.shapes.history import is_ordinary
from framelift.shapes.unbacked import depends_on_data
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.protocol import BINARY, COMPARE, UNARY, fold
from framelift.values.numbers.scalars import ScalarValue, is_number
from framelift.values.numbers.specialise import SettledValue

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator
    from framelift.values.tensors.tensors import TensorValue

# Operators that mean the same to symbols as to Python's numbers, for all of them.
_OPEN = frozenset({"+", "-", "*"})
_MOST_FACTORS = 4
_DIVISIONS = frozenset({"/", "//", "%"})


class Computed(NamedTuple):
    """The residual code computes it: an operator between numbers."""

    operator: str
    left: Any
    right: Any


class Compared(NamedTuple):
    """The residual code compares two numbers."""

    operator: str
    left: Any
    right: Any


class SizeOf(NamedTuple):
    """It is the size of an input in one dimension."""

    tensor: TensorValue
    dim: int


class SymbolicValue(SettledValue):
    """An int, float or bool that is a symbol, or an expression of symbols."""

    __slots__ = ("_ref", "origin")
    shared = False

    def __init__(
        self,
        ref: NumberRef,
        origin: Quantity | Calculated | Computed | Compared | SizeOf | None = None,
        source: Source | None = None,
    ) -> None:
        super().__init__(source)
        self.noted = True
        self._ref = ref
        self.origin = origin

    def python_type(self) -> type:
        return _PYTHON_TYPES[type(self._ref.known_fake).__name__]

    def describe(self) -> str:
        return f"symbolic {self.python_type().__name__}"

    @property
    def depends_on_data(self) -> bool:
        """Whether it is known only when the graph runs."""
        return depends_on_data(self._ref.known_fake)

    @property
    def rests_on_floats(self) -> bool:
        """Whether floats are among the symbols it is computed from."""
        return any(not symbol.is_integer for symbol in self._ref.known_fake.node.expr.free_symbols)

    @property
    def hint(self) -> Any:
        """What it is in the call that is captured, without a guard."""
        return self._ref.known_fake.node.hint

    @property
    def words(self) -> str:
        """What it is to a user."""
        return self.origin.name if isinstance(self.origin, Quantity | Calculated) else str(self._ref.known_fake)

    def ref(self, lift: Lift) -> NumberRef:
        return self._ref

    def graph_argument(self, lift: Lift) -> Any:
        return self._ref

    # -- settling: the number itself is needed -----------------------------------------------------------------------

    def constant(self, lift: Lift) -> Any:
        return lift.settle(self._ref)

    def format(self, lift: Lift, spec: Any) -> str:
        return lift.format(self.constant(lift), spec)

    def truth(self, lift: Lift) -> bool:
        if self.python_type() is bool:
            return bool(lift.settle(self._ref))
        return py.truth(lift, self.compare(lift, "!=", 0))

    def text(self, lift: Lift, conversion: str) -> str:
        return lift.text(self.constant(lift), conversion)

    def is_same(self, lift: Lift, other: Value) -> bool:
        return py.same(lift, self.constant(lift), other)

    def is_constant_object(self, lift: Lift, constant: Any) -> bool:
        return type(constant) is self.python_type() and self.constant(lift) is constant

    # -- computing ---------------------------------------------------------------------------------------------------

    def unary(self, lift: Lift, operator: str) -> Any:
        if operator == "-" and self.python_type() is not bool:
            return self._computed(lift, "-", 0 if self.python_type() is int else -0.0, self)
        calculated = lift.calculate(UNARY[operator], self)
        return fold(lift, UNARY[operator], self.constant(lift)) if calculated is None else calculated

    def binary(self, lift: Lift, operator: str, other: Any) -> Any:
        return self._combine(lift, operator, self, other)

    def reflected(self, lift: Lift, operator: str, other: Any) -> Any:
        return self._combine(lift, operator, other, self)

    def _combine(self, lift: Lift, symbol: str, left: Any, right: Any) -> Any:
        other = right if left is self else left
        if not isinstance(other, SymbolicValue) and not is_number(other):
            is_plain = not isinstance(other, Value) or isinstance(other, ScalarValue)
            return self._settled(lift, symbol, left, right) if is_plain else NotImplemented
        if bool in (py.type_of(left), py.type_of(right)):
            return self._settled(lift, symbol, left, right)
        operator = symbol.removesuffix("=")
        if operator == "**" and type(right) is int and 1 <= right <= _MOST_FACTORS and self.python_type() is int:
            return self._power(lift, right)
        if operator in _OPEN or (operator in _DIVISIONS and self._divides(lift, operator, left, right)):
            return self._computed(lift, operator, left, right)
        return self._settled(lift, symbol, left, right)

    def _power(self, lift: Lift, exponent: int) -> Any:
        """A product: guards know it, so it may be a size."""
        result: Any = self
        for _ in range(exponent - 1):
            result = py.binary(lift, "*", result, self)
        return result

    def _divides(self, lift: Lift, operator: str, left: Any, right: Any) -> bool:
        """Whether a division is by something other than zero; of floats only the true one means the same."""
        if operator != "/" and float in (py.type_of(left), py.type_of(right)):
            return False
        return py.truth(lift, right)

    def _settled(self, lift: Lift, symbol: str, left: Any, right: Any) -> Any:
        calculated = lift.calculate(BINARY[symbol.removesuffix("=")], left, right)
        if calculated is not None:
            return calculated
        return py.unless_refused(lift, py.binary, symbol, _plain(lift, left), _plain(lift, right))

    def _computed(self, lift: Lift, operator: str, left: Any, right: Any) -> Any:
        result = lift.call_on_numbers(BINARY[operator], (left, right))
        if result is NotImplemented:
            return self._settled(lift, operator, left, right)
        if isinstance(result, SymbolicValue):
            if result._overflows():
                return py.binary(lift, operator, _plain(lift, left), _plain(lift, right))
            result.origin = Computed(operator, left, right)
        return result

    def _overflows(self) -> bool:
        """Whether it is an int that neither guards nor graphs can compute."""
        return not self.depends_on_data and type(self.hint) is int and not is_ordinary(self.hint)

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        if not isinstance(other, SymbolicValue) and not is_number(other):
            is_plain = not isinstance(other, Value) or isinstance(other, ScalarValue)
            return self._compared(lift, operator, other) if is_plain else NotImplemented
        if bool in (self.python_type(), py.type_of(other)):
            return self._compared(lift, operator, other)
        result = lift.call_on_numbers(COMPARE[operator], (self, other))
        if isinstance(result, SymbolicValue) and result.depends_on_data:
            result.origin = Compared(operator, self, other)
        return self._compared(lift, operator, other) if result is NotImplemented else result

    def _compared(self, lift: Lift, operator: str, other: Any) -> Any:
        return py.unless_refused(lift, py.compare, operator, self.constant(lift), _plain(lift, other))

    # -- the way back ------------------------------------------------------------------------------------------------

    def parts(self) -> list[Any]:
        if isinstance(self.origin, Calculated):
            return list(self.origin.args)
        return [self.origin.left, self.origin.right] if isinstance(self.origin, Computed | Compared) else []

    def rebuild(self, generate: Generator) -> None:
        origin = self.origin
        if isinstance(origin, Compared):
            generate.value(origin.left)
            generate.value(origin.right)
            generate.builder.compare(origin.operator)
        elif self.python_type() is bool:
            generate.constant(self.constant(generate.lift))
        elif isinstance(origin, Quantity | Calculated):
            generate.quantity(origin)
        elif isinstance(origin, Computed):
            generate.value(origin.left)
            generate.value(origin.right)
            generate.builder.binary_op(origin.operator)
        elif isinstance(origin, SizeOf) and origin.tensor.is_as_it_came:
            assert origin.tensor.source is not None
            generate.quantity(Quantity(origin.tensor.source, "SIZE", origin.dim))
        else:
            generate.graph_output(self)


_PYTHON_TYPES: dict[str, type] = {"SymInt": int, "SymFloat": float, "SymBool": bool}


def _plain(lift: Lift, value: Any) -> Any:
    return value.constant(lift) if isinstance(value, SymbolicValue) else value
