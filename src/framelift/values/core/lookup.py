"""Attribute lookup on classes and instances as CPython does it, noting what was found and what was not."""

from __future__ import annotations

import datetime
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0203, GraphBreak
from framelift.guards.equality import has_type
from framelift.guards.reading import C_DESCRIPTORS
from framelift.guards.source import Source
from framelift.values.core import protocol as py
from framelift.values.core.base import MODELS, Value
from framelift.values.core.construct import bound_method
from framelift.values.core.exceptions import raise_error

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

# A user's metaclass may intercept attribute access on a class: these descriptors read the real thing.
_mro = type.__dict__["__mro__"].__get__
_namespace = type.__dict__["__dict__"].__get__
flags_of = type.__dict__["__flags__"].__get__
_dictoffset = type.__dict__["__dictoffset__"].__get__
_name = type.__dict__["__name__"].__get__
_qualname = type.__dict__["__qualname__"].__get__
_IMMUTABLE, _HEAPTYPE = 1 << 8, 1 << 9

METHOD_WRAPPERS = (types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType)


class Found:
    """A raw class attribute and how it is reached, with what this capture has found out about it."""

    __slots__ = ("raw", "source", "is_data_descriptor", "_is_noted")

    def __init__(self, raw: Any, source: Source) -> None:
        self.raw = raw
        self.source = source
        # None until it was noted.
        self.is_data_descriptor: bool | None = None
        self._is_noted = False

    def note_identity(self, tracer: Tracer) -> None:
        """Guard the very object."""
        if not self._is_noted:
            tracer.guard(self.source, "IS", self.raw)
            self._is_noted = True


def mro_of(cls: type) -> tuple[type, ...]:
    """The classes in which attributes are looked up, in order."""
    mro: tuple[type, ...] = _mro(cls)
    return mro


def own_entries(cls: type) -> Mapping[str, Any]:
    """The namespace of a class itself."""
    namespace: Mapping[str, Any] = _namespace(cls)
    return namespace


def name_of(cls: type) -> str:
    """`cls.__name__`, whatever its metaclass says."""
    name: str = _name(cls)
    return name


def name_in_errors(cls: type) -> str:
    """How an error calls a class: those implemented in C go by their full name."""
    if _is_written_in_python(cls):
        return name_of(cls)
    module = own_entries(cls).get("__module__", cls.__module__)
    if module == "builtins" or type(module) is not str:
        return name_of(cls)  # not a text: the class describes the module of its instances
    return f"{module}.{name_of(cls)}"


def name_in_slot_errors(cls: type) -> str:
    """How a class is named where a slot of an instance has no value: with its module since 3.13."""
    if sys.version_info < (3, 13):
        return name_of(cls)
    module = type.__getattribute__(cls, "__dict__").get("__module__")
    if type(module) is not str or module in ("builtins", "__main__"):
        return qualified_name_of(cls)
    return f"{module}.{qualified_name_of(cls)}"


def qualified_name_of(cls: type) -> str:
    """`cls.__qualname__`, whatever its metaclass says."""
    name: str = _qualname(cls)
    return name


def is_subclass(cls: type, other: type) -> bool:
    """`issubclass` as the interpreter itself means it: the MRO, whatever metaclasses say."""
    return any(base is other for base in mro_of(cls))


def is_plain_class(cls: type) -> bool:
    """Whether instances are made of nothing but a namespace and slots: no base implemented in C but `object`."""
    return all(base is object or _is_written_in_python(base) for base in mro_of(cls))


def container_base(cls: type) -> type | None:
    """The built-in container that instances of a class written in Python are, below; None for every other class."""
    native = [base for base in mro_of(cls) if base is not object and not _is_written_in_python(base)]
    if not native or native[0] is cls or not any(native[0] is kind for kind in _CONTAINERS):
        return None
    return native[0] if all(is_subclass(native[0], base) for base in native[1:]) else None


def scalar_base(cls: type) -> type | None:
    """The type of plain data (numbers, text, dates) that instances of a class written in Python are; else None."""
    native = [base for base in mro_of(cls) if base is not object and not _is_written_in_python(base)]
    return (
        native[0] if len(native) == 1 and any(native[0] is kind for kind in _SCALARS) and native[0] is not cls else None
    )


def is_storage_class(cls: type) -> bool:
    """Whether a class is a built-in container, number or string type whose subclasses are modelled."""
    return any(cls is kind for kind in (*_CONTAINERS, *_SCALARS))


