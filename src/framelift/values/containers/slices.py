"""Slices with a bound that is not a constant, and slices and ranges that came from an input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framelift.guards.source import Source
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.lengths import given_length, given_truth

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator

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

    def bounds(self, lift: Lift) -> tuple[Any, Any, Any]:
        if self.source is not None:
            self.note(lift)
            start, stop, step = [
                lift.wrap(getattr(self.concrete, name), self.source.child("GETATTR", name)) for name in _BOUNDS
            ]
            self._bounds = (start, stop, step)
        return self._bounds

    def constant(self, lift: Lift) -> Any:
        return slice(*map(lift.constant, self.bounds(lift)))

    def graph_argument(self, lift: Lift) -> Any:
        return slice(*map(lift.graph_argument, self.bounds(lift)))

    def attribute(self, lift: Lift, name: str) -> Any:
        if name in _BOUNDS:
            return self.bounds(lift)[_BOUNDS.index(name)]
        return lift.constant_attribute(self.constant(lift), name)

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        if py.type_of(other) is not slice:
            return NotImplemented
        theirs = [py.attribute(lift, other, name) for name in _BOUNDS]
        return py.compare(lift, operator, lift.tuple(self.bounds(lift)), lift.tuple(theirs))

    def text(self, lift: Lift, conversion: str) -> str:
        return f"slice({', '.join(lift.text(bound, 'repr') for bound in self.bounds(lift))})"

    def key(self, lift: Lift) -> Any:
        return py.key_of(lift, self.constant(lift))

    def parts(self) -> list[Any]:
        return list(self._bounds)

    def rebuild(self, generate: Generator) -> None:
        for bound in self._bounds:
            generate.value(bound)
        generate.build_slice()


class RangeValue(Value, models=range):
    """A range that came from an input: ranges of equal items can differ in their bounds, so these are guarded."""

    __slots__ = ()

    def constant(self, lift: Lift) -> Any:
        assert self.source is not None
        self.note(lift)
        for name in _BOUNDS:
            lift.guard(self.source.child("GETATTR", name), "EQUALS", getattr(self.concrete, name))
        return self.concrete

    def truth(self, lift: Lift) -> bool:
        return given_truth(lift, self)

    def length(self, lift: Lift) -> Any:
        return given_length(lift, self)

    def item(self, lift: Lift, key: Any) -> Any:
        return py.item(lift, self.constant(lift), key)

    def iterate(self, lift: Lift) -> Any:
        return py.iterate(lift, self.constant(lift))

    def contains(self, lift: Lift, item: Any) -> Any:
        return py.contains(lift, self.constant(lift), item)

    def attribute(self, lift: Lift, name: str) -> Any:
        if name in _BOUNDS:
            assert self.source is not None
            return lift.wrap(getattr(self.concrete, name), self.source.child("GETATTR", name))
        return lift.constant_attribute(self.constant(lift), name)

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        if py.type_of(other) is not range:
            return NotImplemented
        return py.compare(lift, operator, self.constant(lift), lift.constant(other))

    def key(self, lift: Lift) -> Any:
        return self.constant(lift)

    def graph_argument(self, lift: Lift) -> Any:
        return self.constant(lift)

    def text(self, lift: Lift, conversion: str) -> str:
        return repr(self.constant(lift))
