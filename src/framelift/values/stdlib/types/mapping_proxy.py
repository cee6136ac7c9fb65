"""`types.MappingProxyType`: a mapping that cannot be changed through it."""

from __future__ import annotations

import operator
import types
from typing import TYPE_CHECKING, Any

from framelift.guards.reading import mapping_of
from framelift.guards.source import Source
from framelift.values.containers.dicts import DictValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Call, Value
from framelift.values.core.methods import method, method_of
from framelift.values.core.primitives import primitive
from framelift.values.core.refusals import Operation
from framelift.values.core.stand_ins import raise_what, stand_in_for

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


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

    def key(self, tracer: Tracer) -> Any:
        self.refuse(Operation.KEY)  # not in every version

    def mapping(self, tracer: Tracer) -> Any:
        if self._mapping is None:
            assert self.source is not None
            self.note(tracer)
            self._mapping = tracer.wrap(mapping_of(self.concrete), self.source.child("PROXIED"))
        return self._mapping

    def truth(self, tracer: Tracer) -> bool:
        return py.truth(tracer, self.mapping(tracer))

    def length(self, tracer: Tracer) -> Any:
        return py.length(tracer, self.mapping(tracer))

    def item(self, tracer: Tracer, key: Any) -> Any:
        return py.item(tracer, self.mapping(tracer), key)

    def set_item(self, tracer: Tracer, key: Any, value: Any) -> None:
        raise_what(operator.setitem, types.MappingProxyType({}), stand_in_for(key), None)

    def delete_item(self, tracer: Tracer, key: Any) -> None:
        raise_what(operator.delitem, types.MappingProxyType({}), stand_in_for(key))

    def iterate(self, tracer: Tracer) -> Any:
        return py.iterate(tracer, self.mapping(tracer))

    def contains(self, tracer: Tracer, item: Any) -> Any:
        return py.contains(tracer, self.mapping(tracer), item)

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        return py.compare(tracer, operator, self.mapping(tracer), other)

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if operator != "|":
            self.refuse(operator)
        return py.binary(tracer, operator, self.mapping(tracer), _behind(tracer, other))

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if operator != "|":
            self.refuse(operator)
        return py.binary(tracer, operator, other, self.mapping(tracer))

    def text(self, tracer: Tracer, conversion: str) -> str:
        shown = tracer.text(self.mapping(tracer), conversion)
        return shown if conversion == "str" else f"mappingproxy({shown})"

    def attribute(self, tracer: Tracer, name: str) -> Any:
        return method_of(self, tracer, name)

    def _asked(self, tracer: Tracer, name: str, *args: Any) -> Any:
        return py.call(tracer, py.attribute(tracer, self.mapping(tracer), name), list(args), {})

    @method
    def get(self, tracer: Tracer, key: Any, default: Any = None, /) -> Any:
        return self._asked(tracer, "get", key, default)

    @method
    def keys(self, tracer: Tracer) -> Any:
        return self._asked(tracer, "keys")

    @method
    def values(self, tracer: Tracer) -> Any:
        return self._asked(tracer, "values")

    @method
    def items(self, tracer: Tracer) -> Any:
        return self._asked(tracer, "items")

    @method
    def copy(self, tracer: Tracer) -> Any:
        return self._asked(tracer, "copy")

    def parts(self) -> list[Any]:
        return [] if self._mapping is None else [self._mapping]

    def made_by(self) -> Call:
        return types.MappingProxyType, [self._mapping]


def _behind(tracer: Tracer, value: Any) -> Any:
    return value.mapping(tracer) if isinstance(value, MappingProxyValue) else value


@primitive(types.MappingProxyType)
def _mapping_proxy(tracer: Tracer, mapping: Any, /) -> Any:
    if not isinstance(mapping, DictValue):
        return _refuse(mapping)
    return MappingProxyValue(mapping)


def _refuse(mapping: Any) -> Any:
    if isinstance(mapping, Value):
        mapping.refuse("a read-only view")
    raise_what(types.MappingProxyType, mapping)
