"""Weak references: what they refer to never changes while it lives."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, GraphBreak
from framelift.values.core import protocol as py
from framelift.values.core.base import Call, Value
from framelift.values.core.hash_keys import ReferenceKey
from framelift.values.core.lookup import mro_of, qualified_name_of, raw_lookup
from framelift.values.core.primitives import primitive
from framelift.values.core.refusals import Operation
from framelift.values.core.stand_ins import raise_unhashable, raise_what, stand_in
from framelift.values.objects.lifetimes import input_is_held, is_held

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


class ReferenceValue(Value):
    """What references have in common: they are equal, and have one hash, if what they refer to has."""

    __slots__ = ()
    keeps_parts = False
    death_shows = True  # it is counted

    def alive(self, tracer: Tracer) -> Any:
        """What it refers to; a graph break where that may have died."""
        raise NotImplementedError

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if args or kwargs:
            self.refuse("calling with arguments")
        return self.alive(tracer)

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if operator not in ("==", "!="):
            return NotImplemented
        if not isinstance(other, ReferenceValue):
            return NotImplemented if not _is_reference(py.type_of(other)) else self.refuse("comparison")
        return py.compare(tracer, operator, self.alive(tracer), other.alive(tracer))

    def key(self, tracer: Tracer) -> Any:
        return ReferenceKey(self, py.key_of(tracer, self.alive(tracer)))


class WeakReferenceValue(ReferenceValue, models=weakref.ReferenceType):
    """`weakref.ref(obj)` that existed before. The death of the object ends the entry.

    It is guarded by identity, unless it has a callback, which keeping it would have called, or has come to its end.
    """

    __slots__ = ()

    def note_facts(self, tracer: Tracer) -> None:
        assert self.source is not None
        if self._is_plain():
            tracer.guard(self.source, "IS", self.concrete)
        else:
            super().note_facts(tracer)

    def _is_plain(self) -> bool:
        is_one = type(self.concrete) is weakref.ReferenceType
        return is_one and self.concrete.__callback__ is None and self.concrete() is not None

    def alive(self, tracer: Tracer) -> Any:
        referent = self.concrete()
        if referent is None:
            self.refuse("use after its object has died")
        known = tracer.inputs.value_of(referent)
        if known is not None and not input_is_held(tracer, known):
            self.refuse(Operation.MAY_HAVE_DIED)
        assert self.source is not None
        source = tracer.sources.known(referent) if self._is_plain() else self.source.child("REFERENT")
        tracer.guard(source, "NOT_IS", None)  # that it is alive is a fact by itself
        return tracer.wrap(referent, source)

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if args or kwargs or self.concrete() is not None:
            return super().call(tracer, args, kwargs)
        assert self.source is not None
        tracer.guard(self.source.child("REFERENT"), "IS", None)
        return None

    def is_same(self, tracer: Tracer, other: Value) -> bool:
        return other.is_same(tracer, self) if isinstance(other, MadeWeakReference) else super().is_same(tracer, other)


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

    def alive(self, tracer: Tracer) -> Any:
        is_new = self.referent.source is None or self.referent.source.is_new
        if not (is_held if is_new else input_is_held)(tracer, self.referent):
            self.refuse(Operation.MAY_HAVE_DIED)
        return self.referent

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "__callback__":
            return None
        if name == "__class__":
            return tracer.known_object(self.python_type())
        return super().attribute(tracer, name)

    def is_same(self, tracer: Tracer, other: Value) -> bool:
        """An object has one weak reference without a callback, however often one is asked for."""
        if type(other) is type(self):
            return py.same(tracer, self.referent, other.referent)
        if not isinstance(other, WeakReferenceValue):
            return False if other.source is None else self.refuse(Operation.IDENTITY)
        other.note(tracer)
        if not other._is_plain():
            self.refuse(Operation.IDENTITY)
        return py.same(tracer, self.referent, other.alive(tracer))

    def parts(self) -> list[Any]:
        return [self.referent]

    def made_by(self) -> Call:
        return weakref.ref, [self.referent]


class WeakProxyValue(MadeWeakReference):
    """`weakref.proxy(referent)`: does what its object does."""

    __slots__ = ()
    answers_operators = False

    def python_type(self) -> type:
        is_callable = raw_lookup(py.type_of(self.referent), "__call__") is not NotImplemented
        return weakref.CallableProxyType if is_callable else weakref.ProxyType

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return py.call(tracer, self.alive(tracer), args, kwargs)

    def attribute(self, tracer: Tracer, name: str) -> Any:
        return py.attribute(tracer, self.alive(tracer), name)

    def set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        py.set_attribute(tracer, self.alive(tracer), name, value)

    def delete_attribute(self, tracer: Tracer, name: str) -> None:
        py.delete_attribute(tracer, self.alive(tracer), name)

    def truth(self, tracer: Tracer) -> bool:
        return py.truth(tracer, self.alive(tracer))

    def length(self, tracer: Tracer) -> Any:
        return py.length(tracer, self.alive(tracer))

    def item(self, tracer: Tracer, key: Any) -> Any:
        return py.item(tracer, self.alive(tracer), key)

    def set_item(self, tracer: Tracer, key: Any, value: Any) -> None:
        py.set_item(tracer, self.alive(tracer), key, value)

    def delete_item(self, tracer: Tracer, key: Any) -> None:
        py.delete_item(tracer, self.alive(tracer), key)

    def iterate(self, tracer: Tracer) -> Any:
        return py.iterate(tracer, self.alive(tracer))

    def contains(self, tracer: Tracer, item: Any) -> Any:
        return py.contains(tracer, self.alive(tracer), item)

    def unary(self, tracer: Tracer, operator: str) -> Any:
        return py.unary(tracer, operator, self.alive(tracer))

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        other = other.alive(tracer) if isinstance(other, WeakProxyValue) else other
        return py.binary(tracer, operator, self.alive(tracer), other)

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        return py.binary(tracer, operator, other, self.alive(tracer))

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        other = other.alive(tracer) if isinstance(other, WeakProxyValue) else other
        return py.compare(tracer, operator, self.alive(tracer), other)

    def key(self, tracer: Tracer) -> Any:
        raise_unhashable(self.python_type())

    def text(self, tracer: Tracer, conversion: str) -> str:
        if conversion == "repr":
            self.refuse("repr(), which shows addresses,")
        return tracer.text(self.alive(tracer), conversion)

    def made_by(self) -> Call:
        return weakref.proxy, [self.referent]


@primitive(weakref.ReferenceType)
def _reference(tracer: Tracer, obj: Any, callback: Any = None, /) -> Any:
    return MadeWeakReference(_referent(tracer, obj, callback))


@primitive(weakref.proxy)
def _proxy(tracer: Tracer, obj: Any, callback: Any = None, /) -> Any:
    return WeakProxyValue(_referent(tracer, obj, callback))


def _referent(tracer: Tracer, obj: Any, callback: Any) -> Value:
    if callback is not None:
        raise GraphBreak(FL0102, what="a weak reference with a callback")
    cls = tracer.type_of(obj)
    if not _has_weak_references(cls):
        raise_what(weakref.ref, stand_in(cls, __slots__=()))
    if not isinstance(obj, Value):
        raise GraphBreak(FL0102, what=f"weakref.ref() of {qualified_name_of(cls)}")
    tracer.watched.append(obj)
    return obj


def _has_weak_references(cls: type) -> bool:
    return bool(type.__dict__["__weakrefoffset__"].__get__(cls))
