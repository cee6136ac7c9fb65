"""`collections.deque`."""

from __future__ import annotations

import sys
from collections import deque
from operator import getitem
from typing import TYPE_CHECKING, Any, NoReturn

from framelift.breaks import FL0107, GraphBreak
from framelift.guards.source import Source
from framelift.values.containers.iterators import IteratorValue, advance
from framelift.values.containers.sequences import ListValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Exhausted, Value
from framelift.values.core.methods import method
from framelift.values.core.primitives import primitive
from framelift.values.core.refusals import Operation
from framelift.values.core.stand_ins import raise_by, raise_unhashable, raise_what, shown_as, stand_in

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


class DequeValue(ListValue, models=deque):
    """A list that is short at both ends: what does not fit leaves at the other side."""

    __slots__ = ("limit", "structure")
    assigns: tuple[str, ...] = ("structure",)
    item_access = "DEQUE_ITEM"
    kind: type = deque

    def __init__(
        self, items: list[Any] | None, limit: int | None, source: Source | None = None, concrete: Any = None
    ) -> None:
        kept = items if items is None or limit is None else items[max(0, len(items) - limit) :]
        super().__init__(kept, source, concrete)
        self.limit = limit
        # How often it was changed but by replacing an item: iterators notice.
        self.structure = 0

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(None, obj.maxlen, source, obj)

    def note_facts(self, tracer: Tracer) -> None:
        super().note_facts(tracer)
        assert self.source is not None
        bound = self.source.child("GETATTR", "maxlen")
        tracer.guard(bound, "IS" if self.limit is None else "EQUALS", self.limit)

    def make(self, tracer: Tracer, items: list[Any]) -> Any:
        return DequeValue(items, self.limit)

    def iterate(self, tracer: Tracer) -> Any:
        self.items(tracer)
        return DequeIterator(self)

    def contains(self, tracer: Tracer, item: Any) -> Any:
        before = list(self.items(tracer))
        for member in before:
            if py.equal(tracer, member, item):
                return True
            now = self.items(tracer)
            if len(now) != len(before) or any(old is not new for old, new in zip(before, now, strict=True)):
                _raise_mutated()
        return False

    def key(self, tracer: Tracer) -> Any:
        raise_unhashable(deque)

    def item(self, tracer: Tracer, key: Any) -> Any:
        return self.items(tracer)[self._position(tracer, key)]

    def set_item(self, tracer: Tracer, key: Any, value: Any) -> None:
        position = self._position(tracer, key)
        super().change(tracer)[position] = value

    def delete_item(self, tracer: Tracer, key: Any) -> None:
        del self.change(tracer)[self._position(tracer, key)]

    def _position(self, tracer: Tracer, key: Any) -> int:
        if py.type_of(key) is slice:
            raise_what(getitem, deque(), slice(None))
        position = tracer.as_index(key)
        count = len(self.items(tracer))
        if not -count <= position < count:
            raise_what(getitem, deque(), 0)
        return position

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if operator == "+=":
            self.add(tracer, py.items(tracer, other))
            return self
        if operator == "+":
            return self._joined(tracer, other)
        if operator in ("*", "*=") and py.has_type(other, int, bool):
            return self._times(tracer, tracer.constant(other), operator == "*=")
        return NotImplemented

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if operator == "*" and py.has_type(other, int, bool):
            return self._times(tracer, tracer.constant(other), False)
        return NotImplemented

    def _joined(self, tracer: Tracer, other: Any) -> Any:
        inside = deque_inside(tracer, other)
        if inside is None:
            return NotImplemented
        made = self.make(tracer, list(self.items(tracer)))
        made.add(tracer, list(inside.items(tracer)))
        return made

    def _times(self, tracer: Tracer, times: int, in_place: bool) -> Any:
        items = list(self.items(tracer))
        tracer.spend(len(items) * max(0, times), "too many items")
        if not in_place:
            made = self.make(tracer, [])
            made.add(tracer, items * times)
            return made
        kept = self.change(tracer)
        kept[:] = items * times
        if self.limit is not None:
            del kept[: max(0, len(kept) - self.limit)]
        return self

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        inside = deque_inside(tracer, other)
        return NotImplemented if inside is None else super().compare(tracer, operator, inside)

    def attribute(self, tracer: Tracer, name: str) -> Any:
        self.note(tracer)
        return self.limit if name == "maxlen" else super().attribute(tracer, name)

    def graph_argument(self, tracer: Tracer) -> Any:
        self.refuse(Operation.GRAPH_ARGUMENT)

    def constant(self, tracer: Tracer) -> Any:
        return deque([tracer.constant(item) for item in self.items(tracer)], self.limit)

    @property
    def name(self) -> str:
        return "deque"

    def text(self, tracer: Tracer, conversion: str) -> str:
        limit = "" if self.limit is None else f", maxlen={self.limit}"
        return f"{self.name}([{', '.join(tracer.text(item, 'repr') for item in self.items(tracer))}]{limit})"

    def text_again(self) -> str | None:
        return "[...]"

    # -- changing ------------------------------------------------------------------------------------------------

    def change(self, tracer: Tracer) -> list[Any]:
        items = super().change(tracer)
        self.structure += 1
        return items

    def add(self, tracer: Tracer, new: list[Any]) -> None:
        self.note(tracer)
        if not new:
            return
        if self.limit is None:
            super().add(tracer, new)
            self.structure += 1
            return
        items = self.change(tracer)
        items.extend(new)
        if self.limit is not None:
            del items[: max(0, len(items) - self.limit)]

    @method
    def appendleft(self, tracer: Tracer, item: Any, /) -> None:
        items = self.change(tracer)
        items.insert(0, item)
        if self.limit is not None:
            del items[self.limit :]

    @method
    def extendleft(self, tracer: Tracer, iterable: Any, /) -> None:
        for item in py.items(tracer, iterable) if iterable is self else py.each(tracer, iterable):
            self.appendleft(tracer, item)

    @method
    def pop(self, tracer: Tracer) -> Any:  # type: ignore[override]
        items = self.change(tracer)
        if not items:
            raise_what(deque().pop)
        return items.pop()

    @method
    def popleft(self, tracer: Tracer) -> Any:
        items = self.change(tracer)
        if not items:
            raise_what(deque().pop)
        return items.pop(0)

    @method
    def rotate(self, tracer: Tracer, n: Any = 1, /) -> None:
        steps = tracer.as_index(n)
        if len(self.items(tracer)) > 1:
            items = self.change(tracer)
            steps %= len(items)
            items[:] = items[len(items) - steps :] + items[: len(items) - steps]

    @method
    def insert(self, tracer: Tracer, index: Any, item: Any, /) -> None:
        position = tracer.as_index(index)
        items = self.change(tracer)
        if self.limit is not None and len(items) >= self.limit:
            raise_what(deque(maxlen=0).insert, 0, None)
        items.insert(position, item)

    @method
    def count(self, tracer: Tracer, item: Any, /) -> Any:
        before, structure, found = list(self.items(tracer)), self.structure, 0
        for member in before:
            found += py.equal(tracer, member, item)
            if self.structure != structure:
                _raise_mutated()
        return found

    @method
    def remove(self, tracer: Tracer, item: Any, /) -> None:
        position = self._found_at(tracer, item)
        if position is not None:
            del self.change(tracer)[position]
            return
        raise_what(deque().remove, shown_as(tracer.text(item, "repr")))

    @method
    def index(self, tracer: Tracer, item: Any, start: Any = 0, stop: Any = sys.maxsize, /) -> Any:
        bounds = slice(tracer.as_index(start), tracer.as_index(stop)).indices(len(self.items(tracer)))
        position = self._found_at(tracer, item, range(*bounds))
        if position is not None:
            return position
        raise_what(deque().index, shown_as(tracer.text(item, "repr")))

    def _found_at(self, tracer: Tracer, item: Any, among: range | None = None) -> int | None:
        """Where the first item is that is equal to this one; None: nowhere."""
        items = list(self.items(tracer))
        for position in range(len(items)) if among is None else among:
            found = py.equal(tracer, items[position], item)
            now = self.items(tracer)
            if len(now) != len(items) or any(mine is not before for mine, before in zip(now, items, strict=True)):
                self.refuse("a search whose comparisons change it")
            if found:
                return position
        return None

    @method
    def clear(self, tracer: Tracer) -> None:
        if self.items(tracer):
            self.change(tracer).clear()

    @method
    def reverse(self, tracer: Tracer) -> None:
        super().change(tracer).reverse()  # iterators do not notice

    def copy(self, tracer: Tracer) -> Any:
        return self.make(tracer, list(self.items(tracer)))

    copy = __copy__ = method(copy)

    @method
    def __reversed__(self, tracer: Tracer) -> Any:  # noqa: PLE0302  (a model)
        self.items(tracer)
        return DequeIterator(self, backwards=True)

    sort = None  # type: ignore[assignment]

    def replay(self, emit: Emitter) -> None:
        if self._items is not None and not self.structure:  # iterators over it go on
            for position, item in enumerate(self._items):
                self.emit_call(emit, "__setitem__", position, item)
                emit.pop_top()
            return
        if self._items is not None:
            self.emit_call(emit, "clear")
            emit.pop_top()
        self.emit_extend(emit)

    def emit_call(self, emit: Emitter, name: str, *args: Any) -> None:
        """Emit a call of a method of the real deque."""
        emit.value(self)
        emit.call_method(name, args)

    def emit_extend(self, emit: Emitter) -> None:
        self.emit_call(emit, "extend", ListValue(list(self.parts())))
        emit.pop_top()

    def rebuild(self, emit: Emitter) -> None:
        # It may hold itself: it is made first and filled after.
        emit.callable(deque)
        emit.build_list(0)
        emit.constant(self.limit)
        emit.call(2)
        emit.remember(self)
        if self.parts():
            self.emit_extend(emit)


