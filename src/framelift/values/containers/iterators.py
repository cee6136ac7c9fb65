"""Iterators the program makes: positions in sequences, and iterators that transform others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0107, GraphBreak
from framelift.values.core import protocol as py
from framelift.values.core.base import Call, Exhausted, Raised, Value
from framelift.values.core.construct import make_list, make_tuple
from framelift.values.core.exceptions import as_end, is_raised
from framelift.values.core.methods import method, method_of
from framelift.values.core.refusals import Operation
from framelift.values.core.stand_ins import raise_what

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


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

    def close_value(self, tracer: Tracer) -> Any:
        """`close()`, of those that take throws."""
        raise NotImplementedError

    def throw_value(self, tracer: Tracer, exception: Any) -> Any:
        """`throw(exception)`, of those that take throws."""
        raise NotImplementedError

    def iterate(self, tracer: Tracer) -> Any:
        return self

    def python_type(self) -> type:
        return type(iter(()))

    def contains(self, tracer: Tracer, item: Any) -> Any:
        try:
            while not py.equal(tracer, self.next(tracer), item):
                pass
        except Exhausted:
            return False
        return True

    def attribute(self, tracer: Tracer, name: str) -> Any:
        return method_of(self, tracer, name)

    def to_come(self, tracer: Tracer) -> list[Any]:
        """The items to come, which stay to come."""
        before = self.state()
        try:
            return py.items(tracer, self)
        finally:
            self.restore(before)


def reduced(tracer: Tracer, make: Callable[..., Any], args: Sequence[Any], *state: Any) -> Any:
    """What `__reduce__` gives: what makes the iterator, of what, and perhaps where it is."""
    return make_tuple([tracer.known_object(make), make_tuple(list(args)), *state])


_ListIterator: type = type(iter([]))
_TupleIterator: type = type(iter(()))
_ListReversed: type = type(reversed([]))
_SetIterator: type = type(iter(frozenset()))
_STRING_ITERATORS = (type(iter("")), type(iter("é")))  # two types since 3.12


# What such an iterator walks, made of its items.
_CONTAINERS: dict[type, Callable[[list[Any]], Any]] = {
    _ListIterator: make_list,
    _TupleIterator: make_tuple,
    **dict.fromkeys(_STRING_ITERATORS, "".join),
}


class SequenceIterator(IteratorValue, role="iterator"):
    """Walks a live list of items: what is appended while iterating is seen, as in CPython.

    `owner` is the list the items are of; none where the items cannot change.
    """

    __slots__ = ("items", "position", "kind", "owner", "born")
    assigns = ("items", "position")

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

    def next(self, tracer: Tracer) -> Any:
        tracer.journal.touch(self)
        if self.items is None or self.position >= len(self.items):
            self.items = None
            raise Exhausted
        self.position += 1
        return self.items[self.position - 1]

    def length_hint(self, tracer: Tracer) -> Any:
        return len(self.remaining())

    @method
    def __reduce__(self, tracer: Tracer) -> Any:  # type: ignore[override]  # noqa: PLE0302  (a model)
        if self.kind is _SetIterator:
            return reduced(tracer, iter, [make_list(self.remaining())])
        make = _CONTAINERS.get(self.kind)
        if make is None:
            self.refuse(Operation.REDUCE)
        if self.items is None:
            return reduced(tracer, iter, [make([])])
        return reduced(tracer, iter, [make(self.items) if self.owner is None else self.owner], self.position)

    @method
    def __setstate__(self, tracer: Tracer, index: Any) -> None:  # noqa: PLE0302
        if self.kind not in _CONTAINERS:
            self.refuse(Operation.SETSTATE)
        tracer.journal.touch(self)
        position = max(0, tracer.as_index(index))
        if self.items is not None:
            self.position = position if self.kind is _ListIterator else min(position, len(self.items))

    def remaining(self) -> list[Any]:
        return [] if self.items is None else self.items[self.position :]

    def parts(self) -> list[Any]:
        return self.remaining() if self.owner is None else [self.owner]

    def rebuild(self, emit: Emitter) -> None:
        if self.owner is not None and self.items is not None and self.kind is _ListIterator:
            emit.value(self.owner)
            emit.get_iter()
            emit.copy_top()
            emit.load_method("__setstate__")
            emit.constant(self.position)
            emit.call(1)
            emit.pop_top()
            return
        rest = self.remaining()
        if self.kind in _STRING_ITERATORS:
            emit.constant("".join(rest))
        elif self.kind in (_ListIterator, _TupleIterator, _SetIterator):  # of a set that cannot change
            for item in rest:
                emit.value(item)
            (emit.build_list if self.kind is _ListIterator else emit.build_tuple)(len(rest))
        elif self.kind is reversed:
            emit.callable(reversed)
            for item in rest[::-1]:
                emit.value(item)
            emit.build_tuple(len(rest))
            emit.call(1)
            return
        else:
            raise GraphBreak(FL0107, what=f"a {self.kind.__name__}", born=self.born)
        emit.get_iter()


class RangeIterator(IteratorValue, role="range iterator"):
    """Walks a range without listing it."""

    __slots__ = ("range", "position")
    assigns = ("position",)

    def __init__(self, numbers: range) -> None:
        super().__init__()
        self.range = numbers
        self.position = 0

    def python_type(self) -> type:
        return type(iter(self.range))

    def next(self, tracer: Tracer) -> Any:
        tracer.journal.touch(self)
        try:
            number = self.range[self.position]
        except IndexError:  # asked this way because len() fails for the longest ranges
            raise Exhausted from None
        self.position += 1
        return number

    def length_hint(self, tracer: Tracer) -> Any:
        return len(self.range) - self.position

    @method
    def __reduce__(self, tracer: Tracer) -> Any:  # type: ignore[override]  # noqa: PLE0302  (a model)
        if sys.version_info >= (3, 12):
            return reduced(tracer, iter, [self.range[self.position :]], None)
        return reduced(tracer, iter, [self.range], self.position)

    @method
    def __setstate__(self, tracer: Tracer, index: Any) -> None:  # noqa: PLE0302
        if sys.version_info >= (3, 12):
            self.refuse(Operation.SETSTATE)
        tracer.journal.touch(self)
        self.position = min(max(0, tracer.as_index(index)), len(self.range))

    def rebuild(self, emit: Emitter) -> None:
        emit.constant(self.range[self.position :])
        emit.get_iter()


def ask_for_length(tracer: Tracer, sequence: Any) -> None:
    """Have a sequence say its length, for who would only like to know it: it may have none."""
    try:
        py.length(tracer, sequence)
    except Raised as raised:
        if not is_raised(raised, TypeError):
            raise


class DerivedIterator(IteratorValue):
    """enumerate, zip, map, filter …: `step(lift, self)` computes the next item from the iterators in `inputs`.

    `kind` is the builtin that makes the real iterator again from `inputs` and, where there is one, `counter`.
    """

    __slots__ = ("kind", "step", "inputs", "counter", "finished")
    assigns: tuple[str, ...] = ("counter", "finished")

    def __init__(
        self, kind: type, step: Callable[[Tracer, DerivedIterator], Any], inputs: list[Any], counter: Any = None
    ) -> None:
        super().__init__()
        self.kind = kind
        self.step = step
        self.inputs = inputs
        self.counter = counter
        self.finished = False

    def python_type(self) -> type:
        return self.kind

    def next(self, tracer: Tracer) -> Any:
        tracer.journal.touch(self)
        try:
            return self.step(tracer, self)
        except Raised as raised:
            raise as_end(raised) from None

    def ask_length(self, tracer: Tracer) -> None:
        if self.kind is reversed and not self.finished:
            ask_for_length(tracer, self.inputs[0])

    @method
    def __reduce__(self, tracer: Tracer) -> Any:  # type: ignore[override]  # noqa: PLE0302  (a model)
        if self.kind in (reversed, _ListReversed):
            return self._reduced_reversed(tracer)
        if self.kind not in _COMPOSED or type(self) is StrictZip:
            self.refuse(Operation.REDUCE)
        return reduced(tracer, self.kind, self.parts())

    def _reduced_reversed(self, tracer: Tracer) -> Any:
        if not self.finished:
            return reduced(tracer, reversed, self.inputs, self.counter)
        if self.kind is reversed:
            return reduced(tracer, reversed, [()])
        return reduced(tracer, iter if sys.version_info < (3, 13) else reversed, [make_list([])])

    @method
    def __setstate__(self, tracer: Tracer, index: Any) -> None:  # noqa: PLE0302
        if self.kind not in (reversed, _ListReversed):
            self.refuse(Operation.SETSTATE)
        last = tracer.constant(py.length(tracer, self.inputs[0])) - 1
        tracer.journal.touch(self)
        if not self.finished:
            self.counter = min(max(-1, tracer.as_index(index)), last)

    def parts(self) -> list[Any]:
        return self.inputs if self.counter is None else [*self.inputs, self.counter]

    def made_by(self) -> Call:
        if self.kind not in _COMPOSED:
            raise GraphBreak(FL0107, what=f"a {self.kind.__name__}")
        return self.kind, self.parts()

    def rebuild(self, emit: Emitter) -> None:
        if self.kind in (reversed, _ListReversed):
            self._rebuild_reversed(emit)
        else:
            super().rebuild(emit)

    def _rebuild_reversed(self, emit: Emitter) -> None:
        """By the position: one below zero is the end."""
        emit.callable(reversed)
        emit.value(self.inputs[0])
        emit.call(1)
        emit.copy_top()
        emit.call_method("__setstate__", [-1 if self.finished else self.counter])
        emit.pop_top()


class ReversedObject(DerivedIterator):
    """`reversed(sequence)` of an object whose length the program says; for another iterator it would say it again."""

    __slots__ = ("born",)

    def __init__(self, sequence: Any, last: Any, born: int) -> None:
        super().__init__(reversed, reversed_step, [sequence], last)
        self.born = born

    def rebuild(self, emit: Emitter) -> None:
        raise GraphBreak(FL0107, what=f"reversed() of {py.describe(self.inputs[0])}", born=self.born)


_COMPOSED = (enumerate, zip, map, filter)


class AskedIterator(IteratorValue):
    """An iterator of the program's that is asked for items only: for models."""

    __slots__ = ("asked",)

    def __init__(self, asked: Value) -> None:
        super().__init__()
        self.asked = asked

    def next(self, tracer: Tracer) -> Any:
        return self.asked.next(tracer)

    def parts(self) -> list[Any]:
        return [self.asked]

    def rebuild(self, emit: Emitter) -> None:
        raise GraphBreak(FL0107, what="what a model iterates over")


