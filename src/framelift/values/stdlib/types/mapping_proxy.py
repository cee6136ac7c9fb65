"""`types.MappingProxyType`: a mapping that cannot be changed through it."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from framelift.guards.reading import mapping_of
from framelift.guards.source import Source
from framelift.values.containers.dicts import DictValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.exceptions import raise_error
from framelift.values.core.methods import method, method_of
from framelift.values.core.primitives import primitive

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator


class MappingProxyValue(Value, models=types.MappingProxyType):
    """A view: whatever is asked of it is asked of its mapping."""

    __slots__ = ("_mapping",)

    def __init__(self, mapping: Any, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(source, concrete)
        self._mapping = mapping

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(None, source, obj)

    def python_type(self) -> type:
        return types.MappingProxyType

    def key(self, lift: Lift) -> Any:
        self.refuse("use as a key")  # not in every version

    def mapping(self, lift: Lift) -> Any:
        if self._mapping is None:
            assert self.source is not None
            self.note(lift)
            self._mapping = lift.wrap(mapping_of(self.concrete), self.source.child("PROXIED"))
        return self._mapping

    def truth(self, lift: Lift) -> bool:
        return py.truth(lift, self.mapping(lift))

    def length(self, lift: Lift) -> Any:
        return py.length(lift, self.mapping(lift))

    def item(self, lift: Lift, key: Any) -> Any:
        return py.item(lift, self.mapping(lift), key)

    def set_item(self, lift: Lift, key: Any, value: Any) -> None:
        raise_error(TypeError, "'mappingproxy' object does not support item assignment")

    def delete_item(self, lift: Lift, key: Any) -> None:
        raise_error(TypeError, "'mappingproxy' object doesn't support item deletion")

    def iterate(self, lift: Lift) -> Any:
        return py.iterate(lift, self.mapping(lift))

    def contains(self, lift: Lift, item: Any) -> Any:
        return py.contains(lift, self.mapping(lift), item)

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        return py.compare(lift, operator, self.mapping(lift), other)

    def binary(self, lift: Lift, operator: str, other: Any) -> Any:
        if operator != "|":
            self.refuse(operator)
        return py.binary(lift, operator, self.mapping(lift), _behind(lift, other))

    def reflected(self, lift: Lift, operator: str, other: Any) -> Any:
        if operator != "|":
            self.refuse(operator)
        return py.binary(lift, operator, other, self.mapping(lift))

    def text(self, lift: Lift, conversion: str) -> str:
        shown = lift.text(self.mapping(lift), conversion)
        return shown if conversion == "str" else f"mappingproxy({shown})"

    def attribute(self, lift: Lift, name: str) -> Any:
        return method_of(self, lift, name)

    def _asked(self, lift: Lift, name: str, *args: Any) -> Any:
        return py.call(lift, py.attribute(lift, self.mapping(lift), name), list(args), {})

    @method
    def get(self, lift: Lift, key: Any, default: Any = None, /) -> Any:
        return self._asked(lift, "get", key, default)

    @method
    def keys(self, lift: Lift) -> Any:
        return self._asked(lift, "keys")

    @method
    def values(self, lift: Lift) -> Any:
        return self._asked(lift, "values")

    @method
    def items(self, lift: Lift) -> Any:
        return self._asked(lift, "items")

    @method
    def copy(self, lift: Lift) -> Any:
        return self._asked(lift, "copy")

    def parts(self) -> list[Any]:
        return [] if self._mapping is None else [self._mapping]

    def rebuild(self, generate: Generator) -> None:
        generate.callable(types.MappingProxyType)
        generate.value(self._mapping)
        generate.call(1)


def _behind(lift: Lift, value: Any) -> Any:
    return value.mapping(lift) if isinstance(value, MappingProxyValue) else value


@primitive(types.MappingProxyType)
def _mapping_proxy(lift: Lift, mapping: Any, /) -> Any:
    if not isinstance(mapping, DictValue):
        return _refuse(mapping)
    return MappingProxyValue(mapping)


def _refuse(mapping: Any) -> Any:
    if isinstance(mapping, Value):
        mapping.refuse("a read-only view")
    raise_error(TypeError, f"mappingproxy() argument must be a mapping, not {type(mapping).__name__}")