class DequeIterator(IteratorValue):
    """Walks a deque that must not change meanwhile: but for items that are replaced."""

    __slots__ = ("owner", "structure", "position", "backwards")
    assigns = ("position",)

    def __init__(self, owner: DequeValue, backwards: bool = False) -> None:
        super().__init__()
        self.owner = owner
        self.structure = owner.structure
        self.position = 0
        self.backwards = backwards

    def python_type(self) -> type:
        return type(reversed(deque()) if self.backwards else iter(deque()))

    def length_hint(self, tracer: Tracer) -> int:
        return len(self.owner.items(tracer)) - self.position

    def next(self, tracer: Tracer) -> Any:
        items = self.owner.items(tracer)
        tracer.journal.touch(self)
        if self.owner.structure != self.structure:
            _raise_mutated()
        if self.position == len(items):
            raise Exhausted
        self.position += 1
        return items[-self.position if self.backwards else self.position - 1]

    def parts(self) -> list[Any]:
        return [self.owner]

    def rebuild(self, emit: Emitter) -> None:
        if self.owner.structure != self.structure:
            raise GraphBreak(FL0107, what="an iterator over a deque that has changed")
        emit.callable(advance)
        self.owner.emit_call(emit, "__reversed__" if self.backwards else "__iter__")
        emit.constant(self.position)
        emit.call(2)


def limit_of(tracer: Tracer, maxlen: Any) -> int | None:
    """How many items fit at most, as `deque()` is told."""
    limit: Any = tracer.constant(maxlen)
    if limit is not None and not isinstance(limit, int):
        raise_what(deque, (), stand_in(type(limit)))
    if limit is not None and limit < 0:
        raise_what(deque, (), -1)
    return None if limit is None else int(limit)


@primitive(deque)
def _deque(tracer: Tracer, iterable: Any = (), maxlen: Any = None) -> Any:
    limit = limit_of(tracer, maxlen)
    return DequeValue(py.items(tracer, iterable), limit)


def deque_inside(tracer: Tracer, value: Any) -> DequeValue | None:
    """The items that the C code of deques reads of a deque or an instance of a subclass."""
    if isinstance(value, DequeValue):
        return value
    inside: DequeValue | None = value.storage_of(tracer, deque) if isinstance(value, Value) else None
    return inside


def _raise_mutated() -> NoReturn:
    raise_by("for each in given: given.append(each)", given=deque([None]))