_SCALARS = (str, int, float, complex, bytes, frozenset, datetime.date, datetime.timedelta)
_CONTAINERS = (dict, OrderedDict, defaultdict, list, deque, set)


def is_fixed(cls: type) -> bool:
    """Whether nobody can change a class: it is C's own."""
    flags = flags_of(cls)
    return not flags & _HEAPTYPE or bool(flags & _IMMUTABLE)


def _is_written_in_python(cls: type) -> bool:
    """Types made by C may be heap types too; but they are immutable, or bring a `__new__` of their own."""
    flags = flags_of(cls)
    new = _namespace(cls).get("__new__")
    return bool(flags & _HEAPTYPE) and not flags & _IMMUTABLE and type(new) is not types.BuiltinFunctionType


def instance_dict(obj: Any) -> dict[str, Any] | None:
    """The `__dict__` of an instance, without running a user's code; None where it has none."""
    for base in mro_of(type(obj)):
        descriptor = _namespace(base).get("__dict__")
        if has_type(descriptor, C_DESCRIPTORS):
            found: dict[str, Any] = descriptor.__get__(obj)
            return found
    return None


def has_instance_dict(cls: type) -> bool:
    """Whether instances have a `__dict__`."""
    return bool(_dictoffset(cls) != 0)


def raw_lookup(cls: type, name: str) -> Any:
    """The raw attribute `name` of a class, or NotImplemented; runs no user code and notes nothing."""
    for base in mro_of(cls):
        namespace = _namespace(base)
        if name in namespace:
            return namespace[name]
    return NotImplemented


def class_lookup(tracer: Tracer, cls: type, name: str) -> Found | None:
    """Look `name` up along the MRO of `cls`, noting the outcome."""
    if tracer.made.active:
        if tracer.made.of(cls) is not None:
            return _made_lookup(tracer, cls, name)
        if name in tracer.made.names:
            return _changed_lookup(tracer, cls, name)
    return _real_lookup(tracer, cls, name)


def _changed_lookup(tracer: Tracer, cls: type, name: str) -> Found | None:
    """Look up an attribute that the program assigned to some class; those before it in the MRO must not get one."""
    mro = mro_of(cls)
    for position, base in enumerate(mro):
        found = tracer.made.assigned(tracer, base, name)
        if found is not None:
            if position:
                note_bases(tracer, cls)
            for before in mro[:position]:
                note_own(tracer, before, name)
            return found
        if name in _namespace(base):
            if any(tracer.made.assigned(tracer, later, name) is not None for later in mro[position + 1 :]):
                note_own(tracer, base, name)
            break
    return _real_lookup(tracer, cls, name)


def note_own(tracer: Tracer, cls: type, name: str) -> bool:
    """Whether a class has something of that name itself, whatever its bases have; noted."""
    owns = name in _namespace(cls)
    if tracer.made.active:
        if tracer.made.of(cls) is not None:
            return owns
        if name in tracer.made.names and tracer.made.assigned(tracer, cls, name) is not None:
            return True
    if flags_of(cls) & _HEAPTYPE and not flags_of(cls) & _IMMUTABLE:
        tracer.guard(tracer.sources.known(cls), "TYPE_OWNS" if owns else "TYPE_LACKS", name)
    return owns


def _real_lookup(tracer: Tracer, cls: type, name: str) -> Found | None:
    key = (id(cls), name)  # the source keeps the class; hashing it could run its metaclass
    known = tracer.lookups.get(key, NotImplemented)
    if known is not NotImplemented:
        return known
    source = tracer.sources.known(cls)
    raw = raw_lookup(cls, name)
    found = None
    if raw is NotImplemented:
        tracer.guard(source, "TYPE_ABSENT", name)
    else:
        found = Found(raw, source.child("TYPE_LOOKUP", name))
        tracer.require(found.source)
    tracer.lookups[key] = found
    return found


def _made_lookup(tracer: Tracer, cls: type, name: str) -> Found | None:
    """Look up in a class the program made: what real bases say is noted about those."""
    owner = next((base for base in mro_of(cls) if name in _namespace(base)), None)
    for base in mro_of(cls):
        if tracer.made.of(base) is not None:
            if base is owner:
                return Found(_namespace(base)[name], tracer.sources.known(base).child("TYPE_LOOKUP", name))
            continue
        found = class_lookup(tracer, base, name)
        if found is not None and owner is next(other for other in mro_of(base) if name in _namespace(other)):
            return found
    return None


