"""Iterators the program makes: positions in sequences, and iterators that transform others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.values import protocol as py
from framelift.values.base import Exhausted, Value

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator


class IteratorValue(Value):
    """An iterator: its own iterable, with a position that can be saved."""

    __slots__ = ()

    def iterate(self, lift: Lift) -> Any:
        return self

    def python_type(self) -> type:
        return type(iter(()))

    def attribute(self, lift: Lift, name: str) -> Any:
        if name == "__next__":
            return lift.builtin_method(self, name, lambda: self.next(lift))
        if name == "__iter__":
            return lift.builtin_method(self, name, lambda: self)
        return super().attribute(lift, name)


class SequenceIterator(IteratorValue):
    """Walks a live list of items: what is appended while iterating is seen, as in CPython."""

    __slots__ = ("items", "position", "kind")

    def __init__(self, items: list[Any], kind: type = type(iter([]))) -> None:
        super().__init__()
        self.items: list[Any] | None = items
        self.position = 0
        self.kind = kind

    def python_type(self) -> type:
        return self.kind

    def next(self, lift: Lift) -> Any:
        lift.journal.touch(self)
        if self.items is None or self.position >= len(self.items):
            self.items = None
            raise Exhausted
        self.position += 1
        return self.items[self.position - 1]

    def length_hint(self) -> int:
        return 0 if self.items is None else max(len(self.items) - self.position, 0)

    def state(self) -> Any:
        return self.items, self.position

    def restore(self, state: Any) -> None:
        self.items, self.position = state

    def remaining(self) -> list[Any]:
        return [] if self.items is None else self.items[self.position :]

    def parts(self) -> list[Any]:
        return self.remaining()

    def rebuild(self, generate: Generator) -> None:
        # The list behind the iterator may have changed since: what remains is what a fresh iterator must give.
        for item in self.remaining():
            generate.value(item)
        generate.build_list(len(self.remaining()))
        generate.get_iter()


class RangeIterator(IteratorValue):
    """Walks a range without listing it."""

    __slots__ = ("range", "position")

    def __init__(self, numbers: range) -> None:
        super().__init__()
        self.range = numbers
        self.position = 0

    def python_type(self) -> type:
        return type(iter(range(0)))

    def next(self, lift: Lift) -> Any:
        lift.journal.touch(self)
        if self.position >= len(self.range):
            raise Exhausted
        self.position += 1
        return self.range[self.position - 1]

    def state(self) -> Any:
        return self.position

    def restore(self, state: Any) -> None:
        self.position = state

    def rebuild(self, generate: Generator) -> None:
        generate.constant(self.range[self.position :])
        generate.get_iter()


class DerivedIterator(IteratorValue):
    """enumerate, zip, map, filter, reversed …: `step(lift)` computes the next item from the iterators below.

    `remake` is the builtin that makes the real iterator again from the iterators and values in `inputs`.
    """

    __slots__ = ("kind", "step", "inputs", "counter")

    def __init__(
        self, kind: type, step: Callable[[Lift, DerivedIterator], Any], inputs: list[Any], counter: Any = None
    ) -> None:
        super().__init__()
        self.kind = kind
        self.step = step
        self.inputs = inputs
        self.counter = counter

    def python_type(self) -> type:
        return self.kind

    def next(self, lift: Lift) -> Any:
        lift.journal.touch(self)
        return self.step(lift, self)

    def state(self) -> Any:
        return self.counter

    def restore(self, state: Any) -> None:
        self.counter = state

    def parts(self) -> list[Any]:
        return self.inputs

    def rebuild(self, generate: Generator) -> None:
        generate.callable(self.kind)
        for part in self.inputs:
            generate.value(part)
        count = len(self.inputs)
        if self.counter is not None:
            generate.constant(self.counter)
            count += 1
        generate.call(count)


def enumerate_step(lift: Lift, iterator: DerivedIterator) -> Any:
    item = py.next_item(lift, iterator.inputs[0])
    index = iterator.counter
    iterator.counter = py.binary(lift, "+", index, 1)
    return lift.tuple((index, item))


def zip_step(lift: Lift, iterator: DerivedIterator) -> Any:
    if not iterator.inputs:
        raise Exhausted
    return lift.tuple([py.next_item(lift, part) for part in iterator.inputs])


def map_step(lift: Lift, iterator: DerivedIterator) -> Any:
    function, *parts = iterator.inputs
    return py.call(lift, function, [py.next_item(lift, part) for part in parts], {})


def filter_step(lift: Lift, iterator: DerivedIterator) -> Any:
    function, part = iterator.inputs
    while True:
        item = py.next_item(lift, part)
        if py.truth(lift, item if function is None else py.call(lift, function, [item], {})):
            return item
