"""The `__dict__` of objects and functions that the program made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framelift.values.containers.dicts import DictValue
from framelift.values.core.base import Value

if TYPE_CHECKING:
    from framelift.residual.generator import Generator


class NamespaceValue(DictValue):
    """A dict that comes into being with its owner: rebuilding it means taking the owner's."""

    __slots__ = ("owner",)

    def __init__(self, owner: Value) -> None:
        super().__init__({})
        self.owner = owner

    def make(self, entries: dict[Any, Any]) -> DictValue:
        return DictValue(entries)

    def rebuild(self, generate: Generator) -> None:
        generate.value(self.owner)
        generate.pop_top()
        if generate.is_remembered(self):
            generate.load_remembered(self)
        else:
            self._take_real(generate)
            generate.remember(self)

    def fill_real(self, generate: Generator) -> None:
        """Fill the real `__dict__` of the owner, which was just made and lies on top of the stack."""
        if all(type(name) is str for name in self.overlay):
            generate.store_attributes(self.owner, self.overlay)
            return
        self._take_real(generate)
        self.rebuild_entries(generate)
        generate.pop_top()

    def _take_real(self, generate: Generator) -> None:
        generate.known_object(object)
        generate.load_method("__getattribute__")
        generate.load_remembered(self.owner)
        generate.constant("__dict__")
        generate.call(2)
