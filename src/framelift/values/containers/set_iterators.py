"""Iterators over sets: in the program, and those that go on in Python where a set was built anew."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from copy import copy
from functools import partial
from itertools import repeat
from operator import itemgetter, length_hint
from typing import TYPE_CHECKING, Any, Protocol

from framelift.values.containers.iterators import IteratorValue, reduced
from framelift.values.core.base import Exhausted
from framelift.values.core.construct import make_list
from framelift.values.core.hash_keys import from_key
from framelift.values.core.methods import method
from framelift.values.core.stand_ins import raise_by

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


class WalkedSet(Protocol):
    """The set that an iterator goes over."""

    def members(self, tracer: Tracer) -> set[Any]: ...

    def keeps_order(self, keys: list[Any]) -> bool: ...


class SetIterator(IteratorValue):
    """Walks a set and notices a change of its size."""

    __slots__ = ("owner", "keys", "position")
    assigns = ("owner", "position")

    def __init__(self, owner: WalkedSet, keys: list[Any]) -> None:
        super().__init__()
        self.owner: WalkedSet | None = owner
        self.keys = keys
        self.position = 0

    def python_type(self) -> type:
        return type(iter(set()))

    @method
    def __reduce__(self, tracer: Tracer) -> Any:  # type: ignore[override]  # noqa: PLE0302  (a model)
        return reduced(tracer, iter, [make_list(self.to_come(tracer))])

    def length_hint(self, tracer: Tracer) -> Any:
        if self.owner is None or len(self.owner.members(tracer)) != len(self.keys):
            return 0
        return len(self.keys) - self.position

    def next(self, tracer: Tracer) -> Any:
        if self.owner is None:
            raise Exhausted
        members = self.owner.members(tracer)
        if len(members) != len(self.keys):
            raise_by("for each in given: given.add((each, each))", given={None})
        if not members.issuperset(self.keys):
            self.refuse("iteration over a set that is changed meanwhile")
        tracer.journal.touch(self)
        if self.position == len(self.keys):
            self.owner = None
            raise Exhausted
        self.position += 1
        return from_key(self.keys[self.position - 1])

    def rest(self) -> list[Any]:
        return [] if self.owner is None else [from_key(key) for key in self.keys[self.position :]]

    def parts(self) -> list[Any]:
        return self.rest() if self.owner is None else [self.owner, *self.rest()]

    def rebuild(self, emit: Emitter) -> None:
        if self.owner is not None and self.owner.keeps_order(self.keys):
            emit.callable(walked)
            emit.value(self.owner)
            emit.constant(self.position)
            emit.call(2)
            return
        if self.owner is not None:
            emit.callable(RestOfSet)
            emit.value(self.owner)
        emit.list_of(self.rest())
        emit.get_iter()
        if self.owner is not None:
            emit.constant(len(self.keys))
            emit.call(3)


def walked(members: set[Any], count: int) -> Iterator[Any]:
    """The iterator over a set that has given so many members."""
    iterator = set.__iter__(members) if isinstance(members, set) else frozenset.__iter__(members)
    for _ in range(count):
        next(iterator)
    return iterator


class RestOfSet(map):
    """The iterator of a loop over a set that goes on in Python.

    The set may have been built anew, in another order; what was not visited yet is in the order that was begun. That
    its size is the one it had is asked by iterators of C alone: the traceback of the error must not show a frame.
    """

    __slots__ = ("_members", "_rest", "_size")
    _members: set[Any]
    _rest: Iterator[Any]
    _size: int

    def __new__(cls, members: set[Any], rest: Iterator[Any], size: int) -> RestOfSet:
        kind = set if isinstance(members, set) else frozenset
        sizes = iter(partial(kind.__len__, members), None)
        verdicts: dict[int, Iterator[Any]] = defaultdict(repeat(_over_a_changed_set()).__next__, {size: repeat(None)})
        checks = map(next, map(verdicts.__getitem__, sizes))
        made = super().__new__(cls, itemgetter(1), zip(checks, rest, strict=False))
        made._members, made._rest, made._size = members, rest, size
        return made

    def __reduce__(self) -> Any:
        return iter, (list(copy(self._rest)),)

    def __length_hint__(self) -> int:
        return length_hint(self._rest) if len(self._members) == self._size else 0


def _over_a_changed_set() -> Iterator[Any]:
    """An iterator that fails whenever it is asked."""
    members = {0}
    iterator = iter(members)
    members.add(1)
    return iterator
