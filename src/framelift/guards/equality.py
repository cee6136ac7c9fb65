"""When an object that is found counts as the one that was seen: constants by value, anything else by identity."""

from __future__ import annotations

import struct
import weakref
from collections.abc import Iterable
from typing import Any

from framelift.native import core


def is_instance(obj: Any, classes: type | tuple[type, ...]) -> bool:
    """`isinstance` by the real class: an object may pretend to another `__class__` with code of its own."""
    return issubclass(type(obj), classes)


def has_type(obj: Any, classes: Iterable[type]) -> bool:
    """Whether an object is of exactly one of these types. Not `in`: the metaclass of its type may have an `==`."""
    kind = type(obj)
    return any(kind is cls for cls in classes)


def is_constant(value: Any) -> bool:
    """Whether `value` is compared by value: its type is C code all the way down."""
    kind = type(value)
    if not core.is_constant_type(kind):
        return False
    if kind is slice:
        return is_constant(value.start) and is_constant(value.stop) and is_constant(value.step)
    return all(map(is_constant, value)) if issubclass(kind, (tuple, frozenset)) else True


def constants_equal(expected: Any, found: Any) -> bool:
    """The same type and value all the way down; floats bit for bit."""
    kind = type(expected)
    if kind is not type(found):
        return False
    if expected is found:
        return True
    if kind is float:
        return struct.pack("d", expected) == struct.pack("d", found)
    if kind is complex:
        return constants_equal(expected.real, found.real) and constants_equal(expected.imag, found.imag)
    if is_instance(expected, tuple):
        return len(expected) == len(found) and all(map(constants_equal, expected, found))
    if kind is frozenset:
        return len(expected) == len(found) and all(any(constants_equal(a, b) for b in found) for a in expected)
    if kind is slice:
        return all(constants_equal(getattr(expected, part), getattr(found, part)) for part in ("start", "stop", "step"))
    return is_constant(expected) and bool(expected == found)


def same_object(expected: Any, found: Any) -> bool:
    """Identity; what the tree cannot hold it tells by its address."""
    return id(found) == expected.address if type(expected) is core.ByParts else expected is found


def refer_to_same(expected: Any, found: Any) -> bool:
    """Whether two are weak references to one living object."""
    if type(expected) is not weakref.ref or type(found) is not weakref.ref:
        return False
    alive = expected()
    return alive is not None and alive is found()


def same_item(expected: Any, found: Any) -> bool:
    """By value if it is a constant, else by identity."""
    return constants_equal(expected, found) if is_constant(expected) else same_object(expected, found)


# A tuple is held by its items, which are as many as the tree has room for.
_MOST_ITEMS = 2


def can_be_held(key: Any) -> bool:
    """Whether a guard tree can hold a key of a dict: by value, weakly, or by its parts."""
    if is_constant(key) or _takes_weak_references(key):
        return True
    if type(key) is tuple:
        return len(key) <= _MOST_ITEMS and all(is_constant(item) or _takes_weak_references(item) for item in key)
    return core.is_enum_member(key) or (type(key) is weakref.ref and key.__callback__ is None)


def _takes_weak_references(obj: Any) -> bool:
    return bool(type.__dict__["__weakrefoffset__"].__get__(type(obj)))
