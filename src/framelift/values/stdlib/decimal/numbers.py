"""`decimal.Decimal`: a number that is known, and computed with while capturing.

One of an input is guarded by its text, which says all about it: 1.0 is not 1.00. What an operation gives depends on the
context it runs in (`framelift.values.stdlib.decimal.threads`).
"""

from __future__ import annotations

import decimal
import fractions
import numbers
import types
from collections.abc import Callable
from decimal import Context
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0201, GraphBreak
from framelift.values.core import protocol as py
from framelift.values.core.base import Call, Identity, Value
from framelift.values.core.constants import is_constant
from framelift.values.core.construct import make_tuple
from framelift.values.core.hash_keys import EqualKey
from framelift.values.core.lookup import is_plain_class, raw_lookup
from framelift.values.core.methods import method
from framelift.values.core.operator_methods import COMPARE_METHODS
from framelift.values.core.primitives import primitive
from framelift.values.core.stand_ins import raise_what, stand_in
from framelift.values.objects.instances import UserObjectValue
from framelift.values.stdlib.decimal.contexts import DecimalContextValue
from framelift.values.stdlib.decimal.states import IN_C
from framelift.values.stdlib.decimal.threads import run_in_contexts
from framelift.values.stdlib.made_by_call import MadeByCall
from framelift.values.subclasses.scalars import ScalarObjectValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

_Decimal = decimal.Decimal


_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType)
# Methods that are not run: what they give depends on more than the number, or is the number itself.
_MODELLED = frozenset({"__format__", "__copy__", "__deepcopy__", "__hash__", "__getattribute__"})


class DecimalValue(MadeByCall, models=_Decimal if IN_C else ()):
    """A number, which never changes, be it an input or not."""

    __slots__ = ()
    data = frozenset({"real", "imag"})
    methods = frozenset(name for name, raw in vars(_Decimal).items() if isinstance(raw, _METHODS)) - _MODELLED

    def note_facts(self, tracer: Tracer) -> None:
        super().note_facts(tracer)
        assert self.source is not None
        where, text = self.source.child("REDUCED").child("TUPLE_ITEM", 1), self.known.__reduce__()[1][0]
        if not tracer.policy.is_steady(self.source.name, text):
            self.refuse("use, after many others in its place,")
        tracer.guard(where.child("TUPLE_ITEM", 0), "EQUALS", text)

    # -- operators ---------------------------------------------------------------------------------------------------

    def truth(self, tracer: Tracer) -> bool:
        return bool(self.known)

    def unary(self, tracer: Tracer, operator: str) -> Any:
        return run(tracer, py.UNARY[operator], [self])

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        return self._combined(tracer, py.BINARY[operator], self, other)

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        return self._combined(tracer, py.BINARY[operator], other, self)

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if isinstance(other, Value) and not _is_plain(other):
            ratio = _ratio(tracer, other)
            return ratio if ratio is NotImplemented else run(tracer, _compare_ratio, [operator, self, *ratio])
        return run(tracer, raw_lookup(_Decimal, COMPARE_METHODS[operator]), [self, other])

    def _combined(self, tracer: Tracer, function: Callable[..., Any], left: Any, right: Any) -> Any:
        other = right if left is self else left
        if isinstance(other, ScalarObjectValue) and other.base is not int:
            self.refuse(f"an operator with {py.describe(other)}")  # which may have its own, and has its own name
        if not _is_plain(other):
            return NotImplemented
        return run(tracer, function, [left, right])

    # -- what containers and conversions ask -------------------------------------------------------------------------

    def key(self, tracer: Tracer) -> Any:
        if self.known.is_qnan():  # equal to nothing, and told by its address
            return Identity(self)
        return EqualKey(tracer, self, run(tracer, hash, [self]))

    def text(self, tracer: Tracer, conversion: str) -> str:
        text: str = run(tracer, repr if conversion == "repr" else str, [self])
        return text

    def format(self, tracer: Tracer, spec: Any) -> str:
        plain = tracer.constant(spec)
        if type(plain) is str and plain[-1:] in ("n", "N"):
            self.refuse("format() in the language of the day")
        text: str = run(tracer, format, [self, plain])
        return text

    def run(self, tracer: Tracer, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return run(tracer, raw_lookup(_Decimal, name), [self, *args], kwargs)

    def answer(self, tracer: Tracer, name: str, args: tuple[Any, ...] | None, result: Any) -> Any:
        return self if result is self.known else _value(tracer, result)

    @method
    def __format__(self, tracer: Tracer, spec: Any) -> str:  # type: ignore[override]  # noqa: PLE0302  (a model)
        return self.format(tracer, spec)

    @method
    def __copy__(self, tracer: Tracer) -> Any:  # noqa: PLE0302  (a model)
        return self

    @method
    def __deepcopy__(self, tracer: Tracer, memo: Any) -> Any:  # noqa: PLE0302  (a model)
        return self

    def made_by(self) -> Call:
        return _Decimal, [str(self.known)]


_PLAIN = (int, bool, float, complex, str, bytes, type(None))


def _is_plain(value: Any) -> bool:
    """Whether decimals take a value for the number or text it is: also those of a subclass, whatever it says."""
    if isinstance(value, ScalarObjectValue):
        return value.base is not None and any(value.base is kind for kind in _PLAIN)
    return isinstance(value, DecimalValue) or py.has_type(value, *_PLAIN)


def run(tracer: Tracer, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any] | None = None) -> Any:
    """Call a function of decimals and other plain data."""
    decimals = [arg for arg in [*args, *(kwargs or {}).values()] if isinstance(arg, DecimalValue)]
    named = {} if kwargs is None else {name: _plain(tracer, arg) for name, arg in kwargs.items()}
    result = run_in_contexts(tracer, function, [_plain(tracer, arg) for arg in args], named)
    same = next((value for value in decimals if value.known is result), None)
    return _value(tracer, result) if same is None else same


