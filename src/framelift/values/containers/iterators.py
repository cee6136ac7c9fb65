"""Iterators the program makes: positions in sequences, and iterators that transform others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0107, GraphBreak
from framelift.values.core import protocol as py
from framelift.values.core.base import Exhausted, Raised, Value
from framelift.values.core.exceptions import as_end, is_raised
from framelift.values.core.methods import method, method_of

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator


def advance(iterator: Any, times: int) -> Any:
    """An iterator that was asked so many times; residual code calls this."""
    for _ in range(times):
        next(iterator, None)
    return iterator


class IteratorValue(Value):
    """An iterator: its own iterable, with a position that can be saved."""

    __slots__ = ()
    is_read_by_items = True
    # Whether an exception thrown at a generator that waits for it in a `yield from` is thrown at it first.
    takes_throws = False

    def close_value(self, lift: Lift) -> Any:
        """`close()`, of those that take throws."""
        raise NotImplementedError

    def throw_value(self, lift: Lift, exception: Any) -> Any:
        """`throw(exception)`, of those that take throws."""
        raise NotImplementedError

    def iterate(self, lift: Lift) -> Any:
        return self

    def python_type(self) -> type:
        return type(iter(()))

    def contains(self, lift: Lift, item: Any) -> Any:
        try:
            while not py.equal(lift, self.next(lift), item):
                pass
        except Exhausted:
            return False
        return True

    def attribute(self, lift: Lift, name: str) -> Any:
        return method_of(self, lift, name)

    def to_come(self, lift: Lift) -> list[Any]:
        """The items to come, which stay to come."""
        before = self.state()
        try:
            return py.items(lift, self)
        finally:
            self.restore(before)


def reduced(lift: Lift, make: Callable[..., Any], args: Sequence[Any], *state: Any) -> Any:
    """What `__reduce__` gives: what makes the iterator, of what, and perhaps where it is."""
    return lift.tuple([lift.known_object(make), lift.tuple(list(args)), *state])


_ListIterator: type = type(iter([]))
_TupleIterator: type = type(iter(()))
_ListReversed: type = type(reversed([]))
_SetIterator: type = type(iter(frozenset()))
_STRING_ITERATORS = (type(iter("")), type(iter("é")))  # two types since 3.12


# What such an iterator walks, made of its items.
_CONTAINERS: dict[type, Callable[[Lift, list[Any]], Any]] = {
    _ListIterator: lambda lift, items: lift.new_list(items),
    _TupleIterator: lambda lift, items: lift.tuple(items),
    **dict.fromkeys(_STRING_ITERATORS, lambda lift, items: "".join(items)),
}


class SequenceIterator(IteratorValue):
    """Walks a live list of items: what is appended while iterating is seen, as in CPython.

    `owner` is the list the items are of; none where the items cannot change.
    """

    __slots__ = ("items", "position", "kind", "owner", "born")

    def __init__(self, items: list[Any], kind: type = _ListIterator, owner: Value | None = None) -> None:
        super().__init__()
        self.items: list[Any] | None = items
        self.position = 0
        self.kind = kind
        self.owner = owner
        # The instruction of the outermost frame that made it, where it stands for an iterator in C.
        self.born = 1

    def python_type(self) -> type:
        return self.kind

    def next(self, lift: Lift) -> Any:
        lift.journal.touch(self)
        if self.items is None or self.position >= len(self.items):
            self.items = None
            raise Exhausted
        self.position += 1
        return self.items[self.position - 1]

    def length_hint(self, lift: Lift) -> Any:
        return len(self.remaining())

    @method
    def __reduce__(self, lift: Lift) -> Any:  # type: ignore[override]  # noqa: PLE0302  (a model)
        if self.kind is _SetIterator:
            return reduced(lift, iter, [lift.new_list(self.remaining())])
        make = _CONTAINERS.get(self.kind)
        if make is None:
            self.refuse("__reduce__()")
        if self.items is None:
            return reduced(lift, iter, [make(lift, [])])
        return reduced(lift, iter, [make(lift, self.items) if self.owner is None else self.owner], self.position)

    @method
    def __setstate__(self, lift: Lift, index: Any) -> None:  # noqa: PLE0302
        if self.kind not in _CONTAINERS:
            self.refuse("__setstate__()")
        lift.journal.touch(self)
        position = max(0, lift.as_index(index))
        if self.items is not None:
            self.position = position if self.kind is _ListIterator else min(position, len(self.items))

    def state(self) -> Any:
        return self.items, self.position

    def restore(self, state: Any) -> None:
        self.items, self.position = state

    def remaining(self) -> list[Any]:
        return [] if self.items is None else self.items[self.position :]

    def parts(self) -> list[Any]:
        return self.remaining() if self.owner is None else [self.owner]

    def rebuild(self, generate: Generator) -> None:
        if self.owner is not None and self.items is not None and self.kind is _ListIterator:
            generate.value(self.owner)
            generate.get_iter()
            generate.copy_top()
            generate.load_method("__setstate__")
            generate.constant(self.position)
            generate.call(1)
            generate.pop_top()
            return
        rest = self.remaining()
        if self.kind in _STRING_ITERATORS:
            generate.constant("".join(rest))
        elif self.kind in (_ListIterator, _TupleIterator, _SetIterator):  # of a set that cannot change
            for item in rest:
                generate.value(item)
            (generate.build_list if self.kind is _ListIterator else generate.build_tuple)(len(rest))
        elif self.kind is reversed:
            generate.callable(reversed)
            for item in rest[::-1]:
                generate.value(item)
            generate.build_tuple(len(rest))
            generate.call(1)
            return
        else:
            raise GraphBreak(FL0107, what=f"a {self.kind.__name__}", born=self.born)
        generate.get_iter()


class RangeIterator(IteratorValue):
    """Walks a range without listing it."""

    __slots__ = ("range", "position")

    def __init__(self, numbers: range) -> None:
        super().__init__()
        self.range = numbers
        self.position = 0

    def python_type(self) -> type:
        return type(iter(self.range))

    def next(self, lift: Lift) -> Any:
        lift.journal.touch(self)
        try:
            number = self.range[self.position]
        except IndexError:  # asked this way because len() fails for the longest ranges
            raise Exhausted from None
        self.position += 1
        return number

    def length_hint(self, lift: Lift) -> Any:
        return len(self.range) - self.position

    @method
    def __reduce__(self, lift: Lift) -> Any:  # type: ignore[override]  # noqa: PLE0302  (a model)
        if sys.version_info >= (3, 12):
            return reduced(lift, iter, [self.range[self.position :]], None)
        return reduced(lift, iter, [self.range], self.position)

    @method
    def __setstate__(self, lift: Lift, index: Any) -> None:  # noqa: PLE0302
        if sys.version_info >= (3, 12):
            self.refuse("__setstate__()")
        lift.journal.touch(self)
        self.position = min(max(0, lift.as_index(index)), len(self.range))

    def state(self) -> Any:
        return self.position

    def restore(self, state: Any) -> None:
        self.position = state

    def rebuild(self, generate: Generator) -> None:
        generate.constant(self.range[self.position :])
        generate.get_iter()


def ask_for_length(lift: Lift, sequence: Any) -> None:
    """Have a sequence say its length, for who would only like to know it: it may have none."""
    try:
        py.length(lift, sequence)
    except Raised as raised:
        if not is_raised(raised, TypeError):
            raise


class DerivedIterator(IteratorValue):
    """enumerate, zip, map, filter …: `step(lift, self)` computes the next item from the iterators in `inputs`.

    `kind` is the builtin that makes the real iterator again from `inputs` and, where there is one, `counter`.
    """

    __slots__ = ("kind", "step", "inputs", "counter", "finished")

    def __init__(
        self, kind: type, step: Callable[[Lift, DerivedIterator], Any], inputs: list[Any], counter: Any = None
    ) -> None:
        super().__init__()
        self.kind = kind
        self.step = step
        self.inputs = inputs
        self.counter = counter
        self.finished = False

    def python_type(self) -> type:
        return self.kind

    def next(self, lift: Lift) -> Any:
        lift.journal.touch(self)
        try:
            return self.step(lift, self)
        except Raised as raised:
            raise as_end(raised) from None

    def ask_length(self, lift: Lift) -> None:
        if self.kind is reversed and not self.finished:
            ask_for_length(lift, self.inputs[0])

    @method
    def __reduce__(self, lift: Lift) -> Any:  # type: ignore[override]  # noqa: PLE0302  (a model)
        if self.kind in (reversed, _ListReversed):
            return self._reduced_reversed(lift)
        if self.kind not in _COMPOSED or type(self) is StrictZip:
            self.refuse("__reduce__()")
        return reduced(lift, self.kind, self.parts())

    def _reduced_reversed(self, lift: Lift) -> Any:
        if not self.finished:
            return reduced(lift, reversed, self.inputs, self.counter)
        if self.kind is reversed:
            return reduced(lift, reversed, [()])
        return reduced(lift, iter if sys.version_info < (3, 13) else reversed, [lift.new_list([])])

    @method
    def __setstate__(self, lift: Lift, index: Any) -> None:  # noqa: PLE0302
        if self.kind not in (reversed, _ListReversed):
            self.refuse("__setstate__()")
        last = lift.constant(py.length(lift, self.inputs[0])) - 1
        lift.journal.touch(self)
        if not self.finished:
            self.counter = min(max(-1, lift.as_index(index)), last)

    def state(self) -> Any:
        return self.counter, self.finished

    def restore(self, state: Any) -> None:
        self.counter, self.finished = state

    def parts(self) -> list[Any]:
        return self.inputs if self.counter is None else [*self.inputs, self.counter]

    def rebuild(self, generate: Generator) -> None:
        if self.kind in (reversed, _ListReversed):
            self._rebuild_reversed(generate)
            return
        if self.kind not in _COMPOSED:
            raise GraphBreak(FL0107, what=f"a {self.kind.__name__}")
        generate.callable(self.kind)
        for part in self.parts():
            generate.value(part)
        generate.call(len(self.parts()))

    def _rebuild_reversed(self, generate: Generator) -> None:
        """By the position: one below zero is the end."""
        generate.callable(reversed)
        generate.value(self.inputs[0])
        generate.call(1)
        generate.copy_top()
        generate.load_method("__setstate__")
        generate.value(-1 if self.finished else self.counter)
        generate.call(1)
        generate.pop_top()


class ReversedObject(DerivedIterator):
    """`reversed(sequence)` of an object whose length the program says; for another iterator it would say it again."""

    __slots__ = ("born",)

    def __init__(self, sequence: Any, last: Any, born: int) -> None:
        super().__init__(reversed, reversed_step, [sequence], last)
        self.born = born

    def rebuild(self, generate: Generator) -> None:
        raise GraphBreak(FL0107, what=f"reversed() of {py.describe(self.inputs[0])}", born=self.born)


_COMPOSED = (enumerate, zip, map, filter)


class AskedIterator(IteratorValue):
    """An iterator of the program's that is asked for items only: for models."""

    __slots__ = ("asked",)

    def __init__(self, asked: Value) -> None:
        super().__init__()
        self.asked = asked

    def next(self, lift: Lift) -> Any:
        return self.asked.next(lift)

    def parts(self) -> list[Any]:
        return [self.asked]

    def rebuild(self, generate: Generator) -> None:
        raise GraphBreak(FL0107, what="what a model iterates over")


