"""`functools.lru_cache`: what the real cache holds for the arguments is the result; a miss runs in Python.

That the entry is still there is a fact to guard, like any other of an object's state. Residual code asks the cache once
more, so that it counts the hit and knows what was asked for last. A cache the program made is a model in Python.
"""

from __future__ import annotations

import functools
import types
import typing
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, FL0102_OPERAND, FL0107, GraphBreak
from framelift.guards.equality import constants_equal
from framelift.guards.reading import lru_entries
from framelift.models.stdlib.functools import Cache, ask_again
from framelift.values.containers.dicts import MISSING, DictValue
from framelift.values.containers.namespaces import NamespaceValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Call, Value
from framelift.values.core.constants import is_constant
from framelift.values.core.construct import make_tuple
from framelift.values.core.lookup import Found, has_default, own_entries, register_binder
from framelift.values.core.methods import MethodValue, method
from framelift.values.core.primitives import primitive, primitive_of
from framelift.values.core.refusals import Operation
from framelift.values.core.stand_ins import raise_no_attribute
from framelift.values.functions.functions import BoundMethodValue
from framelift.values.functions.reloaded import twin_class
from framelift.values.objects.classes import ClassValue
from framelift.values.objects.instances import UserObjectValue
from framelift.values.tensors.deferred import call_later

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


class CachedFunctionValue(Value, models=functools._lru_cache_wrapper):
    """A function with a cache that existed before the frame."""

    __slots__ = ()

    def describe(self) -> str:
        name = self.concrete.__dict__.get("__qualname__")
        return f"{name if type(name) is str else 'a function'}, which is cached,"

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        assert self.source is not None
        model = primitive_of(self.concrete)
        if model is not None:
            tracer.guard(self.source, "IS", self.concrete)
            return model(tracer, args, kwargs)
        if _is_of_typing(self.concrete) and not kwargs:
            return self._type_expression(tracer, args)
        parts = [self._part(tracer, argument) for argument in args]
        named = {name: self._part(tracer, argument) for name, argument in kwargs.items()}
        for key, result in lru_entries(self.concrete):
            if _matches(key, parts, named) and (is_constant(key) or len(key) <= _MOST_PARTS):
                source = self.source.child("LRU_RESULT", key)
                tracer.require(source)
                call_later(tracer, ask_again, [self, tuple(kwargs), *args, *kwargs.values()])
                return tracer.wrap(result, source)
        raise GraphBreak(FL0102, what=f"{self.describe()} for new arguments")

    def _type_expression(self, tracer: Tracer, args: list[Any]) -> Any:
        """What `typing` makes of classes and constants, and always makes alike: `Union[int, str]`, say."""
        self.note(tracer)
        tracer.guard(self.source, "IS", self.concrete)  # type: ignore[arg-type]
        parts = [self._part_of_type(tracer, argument) for argument in args]
        return tracer.known_object(py.evaluate(tracer, self.concrete, *parts))

    def _part_of_type(self, tracer: Tracer, argument: Any) -> Any:
        if isinstance(argument, Value) and py.has_type(argument, tuple, list):
            return py.type_of(argument)([self._part_of_type(tracer, item) for item in py.items(tracer, argument)])
        is_given = isinstance(argument, Value) and argument.source is not None
        if is_given and own_entries(py.type_of(argument)).get("__module__") == "typing":
            argument.note(tracer)
            tracer.guard(argument.source, "IS", argument.concrete)
            return argument.concrete
        return self._part(tracer, argument)

    def kept(self) -> Value:
        """What a call made later is given: the very function."""
        return self

    def _part(self, tracer: Tracer, argument: Any) -> Any:
        """What stands for an argument in the key: a constant, or an object that is equal to itself only."""
        if isinstance(argument, UserObjectValue) and argument.source is not None:
            argument.note(tracer)
            defaults = [has_default(tracer, argument.cls, n, object.__dict__[n]) for n in ("__hash__", "__eq__")]
            if all(defaults):
                tracer.guard(argument.source, "IS", argument.concrete)
                return argument.concrete
        if isinstance(argument, ClassValue):
            if tracer.made.of(argument.concrete) is not None:
                raise GraphBreak(FL0102, what=f"{self.describe()} with {argument.describe()}, which the program made")
            argument.key(tracer)  # classes are found by identity, unless their metaclass has it otherwise
            argument.note(tracer)
            return argument.concrete
        if isinstance(argument, Value) and not is_constant(argument.concrete):
            raise GraphBreak(FL0102, what=f"{self.describe()} with {argument.describe()}")
        if py.type_of(argument) is tuple:
            return tuple([self._part(tracer, item) for item in py.items(tracer, argument)])
        plain = tracer.constant(argument)
        if type(plain) is not py.type_of(argument):  # a member of an enum is told from its number
            raise GraphBreak(FL0102, what=f"{self.describe()} with {py.describe(argument)}")
        return plain

    def attribute(self, tracer: Tracer, name: str) -> Any:
        assert self.source is not None
        namespace: DictValue = tracer.wrap(self.concrete.__dict__, self.source.child("INSTANCE_DICT"))
        found = MISSING if name in _METHODS else namespace.get_key(tracer, name)
        return attribute_of_type(tracer, self, name) if found is MISSING else found


