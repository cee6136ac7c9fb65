"""Functions implemented in C, and methods of constants."""

from __future__ import annotations

import datetime
import re
import types
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, GraphBreak
from framelift.guards.equality import has_type
from framelift.guards.source import Source
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.construct import make_frozenset
from framelift.values.core.folding import fold_call, refuse_unsteady
from framelift.values.core.lookup import class_lookup, get_computed, is_fixed, is_subclass, raw_lookup
from framelift.values.core.methods import Bound, BoundBuiltin, ModelMethodValue
from framelift.values.core.primitives import primitive_of
from framelift.values.core.stand_ins import raise_no_attribute, raise_what, stand_in
from framelift.values.functions.functions import BoundMethodValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


# Methods in C that are told which class defines them; the type has no name in `types`.
_METHOD_OF_A_CLASS = type(re.compile("").match)


class NativeValue(Bound, models=(types.BuiltinFunctionType, _METHOD_OF_A_CLASS, types.MethodWrapperType)):
    """A C function, guarded by identity: it is what a model says it is, or a graph break.

    A method bound to an object is another one each time it is looked up. It is guarded by its name and that object.
    """

    __slots__ = ("owner",)

    def __init__(self, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(source, concrete)
        self.owner: Any = None

    def note_facts(self, tracer: Tracer) -> None:
        assert self.source is not None
        if not _is_bound_method(self.concrete) or tracer.model_of(self.concrete) is not None:
            tracer.guard(self.source, "IS", self.concrete)
            return
        tracer.guard(self.source, "TYPE", type(self.concrete))
        tracer.guard(self.source.child("GETATTR", "__name__"), "EQUALS", self.concrete.__name__)
        self.owner = tracer.wrap(self.concrete.__self__, self.source.child("GETATTR", "__self__"))

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if self.owner is not None:
            method = _method_of_class(self.concrete)
            if method is not None:
                return py.call(tracer, tracer.known_object(method), [self.owner, *args], kwargs)
            tracer.type_of(self.owner)
            if _is_modelled_builtin(self.owner, type(self.concrete.__self__)):
                return py.call(tracer, py.attribute(tracer, self.owner, self.concrete.__name__), args, kwargs)
        model = tracer.model_of(self.concrete)
        if model is not None:
            return model(tracer, args, kwargs)
        if runs_on_constants(self.concrete):
            return fold_call(tracer, self.concrete, _numbers(tracer, self.concrete, args), kwargs)
        raise GraphBreak(FL0102, what=self.describe())

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name in ("__name__", "__qualname__", "__module__", "__doc__") and hasattr(self.concrete, name):
            return getattr(self.concrete, name)
        if name == "__self__" and hasattr(self.concrete, name):
            return self.owner if self.owner is not None else tracer.known_object(self.concrete.__self__)
        if not hasattr(type(self.concrete), name):
            raise_no_attribute(type(self.concrete), name)
        return super().attribute(tracer, name)

    def text(self, tracer: Tracer, conversion: str) -> str:
        shown = repr(self.concrete)
        if " at 0x" in shown:
            self.refuse(f"{conversion}() that shows an address")
        return shown

    def is_same(self, tracer: Tracer, other: Value) -> bool:
        self.note(tracer)
        other.note(tracer)
        if self.owner is not None or getattr(other, "owner", None) is not None:
            return super().is_same(tracer, other)
        return self.concrete is other.concrete

    def bound_to(self, tracer: Tracer) -> tuple[Any, str] | None:
        self.note(tracer)
        owner = getattr(self.concrete, "__self__", None)
        if self.owner is None and isinstance(owner, type):
            return tracer.known_object(owner), self.concrete.__name__
        return None if self.owner is None else (self.owner, self.concrete.__name__)

    def key(self, tracer: Tracer) -> Any:
        if self.owner is not None:
            self.refuse("use as a key, bound to an object,")  # equal to every other that is bound to it
        return super().key(tracer)

    def describe(self) -> str:
        concrete = self.concrete
        name = getattr(concrete, "__qualname__", None) or getattr(concrete, "__name__", None) or repr(concrete)
        module = getattr(concrete, "__module__", None)
        return f"{module}.{name}" if isinstance(module, str) and module != "builtins" else name


def _acts_inside(value: Any, method: Any) -> bool:
    """Whether a method of a C type acts on the storage inside of an instance, as its class would have it."""
    if not isinstance(value, Value) or value.base is None:
        return False
    return method.__objclass__ is not object and raw_lookup(value.base, method.__name__) is method


def _is_modelled_builtin(value: Any, owner: type) -> bool:
    """Whether a method of the C type `owner` can be looked up on `value` without finding a user's override."""
    return value.is_exactly(owner) if isinstance(value, Value) else type(value) is owner


def _is_bound_method(function: Any) -> bool:
    if type(function) is types.MethodWrapperType:
        return True
    if type(function) not in (types.BuiltinFunctionType, _METHOD_OF_A_CLASS):
        return False
    owner = function.__self__
    if issubclass(type(owner), type):
        return _method_of_class(function) is not None
    return owner is not None and not issubclass(type(owner), types.ModuleType)


def _method_of_class(function: Any) -> types.ClassMethodDescriptorType | None:
    """What a C function that is bound to a class was made of; None: it is no class method, or replaced there."""
    owner = function.__self__
    found = raw_lookup(owner, function.__name__) if issubclass(type(owner), type) else None
    is_its = type(found) is types.ClassMethodDescriptorType and found.__get__(None, owner) == function
    return found if is_its else None


class UnboundMethodValue(
    NativeValue,
    models=(
        types.MethodDescriptorType,
        types.WrapperDescriptorType,
        types.ClassMethodDescriptorType,
        types.GetSetDescriptorType,
        types.MemberDescriptorType,
    ),
):
    """A method of a C type, reached through the class: `str.upper`, `object.__setattr__`."""

    __slots__ = ()

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        model = tracer.model_of(self.concrete)
        if model is not None:
            return model(tracer, args, kwargs)
        name, owner = self.concrete.__name__, self.concrete.__objclass__
        if type(self.concrete) is types.ClassMethodDescriptorType:
            if owner in _CONSTANT_TYPES and args and isinstance(args[0], Value) and args[0].concrete is owner:
                method = getattr(owner, name)
                refuse_unsteady(method)
                return fold_call(tracer, method, args[1:], kwargs)
            raise GraphBreak(FL0102, what=f"{owner.__qualname__}.{name}")
        if args and _acts_inside(args[0], self.concrete):
            args[0].note(tracer)
            return args[0].inherited(tracer, name, args[1:], kwargs)
        if args and _is_modelled_builtin(args[0], owner):
            found = py.attribute(tracer, args[0], name)
            if not (isinstance(found, BoundMethodValue) and found.function(tracer).concrete is self.concrete):
                return py.call(tracer, found, args[1:], kwargs)
        raise GraphBreak(FL0102, what=f"{owner.__qualname__}.{name}")

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "__objclass__":
            return tracer.known_object(self.concrete.__objclass__)
        if name == "__get__":
            if type(self.concrete) is types.ClassMethodDescriptorType:
                self.refuse("__get__() of a method of a class")
            return ModelMethodValue(self, name, lambda instance, owner=None, /: self._read(tracer, instance))
        return super().attribute(tracer, name)

    def _read(self, tracer: Tracer, instance: Any) -> Any:
        """`self.__get__(instance)`."""
        if instance is None:
            self.refuse("__get__() without an instance")
        owner, kind = self.concrete.__objclass__, tracer.type_of(instance)
        if not is_subclass(kind, owner):
            raise_what(self.concrete.__get__, stand_in(kind))
        if not isinstance(instance, Value) and has_type(self.concrete, _DATA_DESCRIPTORS):
            return py.fold(tracer, self.concrete.__get__, instance)
        if type(self.concrete) is types.MemberDescriptorType:
            return instance.get_slot(tracer, self.concrete)
        if type(self.concrete) is types.GetSetDescriptorType:
            return get_computed(tracer, self.concrete, instance, kind)
        return BoundMethodValue(self, instance)


_DATA_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType)
_CONSTANT_TYPES = (int, float, bool, str, bytes, complex, datetime.date)
# Functions of the standard library that depend on nothing but their arguments.
_PURE_MODULES = ("math", "cmath", "_string")
_PURE_FUNCTIONS = frozenset(map(id, (str.maketrans, bytes.maketrans)))


