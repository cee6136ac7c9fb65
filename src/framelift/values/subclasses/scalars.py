"""Instances of Python classes that inherit from plain data: `class Name(str)`, members of an IntEnum.

Such an instance is an object (class, namespace) with a *plain* value inside, a constant of the C base. Attributes and
operators are looked up on the class as for any instance. Where that finds a method of the C base, it acts on the plain
value; where it finds the user's own, that one runs.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, FL0102_OPERAND, GraphBreak
from framelift.guards.source import Source
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.constants import is_constant
from framelift.values.core.folding import fold_call, refuse_unsteady
from framelift.values.core.lookup import class_lookup, has_default, is_fixed, name_of, raw_lookup, scalar_base
from framelift.values.core.operator_methods import BINARY_METHODS, COMPARE_METHODS, UNARY_METHODS
from framelift.values.core.primitives import primitive
from framelift.values.core.refusals import Operation
from framelift.values.core.stand_ins import raise_what, stand_in
from framelift.values.numbers.scalars import ScalarValue
from framelift.values.objects import attributes
from framelift.values.objects.classes import ClassValue, note_instantiable
from framelift.values.objects.instances import UserObjectValue
from framelift.values.subclasses.tensors import refuse_rules

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

_DATE: list[Callable[[Any], Any]] = [datetime.date.__dict__[name].__get__ for name in ("year", "month", "day")]
_TIMEDELTA: list[Callable[[Any], Any]] = [
    datetime.timedelta.__dict__[name].__get__ for name in ("days", "seconds", "microseconds")
]
# How the plain value is read without asking the class.
_READERS: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    complex: complex.__complex__,
    bytes: lambda value: bytes.join(b"", [value]),
    frozenset: lambda value: _read_members(list(frozenset.__iter__(value))),
    datetime.date: lambda value: datetime.date(*[getter(value) for getter in _DATE]),
    datetime.timedelta: lambda value: datetime.timedelta(*[getter(value) for getter in _TIMEDELTA]),
}


def _read_members(members: list[Any]) -> frozenset[Any] | None:
    """None where they are objects of the user's, whose `__hash__` must not run."""
    return frozenset(members) if all(map(is_constant, members)) else None


def made_of(plain: Any) -> tuple[Any, ...]:
    """What a plain value is made of again: most are made of themselves."""
    if type(plain) is datetime.date:
        return plain.year, plain.month, plain.day
    return (plain.days, plain.seconds, plain.microseconds) if type(plain) is datetime.timedelta else (plain,)


_OPERATORS = frozenset(
    [*COMPARE_METHODS.values(), *UNARY_METHODS.values(), *[name for pair in BINARY_METHODS.values() for name in pair]]
)
_NUMBERS = (int, float, complex, bool)
# A number is made of the text where the class has none of these.
_MADE_OF_TEXT = {"__int__": ("__int__", "__trunc__", "__index__"), "__float__": ("__float__", "__index__")}
# A sequence type has no reflected addition: the left operand's own method takes the object as what it is.
_NOT_REFLECTED = frozenset({"__radd__", "__rmul__"})


