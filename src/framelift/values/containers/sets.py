"""Sets and frozen sets.

The members are kept in a real set of keys, changed by the very operations the program runs, so that its order is the
order of the program's set. Two equal sets can differ in order: that of a set that came from an input is guarded when it
is walked, as long as it was not changed. What was computed from one may be asked everything but its order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator
from types import BuiltinFunctionType, ModuleType
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, ref

from framelift.breaks import FL0107, GraphBreak
from framelift.guards.equality import can_be_held
from framelift.guards.source import Source
from framelift.values.containers.set_iterators import SetIterator
from framelift.values.core import protocol as py
from framelift.values.core.base import Identity, PlacedIdentity, Value
from framelift.values.core.constants import is_constant
from framelift.values.core.exceptions import raise_error
from framelift.values.core.hash_keys import EqualKey, ReferenceKey, from_key, given_key, is_unknown_number, stored_again
from framelift.values.core.lengths import given_length, given_truth
from framelift.values.core.lookup import has_default, is_fixed, mro_of, raw_lookup
from framelift.values.core.methods import method, method_of
from framelift.values.core.stand_ins import raise_no_attribute, raise_unhashable, raise_what

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

_OPERATORS = {"|": "union", "&": "intersection", "-": "difference", "^": "symmetric_difference"}
_IN_PLACE = {
    "|=": "update",
    "&=": "intersection_update",
    "-=": "difference_update",
    "^=": "symmetric_difference_update",
}
# Types whose distinct members have one order, whatever order they come in.
_TOTALLY_ORDERED = (int, str)
# How long an order of insertion is looked for.
_EFFORT = 400


def _has_known_hash(member: Any) -> bool:
    """Whether a key is where the real set has what it stands for."""
    return type(member) in (EqualKey, PlacedIdentity) or is_constant(member)


def _can_be_known(member: Any) -> bool:
    """Whether a member of an input is a constant, or a function or class of C."""
    if type(member) is BuiltinFunctionType:
        return type(member.__self__) is ModuleType
    return is_constant(member) or (type(member) is type and is_fixed(member))


def _is_class(obj: Any) -> bool:
    return any(base is type for base in mro_of(type(obj)))


def _leads_to_argument(source: Source) -> bool:
    while source.parent is not None:
        source = source.parent
    return source.access == "ARG"


class SetValue(Value, models=(set, frozenset)):
    """`_members` are keys; `ordered` says that their order is the real set's; `log` is what an input must replay."""

    __slots__ = ("_members", "kind", "ordered", "log")

    def __init__(
        self,
        members: set[Any] | frozenset[Any] | None,
        kind: type = set,
        source: Source | None = None,
        concrete: Any = None,
        ordered: bool = True,
    ) -> None:
        super().__init__(source, concrete)
        self._members: Any = members
        self.kind = kind
        self.ordered = ordered
        self.log: list[tuple[str, tuple[Any, ...]]] = []

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(None, type(obj), source, obj, ordered=False)

    def python_type(self) -> type:
        return self.kind

    def members(self, tracer: Tracer) -> set[Any]:
        if self._members is None:
            assert self.source is not None
            real = tuple(self.concrete)
            if not all(map(can_be_held, real)):
                self.refuse("use with members of which one cannot be guarded")
            if tracer.steps.owns_arguments and not all(map(_can_be_known, real)) and _leads_to_argument(self.source):
                self.refuse("use with members that may have been made in this call")  # guards would fit no other
            tracer.guard(self.source, "SET_EQUALS", real)
            self._members = {given_key(tracer, self, member) for member in real}
        members: set[Any] = self._members
        return members

    def make(self, members: Any, ordered: bool) -> Any:
        return SetValue(members, self.kind, ordered=ordered)

    def in_order(self, tracer: Tracer) -> bool:
        """Whether the order of the members is the real set's."""
        members = self.members(tracer)
        return len(members) < 2 or (self.ordered and all(map(_has_known_hash, members)))

    def listed(self, tracer: Tracer, purpose: str) -> list[Any]:
        """The members in the order of the real set."""
        if self.in_order(tracer):
            return list(self.members(tracer))
        if self.source is None or self.log:
            self.refuse(f"{purpose} in an order that is not known")
        order = tuple(self.concrete)
        tracer.guard(self.source, "SET_ORDER", order)
        return [given_key(tracer, self, member) for member in order]

    def sortable(self, tracer: Tracer) -> list[Any] | None:
        """The members for a use that does not depend on their order because they have one of their own; or None."""
        members = self.members(tracer)
        kinds = {type(member) for member in members}
        return list(members) if len(kinds) == 1 and kinds.pop() in _TOTALLY_ORDERED else None

    # -- reading ---------------------------------------------------------------------------------------------------

    def truth(self, tracer: Tracer) -> bool:
        return given_truth(tracer, self) if self._members is None else bool(self._members)

    def length(self, tracer: Tracer) -> Any:
        return given_length(tracer, self) if self._members is None else len(self._members)

    def contains(self, tracer: Tracer, item: Any) -> Any:
        found = item.is_among(tracer, self.members) if isinstance(item, Value) else None
        if found is not None:
            return found
        key = _sought(tracer, item)
        if self._members is None and isinstance(key, Identity) and _is_class(key.value.concrete):
            if not all(map(_can_be_known, self.concrete)):
                return self._contains_class(tracer, key.value)
        if self._members is None and type(key) is ReferenceKey and isinstance(key.referent, Identity):
            return self._contains_reference(tracer, key.referent.value)
        if is_unknown_number(key) and not all(map(is_unknown_number, self.members(tracer))):
            self.refuse("looking for a number that is not known yet")
        return key in self.members(tracer)

    def _contains_class(self, tracer: Tracer, value: Value) -> bool:
        """Whether an input that was not read has a class as a member: only that is guarded."""
        assert self.source is not None
        found = any(member is value.concrete for member in self.concrete)
        tracer.guard(self.source, "MEMBER" if found else "NO_MEMBER", value.concrete)
        return found

    def _contains_reference(self, tracer: Tracer, value: Value) -> bool:
        """Look for a weak reference to an object that is equal to itself only."""
        if value.source is None or value.source.is_new:
            return False  # nothing that was there before refers to it
        assert self.source is not None
        tracer.guard(value.source, "IS", value.concrete)
        stored = (member for member in self.concrete if type(member) is ReferenceType)
        found = any(member() is value.concrete for member in stored)
        tracer.guard(self.source, "MEMBER" if found else "NO_MEMBER", ref(value.concrete))
        return found

    def iterate(self, tracer: Tracer) -> Any:
        return SetIterator(self, self.listed(tracer, "iteration"))

    def key(self, tracer: Tracer) -> Any:
        if self.kind is set:
            raise_unhashable(set)
        if not all(map(is_constant, self.members(tracer))):
            self.refuse("use as a key with members that are not plain constants")
        return frozenset(self.members(tracer))

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        theirs = _as_set(tracer, other)
        if theirs is None:
            return NotImplemented
        return py.COMPARE[operator](self.members(tracer), theirs.members(tracer))

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        theirs = _as_set(tracer, other)
        if theirs is None or py.has_type(other, *_VIEWS):  # a view of a dict makes a set of its own
            return NotImplemented
        if operator in _IN_PLACE and self.kind is set:
            self.change(tracer, _IN_PLACE[operator], theirs)
            return self
        name = _OPERATORS.get(operator.removesuffix("="))
        return NotImplemented if name is None else self.combine(tracer, name, theirs)

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        theirs = _as_set(tracer, other)
        name = _OPERATORS.get(operator)
        if theirs is None or name is None or py.has_type(other, *_VIEWS):
            return NotImplemented
        return theirs.combine(tracer, name, self)

    def combine(self, tracer: Tracer, name: str, *others: SetValue) -> Any:
        """`self.<name>(*others)`: a new set."""
        ordered = all(part.in_order(tracer) for part in (self, *others))
        real = self.members(tracer) if self.kind is set else frozenset(self.members(tracer))
        return self.make(getattr(real, name)(*[other.operand(tracer) for other in others]), ordered)

    def operand(self, tracer: Tracer) -> Any:
        return self.members(tracer)

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if self.kind is frozenset and name in _CHANGING:
            raise_no_attribute(frozenset, name)
        return method_of(self, tracer, name)

    def text(self, tracer: Tracer, conversion: str) -> str:
        shown = ", ".join(tracer.text(item, "repr") for item in py.items(tracer, self))
        if self.kind is frozenset:
            return f"frozenset({{{shown}}})" if shown else "frozenset()"
        return f"{{{shown}}}" if shown else "set()"

    def text_again(self) -> str | None:
        return f"{self.kind.__name__}(...)"

    def stored_keys(self, tracer: Tracer) -> list[Any] | None:
        return list(self.members(tracer)) if self.in_order(tracer) else None

    def constant(self, tracer: Tracer) -> Any:
        return self.kind(tracer.constant(from_key(key)) for key in self.listed(tracer, "use"))

    # -- changing ------------------------------------------------------------------------------------------------

    def change(self, tracer: Tracer, name: str, *operands: Any) -> Any:
        """Run the method `name` on the members; operands are keys, or other sets."""
        members = self.members(tracer)
        tracer.journal.touch(self)
        plain = [operand.operand(tracer) if isinstance(operand, SetValue) else operand for operand in operands]
        self.ordered = self.ordered and all(o.in_order(tracer) for o in operands if isinstance(o, SetValue))
        result = getattr(members, name)(*plain)
        if self.source is not None:
            # Operands may change later: what is replayed is what they were.
            kept = [_kept(tracer, operand) if isinstance(operand, SetValue) else operand for operand in operands]
            self.log.append((name, tuple(kept)))
        return result

    def state(self) -> Any:
        return None if self._members is None else set(self._members), self.ordered, len(self.log)

    def restore(self, state: Any) -> None:
        # A copy can have another order than the set it was made of.
        before, self.ordered, length = state
        if self._members is not None and before is not None and list(before) != list(self._members):
            self.ordered = False
        self._members = before
        del self.log[length:]

    def replay(self, emit: Emitter) -> None:
        for name, operands in self.log:
            plain = [operand if isinstance(operand, SetValue) else stored_again(operand) for operand in operands]
            self.emit_change(emit, name, plain)
            emit.pop_top()

    def emit_change(self, emit: Emitter, name: str, operands: list[Any]) -> None:
        emit.source(self.source)
        emit.call_method(name, operands)

    @method
    def add(self, tracer: Tracer, item: Any, /) -> None:
        self.change(tracer, "add", py.key_of(tracer, item))

    @method
    def discard(self, tracer: Tracer, item: Any, /) -> None:
        self.change(tracer, "discard", _sought(tracer, item))

    @method
    def remove(self, tracer: Tracer, item: Any, /) -> None:
        key = _sought(tracer, item)
        if key not in self.members(tracer):
            raise_error(KeyError, item)
        self.change(tracer, "discard", key)

    @method
    def pop(self, tracer: Tracer) -> Any:
        if not self.members(tracer):
            raise_what(set().pop)
        if not self.in_order(tracer):
            self.refuse("pop() from an order that is not known")
        return from_key(self.change(tracer, "pop"))

    @method
    def clear(self, tracer: Tracer) -> None:
        self.change(tracer, "clear")
        self.ordered = True

    @method
    def copy(self, tracer: Tracer) -> Any:
        if self.python_type() is frozenset:
            return self
        members = self.members(tracer)
        return self.make(members.copy(), self.ordered)

    @method
    def update(self, tracer: Tracer, *others: Any) -> None:
        for other in others:
            if _is_made_on_the_way(tracer, other):
                for item in py.each(tracer, other):
                    self.add(tracer, item)
            else:
                self.change(tracer, "update", as_operand(tracer, other))

    @method
    def intersection_update(self, tracer: Tracer, *others: Any) -> None:
        self.change(tracer, "intersection_update", *self._to_intersect(tracer, others))

    @method
    def difference_update(self, tracer: Tracer, *others: Any) -> None:
        for other in others:  # one after the other: those before one that cannot be iterated count
            if _is_made_on_the_way(tracer, other):
                for item in py.each(tracer, other):
                    self.change(tracer, "discard", py.key_of(tracer, item))
            else:
                self.change(tracer, "difference_update", as_operand(tracer, other))

    @method
    def symmetric_difference_update(self, tracer: Tracer, other: Any, /) -> None:
        self.change(tracer, "symmetric_difference_update", as_operand(tracer, other))

    @method
    def union(self, tracer: Tracer, *others: Any) -> Any:
        return self.combine(tracer, "union", *[as_operand(tracer, other) for other in others])

    @method
    def intersection(self, tracer: Tracer, *others: Any) -> Any:
        return self.combine(tracer, "intersection", *self._to_intersect(tracer, others))

    def _to_intersect(self, tracer: Tracer, others: Iterable[Any]) -> Iterator[SetValue]:
        """Operands of an intersection: one that is no set is read until all that can be in it were found."""
        left = self.members(tracer)
        for other in others:
            operand = as_operand(tracer, other) if _is_set(tracer, other) else _read_until_met(tracer, left, other)
            left = left & operand.members(tracer)
            yield operand

    @method
    def difference(self, tracer: Tracer, *others: Any) -> Any:
        return self.combine(tracer, "difference", *[as_operand(tracer, other) for other in others])

    @method
    def symmetric_difference(self, tracer: Tracer, other: Any, /) -> Any:
        return self.combine(tracer, "symmetric_difference", as_operand(tracer, other))

    @method
    def issubset(self, tracer: Tracer, other: Any, /) -> Any:
        return self.members(tracer).issubset(as_operand(tracer, other).members(tracer))

    @method
    def issuperset(self, tracer: Tracer, other: Any, /) -> Any:
        if _is_set(tracer, other):
            return self.members(tracer).issuperset(as_operand(tracer, other).members(tracer))
        return all(map(self.members(tracer).__contains__, _keys_one_by_one(tracer, other)))

    @method
    def isdisjoint(self, tracer: Tracer, other: Any, /) -> Any:
        if _is_set(tracer, other):
            return self.members(tracer).isdisjoint(as_operand(tracer, other).members(tracer))
        return not any(map(self.members(tracer).__contains__, _keys_one_by_one(tracer, other)))

    # -- the way back ---------------------------------------------------------------------------------------------

    def keeps_order(self, keys: list[Any]) -> bool:
        """Whether the real set, outside the graph, will have these members in this order: an input does as it is."""
        if self.source is not None:
            return not self.log
        return self.ordered and list(self._members or ()) == keys and all(map(is_constant, keys))

    def parts(self) -> list[Any]:
        return [from_key(key) for key in self._members or ()]

    def ordered_members(self, *ways: Callable[[list[Any]], Any]) -> tuple[list[Any], Any]:
        """The members in an order that makes an equal set with the same order, and the first of the ways to make it."""
        members = list(self._members or ())
        if not all(map(is_constant, members)):
            return members, ways[0]
        for way in ways:
            found = _insertion_order(members, way)
            if found is not None:
                return found, way
        raise GraphBreak(FL0107, what=f"a {self.kind.__name__} with its order")

    def rebuild(self, emit: Emitter) -> None:
        members, way = self.ordered_members(self.kind, copied_set if self.kind is set else frozen_copied_set)
        parts = [stored_again(member) for member in members]
        may_hold_itself = way is set and any(isinstance(part, Value) for part in parts)
        if may_hold_itself:  # then it is made first and filled after
            emit.callable(set)
            emit.call(0)
            emit.remember(self)
            emit.load_method("update")
        else:
            emit.callable(way)
        emit.list_of(parts)
        emit.call(1)
        if may_hold_itself:
            emit.pop_top()
            emit.load_remembered(self)


