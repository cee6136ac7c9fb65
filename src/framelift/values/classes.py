"""Classes: reading their attributes and making instances."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, GraphBreak
from framelift.guards.source import Source
from framelift.values import protocol as py
from framelift.values.base import Value
from framelift.values.exceptions import ExceptionValue, raise_error
from framelift.values.lookup import (
    bind,
    class_lookup,
    is_data_descriptor,
    is_plain_class,
    is_subclass,
    mro_of,
    raw_lookup,
)
from framelift.values.objects import UserObjectValue

if TYPE_CHECKING:
    from framelift.capture.lift import Lift


class ClassValue(Value, models=type):
    """A class that existed before the frame; guarded by identity."""

    __slots__ = ()

    def note_facts(self, lift: Lift) -> None:
        assert self.source is not None
        lift.guard(self.source, "IS", self.concrete)

    def python_type(self) -> type:
        return type(self.concrete)

    def describe(self) -> str:
        return f"class {self.concrete.__qualname__}"

    def is_same(self, lift: Lift, other: Value) -> bool:
        self.note(lift)
        other.note(lift)
        return self.concrete is other.concrete

    def is_constant_object(self, lift: Lift, constant: Any) -> bool:
        self.note(lift)
        return False

    def attribute(self, lift: Lift, name: str) -> Any:
        cls = self.concrete
        meta = type(cls)
        if name in _PLAIN_ATTRIBUTES and raw_lookup(meta, name) is type.__dict__.get(name):
            return self._plain(lift, name)
        on_meta = class_lookup(lift, meta, name) if meta is not type else None
        if on_meta is not None and is_data_descriptor(on_meta.raw):
            return bind(lift, on_meta, self, meta)
        found = class_lookup(lift, cls, name)
        if found is not None:
            return bind(lift, found, None, cls)
        if on_meta is None and meta is type:
            on_meta = class_lookup(lift, meta, name)
        if on_meta is not None:
            return bind(lift, on_meta, self, meta)
        fallback = class_lookup(lift, meta, "__getattr__") if meta is not type else None
        if fallback is not None:
            return py.call(lift, bind(lift, fallback, self, meta), [name], {})
        raise_error(AttributeError, f"type object '{cls.__name__}' has no attribute '{name}'")

    def _plain(self, lift: Lift, name: str) -> Any:
        """Attributes the metaclass `type` computes from the class itself."""
        known = lift.sources.known(self.concrete)
        value = type.__getattribute__(self.concrete, name)
        if name in ("__mro__", "__bases__"):
            return lift.wrap(value, known.child("GETATTR", name))
        return value

    def set_attribute(self, lift: Lift, name: str, value: Any) -> None:
        self.refuse(f"assignment of the class attribute {name!r}")

    # -- instances -----------------------------------------------------------------------------------------------

    def call(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        cls = self.concrete
        model = lift.model_of(cls)
        if model is not None:
            return model(lift, args, kwargs)
        meta_call = raw_lookup(type(cls), "__call__")
        if meta_call is not type.__dict__["__call__"]:
            found = class_lookup(lift, type(cls), "__call__")
            assert found is not None
            return py.call(lift, bind(lift, found, self, type(cls)), args, kwargs)
        return self.instantiate(lift, args, kwargs)

    def instantiate(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """`type.__call__(cls, *args, **kwargs)`."""
        cls = self.concrete
        if issubclass(cls, BaseException):
            return self._make_exception(lift, args, kwargs)
        if not is_plain_class(cls):
            raise GraphBreak(FL0102, what=f"class {cls.__qualname__}")
        new = class_lookup(lift, cls, "__new__")
        init = class_lookup(lift, cls, "__init__")
        assert new is not None and init is not None
        if new.raw is object.__new__:
            if init.raw is object.__init__ and (args or kwargs):
                raise_error(TypeError, f"{cls.__name__}() takes no arguments")
            instance: Any = make_instance(cls)
        else:
            instance = py.call(lift, bind(lift, new, None, cls), [self, *args], kwargs)
            if not is_subclass(py.type_of(instance), cls):
                return instance
        if init.raw is not object.__init__:
            py.call(lift, bind(lift, init, instance, cls), args, kwargs)
        return instance

    def _make_exception(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        cls = self.concrete
        for name in ("__new__", "__init__"):
            if isinstance(raw_lookup(cls, name), (types.FunctionType, staticmethod)):
                raise GraphBreak(FL0102, what=f"exception class {cls.__qualname__} with its own {name}")
        if kwargs:
            raise GraphBreak(FL0102, what=f"exception class {cls.__qualname__} with keywords")
        return ExceptionValue(cls, tuple(args))

    def key(self, lift: Lift) -> Any:
        return super().key(lift)

    def binary(self, lift: Lift, operator: str, other: Any) -> Any:
        if operator == "|":
            self.refuse("union of types")
        return NotImplemented

    def text(self, lift: Lift, conversion: str) -> str:
        if type(self.concrete) is not type:
            self.refuse(f"{conversion}() with a metaclass")
        return repr(self.concrete)


_PLAIN_ATTRIBUTES = frozenset(
    {"__name__", "__qualname__", "__mro__", "__bases__", "__dictoffset__", "__flags__", "__basicsize__"}
)


def make_instance(cls: type) -> UserObjectValue:
    """A fresh instance, as `object.__new__(cls)` makes it."""
    return UserObjectValue(cls)


class SuperValue(Value):
    """`super()`: attribute lookup that starts after `start` in the MRO of the instance's class."""

    __slots__ = ("start", "instance", "cls")

    def __init__(self, start: type, instance: Any, cls: type) -> None:
        super().__init__()
        self.start = start
        self.instance = instance
        self.cls = cls

    def python_type(self) -> type:
        return super

    def attribute(self, lift: Lift, name: str) -> Any:
        mro = mro_of(self.cls)
        position = mro.index(self.start) + 1
        note_mro(lift, self.cls, position + 1)
        # The next class answers for everything after it, as long as both orders agree.
        following = mro[position:]
        for base in following:
            if name in type.__dict__["__dict__"].__get__(base):
                raw = type.__dict__["__dict__"].__get__(base)[name]
                break
        else:
            raise_error(AttributeError, f"'super' object has no attribute '{name}'")
        if raw_lookup(following[0], name) is not raw:
            self.refuse(f"lookup of {name!r} across branches of the inheritance")
        found = class_lookup(lift, following[0], name)
        assert found is not None
        instance = None if isinstance(self.instance, ClassValue) and self.instance.concrete is self.cls else self.instance
        return bind(lift, found, instance, self.cls)

    def set_attribute(self, lift: Lift, name: str, value: Any) -> None:
        self.refuse("assignment through super()")


def note_mro(lift: Lift, cls: type, count: int) -> None:
    """Guard the first `count` classes of an MRO."""
    mro = mro_of(cls)
    source: Source = lift.sources.known(cls).child("GETATTR", "__mro__")
    lift.guard(source, "LENGTH", len(mro))
    for position, base in enumerate(mro[:count]):
        lift.guard(source.child("TUPLE_ITEM", position), "IS", base)
