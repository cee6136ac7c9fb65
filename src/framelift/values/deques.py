"""`collections.deque`."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0107, GraphBreak
from framelift.guards.source import Source
from framelift.values import protocol as py
from framelift.values.base import Exhausted, Value
from framelift.values.exceptions import raise_error
from framelift.values.iterators import IteratorValue, advance
from framelift.values.methods import method
from framelift.values.primitives import primitive
from framelift.values.sequences import ListValue

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
        if operator == "+" and isinstance(other, DequeValue):
            made = self.make(lift, list(self.items(lift)))
            made.add(lift, list(other.items(lift)))
            return made
        if operator == "*" and type(other) is int:
            made = self.make(lift, [])
            made.add(lift, list(self.items(lift)) * other)
            return made
        self.refuse(operator)

    def reflected(self, lift: Lift, operator: str, other: Any) -> Any:
        self.refuse(operator)

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        return super().compare(lift, operator, other) if isinstance(other, DequeValue) else NotImplemented

    def attribute(self, lift: Lift, name: str) -> Any:
        self.note(lift)
        return self.limit if name == "maxlen" else super().attribute(lift, name)

    def graph_argument(self, lift: Lift) -> Any:
        self.refuse("passing to a tensor operation")

    def constant(self, lift: Lift) -> Any:
        self.refuse("use as a constant")

    def text(self, lift: Lift, conversion: str) -> str:
        limit = "" if self.limit is None else f", maxlen={self.limit}"
        return f"deque([{', '.join(lift.text(item, 'repr') for item in self.items(lift))}]{limit})"

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
    def index(self, lift: Lift, item: Any, /) -> Any:  # type: ignore[override]
        position = self._found_at(lift, item)
        if position is not None:
            return position
        raise_error(ValueError, f"{lift.text(item, 'repr')} is not in deque")

    def _found_at(self, lift: Lift, item: Any) -> int | None:
        """Where the first item is that is equal to this one; None: nowhere."""
        items = list(self.items(lift))
        for position, member in enumerate(items):
            found = py.equal(lift, member, item)
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
    sort = None  # type: ignore[assignment]

    def replay(self, generate: Generator) -> None:
        if self._items is not None and not self.structure:  # iterators over it go on
            for position, item in enumerate(self._items):
                generate.value(item)
                generate.source(self.source)
                generate.constant(position)
                generate.store_subscript()
            return
        if self._items is not None:
            generate.source(self.source)
            generate.load_method("clear")
            generate.call(0)
            generate.pop_top()
        generate.source(self.source)
        self._extend(generate)

    def _extend(self, generate: Generator) -> None:
        """Put the items into the deque on top of the stack, which is taken."""
        generate.load_method("extend")
        generate.list_of(self.parts())
        generate.call(1)
        generate.pop_top()

    def rebuild(self, generate: Generator) -> None:
        # It may hold itself: it is made first and filled after.
        generate.callable(deque)
        generate.build_list(0)
        generate.constant(self.limit)
        generate.call(2)
        generate.remember(self)
        if self.parts():
            generate.copy_top()
            self._extend(generate)


class DequeIterator(IteratorValue):
    """Walks a deque that must not change meanwhile: but for items that are replaced."""

    __slots__ = ("owner", "structure", "position")

    def __init__(self, owner: DequeValue) -> None:
        super().__init__()
        self.owner = owner
        self.structure = owner.structure
        self.position = 0

    def python_type(self) -> type:
        return type(iter(deque()))

    def next(self, lift: Lift) -> Any:
        items = self.owner.items(lift)
        lift.journal.touch(self)
        if self.owner.structure != self.structure:
            raise_error(RuntimeError, "deque mutated during iteration")
        if self.position == len(items):
            raise Exhausted
        self.position += 1
        return items[self.position - 1]

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
        generate.value(self.owner)
        generate.get_iter()
        generate.constant(self.position)
        generate.call(2)


@primitive(deque)
def _deque(lift: Lift, iterable: Any = (), maxlen: Any = None) -> Any:
    limit = lift.constant(maxlen)
    if limit is not None and type(limit) is not int:
        raise_error(TypeError, "an integer is required")
    if limit is not None and limit < 0:
        raise_error(ValueError, "maxlen must be non-negative")
    return DequeValue(py.items(lift, iterable), limit)