def copied_set(members: list[Any]) -> set[Any]:
    """The copy of a set: its table is smaller than that of one that has grown, so its order can be another."""
    return set(members).copy()


def frozen_copied_set(members: list[Any]) -> frozenset[Any]:
    return frozenset(set(members))


def _insertion_order(members: list[Any], way: Callable[[list[Any]], Any]) -> list[Any] | None:
    """An order of insertion that leads to an order of iteration, if one is found.

    Where members collide, the first to come is where both want to be: who should come first goes before the other.
    """
    choose, start = random.Random(0), list(members)
    for _ in range(1 + _EFFORT // (len(members) + 1)):
        candidate = list(start)
        for _ in range(len(members) + 1):
            got = list(way(candidate))
            if got == members:
                return candidate
            first, other = next(pair for pair in zip(members, got, strict=True) if pair[0] is not pair[1])
            candidate.remove(first)
            candidate.insert(candidate.index(other), first)
        choose.shuffle(start)
    return None


_CHANGING = frozenset(dir(set)) - frozenset(dir(frozenset))


class ListedSet(SetValue):
    """The items of another iterable, as an operand: Python takes them one by one, in their order."""

    __slots__ = ("keys",)

    def __init__(self, keys: list[Any]) -> None:
        super().__init__(set(keys))
        self.keys = keys

    def in_order(self, tracer: Tracer) -> bool:
        return True

    def operand(self, tracer: Tracer) -> Any:
        return self.keys

    def parts(self) -> list[Any]:
        return [from_key(key) for key in self.keys]

    def rebuild(self, emit: Emitter) -> None:
        emit.list_of([stored_again(key) for key in self.keys])


def _sought(tracer: Tracer, item: Any) -> Any:
    """The key of something that is looked for: Python looks for a set as if it were frozen."""
    inside = _unhashable_set(tracer, item)
    return py.key_of(tracer, item) if inside is None else frozenset(inside.members(tracer))


def _unhashable_set(tracer: Tracer, value: Any) -> SetValue | None:
    """The members of a set, or of an instance of a subclass without a hash of its own."""
    if isinstance(value, SetValue):
        return value if value.kind is set else None
    if not isinstance(value, Value) or value.base is not set:
        return None
    has_hash = not has_default(tracer, value.python_type(), "__hash__", raw_lookup(set, "__hash__"))
    found: SetValue | None = None if has_hash else value.storage_of(tracer, set)
    return found


def _inside(tracer: Tracer, value: Any) -> Any:
    """What the C code of sets reads of an instance of a subclass: not by its `__iter__`. Anything else as it is."""
    inside = value.storage_of(tracer, set) if isinstance(value, Value) else None
    return value if inside is None else inside


def as_set(tracer: Tracer, value: Any) -> SetValue:
    """The set itself; a set of the items of any other iterable."""
    return value if isinstance(value, SetValue) else set_of_items(tracer, value)


def set_of_items(tracer: Tracer, iterable: Any) -> SetValue:
    """A set of the items, in no order that is known."""
    keys = iterable.members(tracer) if isinstance(iterable, SetValue) else py.keys(tracer, iterable)
    return SetValue(set(keys), ordered=False)


def make_set(tracer: Tracer, iterable: Any, kind: type = set) -> SetValue:
    """`kind(iterable)`."""
    operand = as_operand(tracer, iterable)
    return SetValue(kind(operand.operand(tracer)), kind, ordered=operand.in_order(tracer))


def _is_made_on_the_way(tracer: Tracer, iterable: Any) -> bool:
    """Whether code of the program's may run between two items."""
    if not isinstance(iterable, Value) or py.has_type(iterable, list, tuple, dict, *_VIEWS):
        return False
    return not _is_set(tracer, iterable)


def _is_set(tracer: Tracer, iterable: Any) -> bool:
    return _as_set(tracer, _inside(tracer, iterable)) is not None


def _read_until_met(tracer: Tracer, members: Collection[Any], iterable: Any) -> ListedSet:
    keys: list[Any] = []
    met: set[Any] = set()
    for key in _keys_one_by_one(tracer, iterable):
        keys.append(key)
        if key in members:
            met.add(key)
            if len(met) == len(members):
                break
    return ListedSet(keys)


def _keys_one_by_one(tracer: Tracer, iterable: Any) -> Iterator[Any]:
    """The items as keys, for who may stop before the last: that is not asked for then."""
    if isinstance(iterable, Value):
        iterable.note(tracer)
    for item in py.each(tracer, iterable):
        yield py.key_of(tracer, item)


def as_operand(tracer: Tracer, iterable: Any) -> SetValue:
    """Any iterable as the argument of a set's method."""
    if isinstance(iterable, Value):
        iterable.note(tracer)
    found = _as_set(tracer, _inside(tracer, iterable))
    return ListedSet(py.keys(tracer, iterable)) if found is None or py.has_type(iterable, *_VIEWS) else found


_VIEWS: Iterable[type] = (type({}.keys()), type({}.items()))


def _as_set(tracer: Tracer, other: Any) -> SetValue | None:
    """Another set-like operand; None when it is no set."""
    if isinstance(other, SetValue):
        return other
    if type(other) is frozenset:
        return SetValue(other, frozenset)
    if py.has_type(other, *_VIEWS):
        return SetValue(set(py.keys(tracer, other)), ordered=False)
    return None


def _kept(tracer: Tracer, operand: SetValue) -> SetValue:
    if isinstance(operand, ListedSet) or (operand.source is None and operand.kind is frozenset):
        return operand
    return SetValue(frozenset(operand.members(tracer)), frozenset, ordered=operand.ordered)
