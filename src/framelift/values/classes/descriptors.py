"""`property`, `staticmethod` and `classmethod` objects the program makes."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from framelift.values.core import protocol as py
from framelift.values.core.base import Call, Value
from framelift.values.core.lookup import raw_lookup
from framelift.values.core.methods import ModelMethodValue
from framelift.values.core.primitives import primitive
from framelift.values.core.refusals import Operation
from framelift.values.core.stand_ins import raise_no_attribute
from framelift.values.functions.functions import BoundMethodValue

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

# The attributes of named tuples.
_NamedField: type = type(collections.namedtuple("_Sample", "field").__dict__["field"])
_PROPERTY_PARTS = ("fget", "fset", "fdel", "__doc__")
# What instances of these types may have besides what their types have.
_ADDED = frozenset({"__dict__", "__name__", "__annotations__"})
_SETTERS = {"getter": 0, "setter": 1, "deleter": 2}


class MadeDescriptor(Value):
    """`kind(*given)`."""

    __slots__ = ("kind", "given", "name")
    assigns = ("name",)

    def __init__(self, kind: Callable[..., Any], given: Sequence[Any]) -> None:
        super().__init__()
        self.kind = kind
        self.given = list(given)
        # A property's, by which it calls itself in errors: of the attribute of the first class that it was made in.
        self.name: str | None = None

    def python_type(self) -> type:
        assert isinstance(self.kind, type)
        return self.kind

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "__isabstractmethod__":
            return any(_is_abstract(tracer, part) for part in self.given[:3])
        if name == "__get__":
            return ModelMethodValue(self, name, lambda instance, owner=None: self.get(tracer, instance, owner))
        if self.kind is property:
            return self._of_property(tracer, name)
        if name in ("__func__", "__wrapped__"):
            return self.given[0]
        if name in ("__name__", "__qualname__", "__doc__", "__module__"):
            return py.attribute(tracer, self.given[0], name)
        return self._other(tracer, name)

    def get(self, tracer: Tracer, instance: Any, owner: Any) -> Any:
        """What the descriptor gives when it is read through an instance or a class."""
        if self.kind is staticmethod:
            return self.given[0]
        if self.kind is classmethod:
            if py.type_of(self.given[0]) is not types.FunctionType:
                self.refuse(Operation.GET)
            bound_to = tracer.known_object(tracer.type_of(instance)) if owner is None else owner
            return BoundMethodValue(self.given[0], bound_to)
        if instance is None:
            return self
        if self.kind is not property or self.given[0] is None:
            self.refuse(Operation.GET)
        return py.call(tracer, self.given[0], [instance], {})

    def _other(self, tracer: Tracer, name: str) -> Any:
        if raw_lookup(self.python_type(), name) is NotImplemented and name not in _ADDED:
            raise_no_attribute(self.python_type(), name)
        return super().attribute(tracer, name)

    def _of_property(self, tracer: Tracer, name: str) -> Any:
        if name in _SETTERS:
            return ModelMethodValue(self, name, lambda function: self._with(_SETTERS[name], function))
        if name in _PROPERTY_PARTS[:3]:
            return self.given[_PROPERTY_PARTS.index(name)]
        if name == "__doc__":
            getter, given = self.given[0], self.given[3]
            return given if given is not None or getter is None else py.attribute(tracer, getter, name)
        if name == "__set_name__":
            return ModelMethodValue(
                self, name, lambda _, attribute: self._take_name(tracer, tracer.constant(attribute))
            )
        if name in ("__set__", "__delete__"):
            part = self.given[1 if name == "__set__" else 2]
            if part is None:
                self.refuse(f"{name}() without a function for it")
            return ModelMethodValue(self, name, lambda *args: py.call(tracer, part, list(args), {}))
        return self._other(tracer, name)

    def _with(self, position: int, function: Any) -> MadeDescriptor:
        given = list(self.given)
        given[position] = function
        made = MadeDescriptor(property, given)
        made.name = self.name
        return made

    def set_name(self, tracer: Tracer, raw: Any, name: str) -> None:
        """Tell it, and what stands for it in a class, the name of its attribute."""
        if self.kind is property:
            self._take_name(tracer, name)
            raw.__set_name__(None, name)

    def _take_name(self, tracer: Tracer, name: str) -> None:
        tracer.journal.touch(self)
        self.name = name

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if self.kind is not staticmethod:
            self.refuse(Operation.CALL)
        return py.call(tracer, self.given[0], args, kwargs)

    def parts(self) -> list[Any]:
        return self.given

    def made_by(self) -> Call:
        return self.kind, self.given

    def rebuild(self, emit: Emitter) -> None:
        super().rebuild(emit)
        if self.name is not None:
            emit.remember(self)
            emit.load_method("__set_name__")
            emit.constant(None)
            emit.constant(self.name)
            emit.call(2)
            emit.pop_top()
            emit.load_remembered(self)


def _is_abstract(tracer: Tracer, part: Any) -> bool:
    get = tracer.known_object(getattr)
    return isinstance(part, Value) and py.truth(tracer, py.call(tracer, get, [part, "__isabstractmethod__", False], {}))


@primitive(property)
def _property(tracer: Tracer, fget: Any = None, fset: Any = None, fdel: Any = None, doc: Any = None) -> Any:
    return MadeDescriptor(property, [fget, fset, fdel, doc])


@primitive(staticmethod)
def _staticmethod(tracer: Tracer, function: Any, /) -> Any:
    return MadeDescriptor(staticmethod, [function])


@primitive(classmethod)
def _classmethod(tracer: Tracer, function: Any, /) -> Any:
    return MadeDescriptor(classmethod, [function])


@primitive(_NamedField)
def _named_field(tracer: Tracer, index: Any, doc: Any, /) -> Any:
    return MadeDescriptor(_NamedField, [tracer.constant(index), tracer.constant(doc)])