def runs_on_constants(function: Any) -> bool:
    """Whether a C function may be run while capturing, on constants."""
    return getattr(function, "__module__", None) in _PURE_MODULES or id(function) in _PURE_FUNCTIONS


# Functions of `math` that take something else than numbers, and those that take integers alone.
_OF_SEQUENCES = frozenset({"fsum", "prod", "dist", "sumprod", "ldexp"})
_OF_INTEGERS = frozenset({"gcd", "lcm", "comb", "perm", "factorial", "isqrt"})
_KINDS_IN_C = (int, float, complex, str, bytes)


def _numbers(tracer: Tracer, function: Any, args: list[Any]) -> list[Any]:
    """What a function of `math` makes of its arguments, one after the other: what is wrong with one ends it."""
    if function.__module__ != "math" or function.__name__ in _OF_SEQUENCES:
        return args
    numbers: list[Any] = []
    for argument in args:
        kind = py.type_of(argument)
        if is_fixed(kind) and not (is_subclass(kind, int) or is_subclass(kind, float)):
            break
        numbers.append(_number(tracer, function, argument))
    return [*numbers, *args[len(numbers) :]]


def _number(tracer: Tracer, function: Any, argument: Any) -> Any:
    """An object of a class of the program's is the number it says it is."""
    if not isinstance(argument, Value):
        return argument
    kind = tracer.type_of(argument)
    if is_fixed(kind) or any(is_subclass(kind, base) for base in _KINDS_IN_C):
        return argument
    if function.__name__ in _OF_INTEGERS:
        return tracer.as_index(argument) if argument.has_index(tracer) else argument
    says = class_lookup(tracer, kind, "__float__") is not None or argument.has_index(tracer)
    return py.call(tracer, tracer.known_object(float), [argument], {}) if says else argument


class ConstantMethodValue(BoundBuiltin, role="constant method"):
    """A method of a constant, such as `"a".join`: run on constants while capturing."""

    __slots__ = ()

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        model = primitive_of(getattr(type(self.owner), self.name, None))
        if model is not None:
            return model(tracer, [self.owner, *args], kwargs)
        if self.name in ("format", "format_map"):
            return tracer.format_by_method(self.owner, self.name, args, kwargs)
        if type(self.owner) is frozenset and any(isinstance(argument, Value) for argument in args):
            return py.call(tracer, py.attribute(tracer, make_frozenset(self.owner), self.name), args, kwargs)
        method = getattr(self.owner, self.name)
        refuse_unsteady(method)
        return fold_call(tracer, method, args, kwargs)
