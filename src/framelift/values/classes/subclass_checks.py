"""Whether one class counts as a subclass of another: what metaclasses and abstract classes say.

Abstract classes answer by themselves: nothing of the user's runs, unless a class has a hook of its own. What they say
may change with a registration, which is guarded.
"""

from __future__ import annotations

import _abc  # type: ignore[import-not-found]
import _collections_abc
import abc
import contextlib
import functools
import importlib.abc
import inspect
import os
import types
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from framelift.breaks import FL0102, GraphBreak
from framelift.values.containers.sequences import ListValue
from framelift.values.core import protocol as py
from framelift.values.core.lookup import (
    bind,
    class_lookup,
    is_subclass,
    mro_of,
    name_of,
    note_bases,
    own_entries,
    raw_lookup,
)
from framelift.values.core.primitives import primitive
from framelift.values.objects.classes import ClassValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


def own_check(tracer: Tracer, cls: type, name: str) -> Any:
    """The check a metaclass written in Python has for itself; None where it has none."""
    meta = type(cls)
    found = None if meta in _KNOWN_METACLASSES else class_lookup(tracer, meta, name)
    if found is None or type(found.raw) is not types.FunctionType or found.raw in _PLAIN_CHECKS:
        return None
    return bind(tracer, found, tracer.known_object(cls), meta)


# Metaclasses whose instance checks look at nothing but classes.
_KNOWN_METACLASSES = {type, abc.ABCMeta, type(torch.Tensor), type(torch.nn.Parameter)}


def subclass_check(tracer: Tracer, subclass: type, cls: type, asked: tuple[str, ...] = ("__subclasscheck__",)) -> bool:
    """`issubclass` without running a user's code; `asked` are the methods of the metaclass that Python would call."""
    _expect_plain_check(tracer, subclass, cls, asked)
    return _answer(tracer, issubclass, subclass, cls)


def _answer(tracer: Tracer, check: Callable[[type, type], bool], subclass: type, cls: type) -> bool:
    note_bases(tracer, subclass)
    token = abc.get_cache_token()
    try:
        answer = check(subclass, cls)
    except TypeError:  # a hook may answer some who ask, and raise for others
        raise GraphBreak(FL0102, what=f"{cls.__qualname__}.__subclasshook__, which raises") from None
    if not answer:
        _note_registrations(tracer, cls, token)
    return answer


@primitive(_abc._abc_subclasscheck)
def _abc_subclasscheck(tracer: Tracer, cls: Any, subclass: Any, /) -> bool:
    """What abstract classes do unless their metaclass has it otherwise."""
    if not isinstance(cls, ClassValue) or not isinstance(subclass, ClassValue):
        raise GraphBreak(FL0102, what="a check of abstract classes with what are not classes")
    _expect_plain_check(tracer, subclass.concrete, cls.concrete, ())
    return _answer(tracer, lambda below, above: _abc._abc_subclasscheck(above, below), subclass.concrete, cls.concrete)


@primitive(_abc._abc_instancecheck)
def _abc_instancecheck(tracer: Tracer, cls: Any, instance: Any, /) -> bool:
    claimed = py.attribute(tracer, instance, "__class__")
    if not py.same(tracer, claimed, tracer.known_object(tracer.type_of(instance))):
        raise GraphBreak(FL0102, what="a check of an object that claims another class")
    return py.truth(tracer, py.call(tracer, py.attribute(tracer, cls, "__subclasscheck__"), [claimed], {}))


def _expect_plain_check(
    tracer: Tracer, subclass: type, cls: type, asked: tuple[str, ...] = ("__subclasscheck__",)
) -> None:
    """Break where code of the user's is asked whether `subclass` is below `cls`."""
    if type(cls) not in _KNOWN_METACLASSES:
        for name in asked:
            check = class_lookup(tracer, type(cls), name)
            assert check is not None
            tracer.guard(check.source, "IS", check.raw)
            if check.raw not in _PLAIN_CHECKS:
                raise GraphBreak(FL0102, what=f"an instance check of {type(cls).__qualname__}")
    if is_subclass(type(cls), abc.ABCMeta) and _has_own_hook(cls) and not _is_remembered(subclass, cls):
        raise GraphBreak(FL0102, what=f"{cls.__qualname__}.__subclasshook__")