class ScalarObjectValue(UserObjectValue):
    """An object with a plain value inside; guarded by identity where it came from outside."""

    __slots__ = ("base", "_plain_value")

    def __init__(self, cls: type, source: Source | None = None, concrete: Any = None, plain: Any = None) -> None:
        super().__init__(cls, source, concrete)
        self.base = scalar_base(cls)
        self._plain_value = plain if self.base is None or source is None else _READERS[self.base](concrete)

    def note_facts(self, tracer: Tracer) -> None:
        assert self.source is not None
        if self.base is not None and self._plain_value is None:
            self.refuse(Operation.CONSTANT_MEMBERS)
        if type.__dict__["__weakrefoffset__"].__get__(self.cls) == 0:
            self.refuse("use of an object that has no weak references")  # guards hold nothing else of the user's
        tracer.guard(self.source, "IS", self.concrete)

    def plain(self, tracer: Tracer, method: str) -> Any:
        """The plain value, where the C type's own `method` answers; else NotImplemented."""
        self.note(tracer)
        default = NotImplemented if self.base is None else raw_lookup(self.base, method)
        if default is NotImplemented or not has_default(tracer, self.cls, method, default):
            return NotImplemented
        return self._plain_value

    def default(self, name: str) -> Any:
        return super().default(name) if self.base is None else raw_lookup(self.base, name)

    def inherited(self, tracer: Tracer, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Call the method `name` of the C base."""
        if name in attributes.METHODS:
            return attributes.by_method(tracer, self, name, args, kwargs)
        if name == "__iter__":
            return py.iterate(tracer, self._plain_value)
        if name in _OPERATORS and not all(map(_is_plain, args)):
            return NotImplemented
        if name == "__format__" and len(args) == 1 and tracer.constant(args[0]) == "":
            return tracer.text(self, "str")  # without a specification the C types ask the object for its text
        method = getattr(self.base, name)
        refuse_unsteady(method)
        result = fold_call(tracer, method, [self._plain_value, *args], kwargs)
        if name == "__repr__" and self.base in _SHOWN_BY_CLASS:
            return name_of(self.cls) + result[result.index("(") :]
        return result

    def get_slot(self, tracer: Tracer, descriptor: Any) -> Any:
        return self._part(tracer, descriptor) if self._is_of_base(descriptor) else super().get_slot(tracer, descriptor)

    def get_computed(self, tracer: Tracer, descriptor: Any) -> Any:
        return (
            self._part(tracer, descriptor) if self._is_of_base(descriptor) else super().get_computed(tracer, descriptor)
        )

    def _is_of_base(self, descriptor: Any) -> bool:
        """Whether an attribute is one of plain values, such as `imag`."""
        return self.base is not None and descriptor.__objclass__ is self.base and descriptor.__name__ != "__class__"

    def _part(self, tracer: Tracer, descriptor: Any) -> Any:
        return py.fold(tracer, descriptor.__get__, self._plain_value)

    # -- operators -----------------------------------------------------------------------------------------------

    def as_index(self, tracer: Tracer) -> Any:
        if self.base is not int:
            return super().as_index(tracer)
        self.note(tracer)
        return self._plain_value  # Python does not ask an int for its index

    def truth(self, tracer: Tracer) -> bool:
        for method in ("__bool__", "__len__"):
            plain = self.plain(tracer, method)
            if plain is not NotImplemented:
                return bool(plain)
        return super().truth(tracer)

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if operator == "*=" and self.base in _NUMBERS and py.is_sequence(py.type_of(other)):
            raise GraphBreak(FL0102, what=f"{self.describe()} *= a sequence")  # repeats none, as `*` does
        # (The C types have no operations in place.)
        plain = NotImplemented if operator.endswith("=") else self.plain(tracer, BINARY_METHODS[operator][0])
        if plain is NotImplemented:
            return super().binary(tracer, operator, other)
        return self._asked(tracer, py.binary, operator, plain, other, other)

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        method = BINARY_METHODS[operator][1]
        if method in _NOT_REFLECTED and not hasattr(self.base, method):
            own = super().reflected(tracer, operator, other)
            if own is not NotImplemented:
                return own
            method = BINARY_METHODS[operator][0]
        plain = self.plain(tracer, method)
        if plain is NotImplemented or py.type_of(other) is self.cls:
            return super().reflected(tracer, operator, other)
        if operator == "%" and py.has_type(other, str, bytes):
            return NotImplemented  # numbers leave formatting to the text, which asks the object for its own
        return self._asked(tracer, py.binary, operator, other, plain, other)

    def _asked(
        self, tracer: Tracer, operation: Callable[..., Any], symbol: str, left: Any, right: Any, other: Any
    ) -> Any:
        """An operation on the plain value and `other`, which are `left` and `right`."""
        if isinstance(other, Value) and other.is_tensor:
            refuse_rules(tracer, self)
        has_own_words = operation is py.binary and self.base in (str, bytes)
        if has_own_words or not is_fixed(py.type_of(other)):  # that may run the user's code
            return operation(tracer, symbol, left, right)
        return py.unless_refused(tracer, operation, symbol, left, right)

    def unary(self, tracer: Tracer, operator: str) -> Any:
        plain = self.plain(tracer, UNARY_METHODS[operator])
        return super().unary(tracer, operator) if plain is NotImplemented else py.unary(tracer, operator, plain)

    def number(self, tracer: Tracer, slot: str, *args: Any) -> Any:
        if slot == "__complex__":
            found = class_lookup(tracer, self.cls, slot)
            if found is not None and found.raw is not raw_lookup(complex, slot):
                raise GraphBreak(FL0102, what="complex() of a number that says itself what it is")
            return NotImplemented
        if self.base in (str, bytes) and slot in _MADE_OF_TEXT:
            if all(class_lookup(tracer, self.cls, name) is None for name in _MADE_OF_TEXT[slot]):
                return NotImplemented
        return super().number(tracer, slot, *args)

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        plain = self.plain(tracer, COMPARE_METHODS[operator])
        if plain is not NotImplemented:
            if isinstance(other, ScalarObjectValue) and other.base is not None:
                return _compared(plain, operator, other._plain_value)
            return self._asked(tracer, py.compare, operator, plain, other, other)
        result = super().compare(tracer, operator, other)
        if result is NotImplemented and not isinstance(other, Value) and self.base is not None:
            return _compared(other, py.MIRRORED[operator], self._plain_value)
        return result

    def hashed(self, tracer: Tracer) -> int:
        plain = self.plain(tracer, "__hash__")
        return super().hashed(tracer) if plain is NotImplemented else hash(plain)

    def constant(self, tracer: Tracer) -> Any:
        self.note(tracer)
        return super().constant(tracer) if self.base is None else self._plain_value

    def graph_argument(self, tracer: Tracer) -> Any:
        refuse_rules(tracer, self)
        return self.constant(tracer)

    # -- the way back ----------------------------------------------------------------------------------------------

    def rebuild_new(self, emit: Emitter) -> None:
        assert self.base is not None
        emit.known_object(self.base)
        emit.load_method("__new__")
        emit.known_object(self.cls)
        arguments = made_of(self._plain_value)
        for argument in arguments:
            emit.constant(argument)
        emit.call(1 + len(arguments))
        emit.remember(self)


def _is_plain(value: Any) -> bool:
    return not isinstance(value, Value) or isinstance(value, (ScalarValue, ScalarObjectValue))


def _compared(left: Any, operator: str, right: Any) -> Any:
    """What the C type of a plain value says of another one, or NotImplemented."""
    return getattr(type(left), COMPARE_METHODS[operator])(left, right)


# What shows the name of its class, then what it is made of.
_SHOWN_BY_CLASS = (frozenset, datetime.date, datetime.timedelta)
# They take no arguments by name, but leave those of a subclass to its `__init__`.
_WITHOUT_NAMES = (float, frozenset)


def _register() -> None:
    for base in _READERS:

        def new(tracer: Tracer, cls: Any, /, *args: Any, _base: type = base, **kwargs: Any) -> Any:
            if not isinstance(cls, ClassValue):
                raise_what(_base.__new__, stand_in(py.type_of(cls)))
            cls.note(tracer)
            if kwargs and _base in _WITHOUT_NAMES and cls.concrete is not _base:
                raise GraphBreak(FL0102, what=f"__new__ of {cls.describe()} with names")
            made = py.call(tracer, tracer.known_object(_base), list(args), kwargs)
            if cls.concrete is _base:
                return made
            if scalar_base(cls.concrete) is not _base:
                raise GraphBreak(FL0102_OPERAND, what="__new__", operand=cls.describe())
            note_instantiable(tracer, cls.concrete)
            return ScalarObjectValue(cls.concrete, plain=tracer.constant(made))

        primitive(base.__new__)(new)


_register()