class StrictZip(DerivedIterator):
    """`zip(..., strict=True)`."""

    __slots__ = ()

    def rebuild(self, generate: Generator) -> None:
        raise GraphBreak(FL0107, what="a strict zip")


def enumerate_step(lift: Lift, iterator: DerivedIterator) -> Any:
    """The next item of an `enumerate`."""
    item = py.next_item(lift, iterator.inputs[0])
    index = iterator.counter
    iterator.counter = py.binary(lift, "+", index, 1)
    return lift.tuple((index, item))


def zip_step(lift: Lift, iterator: DerivedIterator) -> Any:
    """The next item of a `zip`."""
    if not iterator.inputs:
        raise Exhausted
    return lift.tuple([py.next_item(lift, part) for part in iterator.inputs])


def strict_zip_step(lift: Lift, iterator: DerivedIterator) -> Any:
    """The next item of a `zip(strict=True)`."""
    row: list[Any] = []
    for position, part in enumerate(iterator.inputs, 1):
        try:
            row.append(py.next_item(lift, part))
        except Exhausted:
            if position > 1:
                _complain(position, "shorter")
            for other, longer in enumerate(iterator.inputs[1:], 2):
                _must_be_exhausted(lift, longer, other)
            raise
    if not row:
        raise Exhausted
    return lift.tuple(row)


