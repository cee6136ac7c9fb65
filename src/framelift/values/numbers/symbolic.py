"""Numbers that differ from call to call: the graph computes with them, and what a program decides on them is guarded.

They come from inputs (`shapes.history` says which) and from the sizes of tensors. Arithmetic gives further ones. Where
a program needs the number itself (`range(n)`, a key, text) it is specialised: guarded to be what it is now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from framelift.graph import NumberRef, TensorRef
from framelift.guards.quantity import Calculated, Quantity
from framelift.guards.source import Source
from framelift.shapes.history import is_ordinary
from framelift.shapes.unbacked import depends_on_data
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.construct import make_tuple
from framelift.values.core.protocol import BINARY, COMPARE, UNARY, fold
from framelift.values.numbers.scalars import ScalarValue, is_number
from framelift.values.numbers.specialise import SpecialisedValue

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

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


class SizedTensor(Protocol):
    """A tensor of the graph, whose sizes may be symbols."""

    @property
    def source(self) -> Source | None: ...

    @property
    def is_as_it_came(self) -> bool: ...

    def ref(self, tracer: Tracer) -> TensorRef: ...


# An integer is looked for among so many keys, of types whose equality with it is known.
_FEW = 16
_TOLD_APART = (int, bool, str, type(None))


class SizeOf(NamedTuple):
    """It is the size of an input in one dimension."""

    tensor: SizedTensor
    dim: int


class SymbolicValue(SpecialisedValue):
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

    def ref(self, tracer: Tracer) -> NumberRef:
        return self._ref

    def graph_argument(self, tracer: Tracer) -> Any:
        return self._ref

    # -- specialising: the number itself is needed ------------------------------------------------------------------

    def constant(self, tracer: Tracer) -> Any:
        return tracer.specialise(self._ref)

    def format(self, tracer: Tracer, spec: Any) -> str:
        return py.format_value(tracer, self.constant(tracer), spec)

    def truth(self, tracer: Tracer) -> bool:
        if self.python_type() is bool:
            return bool(tracer.specialise(self._ref))
        return py.truth(tracer, self.compare(tracer, "!=", 0))

    def is_among(self, tracer: Tracer, keys: Callable[[Tracer], Collection[Any]]) -> bool | None:
        """Compared with one key after the other, where these are few: `epoch in milestones`."""
        if self.depends_on_data or self.python_type() is not int:
            return None
        found = keys(tracer)
        if len(found) > _FEW or not all(type(key) in _TOLD_APART for key in found):
            return None
        return any(py.truth(tracer, self.compare(tracer, "==", int(key))) for key in found if isinstance(key, int))

    def text(self, tracer: Tracer, conversion: str) -> str:
        return tracer.text(self.constant(tracer), conversion)

    def is_same(self, tracer: Tracer, other: Value) -> bool:
        return py.same(tracer, self.constant(tracer), other)

    def is_constant_object(self, tracer: Tracer, constant: Any) -> bool:
        return type(constant) is self.python_type() and self.constant(tracer) is constant

    # -- computing ---------------------------------------------------------------------------------------------------

    def unary(self, tracer: Tracer, operator: str) -> Any:
        if operator == "-" and self.python_type() is not bool:
            return self._combine(tracer, "-", 0 if self.python_type() is int else -0.0, self)
        calculated = tracer.calculate(UNARY[operator], self)
        return fold(tracer, UNARY[operator], self.constant(tracer)) if calculated is None else calculated

    def number(self, tracer: Tracer, slot: str, *args: Any) -> Any:
        if slot == "__float__":
            return self if self.python_type() is float else py.binary(tracer, "*", self, 1.0)
        return self if slot == "__int__" and self.python_type() is int else NotImplemented

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        return self._combine(tracer, operator, self, other)

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        return self._combine(tracer, operator, other, self)

    def _combine(self, tracer: Tracer, symbol: str, left: Any, right: Any) -> Any:
        other = right if left is self else left
        if not isinstance(other, SymbolicValue) and not is_number(other):
            is_plain = not isinstance(other, Value) or isinstance(other, ScalarValue)
            return self._specialised(tracer, symbol, left, right) if is_plain else NotImplemented
        if bool in (py.type_of(left), py.type_of(right)):
            return self._specialised(tracer, symbol, left, right)
        operator = symbol.removesuffix("=")
        if operator == "divmod":
            return make_tuple([py.binary(tracer, "//", left, right), py.binary(tracer, "%", left, right)])
        if self._rest_on_floats(left, right):  # symbols of floats have all their digits, and no zero to divide by
            calculated = tracer.calculate(BINARY[operator], left, right)
            if calculated is not None:
                return calculated
        if operator == "**" and type(right) is int and 1 <= right <= _MOST_FACTORS and self.python_type() is int:
            return self._power(tracer, right)
        if operator in _OPEN or (operator in _DIVISIONS and self._divides(tracer, operator, left, right)):
            return self._computed(tracer, operator, left, right)
        return self._specialised(tracer, symbol, left, right)

    def _power(self, tracer: Tracer, exponent: int) -> Any:
        """A product: guards know it, so it may be a size."""
        result: Any = self
        for _ in range(exponent - 1):
            result = py.binary(tracer, "*", result, self)
        return result

    def _divides(self, tracer: Tracer, operator: str, left: Any, right: Any) -> bool:
        """Whether a division is by something other than zero; of floats only the true one means the same.

        A number that depends on data is presumed not to be zero: it would be an error.
        """
        if operator != "/" and float in (py.type_of(left), py.type_of(right)):
            return False
        if not (isinstance(right, SymbolicValue) and right.depends_on_data):
            return py.truth(tracer, right)
        condition = right.compare(tracer, "!=", 0)
        if not isinstance(condition, SymbolicValue):
            return py.truth(tracer, condition)
        tracer.presume(condition.ref(tracer))
        return True

    def _specialised(self, tracer: Tracer, symbol: str, left: Any, right: Any) -> Any:
        calculated = tracer.calculate(BINARY[symbol.removesuffix("=")], left, right)
        if calculated is not None:
            return calculated
        return py.unless_refused(tracer, py.binary, symbol, _plain(tracer, left), _plain(tracer, right))

    def _computed(self, tracer: Tracer, operator: str, left: Any, right: Any) -> Any:
        result = tracer.call_on_numbers(BINARY[operator], (left, right))
        if result is NotImplemented:
            return self._specialised(tracer, operator, left, right)
        if isinstance(result, SymbolicValue):
            if result._overflows():
                return py.binary(tracer, operator, _plain(tracer, left), _plain(tracer, right))
            result.origin = Computed(operator, left, right)
        return result

    @staticmethod
    def _rest_on_floats(*numbers: Any) -> bool:
        return any(isinstance(number, SymbolicValue) and number.rests_on_floats for number in numbers)

    def _overflows(self) -> bool:
        """Whether it is an int that neither guards nor graphs can compute."""
        return not self.depends_on_data and type(self.hint) is int and not is_ordinary(self.hint)

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if not isinstance(other, SymbolicValue) and not is_number(other):
            is_plain = not isinstance(other, Value) or isinstance(other, ScalarValue)
            return self._compared(tracer, operator, other) if is_plain else NotImplemented
        if bool in (self.python_type(), py.type_of(other)):
            return self._compared(tracer, operator, other)
        result = tracer.call_on_numbers(COMPARE[operator], (self, other))
        if isinstance(result, SymbolicValue) and result.depends_on_data:
            result.origin = Compared(operator, self, other)
        return self._compared(tracer, operator, other) if result is NotImplemented else result

    def _compared(self, tracer: Tracer, operator: str, other: Any) -> Any:
        return py.unless_refused(tracer, py.compare, operator, self.constant(tracer), _plain(tracer, other))

    # -- the way back ------------------------------------------------------------------------------------------------

    def parts(self) -> list[Any]:
        if isinstance(self.origin, Calculated):
            return list(self.origin.args)
        return [self.origin.left, self.origin.right] if isinstance(self.origin, Computed | Compared) else []

    def rebuild(self, emit: Emitter) -> None:
        origin = self.origin
        if isinstance(origin, Compared):
            emit.value(origin.left)
            emit.value(origin.right)
            emit.builder.compare(origin.operator)
        elif self.python_type() is bool:
            emit.constant(self.constant(emit.tracer))
        elif isinstance(origin, Quantity | Calculated):
            emit.quantity(origin)
        elif isinstance(origin, Computed):
            emit.value(origin.left)
            emit.value(origin.right)
            emit.builder.binary_op(origin.operator)
        elif isinstance(origin, SizeOf) and origin.tensor.is_as_it_came:
            assert origin.tensor.source is not None
            emit.quantity(Quantity(origin.tensor.source, "SIZE", origin.dim))
        else:
            emit.graph_output(self)


_PYTHON_TYPES: dict[str, type] = {"SymInt": int, "SymFloat": float, "SymBool": bool}


def _plain(tracer: Tracer, value: Any) -> Any:
    return value.constant(tracer) if isinstance(value, SymbolicValue) else value