class StrictZip(DerivedIterator):
    """`zip(..., strict=True)`."""

    __slots__ = ()

    def rebuild(self, emit: Emitter) -> None:
        raise GraphBreak(FL0107, what="a strict zip")


def enumerate_step(tracer: Tracer, iterator: DerivedIterator) -> Any:
    """The next item of an `enumerate`."""
    item = py.next_item(tracer, iterator.inputs[0])
    index = iterator.counter
    iterator.counter = py.binary(tracer, "+", index, 1)
    return make_tuple((index, item))


def zip_step(tracer: Tracer, iterator: DerivedIterator) -> Any:
    """The next item of a `zip`."""
    if not iterator.inputs:
        raise Exhausted
    return make_tuple([py.next_item(tracer, part) for part in iterator.inputs])


def strict_zip_step(tracer: Tracer, iterator: DerivedIterator) -> Any:
    """The next item of a `zip(strict=True)`."""
    row: list[Any] = []
    for position, part in enumerate(iterator.inputs, 1):
        try:
            row.append(py.next_item(tracer, part))
        except Exhausted:
            if position > 1:
                _complain(position, "shorter")
            for other, longer in enumerate(iterator.inputs[1:], 2):
                _must_be_exhausted(tracer, longer, other)
            raise
    if not row:
        raise Exhausted
    return make_tuple(row)


