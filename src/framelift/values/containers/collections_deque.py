"""`collections.deque`."""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0107, GraphBreak
from framelift.guards.source import Source
from framelift.values.containers.iterators import IteratorValue, advance
from framelift.values.containers.sequences import ListValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Exhausted, Value
from framelift.values.core.exceptions import raise_error
from framelift.values.core.methods import method
from framelift.values.core.primitives import primitive

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator


class DequeValue(ListValue, models=deque):
    """A list that is short at both ends: what does not fit leaves at the other side."""

    __slots__ = ("limit", "structure")
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

    def note_facts(self, lift: Lift) -> None:
        super().note_facts(lift)
        assert self.source is not None
        bound = self.source.child("GETATTR", "maxlen")
        lift.guard(bound, "IS" if self.limit is None else "EQUALS", self.limit)

    def make(self, lift: Lift, items: list[Any]) -> Any:
        return DequeValue(items, self.limit)

    def iterate(self, lift: Lift) -> Any:
        self.items(lift)
        return DequeIterator(self)

    def contains(self, lift: Lift, item: Any) -> Any:
        before = list(self.items(lift))
        for member in before:
            if py.equal(lift, member, item):
                return True
            now = self.items(lift)
            if len(now) != len(before) or any(old is not new for old, new in zip(before, now, strict=True)):
                raise_error(RuntimeError, "deque mutated during iteration")
        return False

    def key(self, lift: Lift) -> Any:
        raise_error(TypeError, "unhashable type: 'collections.deque'")

    def item(self, lift: Lift, key: Any) -> Any:
        return self.items(lift)[self._position(lift, key)]

    def set_item(self, lift: Lift, key: Any, value: Any) -> None:
        position = self._position(lift, key)
        super().change(lift)[position] = value

    def delete_item(self, lift: Lift, key: Any) -> None:
        del self.change(lift)[self._position(lift, key)]

    def _position(self, lift: Lift, key: Any) -> int:
        if py.type_of(key) is slice:
            raise_error(TypeError, "sequence index must be integer, not 'slice'")
        position = lift.as_index(key)
        count = len(self.items(lift))
        if not -count <= position < count:
            raise_error(IndexError, "deque index out of range")
        return position

    def binary(self, lift: Lift, operator: str, other: Any) -> Any:
        if operator == "+=":
            self.add(lift, py.items(lift, other))
            return self
        if operator == "+":
            return self._joined(lift, other)
        if operator in ("*", "*=") and py.has_type(other, int, bool):
            return self._times(lift, lift.constant(other), operator == "*=")
        return NotImplemented

    def reflected(self, lift: Lift, operator: str, other: Any) -> Any:
        if operator == "*" and py.has_type(other, int, bool):
            return self._times(lift, lift.constant(other), False)
        return NotImplemented

    def _joined(self, lift: Lift, other: Any) -> Any:
        inside = lift.deque_inside(other)
        if inside is None:
            return NotImplemented
        made = self.make(lift, list(self.items(lift)))
        made.add(lift, list(inside.items(lift)))
        return made

    def _times(self, lift: Lift, times: int, in_place: bool) -> Any:
        items = list(self.items(lift))
        lift.spend(len(items) * max(0, times), "too many items")
        if not in_place:
            made = self.make(lift, [])
            made.add(lift, items * times)
            return made
        kept = self.change(lift)
        kept[:] = items * times
        if self.limit is not None:
            del kept[: max(0, len(kept) - self.limit)]
        return self

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        inside = lift.deque_inside(other)
        return NotImplemented if inside is None else super().compare(lift, operator, inside)

    def attribute(self, lift: Lift, name: str) -> Any:
        self.note(lift)
        return self.limit if name == "maxlen" else super().attribute(lift, name)

    def graph_argument(self, lift: Lift) -> Any:
        self.refuse("passing to a tensor operation")

    def constant(self, lift: Lift) -> Any:
        return deque([lift.constant(item) for item in self.items(lift)], self.limit)

    @property
    def name(self) -> str:
        return "deque"

    def text(self, lift: Lift, conversion: str) -> str:
        limit = "" if self.limit is None else f", maxlen={self.limit}"
        return f"{self.name}([{', '.join(lift.text(item, 'repr') for item in self.items(lift))}]{limit})"

    def text_again(self) -> str | None:
        return "[...]"

    # -- changing ------------------------------------------------------------------------------------------------

    def change(self, lift: Lift) -> list[Any]:
        items = super().change(lift)
        self.structure += 1
        return items

    def state(self) -> Any:
        return super().state(), self.structure

    def restore(self, state: Any) -> None:
        items, self.structure = state
        super().restore(items)

    def add(self, lift: Lift, new: list[Any]) -> None:
        self.note(lift)
        if not new:
            return
        if self.limit is None:
            super().add(lift, new)
            self.structure += 1
            return
        items = self.change(lift)
        items.extend(new)
        if self.limit is not None:
            del items[: max(0, len(items) - self.limit)]

    @method
    def appendleft(self, lift: Lift, item: Any, /) -> None:
        items = self.change(lift)
        items.insert(0, item)
        if self.limit is not None:
            del items[self.limit :]

    @method
    def extendleft(self, lift: Lift, iterable: Any, /) -> None:
        for item in py.items(lift, iterable) if iterable is self else py.each(lift, iterable):
            self.appendleft(lift, item)

    @method
    def pop(self, lift: Lift) -> Any:  # type: ignore[override]
        items = self.change(lift)
        if not items:
            raise_error(IndexError, "pop from an empty deque")
        return items.pop()

    @method
    def popleft(self, lift: Lift) -> Any:
        items = self.change(lift)
        if not items:
            raise_error(IndexError, "pop from an empty deque")
        return items.pop(0)

    @method
    def rotate(self, lift: Lift, n: Any = 1, /) -> None:
        steps = lift.as_index(n)
        if len(self.items(lift)) > 1:
            items = self.change(lift)
            steps %= len(items)
            items[:] = items[len(items) - steps :] + items[: len(items) - steps]

    @method
    def insert(self, lift: Lift, index: Any, item: Any, /) -> None:
        position = lift.as_index(index)
        items = self.change(lift)
        if self.limit is not None and len(items) >= self.limit:
            raise_error(IndexError, "deque already at its maximum size")
        items.insert(position, item)

    @method
    def count(self, lift: Lift, item: Any, /) -> Any:
        before, structure, found = list(self.items(lift)), self.structure, 0
        for member in before:
            found += py.equal(lift, member, item)
            if self.structure != structure:
                raise_error(RuntimeError, "deque mutated during iteration")
        return found

    @method
    def remove(self, lift: Lift, item: Any, /) -> None:
        position = self._found_at(lift, item)
        if position is not None:
            del self.change(lift)[position]
            return
        raise_error(ValueError, f"{lift.text(item, 'repr')} is not in deque")

    @method
    def index(self, lift: Lift, item: Any, start: Any = 0, stop: Any = sys.maxsize, /) -> Any:
        bounds = slice(lift.as_index(start), lift.as_index(stop)).indices(len(self.items(lift)))
        position = self._found_at(lift, item, range(*bounds))
        if position is not None:
            return position
        raise_error(ValueError, f"{lift.text(item, 'repr')} is not in deque")

    def _found_at(self, lift: Lift, item: Any, among: range | None = None) -> int | None:
        """Where the first item is that is equal to this one; None: nowhere."""
        items = list(self.items(lift))
        for position in range(len(items)) if among is None else among:
            found = py.equal(lift, items[position], item)
            now = self.items(lift)
            if len(now) != len(items) or any(mine is not before for mine, before in zip(now, items, strict=True)):
                self.refuse("a search whose comparisons change it")
            if found:
                return position
        return None

    @method
    def clear(self, lift: Lift) -> None:
        if self.items(lift):
            self.change(lift).clear()

    @method
    def reverse(self, lift: Lift) -> None:
        super().change(lift).reverse()  # iterators do not notice

    def copy(self, lift: Lift) -> Any:
        return self.make(lift, list(self.items(lift)))

    copy = __copy__ = method(copy)

    @method
    def __reversed__(self, lift: Lift) -> Any:  # noqa: PLE0302  (a model)
        self.items(lift)
        return DequeIterator(self, backwards=True)

    sort = None  # type: ignore[assignment]

    def replay(self, generate: Generator) -> None:
        if self._items is not None and not self.structure:  # iterators over it go on
            for position, item in enumerate(self._items):
                self.emit_call(generate, "__setitem__", position, item)
                generate.pop_top()
            return
        if self._items is not None:
            self.emit_call(generate, "clear")
            generate.pop_top()
        self.emit_extend(generate)

    def emit_call(self, generate: Generator, name: str, *args: Any) -> None:
        """Emit a call of a method of the real deque."""
        generate.value(self)
        generate.load_method(name)
        for argument in args:
            generate.value(argument)
        generate.call(len(args))

    def emit_extend(self, generate: Generator) -> None:
        self.emit_call(generate, "extend", ListValue(list(self.parts())))
        generate.pop_top()

    def rebuild(self, generate: Generator) -> None:
        # It may hold itself: it is made first and filled after.
        generate.callable(deque)
        generate.build_list(0)
        generate.constant(self.limit)
        generate.call(2)
        generate.remember(self)
        if self.parts():
            self.emit_extend(generate)


