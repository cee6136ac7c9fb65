"""Tuples whose items have names, made in C: results of torch operations (`torch.return_types`), `sys.version_info`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from framelift.guards.source import Source
from framelift.values.containers.sequences import SequenceValue
from framelift.values.core.base import Value
from framelift.values.core.construct import make_tuple
from framelift.values.core.stand_ins import raise_no_attribute

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


class TupleOfClassValue(SequenceValue):
    """A tuple of a class of its own; what is made of parts of it is a plain tuple."""

    __slots__ = ("cls",)

    def __init__(self, cls: type, items: list[Any] | None, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(items, source, concrete)
        self.cls = cls

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(type(obj), None, source, obj)

    def python_type(self) -> type:
        return self.cls

    def make(self, tracer: Tracer, items: list[Any]) -> Any:
        return make_tuple(items)


class StructSequenceValue(TupleOfClassValue):
    """`x.max(dim=0)`: a tuple whose items have names."""

    __slots__ = ()

    def attribute(self, tracer: Tracer, name: str) -> Any:
        fields = [field for field in dir(self.cls) if not field.startswith("_")]
        if name in fields and name not in ("count", "index", "n_fields", "n_sequence_fields", "n_unnamed_fields"):
            items = self.items(tracer)
            return items[_position(self.cls, name, len(items))]
        if name.startswith("n_"):
            return getattr(self.cls, name)
        if not hasattr(self.cls, name):
            raise_no_attribute(self.cls, name)
        return super().attribute(tracer, name)

    def rebuild(self, emit: Emitter) -> None:
        emit.callable(self.cls)
        for item in self.parts():
            emit.value(item)
        emit.build_tuple(len(self.parts()))
        emit.call(1)


def is_result_class(cls: type) -> bool:
    """Whether a class is of results of torch operations."""
    return any(cls is kind for kind in _RESULTS)


_RESULTS = [kind for kind in vars(torch.return_types).values() if type(kind) is type]


_HEAPTYPE = 1 << 9
_flags_of = type.__dict__["__flags__"].__get__


def is_struct_class(cls: type) -> bool:
    """Whether a class of the interpreter's has nothing but named items, such as that of `sys.version_info`."""
    if _flags_of(cls) & _HEAPTYPE or cls.__bases__ != (tuple,) or "n_sequence_fields" not in cls.__dict__:
        return False
    fields: Any = cls.__dict__
    return fields["n_fields"] == fields["n_sequence_fields"] == len(fields.get("__match_args__", ()))


def _position(cls: type, name: str, count: int) -> int:
    """Which item a field is, found by asking a sample made of its positions."""
    if is_struct_class(cls):
        return cls.__dict__["__match_args__"].index(name)
    sample: Any = cls(tuple(range(count)))
    return int(getattr(sample, name))
