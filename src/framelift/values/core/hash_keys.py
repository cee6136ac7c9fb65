"""What stands for an object in the hash tables of modelled dicts and sets, where the object itself cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from framelift.breaks import FL0107, GraphBreak
from framelift.values.core import protocol as py
from framelift.values.core.base import Identity, Value
from framelift.values.core.constants import is_constant

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

T = TypeVar("T")


def from_key(key: Any) -> Any:
    """The value a key stands for."""
    if isinstance(key, Identity):
        return key.value
    if isinstance(key, (TupleKey, EqualKey, ReferenceKey)):
        return key.value
    return key


class TupleKey:
    """A key made of a tuple that holds values."""

    __slots__ = ("value", "keys")

    def __init__(self, value: Value, keys: tuple[Any, ...]) -> None:
        self.value = value
        self.keys = keys

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TupleKey) and self.keys == other.keys

    def __hash__(self) -> int:
        return hash(self.keys)


class ReferenceKey:
    """A key that is a weak reference to what `referent` stands for."""

    __slots__ = ("value", "referent")

    def __init__(self, value: Value, referent: Any) -> None:
        self.value = value
        self.referent = referent

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReferenceKey) and self.referent == other.referent

    def __hash__(self) -> int:
        return hash((ReferenceKey, self.referent))


class EqualKey:
    """A key whose equality the program itself decides: its `__eq__` is traced when two keys have one hash.

    An answer is kept: residual code is generated from the same keys when nothing can be traced any more.
    """

    __slots__ = ("lift", "value", "hash", "answers", "has_effects")

    def __init__(self, tracer: Tracer, value: Any, hash: int | None = None) -> None:
        self.lift = tracer
        self.value = value
        # Whether the program can tell how often it was asked.
        self.has_effects = False
        self.hash: int = self._asked(lambda: value.hashed(tracer)) if hash is None else hash
        self.answers: dict[int, tuple[object, bool]] = {}

    def _asked(self, ask: Callable[[], T]) -> T:
        with self.lift.journal.watched() as changed:
            answer = ask()
        if any(not value.marks_only for value in changed if isinstance(value, Value)):
            self.has_effects = True
        return answer

    def __eq__(self, other: object) -> bool:
        known = self.answers.get(id(other)) or (other.answers.get(id(self)) if isinstance(other, EqualKey) else None)
        if known is None:
            self.lift.spend(1, "too many keys with one hash")
            answer = self._asked(lambda: py.equal(self.lift, self.value, from_key(other)))
            known = self.answers[id(other)] = (other, answer)
        return known[1]

    def __hash__(self) -> int:
        return self.hash


def given_key(tracer: Tracer, container: Value, obj: Any) -> Any:
    """What stands for a key or member of an input, whose keys are guarded: objects by identity."""
    if is_constant(obj):
        return obj
    key = py.key_of(tracer, tracer.known_object(obj))
    if isinstance(key, EqualKey) and key.has_effects:
        container.refuse("reading keys whose __hash__ has effects")  # the container itself need not ask them
    return key


def stored_again(key: Any) -> Any:
    """What a key stands for, in residual code that puts it into a container, which asks it for its hash again."""
    if isinstance(key, EqualKey) and key.has_effects:
        raise GraphBreak(FL0107, what="a container with keys whose __hash__ or __eq__ has effects")
    return from_key(key)


class MethodKey(EqualKey):
    """A key that is a method bound to an object: one method is equal to another, with a hash that nobody knows."""

    __slots__ = ()


class NumberKey(EqualKey):
    """A key that is a number nobody knows: it is found among its like only."""

    __slots__ = ()


def is_unknown_number(key: Any) -> bool:
    """Whether a key is a number nobody knows, or has one in it."""
    return type(key) is NumberKey or (type(key) is TupleKey and any(map(is_unknown_number, key.keys)))