def _plain(tracer: Tracer, value: Any) -> Any:
    if isinstance(value, DecimalValue):
        value.note(tracer)
        return value.known
    return value if isinstance(value, DecimalContextValue) else tracer.constant(value)


def _ratio(tracer: Tracer, value: Value) -> Any:
    """Numerator and denominator of what decimals are compared with; NotImplemented for what is no such number."""
    known = [tracer.known_object(function) for function in (isinstance, numbers.Rational)]
    if not py.truth(tracer, py.call(tracer, known[0], [value, known[1]], {})):
        return NotImplemented
    if tracer.type_of(value) is not fractions.Fraction:
        value.refuse("comparison with a decimal")
    return [py.attribute(tracer, value, name) for name in ("numerator", "denominator")]


def _compare_ratio(operator: str, number: decimal.Decimal, numerator: int, denominator: int) -> Any:
    return py.COMPARE[operator](number, fractions.Fraction(numerator, denominator))


def _value(tracer: Tracer, result: Any) -> Any:
    if is_constant(result):
        return result
    if isinstance(result, type):
        return tracer.known_object(result)
    if type(result) is _Decimal:
        return DecimalValue(None, result)
    if type(result) is tuple:
        return make_tuple([_value(tracer, item) for item in result])
    if type(result) is decimal.DecimalTuple:
        return py.call(tracer, tracer.known_object(decimal.DecimalTuple), list(result), {})
    raise GraphBreak(FL0201, operation="a result", type=type(result).__name__)


def _register() -> None:
    @primitive(_Decimal)
    def make(tracer: Tracer, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], UserObjectValue) and is_plain_class(args[0].cls):
            raise_what(_Decimal, stand_in(tracer.type_of(args[0])))
        return run(tracer, _Decimal, list(args), kwargs)

    @primitive(_Decimal.__dict__["from_float"])
    def from_float(tracer: Tracer, cls: Any, *args: Any) -> Any:
        if not (isinstance(cls, Value) and cls.concrete is _Decimal):
            raise GraphBreak(FL0201, operation="from_float()", type="a subclass of Decimal")
        return run(tracer, _Decimal.from_float, list(args))

    for found in Context.__dict__.values():
        if type(found) is types.MethodDescriptorType and found.__name__ not in _OF_CONTEXTS:

            def compute(tracer: Tracer, *args: Any, _method: Any = found, **kwargs: Any) -> Any:
                return run(tracer, _method, list(args), kwargs)

            primitive(found)(compute)


# Methods of contexts that have to do with themselves, not with numbers.
_OF_CONTEXTS = frozenset({"clear_flags", "clear_traps", "copy", "__copy__", "__reduce__"})


if IN_C:
    _register()
