"""Slices with a bound that is not a constant, and slices and ranges that came from an input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framelift.guards.source import Source
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.lengths import given_length, given_truth

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

_BOUNDS = ("start", "stop", "step")


class SliceValue(Value, models=slice):
    """`slice(start, stop, step)` over values."""

    __slots__ = ("_bounds",)

    def __init__(self, start: Any, stop: Any, step: Any, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(source, concrete)
        self._bounds = (start, stop, step)

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(None, None, None, source, obj)

    def python_type(self) -> type:
        return slice

    def bounds(self, tracer: Tracer) -> tuple[Any, Any, Any]:
        if self.source is not None:
            self.note(tracer)
            start, stop, step = [
                tracer.wrap(getattr(self.concrete, name), self.source.child("GETATTR", name)) for name in _BOUNDS
            ]
            self._bounds = (start, stop, step)
        return self._bounds

    def constant(self, tracer: Tracer) -> Any:
        return slice(*map(tracer.constant, self.bounds(tracer)))

    def graph_argument(self, tracer: Tracer) -> Any:
        return slice(*map(tracer.graph_argument, self.bounds(tracer)))

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name in _BOUNDS:
            return self.bounds(tracer)[_BOUNDS.index(name)]
        return tracer.constant_attribute(self.constant(tracer), name)

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if py.type_of(other) is not slice:
            return NotImplemented
        theirs = [py.attribute(tracer, other, name) for name in _BOUNDS]
        return py.compare(tracer, operator, tracer.tuple(self.bounds(tracer)), tracer.tuple(theirs))

    def text(self, tracer: Tracer, conversion: str) -> str:
        return f"slice({', '.join(tracer.text(bound, 'repr') for bound in self.bounds(tracer))})"

    def key(self, tracer: Tracer) -> Any:
        return py.key_of(tracer, self.constant(tracer))

    def parts(self) -> list[Any]:
        return list(self._bounds)

    def rebuild(self, emit: Emitter) -> None:
        for bound in self._bounds:
            emit.value(bound)
        emit.build_slice()


class RangeValue(Value, models=range):
    """A range that came from an input: ranges of equal items can differ in their bounds, so these are guarded."""

    __slots__ = ()

    def constant(self, tracer: Tracer) -> Any:
        assert self.source is not None
        self.note(tracer)
        for name in _BOUNDS:
            tracer.guard(self.source.child("GETATTR", name), "EQUALS", getattr(self.concrete, name))
        return self.concrete

    def truth(self, tracer: Tracer) -> bool:
        return given_truth(tracer, self)

    def length(self, tracer: Tracer) -> Any:
        return given_length(tracer, self)

    def item(self, tracer: Tracer, key: Any) -> Any:
        return py.item(tracer, self.constant(tracer), key)

    def iterate(self, tracer: Tracer) -> Any:
        return py.iterate(tracer, self.constant(tracer))

    def contains(self, tracer: Tracer, item: Any) -> Any:
        return py.contains(tracer, self.constant(tracer), item)

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name in _BOUNDS:
            assert self.source is not None
            return tracer.wrap(getattr(self.concrete, name), self.source.child("GETATTR", name))
        return tracer.constant_attribute(self.constant(tracer), name)

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if py.type_of(other) is not range:
            return NotImplemented
        return py.compare(tracer, operator, self.constant(tracer), tracer.constant(other))

    def key(self, tracer: Tracer) -> Any:
        return self.constant(tracer)

    def graph_argument(self, tracer: Tracer) -> Any:
        return self.constant(tracer)

    def text(self, tracer: Tracer, conversion: str) -> str:
        return repr(self.constant(tracer))
