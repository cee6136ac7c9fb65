"""Slices with a bound that is not a constant, and slices and ranges that came from an input."""

from __future__ import annotations

from operator import getitem
from typing import TYPE_CHECKING, Any

from framelift.guards.source import Source
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.construct import make_tuple
from framelift.values.core.lengths import given_length, given_truth
from framelift.values.core.lookup import class_lookup, raw_lookup
from framelift.values.core.stand_ins import raise_what, stand_in

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

    def subscript(self, tracer: Tracer) -> Any:
        return plain_slice(tracer, self)

    def constant(self, tracer: Tracer) -> Any:
        return slice(*map(tracer.constant, self.bounds(tracer)))

    def graph_argument(self, tracer: Tracer) -> Any:
        return slice(*map(tracer.graph_argument, self.bounds(tracer)))

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name in _BOUNDS:
            return self.bounds(tracer)[_BOUNDS.index(name)]
        return py.constant_attribute(tracer, self.constant(tracer), name)

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if py.type_of(other) is not slice:
            return NotImplemented
        theirs = [py.attribute(tracer, other, name) for name in _BOUNDS]
        return py.compare(tracer, operator, make_tuple(self.bounds(tracer)), make_tuple(theirs))

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
        return py.constant_attribute(tracer, self.constant(tracer), name)

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


def plain_slice(tracer: Tracer, key: Any) -> slice:
    """A slice of ints. The step is asked first for its number."""
    start, stop, step = [py.attribute(tracer, key, name) for name in ("start", "stop", "step")]
    step = _bound(tracer, step)
    if step == 0:
        raise_what(getitem, [], slice(None, None, 0))
    return slice(_bound(tracer, start), _bound(tracer, stop), step)


def _bound(tracer: Tracer, bound: Any) -> int | None:
    if py.same(tracer, bound, None):
        return None
    if not has_index_method(tracer, bound):
        raise_what(getitem, [], slice(stand_in(object)))
    return tracer.as_index(bound)


def has_index_method(tracer: Tracer, value: Any) -> bool:
    """Whether a value has an `__index__`; noted if it has none."""
    return raw_lookup(py.type_of(value), "__index__") is not NotImplemented or (
        class_lookup(tracer, tracer.type_of(value), "__index__") is not None
    )


def make_slice(start: Any, stop: Any, step: Any) -> Any:
    """A slice: plain where all its bounds are."""
    if isinstance(start, Value) or isinstance(stop, Value) or isinstance(step, Value):
        return SliceValue(start, stop, step)
    return slice(start, stop, step)