class DequeIterator(IteratorValue):
    """Walks a deque that must not change meanwhile: but for items that are replaced."""

    __slots__ = ("owner", "structure", "position", "backwards")

    def __init__(self, owner: DequeValue, backwards: bool = False) -> None:
        super().__init__()
        self.owner = owner
        self.structure = owner.structure
        self.position = 0
        self.backwards = backwards

    def python_type(self) -> type:
        return type(reversed(deque()) if self.backwards else iter(deque()))

    def length_hint(self, lift: Lift) -> int:
        return len(self.owner.items(lift)) - self.position

    def next(self, lift: Lift) -> Any:
        items = self.owner.items(lift)
        lift.journal.touch(self)
        if self.owner.structure != self.structure:
            raise_error(RuntimeError, "deque mutated during iteration")
        if self.position == len(items):
            raise Exhausted
        self.position += 1
        return items[-self.position if self.backwards else self.position - 1]

    def state(self) -> Any:
        return self.position

    def restore(self, state: Any) -> None:
        self.position = state

    def parts(self) -> list[Any]:
        return [self.owner]

    def rebuild(self, generate: Generator) -> None:
        if self.owner.structure != self.structure:
            raise GraphBreak(FL0107, what="an iterator over a deque that has changed")
        generate.callable(advance)
        self.owner.emit_call(generate, "__reversed__" if self.backwards else "__iter__")
        generate.constant(self.position)
        generate.call(2)


def limit_of(lift: Lift, maxlen: Any) -> int | None:
    """How many items fit at most, as `deque()` is told."""
    limit: Any = lift.constant(maxlen)
    if limit is not None and not isinstance(limit, int):
        raise_error(TypeError, "an integer is required")
    if limit is not None and limit < 0:
        raise_error(ValueError, "maxlen must be non-negative")
    return None if limit is None else int(limit)


@primitive(deque)
def _deque(lift: Lift, iterable: Any = (), maxlen: Any = None) -> Any:
    limit = limit_of(lift, maxlen)
    return DequeValue(py.items(lift, iterable), limit)
