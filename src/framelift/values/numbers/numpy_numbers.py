"""NumPy on plain numbers: `numpy.log(10000.0)`, and what programs compute from the result.

NumPy computes it while the program is captured. A `numpy.float64` is no Python float everywhere: `torch.tensor` of one
has another dtype. Beside tensors, modelled is what means the same; everything else is left to Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, FL0102_ARGUMENTS, GraphBreak
from framelift.silence import silence, unheard_warnings
from framelift.values.core import protocol as py
from framelift.values.core.base import Call, Value
from framelift.values.core.construct import make_tuple
from framelift.values.core.methods import BoundBuiltin
from framelift.values.core.primitives import Model, primitive
from framelift.values.core.protocol import BINARY, COMPARE, NUMBER_SLOTS, UNARY
from framelift.values.core.refusals import Operation

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

# How functions of NumPy's behave that are given an array, by name; NotImplemented: they were given none.
UFUNCS: dict[str, Model] = {}
_NUMBERS = (int, float, bool)
_PLAIN_OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>")
_OPERATORS = frozenset([*_PLAIN_OPERATORS, *[f"{operator}=" for operator in _PLAIN_OPERATORS]])
_NOTHING: Mapping[str, Any] = MappingProxyType({})


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


class NumpyNumberValue(Value):
    """A number of NumPy's (`numpy.int64`, `float32`, `bool`) that the program computed from constants."""

    __slots__ = ()
    answers_operators = False

    def __init__(self, concrete: Any) -> None:
        super().__init__(None, concrete)

    def describe(self) -> str:
        return f"numpy.{type(self.concrete).__name__}"

    @property
    def plain(self) -> Any:
        """The number of Python's that it is to torch beside a tensor; None: to torch it is something else."""
        return None if self.concrete.dtype.kind == "b" else self.concrete.item()

    def unary(self, tracer: Tracer, operator: str) -> Any:
        return compute(UNARY[operator], [self.concrete], self.describe())

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        return self._combine(tracer, BINARY, operator, other, swapped=False)

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        return self._combine(tracer, BINARY, operator, other, swapped=True)

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        return self._combine(tracer, COMPARE, operator, other, swapped=False)

    def _combine(self, tracer: Tracer, table: Any, operator: str, other: Any, swapped: bool) -> Any:
        number_beside = number(tracer, other)
        if number_beside is None or (table is BINARY and operator not in _OPERATORS):
            self.refuse(Operation.OPERATOR if table is BINARY else Operation.COMPARISON, operator=operator)
        operands = [number_beside, self.concrete] if swapped else [self.concrete, number_beside]
        return compute(table[operator], operands, self.describe())

    def truth(self, tracer: Tracer) -> bool:
        return bool(self.concrete)

    def as_index(self, tracer: Tracer) -> Any:
        return int(self.concrete) if self.concrete.dtype.kind in "iu" else self

    def graph_argument(self, tracer: Tracer) -> Any:
        # (Of all others torch makes tensors of other dtypes than of Python's numbers, here and there.)
        return int(self.concrete) if type(self.concrete) is numpy.int64 else super().graph_argument(tracer)

    def number(self, tracer: Tracer, slot: str, *args: Any) -> Any:
        if slot not in ("__int__", "__float__"):
            return NotImplemented
        return py.fold(tracer, NUMBER_SLOTS[slot], self.concrete.item())

    def attribute(self, tracer: Tracer, name: str) -> Any:
        return NumpyItemValue(self, name) if name == "item" else super().attribute(tracer, name)

    def made_by(self) -> Call:
        return type(self.concrete), [self.concrete.item()]


class NumpyItemValue(BoundBuiltin):
    """`item()` of a number of NumPy's."""

    __slots__ = ()

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if args or kwargs:
            raise GraphBreak(FL0102_ARGUMENTS, what="item() of a number of NumPy's")
        return self.owner.concrete.item()


def number(tracer: Tracer, value: Any) -> Any:
    """A number of Python's or NumPy's, guarded; None for everything else."""
    if isinstance(value, NumpyNumberValue):
        return value.concrete
    return tracer.constant(value) if py.has_type(value, *_NUMBERS) else None


def compute(function: Any, operands: Sequence[Any], name: str, named: Mapping[str, Any] = _NOTHING) -> Any:
    """What NumPy computes now, unless it would warn each time."""
    warned = unheard_warnings()
    try:
        with numpy.errstate(all="raise"), silence():
            result = function(*operands, **named)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        raise GraphBreak(FL0102_ARGUMENTS, what=name) from None
    if unheard_warnings() != warned:
        raise GraphBreak(FL0102_ARGUMENTS, what=name)
    return _value_of(result, name)


def _value_of(result: Any, name: str) -> Any:
    if type(result) is tuple:
        return make_tuple([_value_of(item, name) for item in result])
    if type(result) in _NUMBERS:
        return result
    if not isinstance(result, numpy.generic) or result.dtype.kind not in "biuf" or result.dtype.itemsize > 8:
        raise GraphBreak(FL0102, what=f"{name}, which gives a {type(result).__name__}")
    return NumpyNumberValue(result)


def _convert(kind: type) -> None:
    """`numpy.int64(3)`: of a number."""

    def call(tracer: Tracer, value: Any = 0) -> Any:
        operand = number(tracer, value)
        if operand is None:
            raise GraphBreak(FL0102_ARGUMENTS, what=f"numpy.{kind.__name__}")
        return compute(kind, [operand], f"numpy.{kind.__name__}")

    primitive(kind)(call)


for _code in "" if numpy is None else "?bBhHiIlLqQefd":
    _convert(numpy.dtype(_code).type)
