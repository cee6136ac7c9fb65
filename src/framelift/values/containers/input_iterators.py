"""Iterators that existed before the frame: read as they stand, advanced for good when the graph has run.

An iterator over a sequence is asked for what it gives in so many steps, not for its position: so the segments of a
loop with a break in it are captured once and used in every round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.guards.reading import COMPOSED, MISSING, WALKING, LostTrack, items_ahead, sequence_of
from framelift.guards.source import Source
from framelift.values.containers.iterators import (
    DerivedIterator,
    IteratorValue,
    advance,
    enumerate_step,
    filter_step,
    map_step,
    strict_zip_step,
    zip_step,
)
from framelift.values.core.base import Exhausted, Value

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


def _replay_asking(emit: Emitter, source: Source | None, times: int) -> None:
    if times:
        emit.callable(advance)
        emit.source(source)
        emit.constant(times)
        emit.call(2)
        emit.pop_top()


class WalkingIterator(IteratorValue, models=WALKING):
    """An iterator over a list, a tuple, a range or a dictionary.

    `asked` counts how often it was asked; `through` how many of these times by an `enumerate` that is itself advanced.
    """

    __slots__ = ("asked", "through", "ended", "_ahead")
    assigns = ("asked", "through", "ended")

    def __init__(self, source: Source, concrete: Any) -> None:
        super().__init__(source, concrete)
        self.asked = 0
        self.through = 0
        self.ended = False
        self._ahead: tuple[Any, range] | None = None

    def python_type(self) -> type:
        return type(self.concrete)

    def below(self, tracer: Tracer) -> list[Any]:
        """The iterators that advance when this one is asked: only itself."""
        return [self]

    def next(self, tracer: Tracer) -> Any:
        assert self.source is not None
        tracer.journal.touch(self)
        sequence, positions = self._items()
        if not self.ended:
            self._refuse_changed(tracer)
        ahead = self.asked
        self.asked += 1
        if self.ended or ahead >= len(positions):
            if not self.ended:
                tracer.guard(self.source, "NOTHING_AHEAD", ahead)
            self.ended = True
            raise Exhausted
        tracer.spend(1, "too many items of an iterator")
        source = self.source.child("AHEAD", ahead)
        tracer.require(source)
        return tracer.wrap(sequence[positions[ahead]], source)

    def _items(self) -> tuple[Any, range]:
        """What is ahead as the frame is entered: nothing of that changes while it is captured."""
        if self._ahead is None:
            try:
                self._ahead = items_ahead(self.concrete)
            except LostTrack:
                self.refuse("next() after the dict has changed its size")
        return self._ahead

    def _refuse_changed(self, tracer: Tracer) -> None:
        """What it walks is known from now on, whatever way the program takes to it, and must be as it was at entry."""
        assert self.source is not None
        walked = sequence_of(self.concrete)
        if type(walked) not in (list, dict):  # nothing that changes, or the end was met before the frame
            if walked is not MISSING and type(walked) is not tuple:
                self.refuse(f"next() of one that walks a {type(walked).__name__}")
            return
        value = tracer.wrap(walked, self.source.child("ITERATED"))
        if any(changed is value for changed in tracer.journal.changed):
            self.refuse("next() after what it walks was changed")

    def replay(self, emit: Emitter) -> None:
        _replay_asking(emit, self.source, self.asked - self.through)


class ComposedIterator(DerivedIterator, models=COMPOSED):
    """`enumerate`, `zip`, `map` or `filter` over iterators that existed before the frame, too.

    Only `enumerate` has a state of its own. It is advanced as a whole, so what it walks must give its items without
    running anything of the user's.
    """

    __slots__ = ("asked", "through")
    assigns = (*DerivedIterator.assigns, "asked", "through")

    def __init__(self, source: Source, concrete: Any) -> None:
        super().__init__(type(concrete), _STEPS[type(concrete)], [])
        self.source, self.concrete, self.noted = source, concrete, False
        self.asked = 0
        self.through = 0

    def note_facts(self, tracer: Tracer) -> None:
        assert self.source is not None
        super().note_facts(tracer)
        kind, parts, *flags = self.concrete.__reduce__()
        reduced = self.source.child("REDUCED")
        tracer.guard(reduced, "LENGTH", 2 + len(flags))
        where = reduced.child("TUPLE_ITEM", 1)
        tracer.guard(where, "LENGTH", len(parts))
        values = [tracer.wrap(part, where.child("TUPLE_ITEM", index)) for index, part in enumerate(parts)]
        if kind is enumerate:
            self.counter = values.pop()
        elif kind is filter and parts[0] is None:
            values[0] = tracer.constant(values[0])
        elif flags:
            self.step = strict_zip_step
        self.inputs = values

    def below(self, tracer: Tracer) -> list[Any]:
        if self.kind is enumerate:
            return [self]
        if self.kind is not zip:
            self.refuse("next()")
        return [leaf for part in self.inputs for leaf in _below(tracer, self, part)]

    def next(self, tracer: Tracer) -> Any:
        self.note(tracer)
        if self.kind is not enumerate:
            return super().next(tracer)
        tracer.journal.touch(self)
        leaves = _below(tracer, self, self.inputs[0])
        before = [leaf.asked for leaf in leaves]
        self.asked += 1
        try:
            return super().next(tracer)
        finally:
            for leaf, asked in zip(leaves, before, strict=True):
                tracer.journal.touch(leaf)
                leaf.through += leaf.asked - asked

    def replay(self, emit: Emitter) -> None:
        _replay_asking(emit, self.source, self.asked - self.through)


_STEPS: dict[type, Callable[..., Any]] = {
    enumerate: enumerate_step,
    zip: zip_step,
    map: map_step,
    filter: filter_step,
}


def _below(tracer: Tracer, asking: Value, part: Any) -> list[Any]:
    if not isinstance(part, (WalkingIterator, ComposedIterator)):
        asking.refuse("next()")
    part.note(tracer)
    return part.below(tracer)
