"""`property`, `staticmethod` and `classmethod` objects the program makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from framelift.values import protocol as py
from framelift.values.base import Value
from framelift.values.primitives import primitive

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator

_PROPERTY_PARTS = ("fget", "fset", "fdel", "__doc__")
_SETTERS = {"getter": 0, "setter": 1, "deleter": 2}


class MadeDescriptor(Value):
    """`kind(*given)`."""

    __slots__ = ("kind", "given")

    def __init__(self, kind: Callable[..., Any], given: Sequence[Any]) -> None:
        super().__init__()
        self.kind = kind
        self.given = list(given)

    def python_type(self) -> type:
        assert isinstance(self.kind, type)
        return self.kind

    def attribute(self, lift: Lift, name: str) -> Any:
        if self.kind is property:
            return self._of_property(lift, name)
        if name in ("__func__", "__wrapped__"):
            return self.given[0]
        if name in ("__name__", "__qualname__", "__doc__", "__module__"):
            return py.attribute(lift, self.given[0], name)
        return super().attribute(lift, name)

    def _of_property(self, lift: Lift, name: str) -> Any:
        if name in _SETTERS:
            return lift.builtin_method(self, name, lambda function: self._with(_SETTERS[name], function))
        if name in _PROPERTY_PARTS[:3]:
            return self.given[_PROPERTY_PARTS.index(name)]
        return super().attribute(lift, name)

    def _with(self, position: int, function: Any) -> MadeDescriptor:
        given = list(self.given)
        given[position] = function
        return MadeDescriptor(property, given)

    def call(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if self.kind is not staticmethod:
            self.refuse("calling")
        return py.call(lift, self.given[0], args, kwargs)

    def parts(self) -> list[Any]:
        return self.given

    def rebuild(self, generate: Generator) -> None:
        generate.callable(self.kind)
        for part in self.given:
            generate.value(part)
        generate.call(len(self.given))


@primitive(property)
def _property(lift: Lift, fget: Any = None, fset: Any = None, fdel: Any = None, doc: Any = None) -> Any:
    return MadeDescriptor(property, [fget, fset, fdel, doc])


@primitive(staticmethod)
def _staticmethod(lift: Lift, function: Any, /) -> Any:
    return MadeDescriptor(staticmethod, [function])


@primitive(classmethod)
def _classmethod(lift: Lift, function: Any, /) -> Any:
    return MadeDescriptor(classmethod, [function])
