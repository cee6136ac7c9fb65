"""Whoever hears of log records and warnings: code of the program's that runs when the journal is replayed.

By then the program has gone on. So nothing a listener may read or change must be what the program uses in the same
piece: where it is, there is a break between. What a listener knows is looked for from its attributes and from the
variables its methods name.
"""

from __future__ import annotations

import collections
import dis
import functools
import logging
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from framelift.breaks import FL0110, GraphBreak
from framelift.guards.source import Source
from framelift.models.side_effects import told
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.lookup import instance_dict, is_subclass, mro_of, own_entries
from framelift.values.core.primitives import primitive
from framelift.values.stdlib.io import stream_base

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

# Who knows more than this is taken to know everything.
_MOST = 5_000
# Code that keeps nothing of a program's but in the objects it is given.
_OF_OTHERS = frozenset({*sys.stdlib_module_names, "torch", "framelift"}) - {"__main__"}


@primitive(told)
def _told(tracer: Tracer, listeners: Any) -> None:
    """A record or warning is journaled that `listeners` will hear."""
    found = []
    for listener in py.items(tracer, listeners):
        if not isinstance(listener, Value) or listener.source is None:
            raise GraphBreak(FL0110, what="a listener made in the program")
        if type(listener.concrete) is types.BuiltinMethodType and type(listener.concrete.__self__) is list:
            heard = _recording_list(tracer, listener.source, listener.concrete)
        else:
            tracer.guard(listener.source, "IS", listener.concrete)
            heard = listener
        if id(heard) not in tracer.listeners:
            tracer.listeners[id(heard)] = heard
            found.append(listener.concrete)
    for obj in _known_to(found):
        known = tracer.inputs.value_of(obj)
        if known is not None and known.concrete is obj and id(known) not in tracer.listeners:
            _refuse(known)
        tracer.inputs.avoid(obj)


def _recording_list(tracer: Tracer, source: Source, method: Any) -> Value:
    """The list of `catch_warnings(record=True)`: another in each call, and none that the program uses."""
    recorded, owner = method.__self__, source.child("GETATTR", "__self__")
    known = tracer.inputs.value_of(recorded)
    if known is None:
        tracer.guard(source, "TYPE", type(method))
        tracer.guard(source.child("GETATTR", "__name__"), "EQUALS", method.__name__)
        known = tracer.wrap(recorded, owner)
        known.note(tracer)
    elif known.source is not owner:
        _refuse(known)
    return known


def _refuse(known: Value) -> NoReturn:
    raise GraphBreak(FL0110, what=f"{py.describe(known)} that the program used before")


def _known_to(listeners: list[Any]) -> Iterator[Any]:
    """What has a state that the listeners may read or change."""
    seen: dict[int, Any] = {}
    settled: dict[int, bool] = {}
    pending = list(listeners)
    while pending:
        obj = pending.pop()
        kind = type(obj)
        if id(kind) not in settled:  # not by itself: a metaclass may have a hash
            settled[id(kind)] = _is_settled(kind)
        if id(obj) in seen or settled[id(kind)] or (is_subclass(kind, type) and _is_class_of_others(obj)):
            continue
        seen[id(obj)] = obj
        if len(seen) > _MOST:
            raise GraphBreak(FL0110, what="more than can be looked at")
        look = _LOOKS.get(id(kind))
        if look is not None:
            pending += look[1](obj)
            continue
        if instance_dict(obj) is None or is_subclass(kind, type):
            yield obj
        pending += _inside(obj)


# -- what leads on ---------------------------------------------------------------------------------------------------


def _inside(obj: Any) -> Iterable[Any]:
    """What an object holds, and what the methods of its class know."""
    kind = type(obj)
    if is_subclass(kind, type):
        return _of_classes(mro_of(obj))
    found: list[Any] = []
    for base, parts in _CONTAINERS.items():
        if is_subclass(kind, base):
            found += parts(obj)
    namespace = instance_dict(obj)
    if namespace is not None:
        found.append(namespace)
    for base in mro_of(kind):
        for descriptor in own_entries(base).values():
            if type(descriptor) is types.MemberDescriptorType:
                try:
                    found.append(descriptor.__get__(obj))
                except AttributeError:
                    continue  # the slot is empty
    return [*found, *_of_classes(mro_of(kind))]


def _of_classes(classes: Iterable[type]) -> Iterator[Any]:
    """Classes of the program's, and what is in their namespaces."""
    for cls in classes:
        if not _is_class_of_others(cls):
            yield cls
            yield from own_entries(cls).values()


def _of_function(function: types.FunctionType) -> Iterator[Any]:
    """The variables a function names: those of its own, and those around it."""
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    codes = list(_codes(function.__code__))
    rebound = {name for code in codes for name in _rebound(code)}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name in rebound:
            yield cell
        try:
            yield cell.cell_contents
        except ValueError:
            continue  # nothing is in it yet
    if _is_of_others(function.__module__):
        return
    namespace = function.__globals__
    if rebound & namespace.keys():
        yield namespace
    for code in codes:
        for name in code.co_names:
            if name in namespace:
                yield namespace[name]


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code of a function and of those written in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _rebound(code: types.CodeType) -> Iterator[str]:
    """The variables that are not a function's own and that it gives other values."""
    if _REBINDING.isdisjoint(code.co_code[::2]):
        return
    for step in dis.get_instructions(code):
        if step.opcode in _REBINDING and (step.argval in code.co_freevars or step.argval not in code.co_cellvars):
            yield step.argval


def _is_settled(kind: type) -> bool:
    return any(is_subclass(kind, base) for base in _SETTLED) or stream_base(kind) is not None


def _is_class_of_others(cls: type) -> bool:
    return _is_of_others(own_entries(cls).get("__module__", "builtins"))


def _is_of_others(module: Any) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in _OF_OTHERS


_REBINDING = frozenset(dis.opmap[name] for name in ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF"))
# What has no state, or none that a listener changes; writes to streams are made in the order of the program.
_SETTLED: tuple[type, ...] = (
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    types.ModuleType,
    types.CodeType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    logging.Logger,
    logging.Manager,
)
_CONTAINERS: dict[type, Callable[[Any], Iterable[Any]]] = {
    list: list.__iter__,
    tuple: tuple.__iter__,
    set: set.__iter__,
    frozenset: frozenset.__iter__,
    collections.deque: collections.deque.__iter__,
    dict: lambda obj: [*dict.keys(obj), *dict.values(obj)],
}
# What is no state itself, and leads to some.
_LOOKS_OF_TYPES: dict[type, Callable[[Any], Iterable[Any]]] = {
    types.FunctionType: _of_function,
    types.MethodType: lambda obj: (obj.__self__, obj.__func__),
    types.BuiltinMethodType: lambda obj: (obj.__self__,),
    functools.partial: lambda obj: (obj.func, obj.args, obj.keywords),
    staticmethod: lambda obj: (obj.__func__,),
    classmethod: lambda obj: (obj.__func__,),
    property: lambda obj: (obj.fget, obj.fset, obj.fdel),
    tuple: tuple.__iter__,
    frozenset: frozenset.__iter__,
}
_LOOKS = {id(kind): (kind, look) for kind, look in _LOOKS_OF_TYPES.items()}
