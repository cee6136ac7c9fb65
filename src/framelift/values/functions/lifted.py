"""Lifted callables met while tracing: they are traced as the functions they stand for."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

from framelift.native import _core
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.lookup import Found, register_binder
from framelift.values.core.refusals import Operation
from framelift.values.functions.functions import BoundMethodValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


class LiftedValue(Value, models=_core.Lifted):
    """What `compile()` made of a function. Its own options do not matter here: it becomes part of this graph."""

    __slots__ = ()
    claimed_class = FunctionType

    def function(self, tracer: Tracer) -> Any:
        assert self.source is not None
        self.note(tracer)
        return tracer.wrap(self.concrete.__wrapped__, self.source.child("GETATTR", "__wrapped__"))

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return py.call(tracer, self.function(tracer), args, kwargs)

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "__wrapped__":
            return self.function(tracer)
        if name == "__class__":
            return tracer.known_object(FunctionType)
        self.refuse(Operation.ATTRIBUTE, name=name)

    def describe(self) -> str:
        return f"lifted {self.concrete.__wrapped__.__qualname__}"


@register_binder(_core.Lifted)
def _bind_lifted(tracer: Tracer, found: Found, instance: Any, cls: type) -> Any:
    value = tracer.wrap(found.raw, found.source)
    value.note(tracer)
    return value if instance is None else BoundMethodValue(value, instance)


@register_binder(_core.ModuleCall)
def _bind_module_call(tracer: Tracer, found: Found, instance: Any, cls: type) -> Any:
    """The `__call__` of a lifted module. (Nothing is captured while somebody watches the calls of modules.)"""
    if instance is None:
        return tracer.wrap(found.raw.of_class, found.source.child("GETATTR", "of_class"))
    found.note_identity(tracer)
    return instance.get_slot(tracer, found.raw.slot)