def _must_be_exhausted(lift: Lift, iterator: Any, position: int) -> None:
    try:
        py.next_item(lift, iterator)
    except Exhausted:
        return
    _complain(position, "longer")


def _complain(position: int, how: str) -> None:
    others = "argument 1" if position == 2 else f"arguments 1-{position - 1}"
    py.raise_error(ValueError, f"zip() argument {position} is {how} than {others}")


def map_step(lift: Lift, iterator: DerivedIterator) -> Any:
    """The next item of a `map`."""
    function, *parts = iterator.inputs
    return py.call(lift, function, [py.next_item(lift, part) for part in parts], {})


def filter_step(lift: Lift, iterator: DerivedIterator) -> Any:
    """The next item of a `filter`."""
    function, part = iterator.inputs
    while True:
        item = py.next_item(lift, part)
        if py.truth(lift, item if function is None else py.call(lift, function, [item], {})):
            return item


def reversed_step(lift: Lift, iterator: DerivedIterator) -> Any:
    """`reversed(sequence)`, by its length and its items."""
    if iterator.finished or not py.truth(lift, py.compare(lift, ">=", iterator.counter, 0)):
        iterator.finished = True
        raise Exhausted
    try:
        item = py.item(lift, iterator.inputs[0], iterator.counter)
    except Raised as raised:
        iterator.finished = True
        if issubclass(py.type_of(raised.value), (IndexError, StopIteration)):
            raise Exhausted from None
        raise
    iterator.counter = py.binary(lift, "-", iterator.counter, 1)
    return item


def sentinel_step(lift: Lift, iterator: DerivedIterator) -> Any:
    """`iter(function, sentinel)`."""
    if iterator.finished:
        raise Exhausted
    function, sentinel = iterator.inputs
    try:
        item = py.call(lift, function, [], {})
    except Raised as raised:
        if not issubclass(py.type_of(raised.value), StopIteration):
            raise
        iterator.finished = True
        raise Exhausted from None
    # The call itself may have asked for more, and come to the end.
    if iterator.finished or py.equal(lift, sentinel, item):
        iterator.finished = True
        raise Exhausted
    return item
