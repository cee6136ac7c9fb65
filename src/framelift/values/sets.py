"""Sets and frozen sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framelift.guards.source import Source
from framelift.values import protocol as py
from framelift.values.base import Value
from framelift.values.constants import is_constant
from framelift.values.exceptions import raise_error
from framelift.values.iterators import SequenceIterator
from framelift.values.methods import method, method_of

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator


class SetValue(Value, models=(set, frozenset)):
    """Members by key, in insertion order; order-dependent operations are allowed on constants only."""

    __slots__ = ("_members", "kind")

    def __init__(
        self, members: dict[Any, None] | None, kind: type = set, source: Source | None = None, concrete: Any = None
    ) -> None:
        super().__init__(source, concrete)
        self._members = members
        self.kind = kind

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(None, type(obj), source, obj)

    def python_type(self) -> type:
        return self.kind

    def members(self, lift: Lift) -> dict[Any, None]:
        if self._members is None:
            assert self.source is not None
            if not all(map(is_constant, self.concrete)):
                self.refuse("use with members that are not plain constants")
            lift.guard(self.source, "SET_EQUALS", frozenset(self.concrete))
            self._members = dict.fromkeys(self.concrete)
        return self._members

    def make(self, members: dict[Any, None]) -> SetValue:
        return SetValue(members, self.kind)

    def truth(self, lift: Lift) -> bool:
        return bool(self.members(lift))

    def length(self, lift: Lift) -> Any:
        return len(self.members(lift))

    def contains(self, lift: Lift, item: Any) -> Any:
        return py.key_of(lift, item) in self.members(lift)

    def iterate(self, lift: Lift) -> Any:
        # The order of a real set depends on hashes and history: a copy made the same way gives it for constants.
        members = self.members(lift)
        if not all(map(is_constant, members)):
            if len(members) > 1:
                self.refuse("iteration over members that are not plain constants")
            return SequenceIterator([py.from_key(key) for key in members], type(iter(set())))
        if self.source is not None and self.concrete == set(members):
            return SequenceIterator(list(self.concrete), type(iter(set())))
        real: set[Any] = set()
        for member in members:
            real.add(member)
        return SequenceIterator(list(real), type(iter(set())))

    def key(self, lift: Lift) -> Any:
        if self.kind is set:
            raise_error(TypeError, "unhashable type: 'set'")
        return frozenset(self.members(lift))

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        theirs = _members_of(lift, other)
        if theirs is None:
            return NotImplemented
        return py.COMPARE[operator](set(self.members(lift)), set(theirs))

    def binary(self, lift: Lift, operator: str, other: Any) -> Any:
        theirs = _members_of(lift, other)
        plain = operator.removesuffix("=")
        if theirs is None or plain not in _ALGEBRA:
            return NotImplemented
        result = _ALGEBRA[plain](self.members(lift), theirs)
        if operator.endswith("=") and self.kind is set:
            self.change(lift, result)
            return self
        return self.make(result)

    def reflected(self, lift: Lift, operator: str, other: Any) -> Any:
        theirs = _members_of(lift, other)
        if theirs is None or operator not in _ALGEBRA:
            return NotImplemented
        return SetValue(_ALGEBRA[operator](theirs, self.members(lift)), py.type_of(other))

    def attribute(self, lift: Lift, name: str) -> Any:
        return method_of(self, lift, name)

    def text(self, lift: Lift, conversion: str) -> str:
        return repr(self.kind(lift.constant(item) for item in py.items(lift, self)))

    def constant(self, lift: Lift) -> Any:
        return self.kind(lift.constant(py.from_key(key)) for key in self.members(lift))

    # -- changing ------------------------------------------------------------------------------------------------

    def change(self, lift: Lift, members: dict[Any, None]) -> None:
        self.members(lift)
        lift.journal.touch(self)
        self._members = members

    def state(self) -> Any:
        return self._members

    def restore(self, state: Any) -> None:
        self._members = state

    def replay(self, generate: Generator) -> None:
        members = self._members or {}
        generate.source(self.source)
        generate.load_method("clear")
        generate.call(0)
        generate.pop_top()
        generate.source(self.source)
        generate.load_method("update")
        for key in members:
            generate.value(py.from_key(key))
        generate.build_list(len(members))
        generate.call(1)
        generate.pop_top()

    @method
    def add(self, lift: Lift, item: Any) -> None:
        self.change(lift, {**self.members(lift), py.key_of(lift, item): None})

    @method
    def discard(self, lift: Lift, item: Any) -> None:
        key = py.key_of(lift, item)
        self.change(lift, {k: None for k in self.members(lift) if k != key})

    @method
    def remove(self, lift: Lift, item: Any) -> None:
        if not self.contains(lift, item):
            raise_error(KeyError, item)
        self.discard(lift, item)

    @method
    def pop(self, lift: Lift) -> Any:
        for item in py.items(lift, self):
            self.discard(lift, item)
            return item
        raise_error(KeyError, "pop from an empty set")

    @method
    def clear(self, lift: Lift) -> None:
        self.change(lift, {})

    @method
    def copy(self, lift: Lift) -> Any:
        return self.make(dict(self.members(lift)))

    @method
    def update(self, lift: Lift, *others: Any) -> None:
        self.change(lift, _fold(lift, "|", self.members(lift), others))

    @method
    def intersection_update(self, lift: Lift, *others: Any) -> None:
        self.change(lift, _fold(lift, "&", self.members(lift), others))

    @method
    def difference_update(self, lift: Lift, *others: Any) -> None:
        self.change(lift, _fold(lift, "-", self.members(lift), others))

    @method
    def union(self, lift: Lift, *others: Any) -> Any:
        return self.make(_fold(lift, "|", self.members(lift), others))

    @method
    def intersection(self, lift: Lift, *others: Any) -> Any:
        return self.make(_fold(lift, "&", self.members(lift), others))

    @method
    def difference(self, lift: Lift, *others: Any) -> Any:
        return self.make(_fold(lift, "-", self.members(lift), others))

    @method
    def symmetric_difference(self, lift: Lift, other: Any) -> Any:
        return self.make(_fold(lift, "^", self.members(lift), (other,)))

    @method
    def issubset(self, lift: Lift, other: Any) -> Any:
        return set(self.members(lift)) <= set(keys_of(lift, other))

    @method
    def issuperset(self, lift: Lift, other: Any) -> Any:
        return set(self.members(lift)) >= set(keys_of(lift, other))

    @method
    def isdisjoint(self, lift: Lift, other: Any) -> Any:
        return set(self.members(lift)).isdisjoint(keys_of(lift, other))

    # -- the way back ---------------------------------------------------------------------------------------------

    def parts(self) -> list[Any]:
        return [py.from_key(key) for key in self._members or ()]

    def rebuild(self, generate: Generator) -> None:
        generate.callable(self.kind)
        for part in self.parts():
            generate.value(part)
        generate.build_list(len(self.parts()))
        generate.call(1)


_ALGEBRA = {
    "|": lambda a, b: {**a, **b},
    "&": lambda a, b: {k: None for k in a if k in b},
    "-": lambda a, b: {k: None for k in a if k not in b},
    "^": lambda a, b: {**{k: None for k in a if k not in b}, **{k: None for k in b if k not in a}},
}


def keys_of(lift: Lift, iterable: Any) -> dict[Any, None]:
    """The members of any iterable, as keys."""
    return dict.fromkeys(py.key_of(lift, item) for item in py.items(lift, iterable))


def _members_of(lift: Lift, other: Any) -> dict[Any, None] | None:
    """The members of another set-like operand; None when it is no set."""
    if isinstance(other, SetValue):
        return other.members(lift)
    if type(other) is frozenset:
        return dict.fromkeys(other)
    if py.type_of(other) in (type({}.keys()), type({}.items())):
        return keys_of(lift, other)
    return None


def _fold(lift: Lift, operator: str, members: dict[Any, None], others: tuple[Any, ...]) -> dict[Any, None]:
    for other in others:
        members = _ALGEBRA[operator](members, keys_of(lift, other))
    return dict(members)
