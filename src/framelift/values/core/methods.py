"""Methods of modelled built-in types: a decorated Python method of the value class is the model."""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinFunctionType, ClassMethodDescriptorType, MethodWrapperType, WrapperDescriptorType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from framelift.breaks import FL0102_ARGUMENTS, FL0203, GraphBreak
from framelift.values.core import protocol as py
from framelift.values.core.arity import reject_method
from framelift.values.core.base import Value
from framelift.values.core.construct import bound_method
from framelift.values.core.hash_keys import MethodKey
from framelift.values.core.lookup import raw_lookup
from framelift.values.core.operator_methods import OPERATOR_METHODS, takes
from framelift.values.core.primitives import Arity
from framelift.values.core.stand_ins import raise_no_attribute

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

F = TypeVar("F", bound=Callable[..., Any])


def method(function: F) -> F:
    """Mark a method of a value class as the model of the Python method of that name."""
    function.fits = Arity(function, 2)  # type: ignore[attr-defined]
    return function


def method_of(value: Value, tracer: Tracer, name: str) -> Any:
    """The bound method `name` of a value whose type is built in."""
    model = getattr(type(value), name, None)
    if hasattr(model, "fits"):
        return MethodValue(value, name)
    kind = value.python_type()
    if name == "__class__":
        return tracer.known_object(kind)
    inherited = raw_lookup(kind, name)
    if inherited is NotImplemented:
        raise_no_attribute(kind, name)
    if name in OPERATOR_METHODS:
        return OperatorMethodValue(value, name)
    if tracer.model_of(inherited) is not None:
        owner = tracer.known_object(kind) if type(inherited) is ClassMethodDescriptorType else value
        return bound_method(tracer.known_object(inherited), owner)
    raise GraphBreak(FL0203, type=kind.__name__, name=name)


class Bound(Value):
    """A C function that may be bound to an object, by the program or before it."""

    __slots__ = ()

    def bound_to(self, tracer: Tracer) -> tuple[Any, str] | None:
        """The object and the name of its method; None for a function that is bound to nothing."""
        raise NotImplementedError

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        """Methods bound to one object are equal, however often they are looked up."""
        mine = self.bound_to(tracer)
        if operator not in ("==", "!=") or mine is None or not isinstance(other, Bound):
            return super().compare(tracer, operator, other)
        its = other.bound_to(tracer)
        alike = its is not None and mine[1] == its[1] and self.python_type() is other.python_type()
        equal = alike and its is not None and py.same(tracer, mine[0], its[0])
        return equal == (operator == "==")

    def key(self, tracer: Tracer) -> Any:
        return super().key(tracer) if self.bound_to(tracer) is None else key_of_method(tracer, self)


def key_of_method(tracer: Tracer, bound: Bound) -> MethodKey:
    """What stands for a method; all have one hash, as there are few, and whether two are equal is asked anyway."""
    return MethodKey(tracer, bound, hash(Bound))


class BoundBuiltin(Bound):
    """A method of C code, bound to `owner`. Subclasses say what calling it does."""

    __slots__ = ("owner", "name")

    def __init__(self, owner: Any, name: str) -> None:
        super().__init__()
        self.owner = owner
        self.name = name

    def python_type(self) -> type:
        found = raw_lookup(py.type_of(self.owner), self.name)
        return MethodWrapperType if type(found) is WrapperDescriptorType else BuiltinFunctionType

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "__self__":
            return self.owner
        if name == "__name__":
            return self.name
        kind = self.python_type()
        if raw_lookup(kind, name) is NotImplemented:
            raise_no_attribute(kind, name)
        return super().attribute(tracer, name)

    def bound_to(self, tracer: Tracer) -> tuple[Any, str]:
        return self.owner, self.name

    def parts(self) -> list[Any]:
        return [self.owner]

    def rebuild(self, emit: Emitter) -> None:
        emit.value(self.owner)
        emit.load_attribute(self.name)


class MethodValue(BoundBuiltin):
    """A method of a modelled built-in object."""

    __slots__ = ()

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        model = getattr(type(self.owner), self.name)
        self.owner.note(tracer)
        if not model.fits(args, kwargs):
            self.reject(args, kwargs)
        return model(self.owner, tracer, *args, **kwargs)

    def reject(self, args: list[Any], kwargs: dict[str, Any]) -> NoReturn:
        """The arguments do not fit."""
        reject_method(self.owner.python_type(), self.name, args, kwargs, f"{self.owner.describe()}.{self.name}")


class ModelMethodValue(BoundBuiltin):
    """A method whose behaviour is given by a Python callable over values."""

    __slots__ = ("function",)

    def __init__(self, owner: Any, name: str, function: Callable[..., Any]) -> None:
        super().__init__(owner, name)
        self.function = function

    def python_type(self) -> type:
        return MethodWrapperType

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not Arity(self.function, 0)(args, kwargs):
            kind = py.type_of(self.owner)
            reject_method(kind, self.name, args, kwargs, f"{py.describe(self.owner)}.{self.name}")
        return self.function(*args, **kwargs)


class OperatorMethodValue(MethodValue):
    """A special method of a modelled built-in object."""

    __slots__ = ()

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        self.owner.note(tracer)
        if not takes(self.name, args, kwargs):
            self.reject(args, kwargs)
        result = OPERATOR_METHODS[self.name](tracer, self.owner, *args)
        if result is NotImplemented and self.name in _OF_SEQUENCES:
            raise GraphBreak(FL0102_ARGUMENTS, what=f"{self.owner.describe()}.{self.name}")
        return result


# Where sequences have these they raise, and never give NotImplemented.
_OF_SEQUENCES = frozenset({"__add__", "__iadd__", "__mul__", "__rmul__", "__imul__"})
