"""Weak references: what they refer to never changes while it lives."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, GraphBreak
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.hash_keys import ReferenceKey
from framelift.values.core.lookup import mro_of, name_of, qualified_name_of, raw_lookup
from framelift.values.core.primitives import primitive
from framelift.values.objects.lifetimes import input_is_held, is_held

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator


class ReferenceValue(Value):
    """What references have in common: they are equal, and have one hash, if what they refer to has."""

    __slots__ = ()
    keeps_parts = False
    death_shows = True  # it is counted

    def alive(self, lift: Lift) -> Any:
        """What it refers to; a graph break where that may have died."""
        raise NotImplementedError

    def call(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if args or kwargs:
            self.refuse("calling with arguments")
        return self.alive(lift)

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        if operator not in ("==", "!="):
            return NotImplemented
        if not isinstance(other, ReferenceValue):
            return NotImplemented if not _is_reference(py.type_of(other)) else self.refuse("comparison")
        return py.compare(lift, operator, self.alive(lift), other.alive(lift))

    def key(self, lift: Lift) -> Any:
        return ReferenceKey(self, py.key_of(lift, self.alive(lift)))


class WeakReferenceValue(ReferenceValue, models=weakref.ReferenceType):
    """`weakref.ref(obj)` that existed before. The death of the object ends the entry.

    It is guarded by identity, unless it has a callback, which keeping it would have called, or has come to its end.
    """

    __slots__ = ()

    def note_facts(self, lift: Lift) -> None:
        assert self.source is not None
        if self._is_plain():
            lift.guard(self.source, "IS", self.concrete)
        else:
            super().note_facts(lift)

    def _is_plain(self) -> bool:
        is_one = type(self.concrete) is weakref.ReferenceType
        return is_one and self.concrete.__callback__ is None and self.concrete() is not None

    def alive(self, lift: Lift) -> Any:
        referent = self.concrete()
        if referent is None:
            self.refuse("use after its object has died")
        known = lift.inputs.value_of(referent)
        if known is not None and not input_is_held(lift, known):
            self.refuse("use after its object may have died")
        assert self.source is not None
        source = lift.sources.known(referent) if self._is_plain() else self.source.child("REFERENT")
        lift.guard(source, "NOT_IS", None)  # that it is alive is a fact by itself
        return lift.wrap(referent, source)

    def call(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if args or kwargs or self.concrete() is not None:
            return super().call(lift, args, kwargs)
        assert self.source is not None
        lift.guard(self.source.child("REFERENT"), "IS", None)
        return None

    def is_same(self, lift: Lift, other: Value) -> bool:
        return other.is_same(lift, self) if isinstance(other, MadeWeakReference) else super().is_same(lift, other)


def is_reference_class(cls: type) -> bool:
    """Whether instances are weak references that do what those of the very class do."""
    return _is_reference(cls) and all(raw_lookup(cls, name) is raw_lookup(weakref.ref, name) for name in _OWN)


def _is_reference(cls: type) -> bool:
    return any(base is weakref.ReferenceType for base in mro_of(cls))


_OWN = ("__call__", "__eq__", "__ne__", "__hash__", "__getattribute__")


class MadeWeakReference(ReferenceValue):
    """`kind(referent)`, made by the program. Whether the object lives is answered only if it surely does."""

    __slots__ = ("referent",)

    def __init__(self, referent: Value) -> None:
        super().__init__()
        self.referent = referent

    def python_type(self) -> type:
        return weakref.ReferenceType

    def alive(self, lift: Lift) -> Any:
        is_new = self.referent.source is None or self.referent.source.is_new
        if not (is_held if is_new else input_is_held)(lift, self.referent):
            self.refuse("use after its object may have died")
        return self.referent

    def attribute(self, lift: Lift, name: str) -> Any:
        if name == "__callback__":
            return None
        if name == "__class__":
            return lift.known_object(self.python_type())
        return super().attribute(lift, name)

    def is_same(self, lift: Lift, other: Value) -> bool:
        """An object has one weak reference without a callback, however often one is asked for."""
        if type(other) is type(self):
            return py.same(lift, self.referent, other.referent)
        if not isinstance(other, WeakReferenceValue):
            return False if other.source is None else self.refuse("'is'")
        other.note(lift)
        if not other._is_plain():
            self.refuse("'is'")
        return py.same(lift, self.referent, other.alive(lift))

    def parts(self) -> list[Any]:
        return [self.referent]

    def rebuild(self, generate: Generator) -> None:
        generate.callable(weakref.ref)
        generate.value(self.referent)
        generate.call(1)


class WeakProxyValue(MadeWeakReference):
    """`weakref.proxy(referent)`: does what its object does."""

    __slots__ = ()
    answers_operators = False

    def python_type(self) -> type:
        is_callable = raw_lookup(py.type_of(self.referent), "__call__") is not NotImplemented
        return weakref.CallableProxyType if is_callable else weakref.ProxyType

    def call(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return py.call(lift, self.alive(lift), args, kwargs)

    def attribute(self, lift: Lift, name: str) -> Any:
        return py.attribute(lift, self.alive(lift), name)

    def set_attribute(self, lift: Lift, name: str, value: Any) -> None:
        py.set_attribute(lift, self.alive(lift), name, value)

    def delete_attribute(self, lift: Lift, name: str) -> None:
        py.delete_attribute(lift, self.alive(lift), name)

    def truth(self, lift: Lift) -> bool:
        return py.truth(lift, self.alive(lift))

    def length(self, lift: Lift) -> Any:
        return py.length(lift, self.alive(lift))

    def item(self, lift: Lift, key: Any) -> Any:
        return py.item(lift, self.alive(lift), key)

    def set_item(self, lift: Lift, key: Any, value: Any) -> None:
        py.set_item(lift, self.alive(lift), key, value)

    def delete_item(self, lift: Lift, key: Any) -> None:
        py.delete_item(lift, self.alive(lift), key)

    def iterate(self, lift: Lift) -> Any:
        return py.iterate(lift, self.alive(lift))

    def contains(self, lift: Lift, item: Any) -> Any:
        return py.contains(lift, self.alive(lift), item)

    def unary(self, lift: Lift, operator: str) -> Any:
        return py.unary(lift, operator, self.alive(lift))

    def binary(self, lift: Lift, operator: str, other: Any) -> Any:
        other = other.alive(lift) if isinstance(other, WeakProxyValue) else other
        return py.binary(lift, operator, self.alive(lift), other)

    def reflected(self, lift: Lift, operator: str, other: Any) -> Any:
        return py.binary(lift, operator, other, self.alive(lift))

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        other = other.alive(lift) if isinstance(other, WeakProxyValue) else other
        return py.compare(lift, operator, self.alive(lift), other)

    def key(self, lift: Lift) -> Any:
        py.raise_error(TypeError, f"unhashable type: 'weakref.{self.python_type().__name__}'")

    def text(self, lift: Lift, conversion: str) -> str:
        if conversion == "repr":
            self.refuse("repr(), which shows addresses,")
        return lift.text(self.alive(lift), conversion)

    def rebuild(self, generate: Generator) -> None:
        generate.callable(weakref.proxy)
        generate.value(self.referent)
        generate.call(1)


@primitive(weakref.ReferenceType)
def _reference(lift: Lift, obj: Any, callback: Any = None, /) -> Any:
    return MadeWeakReference(_referent(lift, obj, callback))


@primitive(weakref.proxy)
def _proxy(lift: Lift, obj: Any, callback: Any = None, /) -> Any:
    return WeakProxyValue(_referent(lift, obj, callback))


def _referent(lift: Lift, obj: Any, callback: Any) -> Value:
    if callback is not None:
        raise GraphBreak(FL0102, what="a weak reference with a callback")
    cls = lift.type_of(obj)
    if not _has_weak_references(cls):
        py.raise_error(TypeError, f"cannot create weak reference to '{name_of(cls)}' object")
    if not isinstance(obj, Value):
        raise GraphBreak(FL0102, what=f"weakref.ref() of {qualified_name_of(cls)}")
    lift.watched.append(obj)
    return obj


def _has_weak_references(cls: type) -> bool:
    return bool(type.__dict__["__weakrefoffset__"].__get__(cls))