def note_bases(tracer: Tracer, cls: type) -> None:
    """Note what a class inherits from, where that can change: only classes written in Python can get other bases."""
    if not _is_written_in_python(cls) or type(cls) is not type:
        return
    if tracer.made.active and tracer.made.of(cls) is not None:
        for base in mro_of(cls)[1:]:
            if tracer.made.of(base) is None:
                note_bases(tracer, base)
        return
    order = tracer.sources.known(cls).child("GETATTR", "__mro__")
    mro = mro_of(cls)
    tracer.guard(order, "LENGTH", len(mro))
    for index, base in enumerate(mro[1:-1], 1):
        tracer.guard(order.child("TUPLE_ITEM", index), "IS", base)


def defines(cls: type, name: str) -> bool:
    """Whether a class or one of its bases has something of that name."""
    return raw_lookup(cls, name) is not NotImplemented


def is_data_descriptor(raw: Any) -> bool:
    """Whether what a class holds goes before what the instance holds."""
    kind = type(raw)
    return defines(kind, "__set__") or defines(kind, "__delete__")


def note_if_data_descriptor(tracer: Tracer, found: Found) -> bool:
    """Whether a class attribute goes before the instance's own, noting what that depends on."""
    if found.is_data_descriptor is None:
        kind = type(found.raw)
        tracer.guard(found.source, "TYPE", kind)
        if id(kind) in _KNOWN_KINDS:
            found.is_data_descriptor = id(kind) in _DATA_KINDS
        else:
            # What a class written in Python defines may change.
            for name in ("__set__", "__delete__") if flags_of(kind) & _HEAPTYPE else ():
                class_lookup(tracer, kind, name)
            found.is_data_descriptor = is_data_descriptor(found.raw)
    return found.is_data_descriptor


def has_default(tracer: Tracer, cls: type, name: str, default: Any) -> bool:
    """Whether a class inherits a method that C code provides, such as `object.__eq__`; noted if so."""
    found = tracer.lookups.get((id(cls), name))
    if found is None:
        if raw_lookup(cls, name) is not default:
            return False
        found = class_lookup(tracer, cls, name)
        assert found is not None
    elif found.raw is not default:
        return False
    found.note_identity(tracer)
    return True


def bind(tracer: Tracer, found: Found, instance: Any, cls: type) -> Any:
    """What reading the class attribute `found` through an instance (or, with None, the class) gives."""
    raw, source = found.raw, found.source
    kind = type(raw)
    if kind is types.FunctionType:
        function = tracer.wrap(raw, source)
        function.note(tracer)
        return function.bind(tracer, instance, cls)
    handler = _BINDERS.get(id(kind))
    if handler is not None:
        return handler(tracer, found, instance, cls)
    getter = raw_lookup(kind, "__get__")
    if getter is NotImplemented:
        if flags_of(kind) & _HEAPTYPE:
            tracer.guard(source, "TYPE", kind)
            class_lookup(tracer, kind, "__get__")
        return tracer.wrap(raw, source)
    if type(getter) is types.FunctionType:
        descriptor = tracer.wrap(raw, source)
        descriptor.note(tracer)
        method = class_lookup(tracer, kind, "__get__")
        assert method is not None
        return py.call(
            tracer, tracer.wrap(method.raw, method.source), [descriptor, instance, tracer.known_object(cls)], {}
        )
    if getter is _GET_PROPERTY and raw_lookup(kind, "fget") is _FGET:
        class_lookup(tracer, kind, "__get__")
        return _bind_property(tracer, found, instance, cls)
    if isinstance(raw, type):
        return tracer.wrap(raw, source)
    raise GraphBreak(FL0203, type=name_of(cls), name=f"descriptor of type {name_of(kind)}")


_GET_PROPERTY, _FGET = property.__dict__["__get__"], property.__dict__["fget"]


def _bind_property(tracer: Tracer, found: Found, instance: Any, cls: type) -> Any:
    """Of a property, or of a class that adds something to it but the way it is read."""
    if instance is None:
        return tracer.wrap(found.raw, found.source)
    tracer.guard(found.source, "TYPE", type(found.raw))
    if found.raw.fget is None:
        tracer.guard(found.source.child("GETATTR", "fget"), "IS", None)
        raise_error(AttributeError, property_error(found.raw, "__get__", cls))
    getter = tracer.wrap(found.raw.fget, found.source.child("GETATTR", "fget"))
    return py.call(tracer, getter, [instance], {})


