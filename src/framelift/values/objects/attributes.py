"""Attributes of instances as `object.__getattribute__`, `__setattr__` and `__delattr__` treat them.

The functions work on any value that has a class (`cls`), perhaps a namespace, and answers for the storage behind the
descriptors its C base class brings: slots, and attributes computed in C.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from framelift.breaks import FL0203, GraphBreak
from framelift.values.containers.dicts import MISSING, DictValue
from framelift.values.core import protocol as py
from framelift.values.core.exceptions import raise_error
from framelift.values.core.lookup import (
    Found,
    bind,
    class_lookup,
    defines,
    name_of,
    note_if_data_descriptor,
    property_error,
    special_method,
)
from framelift.values.core.refusals import Operation
from framelift.values.core.stand_ins import raise_no_attribute

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


class Instance(Protocol):
    """What these functions need of a value."""

    cls: type

    def namespace(self, tracer: Tracer) -> DictValue | None:
        """The instance dictionary, if there is one."""

    def get_slot(self, tracer: Tracer, descriptor: Any) -> Any: ...

    def set_slot(self, tracer: Tracer, descriptor: Any, value: Any) -> None: ...

    def delete_slot(self, tracer: Tracer, descriptor: Any) -> None: ...

    def set_computed(self, tracer: Tracer, name: str, value: Any) -> None:
        """Assignment of an attribute that C code computes."""


def read(tracer: Tracer, instance: Instance, name: str) -> Any:
    """`object.__getattribute__(instance, name)`."""
    value = find(tracer, instance, name)
    if value is MISSING:
        raise_missing(instance, name)
    return value


def raise_missing(instance: Instance, name: str) -> NoReturn:
    """What `object.__getattribute__` says of an attribute that is not there."""
    raise_no_attribute(instance.cls, name)


def find(tracer: Tracer, instance: Instance, name: str) -> Any:
    """What `object.__getattribute__(instance, name)` finds; MISSING where it would raise AttributeError itself."""
    cls = instance.cls
    found = class_lookup(tracer, cls, name)
    if found is not None and note_if_data_descriptor(tracer, found) and defines(type(found.raw), "__get__"):
        return bind(tracer, found, instance, cls)
    namespace = instance.namespace(tracer)
    if namespace is not None:
        value = namespace.get_key(tracer, name)
        if value is not MISSING:
            return value
    return MISSING if found is None else bind(tracer, found, instance, cls)


def write(tracer: Tracer, instance: Instance, name: str, value: Any) -> None:
    """`object.__setattr__(instance, name, value)`."""
    cls = instance.cls
    found = class_lookup(tracer, cls, name)
    if found is not None and note_if_data_descriptor(tracer, found):
        _write_through(tracer, found, instance, name, value)
        return
    namespace = instance.namespace(tracer)
    if namespace is None:
        what = "attribute '{}' is read-only" if found is not None else _NO_PLACE
        raise_error(AttributeError, f"'{name_of(cls)}' object {what.format(name)}")
    namespace.set_key(tracer, name, value)


def _write_through(tracer: Tracer, found: Found, instance: Instance, name: str, value: Any) -> None:
    raw, kind = found.raw, type(found.raw)
    if kind is types.MemberDescriptorType:
        tracer.guard(found.source, "IS", raw)
        instance.set_slot(tracer, raw, value)
    elif kind is types.GetSetDescriptorType:
        tracer.guard(found.source, "IS", raw)
        instance.set_computed(tracer, name, value)
    elif kind is property:
        py.call(tracer, _property_part(tracer, found, instance, "fset", "__set__", None), [instance, value], {})
    else:
        _call_descriptor(tracer, found, "__set__", [instance, value], name)


def delete(tracer: Tracer, instance: Instance, name: str) -> None:
    """`object.__delattr__(instance, name)`."""
    cls = instance.cls
    found = class_lookup(tracer, cls, name)
    if found is not None and note_if_data_descriptor(tracer, found):
        _delete_through(tracer, found, instance, name)
        return
    namespace = instance.namespace(tracer)
    if namespace is None or namespace.get_key(tracer, name) is MISSING:
        if namespace is None and found is not None:
            raise_error(AttributeError, f"'{name_of(cls)}' object attribute '{name}' is read-only")
        raise_no_attribute(cls, name)
    namespace.delete_key(tracer, name)


def _delete_through(tracer: Tracer, found: Found, instance: Instance, name: str) -> None:
    kind = type(found.raw)
    if kind is types.MemberDescriptorType:
        tracer.guard(found.source, "IS", found.raw)
        instance.delete_slot(tracer, found.raw)
    elif kind is property:
        py.call(tracer, _property_part(tracer, found, instance, "fdel", "__delete__"), [instance], {})
    else:
        _call_descriptor(tracer, found, "__delete__", [instance], name)


def _property_part(tracer: Tracer, found: Found, instance: Instance, part: str, method: str, *args: Any) -> Any:
    source = found.source.child("GETATTR", part)
    function = getattr(found.raw, part)
    if function is None:
        tracer.guard(source, "IS", None)
        raise_error(AttributeError, property_error(found.raw, method, instance.cls, *args))
    return tracer.wrap(function, source)


def _call_descriptor(tracer: Tracer, found: Found, method: str, args: list[Any], name: str) -> None:
    """`__set__` or `__delete__` of a descriptor written in Python."""
    descriptor = tracer.wrap(found.raw, found.source)
    descriptor.note(tracer)
    kind = type(found.raw)
    function = special_method(tracer, descriptor, kind, method)
    if function is None:
        raise_error(AttributeError, method)
    if not py.has_type(function, types.MethodType, types.MethodWrapperType):
        raise GraphBreak(FL0203, type=name_of(kind), name=f"{method} (of attribute {name!r})")
    py.call(tracer, function, args, {})


_NO_PLACE = "has no attribute '{}'" + (
    " and no __dict__ for setting new attributes" if sys.version_info >= (3, 13) else ""
)


# What types in C have from `object`, and how many arguments it takes.
METHODS: dict[str, tuple[Callable[..., Any], int]] = {
    "__getattribute__": (read, 1),
    "__setattr__": (write, 2),
    "__delattr__": (delete, 1),
}


def by_method(tracer: Tracer, instance: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The same by the name of the method."""
    function, count = METHODS[name]
    if kwargs or len(args) != count:
        instance.refuse(Operation.ARGUMENTS, name=name)
    return function(tracer, instance, tracer.constant(args[0]), *args[1:])
