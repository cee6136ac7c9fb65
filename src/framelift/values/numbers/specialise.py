"""What a value does that must be known itself for most operations: it asks for its constant, which is guarded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framelift.values.core import protocol as py
from framelift.values.core.base import Value

if TYPE_CHECKING:
    from framelift.capture.lift import Lift


class SettledValue(Value):
    """A value whose `constant` answers whatever a class does not answer in a better way."""

    __slots__ = ()

    def key(self, lift: Lift) -> Any:
        return self.constant(lift)

    def length(self, lift: Lift) -> Any:
        return py.length(lift, self.constant(lift))

    def item(self, lift: Lift, key: Any) -> Any:
        return py.item(lift, self.constant(lift), key)

    def set_item(self, lift: Lift, key: Any, value: Any) -> None:
        py.set_item(lift, self.constant(lift), key, value)

    def delete_item(self, lift: Lift, key: Any) -> None:
        py.delete_item(lift, self.constant(lift), key)

    def iterate(self, lift: Lift) -> Any:
        return py.iterate(lift, self.constant(lift))

    def next(self, lift: Lift) -> Any:
        return py.next_item(lift, self.constant(lift))

    def contains(self, lift: Lift, item: Any) -> Any:
        return py.contains(lift, self.constant(lift), item)

    def attribute(self, lift: Lift, name: str) -> Any:
        return lift.constant_attribute(self.constant(lift), name)

    def set_attribute(self, lift: Lift, name: str, value: Any) -> None:
        py.set_attribute(lift, self.constant(lift), name, value)

    def call(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return py.call(lift, self.constant(lift), args, kwargs)
