"""The `__dict__` of objects and functions that the program made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framelift.values.containers.dicts import DictValue
from framelift.values.core.base import Value

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter


class NamespaceValue(DictValue):
    """A dict that comes into being with its owner: rebuilding it means taking the owner's."""

    __slots__ = ("owner",)

    def __init__(self, owner: Value) -> None:
        super().__init__({})
        self.owner = owner

    def make(self, entries: dict[Any, Any]) -> DictValue:
        return DictValue(entries)

    def rebuild(self, emit: Emitter) -> None:
        emit.value(self.owner)
        emit.pop_top()
        if emit.is_remembered(self):
            emit.load_remembered(self)
        else:
            self._take_real(emit)
            emit.remember(self)

    def fill_real(self, emit: Emitter) -> None:
        """Fill the real `__dict__` of the owner, which was just made and lies on top of the stack."""
        if all(type(name) is str for name in self.overlay):
            emit.store_attributes(self.owner, self.overlay)
            return
        self._take_real(emit)
        self.rebuild_entries(emit)
        emit.pop_top()

    def _take_real(self, emit: Emitter) -> None:
        emit.known_object(object)
        emit.load_method("__getattribute__")
        emit.load_remembered(self.owner)
        emit.constant("__dict__")
        emit.call(2)
