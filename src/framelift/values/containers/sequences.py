"""Lists and tuples."""

from __future__ import annotations

import sys
from abc import abstractmethod
from itertools import repeat
from operator import add, delitem, getitem, setitem
from typing import TYPE_CHECKING, Any

import torch

from framelift.breaks import FL0102, GraphBreak
from framelift.guards.source import Source
from framelift.values.containers.iterators import SequenceIterator
from framelift.values.containers.slices import has_index_method, plain_slice
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.constants import is_constant
from framelift.values.core.construct import make_tuple
from framelift.values.core.exceptions import raised_from
from framelift.values.core.hash_keys import TupleKey
from framelift.values.core.lengths import given_length, given_truth
from framelift.values.core.lookup import defines
from framelift.values.core.methods import method, method_of
from framelift.values.core.protocol import COMPARE
from framelift.values.core.stand_ins import raise_by, raise_unhashable, raise_what, shown_as, stand_in, stand_in_for

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


_TEXT_AGAIN: dict[type, str] = {list: "[...]", tuple: "(...)"}


class SequenceValue(Value):
    """What lists and tuples share: items in a Python list, read from the input when first needed."""

    __slots__ = ("_items",)
    item_access = "TUPLE_ITEM"
    kind: type = tuple

    def __init__(self, items: list[Any] | None, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(source, concrete)
        self._items = items

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(None, source, obj)

    def python_type(self) -> type:
        return self.kind

    def items(self, tracer: Tracer) -> list[Any]:
        if self._items is None:
            assert self.source is not None
            self.note(tracer)
            tracer.guard(self.source, "LENGTH", len(self.concrete))
            self._items = [
                tracer.wrap(item, self.source.child(self.item_access, index))
                for index, item in enumerate(self.concrete)
            ]
        return self._items

    def truth(self, tracer: Tracer) -> bool:
        return given_truth(tracer, self) if self._is_unread else bool(self.items(tracer))

    def length(self, tracer: Tracer) -> Any:
        return given_length(tracer, self) if self._is_unread else len(self.items(tracer))

    @property
    def _is_unread(self) -> bool:
        """Whether nothing is known of an input's items yet."""
        return self._items is None and not self.parts()

    def iterate(self, tracer: Tracer) -> Any:
        return SequenceIterator(self.items(tracer), type(iter(self.kind())), self if self.kind is list else None)

    def item(self, tracer: Tracer, key: Any) -> Any:
        index = _position(tracer, key, self.kind)
        items = self.items(tracer)
        if isinstance(index, slice):
            return self.make(tracer, items[index])
        try:
            return items[index]
        except IndexError:
            raise_what(getitem, self.kind(), 0)

    @abstractmethod
    def make(self, tracer: Tracer, items: list[Any]) -> Any:
        """A sequence of this kind: what slicing, joining and repeating give."""

    def contains(self, tracer: Tracer, item: Any) -> Any:
        return any(py.equal(tracer, member, item) for member in self.items(tracer))

    def set_item(self, tracer: Tracer, key: Any, value: Any) -> None:
        raise_what(setitem, stand_in(self.python_type()), stand_in_for(key), None)

    def delete_item(self, tracer: Tracer, key: Any) -> None:
        raise_what(delitem, stand_in(self.python_type()), stand_in_for(key))

    def next(self, tracer: Tracer) -> Any:
        raise_what(next, stand_in(self.python_type()))

    def number(self, tracer: Tracer, slot: str, *args: Any) -> Any:
        """No number is made of one: Python says so of its class, which is not that of the constant."""
        if slot in ("__int__", "__float__", "__complex__") and self.kind is tuple and self.python_type() is not tuple:
            raise GraphBreak(FL0102, what=f"a number made of a {self.describe()}")
        return NotImplemented

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if operator == "+" and is_sequence(other, self.kind):
            return self.make(tracer, self.items(tracer) + py.items(tracer, other))
        if operator == "*" and py.has_type(other, int, bool):
            return self._repeated(tracer, tracer.constant(other))
        if operator == "+" and py.has_type(other, *_PLAIN_OPERANDS):
            raise_what(add, self.kind(), stand_in(py.type_of(other)))
        return NotImplemented

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if operator == "*" and py.has_type(other, int, bool):
            return self._repeated(tracer, tracer.constant(other))
        if operator == "+" and is_sequence(other, self.kind):
            return self.make(tracer, py.items(tracer, other) + self.items(tracer))
        return NotImplemented

    def _repeated(self, tracer: Tracer, times: int) -> Any:
        items = self.items(tracer)
        tracer.spend(len(items) * times if times > 0 else 0, "too many items")
        return self.make(tracer, items * times if times > 0 else [])

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if not is_sequence(other, self.kind):
            return NotImplemented
        # The very lists: a comparison of items may change them.
        mine, theirs = self.items(tracer), other.items(tracer) if isinstance(other, SequenceValue) else list(other)
        if operator in ("==", "!=") and len(mine) != len(theirs):
            return operator == "!="
        index = 0
        while index < min(len(mine), len(theirs)) and py.equal(tracer, mine[index], theirs[index]):
            index += 1
        if index >= min(len(mine), len(theirs)):
            return COMPARE[operator](len(mine), len(theirs))
        if operator in ("==", "!="):
            return operator == "!="
        return py.compare(tracer, operator, mine[index], theirs[index])

    def attribute(self, tracer: Tracer, name: str) -> Any:
        return method_of(self, tracer, name)

    def graph_argument(self, tracer: Tracer) -> Any:
        return self.kind(tracer.graph_argument(item) for item in self.items(tracer))

    def constant(self, tracer: Tracer) -> Any:
        return self.kind(tracer.constant(item) for item in self.items(tracer))

    def text(self, tracer: Tracer, conversion: str) -> str:
        shown = [tracer.text(item, "repr") for item in self.items(tracer)]
        if self.kind is tuple:
            return f"({shown[0]},)" if len(shown) == 1 else f"({', '.join(shown)})"
        return f"[{', '.join(shown)}]"

    def text_again(self) -> str | None:
        return _TEXT_AGAIN.get(self.kind)

    def parts(self) -> list[Any]:
        return self._items or []

    @method
    def index(self, tracer: Tracer, item: Any, start: Any = 0, stop: Any = sys.maxsize, /) -> Any:
        items = self.items(tracer)
        bounds = slice(tracer.as_index(start), tracer.as_index(stop)).indices(len(items))
        for position in range(*bounds):
            if position < len(items) and py.equal(tracer, items[position], item):
                return position
        if self.kind is list:
            raise_what([].index, shown_as(tracer.text(item, "repr")))
        raise_what(().index, None)

    @method
    def count(self, tracer: Tracer, item: Any, /) -> Any:
        return sum(py.equal(tracer, member, item) for member in self.items(tracer))


_PLAIN_OPERANDS = (int, float, bool, str, bytes, complex, type(None), list, tuple, dict, set, frozenset)


def is_sequence(value: Any, kind: type) -> bool:
    """Whether `value` is a list or tuple whose items are its own; a torch.Size is a tuple too."""
    if not isinstance(value, Value):
        return isinstance(value, kind)
    return py.type_of(value) is kind or (isinstance(value, SequenceValue) and value.kind is kind)


class TupleValue(SequenceValue, models=tuple):
    """A tuple with at least one item that is not a constant, or that came from an input."""

    __slots__ = ()

    def know_items(self, tracer: Tracer) -> None:
        """Its items are what they are: guards keep none of it alive, and must not read from it what may be gone."""
        if self._items is None:
            self._items = [item if is_constant(item) else tracer.known_object(item) for item in self.concrete]

    def make(self, tracer: Tracer, items: list[Any]) -> Any:
        return make_tuple(items)

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if operator == "+" and py.type_of(other) is torch.Size:
            return tracer.size(self.items(tracer) + py.items(tracer, other))
        return super().binary(tracer, operator, other)

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if operator == "+" and py.type_of(other) is torch.Size:
            return tracer.size(py.items(tracer, other) + self.items(tracer))
        return super().reflected(tracer, operator, other)

    def key(self, tracer: Tracer) -> Any:
        items = self.items(tracer)
        keys = tuple(py.key_of(tracer, item) for item in items)
        return keys if is_constant(keys) else TupleKey(self, keys)

    def rebuild(self, emit: Emitter) -> None:
        for item in self.parts():
            emit.value(item)
        emit.build_tuple(len(self.parts()))


class ListValue(SequenceValue, models=list):
    """A list, whose items change in place.

    What is appended to an input that was not read waits in `_appended`: a program that only appends (to a log, say)
    does not depend on what the list holds.
    """

    __slots__ = ("_appended", "edits")
    item_access = "LIST_ITEM"
    kind: type = list

    def __init__(self, items: list[Any] | None, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(items, source, concrete)
        self._appended: list[Any] = []
        # How often it was changed: sorting looks whether somebody interferes.
        self.edits = 0

    def items(self, tracer: Tracer) -> list[Any]:
        if self._items is None and self._appended:
            tracer.journal.touch(self)
            super().items(tracer).extend(self._appended)
            self._appended = []
        return super().items(tracer)

    def make(self, tracer: Tracer, items: list[Any]) -> Any:
        return ListValue(items)

    def key(self, tracer: Tracer) -> Any:
        raise_unhashable(list)

    # -- changing ------------------------------------------------------------------------------------------------

    def change(self, tracer: Tracer) -> list[Any]:
        """The items, about to be changed in place."""
        items = self.items(tracer)
        tracer.journal.touch(self)
        self.edits += 1
        return items

    def add(self, tracer: Tracer, new: list[Any]) -> None:
        """Put items at the end, without looking at what is there."""
        tracer.journal.touch(self)
        self.edits += 1
        (self._appended if self._items is None else self._items).extend(new)

    def state(self) -> Any:
        items = None if self._items is None else list(self._items)
        return items, list(self._appended), *map(getattr, repeat(self), self.assigns)

    def restore(self, state: Any) -> None:
        items, self._appended, *others = state
        super().restore(others)
        if items is None or self._items is None:
            self._items = items
        else:
            self._items[:] = items  # iterators hold the list itself

    def parts(self) -> list[Any]:
        return self._appended if self._items is None else self._items

    def replay(self, emit: Emitter) -> None:
        if self._items is None:
            emit.source(self.source)
            emit.load_method("extend")
        emit.list_of(self.parts())
        if self._items is None:
            emit.call(1)
            emit.pop_top()
            return
        emit.source(self.source)
        emit.constant(slice(None))
        emit.store_subscript()

    def set_item(self, tracer: Tracer, key: Any, value: Any) -> None:
        index = _position(tracer, key, list)
        if isinstance(index, slice):
            if not (defines(py.type_of(value), "__iter__") or defines(py.type_of(value), "__getitem__")):
                # The words differ between versions.
                raise GraphBreak(FL0102, what=f"assignment of {py.describe(value)} to a slice")
            new = py.listed(
                tracer, py.iterate(tracer, value)
            )  # not the object but its iterator is asked for the length
        else:
            new = value
        items = self.change(tracer)
        try:
            items[index] = new
        except IndexError:
            raise_what(setitem, [], 0, None)
        except ValueError as error:
            raise raised_from(error) from None

    def delete_item(self, tracer: Tracer, key: Any) -> None:
        index = _position(tracer, key, list)
        try:
            del self.change(tracer)[index]
        except IndexError:
            raise_what(delitem, [], 0)

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if operator == "+=":
            self.extend(tracer, other)
            return self
        if operator == "*=" and py.has_type(other, int, bool):
            repeated = self._repeated(tracer, tracer.constant(other)).items(tracer)
            self.change(tracer)[:] = repeated
            return self
        return super().binary(tracer, operator, other)

    @method
    def append(self, tracer: Tracer, item: Any, /) -> None:
        self.add(tracer, [item])

    @method
    def extend(self, tracer: Tracer, iterable: Any, /) -> None:
        if not isinstance(iterable, Value) or iterable is self or py.has_type(iterable, list, tuple):
            self.add(tracer, py.listed(tracer, iterable))
            return
        for item in py.each(tracer, iterable, asks_length=self.kind is list):
            self.add(tracer, [item])

    @method
    def insert(self, tracer: Tracer, index: Any, item: Any, /) -> None:
        position = tracer.as_index(index)
        self.change(tracer).insert(position, item)

    @method
    def pop(self, tracer: Tracer, index: Any = -1, /) -> Any:
        position = tracer.as_index(index)
        items = self.change(tracer)
        if not items:
            raise_what([].pop)
        if not -len(items) <= position < len(items):
            raise_what([None].pop, 1)
        return items.pop(position)

    @method
    def remove(self, tracer: Tracer, item: Any, /) -> None:
        for position, member in enumerate(self.items(tracer)):
            if py.equal(tracer, member, item):
                del self.change(tracer)[position]
                return
        raise_what([].remove, None)

    @method
    def clear(self, tracer: Tracer) -> None:
        self.change(tracer).clear()

    @method
    def reverse(self, tracer: Tracer) -> None:
        self.change(tracer).reverse()

    @method
    def copy(self, tracer: Tracer) -> Any:
        return ListValue(list(self.items(tracer)))

    @method
    def sort(self, tracer: Tracer, *, key: Any = None, reverse: Any = False) -> None:
        backwards = direction(tracer, reverse)
        items = self.change(tracer)
        before = list(items)
        items.clear()  # a list is empty while it is sorted
        edits = self.edits
        order = list(range(len(before)))
        try:
            sort_positions(tracer, order, before, key, backwards)
        finally:  # where a comparison fails, the list stays as far as it was sorted
            was_changed = self.edits != edits
            items[:] = [before[i] for i in order]
        if was_changed:
            raise_by("given.sort(key=given.append)", given=[None])

    def rebuild(self, emit: Emitter) -> None:
        # The list may be reachable from itself: it is made first and filled after.
        emit.build_list(0)
        emit.remember(self)
        if self.parts():
            emit.list_of(self.parts())
            emit.list_extend()


class _SortKey:
    """Orders items by asking the traced program."""

    __slots__ = ("lift", "value")

    def __init__(self, tracer: Tracer, value: Any) -> None:
        self.lift = tracer
        self.value = value

    def __lt__(self, other: _SortKey) -> bool:
        return py.truth(self.lift, py.compare(self.lift, "<", self.value, other.value))


def _position(tracer: Tracer, key: Any, kind: type) -> int | slice:
    """A key of a sequence: an int or a slice of ints."""
    if py.type_of(key) is slice:
        return plain_slice(tracer, key)
    if not has_index_method(tracer, key):
        raise_what(getitem, kind(), stand_in(py.type_of(key)))
    return tracer.as_index(key)


def direction(tracer: Tracer, reverse: Any) -> bool:
    """Whether `reverse` says so; before Python 3.12 it had to be an integer."""
    if not issubclass(py.type_of(reverse), int):
        raise GraphBreak(FL0102, what=f"a sort with reverse={py.describe(reverse)}")
    return py.truth(tracer, reverse)


def sort_items(tracer: Tracer, items: list[Any], key: Any, reverse: bool) -> list[Any]:
    """A stable sort, comparing as the program would."""
    order = list(range(len(items)))
    sort_positions(tracer, order, items, key, reverse)
    return [items[i] for i in order]


def sort_positions(tracer: Tracer, order: list[int], items: list[Any], key: Any, reverse: bool) -> None:
    """Sort the positions of items by the items."""
    if key is not None and py.same(tracer, key, None):
        key = None
    keys = [item if key is None else py.call(tracer, key, [item], {}) for item in items]
    order.sort(key=lambda i: _SortKey(tracer, keys[i]), reverse=reverse)