def _has_own_hook(cls: type) -> bool:
    """Whether an abstract class has a hook that is not the standard library's."""
    hook = raw_lookup(cls, "__subclasshook__")
    function = hook.__func__ if type(hook) is classmethod else hook
    if type(function) is types.FunctionType:
        return not any(function.__globals__ is module.__dict__ for module in _STDLIB_ABCS)
    return type(function) is not types.ClassMethodDescriptorType  # that of `object`


def _is_remembered(subclass: type, cls: type) -> bool:
    """Whether an abstract class has been asked about `subclass` before, and answers without its hook."""
    _, accepted, rejected, version = _abc._get_dump(cls)
    answers = [*accepted, *(rejected if version == abc.get_cache_token() else ())]
    return any(answer() is subclass for answer in answers)


def _note_registrations(tracer: Tracer, cls: type, token: Any) -> None:
    """Abstract classes remember a yes for good, and a no until the next registration."""
    if is_subclass(type(cls), abc.ABCMeta):
        tracer.guard(tracer.sources.known(cls), "REGISTRATIONS", token)


# The modules whose abstract classes have hooks, told by their namespaces: anybody may be called like them.
_STDLIB_ABCS = (_collections_abc, typing, os, contextlib, importlib.abc)
_PLAIN_CHECKS = (
    type.__instancecheck__,
    abc.ABCMeta.__instancecheck__,
    type.__subclasscheck__,
    abc.ABCMeta.__subclasscheck__,
)


@primitive(functools._compose_mro)  # type: ignore[attr-defined]
def _compose_mro(tracer: Tracer, cls: Any, kinds: Any) -> Any:
    """The bases of a class with the abstract classes among `kinds` that it counts as a subclass of."""
    candidates = py.items(tracer, kinds)
    if not all(isinstance(value, ClassValue) for value in (cls, *candidates)):
        raise GraphBreak(FL0102, what="functools.singledispatch by what are not classes")
    bases, token = mro_of(cls.concrete), abc.get_cache_token()
    involved = {id(base): base for value in (cls, *candidates) for base in mro_of(value.concrete)}
    if not all(map(_is_found_by_identity, involved.values())):
        raise GraphBreak(FL0102, what="functools.singledispatch by classes that compare in a way of their own")
    for kind in candidates:
        if any(kind.concrete is base for base in bases) or not subclass_check(tracer, cls.concrete, kind.concrete):
            continue
        _note_registrations(tracer, kind.concrete, token)
        for below in type.__subclasses__(kind.concrete):
            _expect_plain_check(tracer, cls.concrete, below)
    order = functools._compose_mro(cls.concrete, [kind.concrete for kind in candidates])  # type: ignore[attr-defined]
    return ListValue([tracer.known_object(base) for base in order])


def _is_found_by_identity(cls: type) -> bool:
    return all(
        raw_lookup(type(cls), name) is raw_lookup(type, name) for name in ("__eq__", "__hash__", "__getattribute__")
    )


@primitive(inspect._shadowed_dict)  # type: ignore[attr-defined]
def _shadowed_dict(tracer: Tracer, cls: Any) -> Any:
    """What a class has in place of the `__dict__` that `type` gives it; runtime protocols ask, by `getattr_static`."""
    if not isinstance(cls, ClassValue):
        raise GraphBreak(FL0102, what="inspect._shadowed_dict of what is no class")
    for base in mro_of(cls.concrete):
        class_lookup(tracer, base, "__dict__")
        own = own_entries(base).get("__dict__")
        if not (own is None or (type(own) is types.GetSetDescriptorType and own.__objclass__ is base)):
            raise GraphBreak(FL0102, what=f"getattr_static of objects of {name_of(base)}, which defines __dict__")
    return py.attribute(tracer, tracer.known_object(inspect), "_sentinel")