def _is_of_typing(function: Any) -> bool:
    wrapped = function.__dict__.get("__wrapped__")
    return type(wrapped) is types.FunctionType and wrapped.__globals__ is typing.__dict__


# As many as a guard can tell a tuple by.
_MOST_PARTS = 14
_METHODS = ("cache_info", "cache_clear")


def attribute_of_type(tracer: Tracer, value: Value, name: str) -> Any:
    """What a function with a cache has from its type."""
    if name == "__class__":
        return tracer.known_object(value.python_type())
    if hasattr(functools._lru_cache_wrapper, name):
        value.refuse(Operation.ATTRIBUTE, name=name)
    raise_no_attribute(functools._lru_cache_wrapper, name)


def _matches(key: Any, parts: list[Any], named: dict[str, Any]) -> bool:
    """Whether the cache has these arguments under `key`: one int or str stands for itself, a mark precedes keywords."""
    if len(parts) == 1 and not named and type(parts[0]) in (int, str):
        return constants_equal(key, parts[0])
    if type(key) is not tuple or len(key) != len(parts) + (1 + 2 * len(named) if named else 0):
        return False
    if named and type(key[len(parts)]) is not object:
        return False
    wanted = [*parts, *[part for item in named.items() for part in item]]
    return all(
        constants_equal(stored, part) if is_constant(stored) else stored is part
        for stored, part in zip(key[: len(parts)] + key[len(parts) + 1 :], wanted, strict=True)
    )


@register_binder(functools._lru_cache_wrapper)
def _bind_cached(tracer: Tracer, found: Found, instance: Any, cls: type) -> Any:
    function = tracer.wrap(found.raw, found.source)
    return function if instance is None else BoundMethodValue(function, instance)


# -- caches the program made -------------------------------------------------------------------------------------------


class MadeCachedFunction(Value):
    """A function with a cache that the program made: what it does is up to a `Cache`, which is traced."""

    __slots__ = ("kind", "cache", "namespace", "made_of")

    def __init__(self, kind: type, cache: Value, made_of: tuple[Any, ...]) -> None:
        # As an attribute of a class it is represented by one of its kind, which knows how to be bound.
        super().__init__(concrete=functools.lru_cache(0)(len))
        self.kind = kind
        self.cache = cache
        self.made_of = made_of
        self.namespace = NamespaceValue(self)

    def python_type(self) -> type:
        return self.kind

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return py.call(
            tracer, py.attribute(tracer, self.cache, "call"), [make_tuple(args), DictValue(dict(kwargs))], {}
        )

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name in _METHODS:
            return MethodValue(self, name)
        if name == "__dict__":
            return self.namespace
        found = self.namespace.get_key(tracer, name)
        return attribute_of_type(tracer, self, name) if found is MISSING else found

    @method
    def cache_info(self, tracer: Tracer) -> Any:
        return py.call(tracer, py.attribute(tracer, self.cache, "info"), [], {})

    @method
    def cache_clear(self, tracer: Tracer) -> None:
        py.call(tracer, py.attribute(tracer, self.cache, "clear"), [], {})

    def set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        if hasattr(functools._lru_cache_wrapper, name) and name not in _OWN:
            self.refuse(Operation.SET_ATTRIBUTE, name=name)
        self.namespace.set_key(tracer, name, value)

    def parts(self) -> list[Any]:
        return [self.cache, self.namespace, *self.made_of]

    def made_by(self) -> Call:
        return self.kind, self.made_of

    def rebuild(self, emit: Emitter) -> None:
        if any(emit.tracer.constant(py.attribute(emit.tracer, self.cache, name)) for name in ("hits", "misses")):
            raise GraphBreak(FL0107, what="a cache that was used")
        super().rebuild(emit)
        emit.remember(self)
        emit.fill_namespace(self.namespace)


# What `functools.update_wrapper` assigns.
_OWN = frozenset(functools.WRAPPER_ASSIGNMENTS)


@primitive(functools._lru_cache_wrapper.__new__)
def _new(tracer: Tracer, cls: Any, function: Any, maxsize: Any, typed: Any, info: Any, /) -> Any:
    if not isinstance(cls, ClassValue) or functools._lru_cache_wrapper not in (cls.concrete, twin_class(cls.concrete)):
        raise GraphBreak(FL0102_OPERAND, what="__new__", operand=py.describe(cls))
    made_of = (function, tracer.constant(maxsize), py.truth(tracer, typed), info)
    if not (made_of[1] is None or type(made_of[1]) is int):
        raise GraphBreak(FL0102, what=f"a cache for {py.describe(maxsize)} results")
    return MadeCachedFunction(cls.concrete, py.call(tracer, tracer.known_object(Cache), list(made_of), {}), made_of)


@primitive(functools._lru_cache_wrapper)
def _make(tracer: Tracer, function: Any, maxsize: Any, typed: Any, info: Any, /) -> Any:
    return _new(tracer, tracer.known_object(functools._lru_cache_wrapper), function, maxsize, typed, info)
