"""Lifted callables met while tracing: they are traced as the functions they stand for."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

from framelift.native import _core
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.lookup import Found, register_binder

if TYPE_CHECKING:
    from framelift.capture.lift import Lift


class LiftedValue(Value, models=_core.Lifted):
    """What `compile()` made of a function. Its own options do not matter here: it becomes part of this graph."""

    __slots__ = ()
    claimed_class = FunctionType

    def function(self, lift: Lift) -> Any:
        assert self.source is not None
        self.note(lift)
        return lift.wrap(self.concrete.__wrapped__, self.source.child("GETATTR", "__wrapped__"))

    def call(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return py.call(lift, self.function(lift), args, kwargs)

    def attribute(self, lift: Lift, name: str) -> Any:
        if name == "__wrapped__":
            return self.function(lift)
        if name == "__class__":
            return lift.known_object(FunctionType)
        self.refuse(f"attribute {name!r}")

    def describe(self) -> str:
        return f"lifted {self.concrete.__wrapped__.__qualname__}"


@register_binder(_core.Lifted)
def _bind_lifted(lift: Lift, found: Found, instance: Any, cls: type) -> Any:
    value = lift.wrap(found.raw, found.source)
    value.note(lift)
    return value if instance is None else lift.bound_method(value, instance)


@register_binder(_core.ModuleCall)
def _bind_module_call(lift: Lift, found: Found, instance: Any, cls: type) -> Any:
    """The `__call__` of a lifted module. (Nothing is captured while somebody watches the calls of modules.)"""
    if instance is None:
        return lift.wrap(found.raw.of_class, found.source.child("GETATTR", "of_class"))
    found.note_identity(lift)
    return instance.get_slot(lift, found.raw.slot)