def _must_be_exhausted(tracer: Tracer, iterator: Any, position: int) -> None:
    try:
        py.next_item(tracer, iterator)
    except Exhausted:
        return
    _complain(position, "longer")


def _complain(position: int, how: str) -> None:
    others, odd = ((), (0,)) if how == "longer" else ((0,), ())
    raise_what(list, zip(*[others] * (position - 1), odd, strict=True))


def map_step(tracer: Tracer, iterator: DerivedIterator) -> Any:
    """The next item of a `map`."""
    function, *parts = iterator.inputs
    return py.call(tracer, function, [py.next_item(tracer, part) for part in parts], {})


def filter_step(tracer: Tracer, iterator: DerivedIterator) -> Any:
    """The next item of a `filter`."""
    function, part = iterator.inputs
    while True:
        item = py.next_item(tracer, part)
        if py.truth(tracer, item if function is None else py.call(tracer, function, [item], {})):
            return item


def reversed_step(tracer: Tracer, iterator: DerivedIterator) -> Any:
    """`reversed(sequence)`, by its length and its items."""
    if iterator.finished or not py.truth(tracer, py.compare(tracer, ">=", iterator.counter, 0)):
        iterator.finished = True
        raise Exhausted
    try:
        item = py.item(tracer, iterator.inputs[0], iterator.counter)
    except Raised as raised:
        iterator.finished = True
        if issubclass(py.type_of(raised.value), (IndexError, StopIteration)):
            raise Exhausted from None
        raise
    iterator.counter = py.binary(tracer, "-", iterator.counter, 1)
    return item


def sentinel_step(tracer: Tracer, iterator: DerivedIterator) -> Any:
    """`iter(function, sentinel)`."""
    if iterator.finished:
        raise Exhausted
    function, sentinel = iterator.inputs
    try:
        item = py.call(tracer, function, [], {})
    except Raised as raised:
        if not issubclass(py.type_of(raised.value), StopIteration):
            raise
        iterator.finished = True
        raise Exhausted from None
    # The call itself may have asked for more, and come to the end.
    if iterator.finished or py.equal(tracer, sentinel, item):
        iterator.finished = True
        raise Exhausted
    return item