def property_error(raw: property, method: str, cls: type, *args: Any) -> str:
    """What a property says that has no function for `method`: it knows its name, but only its messages tell."""
    try:
        getattr(property, method)(raw, object(), *args)
    except AttributeError as error:
        return str(error).replace("'object' object", f"'{qualified_name_of(cls)}' object")
    raise AssertionError("the property has a function for it")


def _bind_static(tracer: Tracer, found: Found, instance: Any, cls: type) -> Any:
    tracer.guard(found.source, "TYPE", staticmethod)
    return tracer.wrap(found.raw.__func__, found.source.child("GETATTR", "__func__"))


def _bind_class(tracer: Tracer, found: Found, instance: Any, cls: type) -> Any:
    tracer.guard(found.source, "TYPE", classmethod)
    inner = type(found.raw.__func__)
    if inner is not types.FunctionType and defines(inner, "__get__"):  # which some versions ask, and others do not
        raise GraphBreak(FL0203, type=name_of(cls), name=f"classmethod of a {name_of(inner)}")
    function = tracer.wrap(found.raw.__func__, found.source.child("GETATTR", "__func__"))
    return bound_method(function, tracer.known_object(cls))


def _bind_slot(tracer: Tracer, found: Found, instance: Any, cls: type) -> Any:
    if instance is None:
        return tracer.wrap(found.raw, found.source)
    found.note_identity(tracer)
    return instance.get_slot(tracer, found.raw)


def _bind_getset(tracer: Tracer, found: Found, instance: Any, cls: type) -> Any:
    found.note_identity(tracer)
    return get_computed(tracer, found.raw, instance, cls)


def get_computed(tracer: Tracer, descriptor: Any, instance: Any, cls: type) -> Any:
    """Attributes computed in C: the value knows them, if any does."""
    known = instance.get_computed(tracer, descriptor) if isinstance(instance, Value) else NotImplemented
    if known is not NotImplemented:
        return known
    if descriptor.__name__ == "__class__":
        return tracer.known_object(type(cls) if instance is None else cls)
    raise GraphBreak(FL0203, type=name_of(cls), name=descriptor.__name__)


def _bind_wrapper(tracer: Tracer, found: Found, instance: Any, cls: type) -> Any:
    found.note_identity(tracer)
    function = tracer.wrap(found.raw, found.source)
    if type(found.raw) is types.ClassMethodDescriptorType:
        return bound_method(function, tracer.known_object(cls))
    return function if instance is None else bound_method(function, instance)


Binder = Callable[["Tracer", Found, Any, type], Any]

# By the identity of the type: hashing a class may run its metaclass.
_BINDERS: dict[int, Binder] = {
    id(property): _bind_property,
    id(staticmethod): _bind_static,
    id(classmethod): _bind_class,
    id(types.MemberDescriptorType): _bind_slot,
    id(types.GetSetDescriptorType): _bind_getset,
    id(types.WrapperDescriptorType): _bind_wrapper,
    id(types.MethodDescriptorType): _bind_wrapper,
    id(types.ClassMethodDescriptorType): _bind_wrapper,
}


def register_binder(kind: type) -> Callable[[Binder], Binder]:
    """How class attributes of a type implemented in C are bound."""

    def register(binder: Binder) -> Binder:
        _BINDERS[id(kind)] = binder
        return binder

    return register


# Kinds of class attributes that are frequent, and what is known about them: no look at their types is needed.
_DATA_KINDS = frozenset(map(id, (property, types.MemberDescriptorType, types.GetSetDescriptorType)))
_PLAIN_KINDS = (types.FunctionType, staticmethod, classmethod, *METHOD_WRAPPERS)
_DATA = (int, float, str, bool, type(None), tuple, list, dict)
_KNOWN_KINDS = _DATA_KINDS | frozenset(map(id, (*_PLAIN_KINDS, *_DATA)))


def special_method(tracer: Tracer, value: Value, cls: type, name: str) -> Any:
    """The special method `name` looked up on the type and bound to `value`; None where the type has none.

    A class may say None: then the method is a value that cannot be called.
    """
    found = class_lookup(tracer, cls, name)
    if found is None:
        return None
    method = bind(tracer, found, value, cls)
    return MODELS[id(types.NoneType)](None, None) if method is None else method


def is_blocked(tracer: Tracer, method: Any) -> bool:
    """Whether a class says None in the place of a special method."""
    return isinstance(method, Value) and method.python_type() is type(None) and tracer.constant(method) is None
