"""What a value does that must be known itself for most operations: it asks for its constant, which is guarded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framelift.values.core import protocol as py
from framelift.values.core.base import Value

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


class SpecialisedValue(Value):
    """A value whose `constant` answers whatever a class does not answer in a better way."""

    __slots__ = ()

    def key(self, tracer: Tracer) -> Any:
        return self.constant(tracer)

    def length(self, tracer: Tracer) -> Any:
        return py.length(tracer, self.constant(tracer))

    def item(self, tracer: Tracer, key: Any) -> Any:
        return py.item(tracer, self.constant(tracer), key)

    def set_item(self, tracer: Tracer, key: Any, value: Any) -> None:
        py.set_item(tracer, self.constant(tracer), key, value)

    def delete_item(self, tracer: Tracer, key: Any) -> None:
        py.delete_item(tracer, self.constant(tracer), key)

    def iterate(self, tracer: Tracer) -> Any:
        return py.iterate(tracer, self.constant(tracer))

    def next(self, tracer: Tracer) -> Any:
        return py.next_item(tracer, self.constant(tracer))

    def contains(self, tracer: Tracer, item: Any) -> Any:
        return py.contains(tracer, self.constant(tracer), item)

    def attribute(self, tracer: Tracer, name: str) -> Any:
        return py.constant_attribute(tracer, self.constant(tracer), name)

    def set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        py.set_attribute(tracer, self.constant(tracer), name, value)

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return py.call(tracer, self.constant(tracer), args, kwargs)
