"""NumPy on plain numbers: `numpy.log(10000.0)`, and what programs compute from the result.

A `numpy.float64` is no Python float everywhere: `numpy.float64(2) * tensor` and `torch.tensor(numpy.float64(2))` give
other dtypes. Modelled is what means the same; arrays and everything else are left to Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, FL0102_ARGUMENTS, GraphBreak
from framelift.values.core import protocol as py
from framelift.values.core.base import Call, Value
from framelift.values.core.primitives import Model
from framelift.values.core.protocol import BINARY, NUMBER_SLOTS, UNARY
from framelift.values.core.refusals import Operation

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

# How functions of NumPy's behave that are given an array, by name; NotImplemented: they were given none.
UFUNCS: dict[str, Model] = {}
_NUMBERS = (int, float)
_OPERATORS = frozenset({"+", "-", "*", "/", "**", "+=", "-=", "*=", "/=", "**="})


class UfuncValue(Value, models=() if numpy is None else numpy.ufunc):
    """A function of NumPy's own that works item by item; guarded by what it says of itself, as it has no weak refs."""

    __slots__ = ()

    def note_facts(self, tracer: Tracer) -> None:
        assert self.source is not None
        if getattr(numpy, self.concrete.__name__, None) is not self.concrete:
            raise GraphBreak(FL0102, what=f"the ufunc {self.concrete.__name__}")
        super().note_facts(tracer)
        for name in ("__name__", "__doc__"):
            tracer.guard(self.source.child("GETATTR", name), "EQUALS", getattr(self.concrete, name))

    def describe(self) -> str:
        return f"numpy.{self.concrete.__name__}"

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        of_arrays = UFUNCS.get(self.concrete.__name__)
        result = NotImplemented if of_arrays is None else of_arrays(tracer, args, kwargs)
        if result is not NotImplemented:
            return result
        plain = [number(tracer, arg) for arg in args]
        if kwargs or None in plain or self.concrete.nout != 1 or len(args) != self.concrete.nin:
            raise GraphBreak(FL0102_ARGUMENTS, what=self.describe())
        return compute(self.concrete, plain, self.describe())


class NumpyFloatValue(Value):
    """A `numpy.float64` the program computed from constants."""

    __slots__ = ()
    answers_operators = False

    def __init__(self, real: Any) -> None:
        super().__init__(None, real)

    def unary(self, tracer: Tracer, operator: str) -> Any:
        return compute(UNARY[operator], [self.concrete], "numpy.float64")

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        return self._combine(tracer, operator, other, swapped=False)

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        return self._combine(tracer, operator, other, swapped=True)

    def _combine(self, tracer: Tracer, operator: str, other: Any, swapped: bool) -> Any:
        plain = number(tracer, other)
        if plain is None or operator not in _OPERATORS:
            self.refuse(Operation.OPERATOR, operator=operator)
        operands = [plain, self.concrete] if swapped else [self.concrete, plain]
        return compute(BINARY[operator], operands, "numpy.float64")

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        self.refuse(Operation.COMPARISON, operator=operator)

    def truth(self, tracer: Tracer) -> bool:
        return bool(self.concrete)

    def number(self, tracer: Tracer, slot: str, *args: Any) -> Any:
        if slot not in ("__int__", "__float__"):
            return NotImplemented
        return py.fold(tracer, NUMBER_SLOTS[slot], float(self.concrete))

    def made_by(self) -> Call:
        return numpy.float64, [float(self.concrete)]


def number(tracer: Tracer, value: Any) -> Any:
    """A plain number or `numpy.float64`, guarded; None for everything else."""
    if isinstance(value, NumpyFloatValue):
        return value.concrete
    return tracer.constant(value) if py.has_type(value, *_NUMBERS) else None


def compute(function: Any, operands: list[Any], name: str) -> NumpyFloatValue:
    """What NumPy computes now, unless it would warn each time."""
    try:
        with numpy.errstate(all="raise"):
            result = function(*operands)
    except (ArithmeticError, TypeError, ValueError):
        raise GraphBreak(FL0102_ARGUMENTS, what=name) from None
    if type(result) is not numpy.float64:
        raise GraphBreak(FL0102, what=f"{name}, which gives a {type(result).__name__}")
    return NumpyFloatValue(result)
