"""Classes: reading their attributes and making instances."""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch._compile import _disable_dynamo

from framelift.breaks import FL0102, FL0203, FL0306, GraphBreak
from framelift.guards.equality import has_type
from framelift.guards.source import Source
from framelift.torch_names import is_absent
from framelift.values.containers.dicts import MISSING, DictValue
from framelift.values.core import protocol as py
from framelift.values.core.base import KnownObject, PlacedIdentity, Raised, Value
from framelift.values.core.constants import is_constant
from framelift.values.core.construct import bound_method
from framelift.values.core.exceptions import is_raised, raise_error
from framelift.values.core.lookup import (
    METHOD_WRAPPERS,
    bind,
    class_lookup,
    container_base,
    defines,
    has_default,
    is_blocked,
    is_data_descriptor,
    is_fixed,
    is_plain_class,
    is_subclass,
    mro_of,
    name_of,
    note_if_data_descriptor,
    note_own,
    own_entries,
    qualified_name_of,
    raw_lookup,
    scalar_base,
    special_method,
)
from framelift.values.core.operator_methods import BINARY_METHODS, COMPARE_METHODS, INPLACE_METHODS, UNARY_METHODS
from framelift.values.core.refusals import Operation
from framelift.values.core.stand_ins import (
    answering,
    raise_no_attribute,
    raise_no_attribute_of_class,
    raise_what,
    stand_in,
    stand_in_for,
)
from framelift.values.objects.instances import UserObjectValue, plain_answer
from framelift.values.objects.unions import union

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

NOTHING: Mapping[str, Any] = MappingProxyType({})


@functools.cache
def torchs_mark() -> CodeType | None:
    """The code of the wrapper with which torch marks functions of its own that its compiler leaves alone."""
    return None if is_absent(_disable_dynamo) else _disable_dynamo(lambda: None).__code__


def _is_hidden_from_torch(function: Any) -> bool:
    """Whether torch itself keeps the function within from its own compiler."""
    return type(function) is FunctionType and function.__code__ is torchs_mark() and hasattr(function, "__wrapped__")


class ClassValue(KnownObject, models=type):
    """A class that existed before the frame; guarded by identity."""

    __slots__ = ("written",)
    mutates = ("written",)
    has_twins = False

    def __init__(self, source: Source | None, concrete: Any) -> None:
        super().__init__(source, concrete)
        # Attributes that the program assigned.
        self.written: dict[str, Any] = {}

    def python_type(self) -> type:
        return type(self.concrete)

    def describe(self) -> str:
        return f"class {qualified_name_of(self.concrete)}"

    def attribute(self, tracer: Tracer, name: str) -> Any:
        meta = type(self.concrete)
        plain = has_default(tracer, meta, "__getattribute__", type.__getattribute__) or _answers_as_type(
            self.concrete, name
        )
        fallback = class_lookup(tracer, meta, "__getattr__") if meta is not type else None
        if plain and fallback is None:
            return self.plain_attribute(tracer, name)
        try:
            return (
                self.plain_attribute(tracer, name)
                if plain
                else self._by_metaclass(tracer, "__getattribute__", None, name)
            )
        except Raised as raised:
            if fallback is None or not is_raised(raised, AttributeError):
                raise
        return py.call(tracer, bind(tracer, fallback, self, meta), [name], {})

    def plain_attribute(self, tracer: Tracer, name: str) -> Any:
        """`type.__getattribute__(self, name)`."""
        cls = self.concrete
        meta = type(cls)
        if name in _TYPE_ATTRIBUTES and raw_lookup(meta, name) is type.__dict__[name]:
            return self.computed(tracer, name)
        on_meta = class_lookup(tracer, meta, name) if meta is not type else None
        if on_meta is not None and note_if_data_descriptor(tracer, on_meta) and defines(type(on_meta.raw), "__get__"):
            return bind(tracer, on_meta, self, meta)
        found = class_lookup(tracer, cls, name)
        if found is not None:
            return bind(tracer, found, None, cls)
        if on_meta is None and meta is type:
            on_meta = class_lookup(tracer, meta, name)
        if on_meta is not None:
            return bind(tracer, on_meta, self, meta)
        raise_no_attribute_of_class(cls, name)

    def get_computed(self, tracer: Tracer, descriptor: Any) -> Any:
        return self.get_slot(tracer, descriptor)

    def computed(self, tracer: Tracer, name: str) -> Any:
        """Attributes that `type` computes from the class itself."""
        known = tracer.sources.known(self.concrete)
        if name in _PLAIN_ATTRIBUTES:
            value = type.__getattribute__(self.concrete, name)
            found = tracer.wrap(value, known.child("GETATTR", name))
            return tracer.constant(found) if is_constant(value) else found  # a name may be a new string each time
        if name == "__flags__":
            return _lasting_flags(self, tracer)
        if name == "__dict__":
            return ClassDictValue(self)
        if name == "__abstractmethods__" and type.__dict__["__flags__"].__get__(self.concrete) & _ABSTRACT:
            return tracer.constant(tracer.wrap(self.concrete.__abstractmethods__, known.child("GETATTR", name)))
        own = type.__dict__["__dict__"].__get__(self.concrete)
        stored = ("__doc__", "__module__", "__annotations__", "__type_params__")
        # (What `type` itself stores under such a name is how all classes are asked for it.)
        if name in stored and name in own and not is_data_descriptor(own[name]):
            return tracer.wrap(own[name], known.child("TYPE_LOOKUP", name))
        if name in ("__doc__", "__module__") and is_fixed(self.concrete):
            return type.__getattribute__(self.concrete, name)
        if name == "__type_params__" and self.own_entry(tracer, name) is MISSING:
            return ()
        if name == "__abstractmethods__" and self.own_entry(tracer, name) is MISSING:
            raise_error(AttributeError, name)
        if is_fixed(self.concrete) and name not in ("__abstractmethods__", "__annotations__"):
            value = type.__getattribute__(self.concrete, name)
            if is_constant(value):
                return value
        raise GraphBreak(FL0203, type=name_of(self.concrete), name=name)

    def get_slot(self, tracer: Tracer, descriptor: Any) -> Any:
        name = descriptor.__name__
        if descriptor is _CLASS_OF:
            return tracer.known_object(type(self.concrete))
        if type.__dict__.get(name) is not descriptor:
            self.refuse(f"attribute {name!r} of its metaclass")
        return self.computed(tracer, name)

    # -- change --------------------------------------------------------------------------------------------------

    def set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        if has_default(tracer, type(self.concrete), "__setattr__", type.__setattr__):
            self.plain_set_attribute(tracer, name, value)
        else:
            self._by_metaclass(tracer, "__setattr__", None, name, value)

    def delete_attribute(self, tracer: Tracer, name: str) -> None:
        if has_default(tracer, type(self.concrete), "__delattr__", type.__delattr__):
            self.plain_delete_attribute(tracer, name)
        else:
            self._by_metaclass(tracer, "__delattr__", None, name)

    def plain_delete_attribute(self, tracer: Tracer, name: str) -> None:
        """`type.__delattr__(self, name)`."""
        self.refuse(Operation.DELETE_ATTRIBUTE, name=name)

    def plain_set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        """`type.__setattr__(self, name, value)`."""
        cls = self.concrete
        if not _is_changeable(cls, name) or class_lookup(tracer, type(cls), name) is not None:
            self.refuse(Operation.SET_CLASS_ATTRIBUTE, name=name)
        tracer.journal.touch(self)
        tracer.made.assign(name)
        self.written[name] = value

    def replay(self, emit: Emitter) -> None:
        for name, value in self.written.items():
            emit.known_object(type)
            emit.load_method("__setattr__")
            emit.source(self.source)
            emit.constant(name)
            emit.value(value)
            emit.call(3)
            emit.pop_top()

    # -- its own namespace -----------------------------------------------------------------------------------------

    def own_entry(self, tracer: Tracer, name: Any) -> Any:
        """What stands in the class itself under a name, or MISSING; noted."""
        if type(name) is not str:
            return MISSING
        if name in self.written:
            return self.written[name]
        found = class_lookup(tracer, self.concrete, name)
        if found is None:
            return MISSING
        return tracer.wrap(found.raw, found.source) if note_own(tracer, self.concrete, name) else MISSING

    def own_entries(self, tracer: Tracer) -> dict[Any, Any]:
        known = tracer.sources.known(self.concrete)
        own = dict(own_entries(self.concrete))
        if not is_fixed(self.concrete):
            if self.written or not all(type(name) is str for name in own):
                self.refuse("listing the namespace")
            tracer.guard(known, "TYPE_KEYS", tuple(own))
        return {name: tracer.wrap(raw, known.child("TYPE_LOOKUP", name)) for name, raw in own.items()}

    # -- what its metaclass answers ------------------------------------------------------------------------------

    def _by_metaclass(self, tracer: Tracer, method: str, operation: Callable[..., Any] | None, *args: Any) -> Any:
        """Call a method of the metaclass; where it has none, raise what `operation` says (None: it has one)."""
        found = special_method(tracer, self, type(self.concrete), method)
        if found is None:
            assert operation is not None
            raise_what(operation, stand_in(type(self.concrete)), *map(stand_in_for, args))
        if _is_in_c(type(self.concrete), method):
            self.refuse(f"{method} of a metaclass written in C")
        return py.call(tracer, found, list(args), {})

    def _by_own_metaclass(self, tracer: Tracer, method: str, *args: Any) -> Any:
        """What a method of the metaclass gives that `type` does not have; NotImplemented: there is none."""
        meta = type(self.concrete)
        if meta is type or raw_lookup(meta, method) is raw_lookup(type, method):
            return NotImplemented
        return plain_answer(tracer, self._by_metaclass(tracer, method, None, *args))

    def iterate(self, tracer: Tracer) -> Any:
        return self._by_metaclass(tracer, "__iter__", iter)

    def length(self, tracer: Tracer) -> Any:
        return self._by_metaclass(tracer, "__len__", len)

    def contains(self, tracer: Tracer, item: Any) -> Any:
        return py.truth(tracer, self._by_metaclass(tracer, "__contains__", operator.contains, item))

    def item(self, tracer: Tracer, key: Any) -> Any:
        if defines(type(self.concrete), "__getitem__"):
            return self._by_metaclass(tracer, "__getitem__", operator.getitem, key)
        if self.concrete is type:
            self.refuse("indexing")
        found = class_lookup(tracer, self.concrete, "__class_getitem__")
        getter = None if found is None else bind(tracer, found, None, self.concrete)
        if getter is None or is_blocked(tracer, getter):
            raise_what(operator.getitem, type(stand_in(self.concrete)), 0)
        return py.call(tracer, getter, [key], {})

    def truth(self, tracer: Tracer) -> bool:
        if type(self.concrete) is type:
            return True
        found = special_method(tracer, self, type(self.concrete), "__bool__")
        if found is not None:
            return py.truth(tracer, py.call(tracer, found, [], {}))
        return not defines(type(self.concrete), "__len__") or py.truth(tracer, self.length(tracer))

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        result = self._by_own_metaclass(tracer, COMPARE_METHODS[operator], other)
        if operator == "!=" and raw_lookup(type(self.concrete), "__ne__") is object.__ne__:
            result = self._by_own_metaclass(tracer, "__eq__", other)
            return result if result is NotImplemented else not py.truth(tracer, result)
        return result

    def key(self, tracer: Tracer) -> Any:
        meta = type(self.concrete)
        for method in ("__hash__", "__eq__"):
            if not has_default(tracer, meta, method, raw_lookup(type, method)):
                self.refuse(f"use as a key with the {method} of its metaclass")
        key = super().key(tracer)
        if self.source is None or tracer.made.of(self.concrete) is not None:
            return key
        self.note(tracer)
        return PlacedIdentity(self)

    # -- instances -----------------------------------------------------------------------------------------------

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        cls = self.concrete
        model = tracer.model_of(cls)
        if model is not None:
            return model(tracer, args, kwargs)
        if has_default(tracer, type(cls), "__call__", type.__dict__["__call__"]):
            return self.instantiate(tracer, args, kwargs)
        return py.call(tracer, special_method(tracer, self, type(cls), "__call__"), args, kwargs)

    def instantiate(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """`type.__call__(cls, *args, **kwargs)`."""
        cls = self.concrete
        if (
            not is_plain_class(cls)
            and not is_subclass(cls, BaseException)
            and not is_subclass(cls, type)
            and container_base(cls) is None
            and scalar_base(cls) is None
            and not has_modelled_new(tracer, cls)
        ):
            if is_subclass(cls, torch.Tensor):
                return self._make_tensor(tracer, args, kwargs)
            raise GraphBreak(FL0102, what=self.describe())
        new = class_lookup(tracer, cls, "__new__")
        assert new is not None
        instance = py.call(tracer, bind(tracer, new, None, cls), [self, *args], kwargs)
        kind = py.type_of(instance)
        if not is_subclass(kind, cls):
            return instance
        init = class_lookup(tracer, kind, "__init__")
        assert init is not None
        result = py.call(tracer, bind(tracer, init, instance, kind), args, kwargs)
        if result is not None:
            raise_what(answering, cls, "__init__", stand_in(py.type_of(result)))
        return instance

    def _make_tensor(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A tensor by a `__new__` of the program's; one in C makes it otherwise."""
        cls = self.concrete
        new = class_lookup(tracer, cls, "__new__")
        function = getattr(new.raw if new is not None else None, "__func__", None)
        if new is None or type(function) is not FunctionType:
            raise GraphBreak(FL0306, type=name_of(cls))
        instance = py.call(tracer, bind(tracer, new, None, cls), [self, *args], kwargs)
        kind = py.type_of(instance)
        if is_subclass(kind, cls):
            init = class_lookup(tracer, kind, "__init__")
            if init is not None and init.raw is not raw_lookup(torch.Tensor, "__init__"):
                method = bind(tracer, init, instance, kind)
                if _is_hidden_from_torch(init.raw):
                    method = bound_method(py.attribute(tracer, tracer.known_object(init.raw), "__wrapped__"), instance)
                py.call(tracer, method, args, kwargs)
        return instance

    def graph_argument(self, tracer: Tracer) -> Any:
        """`dtype=int`: torch takes the types of Python's numbers for the widest dtypes of their kind."""
        for kind, dtype in _NUMBER_DTYPES:
            if self.concrete is kind:
                return dtype
        self.refuse(Operation.GRAPH_ARGUMENT)

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        method = INPLACE_METHODS.get(operator) or BINARY_METHODS[operator][0]
        if operator != "|" or raw_lookup(type(self.concrete), method) is not raw_lookup(type, method):
            return self._by_own_metaclass(tracer, method, other)
        made = union(tracer, self, other)
        if made is NotImplemented:
            self.refuse("union with something that is no type")
        return made

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if py.type_of(other) is type(self.concrete):
            return NotImplemented
        return self._by_own_metaclass(tracer, BINARY_METHODS[operator][1], other)

    def unary(self, tracer: Tracer, operator: str) -> Any:
        return self._by_metaclass(tracer, UNARY_METHODS[operator], py.UNARY[operator])

    def text(self, tracer: Tracer, conversion: str) -> str:
        meta = type(self.concrete)
        own = "__repr__" if has_default(tracer, meta, "__str__", object.__str__) or conversion == "repr" else "__str__"
        if not has_default(tracer, meta, own, raw_lookup(type, own)):
            text: str = tracer.constant(self._by_metaclass(tracer, own, None))
            return text
        return type.__repr__(self.concrete)


def has_modelled_new(tracer: Tracer, cls: type) -> bool:
    """Whether the C class that instances are made of is one whose `__new__` is modelled for subclasses, too."""
    candidates = (own_entries(base).get("__new__") for base in mro_of(cls))
    native = next(new for new in candidates if type(new) is types.BuiltinFunctionType)
    return native is not object.__new__ and tracer.model_of(native) is not None


class ClassDictValue(DictValue):
    """`cls.__dict__`: what stands in a class now, to be read only."""

    __slots__ = ("cls",)

    def __init__(self, cls: ClassValue) -> None:
        super().__init__({})
        self.cls = cls

    def python_type(self) -> type:
        return MappingProxyType

    def get_key(self, tracer: Tracer, key: Any) -> Any:
        return self.cls.own_entry(tracer, key)

    def entries(self, tracer: Tracer) -> dict[Any, Any]:
        return self.cls.own_entries(tracer)

    def length(self, tracer: Tracer) -> Any:
        return len(self.entries(tracer))

    def make(self, entries: dict[Any, Any]) -> DictValue:
        return DictValue(entries)

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name not in _READING:
            self.refuse(Operation.ATTRIBUTE, name=name)
        return super().attribute(tracer, name)

    def set_item(self, tracer: Tracer, key: Any, value: Any) -> None:
        raise_what(operator.setitem, types.MappingProxyType({}), stand_in_for(key), None)

    def delete_item(self, tracer: Tracer, key: Any) -> None:
        raise_what(operator.delitem, types.MappingProxyType({}), stand_in_for(key))

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        self.refuse(f"{operator}")

    def is_same(self, tracer: Tracer, other: Value) -> bool:
        self.refuse(Operation.IDENTITY)

    def parts(self) -> list[Any]:
        return [self.cls]

    def rebuild(self, emit: Emitter) -> None:
        emit.value(self.cls)
        emit.load_attribute("__dict__")


_READING = frozenset({"get", "keys", "values", "items", "copy", "__contains__", "__getitem__", "__iter__", "__len__"})
_NUMBER_DTYPES = ((int, torch.int64), (float, torch.float64), (bool, torch.bool), (complex, torch.complex128))
_CLASS_OF = object.__dict__["__class__"]
_PLAIN_ATTRIBUTES = frozenset({"__name__", "__qualname__", "__mro__", "__bases__", "__base__"})
# The attributes of a class that `type` stores or computes: they go before what the class itself says.
_TYPE_ATTRIBUTES = frozenset(name for name, found in type.__dict__.items() if is_data_descriptor(found))
_ABSTRACT = 1 << 20
_HEAPTYPE, _IMMUTABLE, _VERSION_IS_VALID = 1 << 9, 1 << 8, 1 << 19


def attribute_name(tracer: Tracer, name: Any) -> str:
    """The name that `setattr` and its like are given."""
    plain = tracer.constant(name)
    if type(plain) is not str:
        raise GraphBreak(FL0102, what=f"an attribute whose name is {py.describe(name)}")
    return plain


def _is_in_c(meta: type, method: str) -> bool:
    """Whether a metaclass has a method written in C that is not `type`'s: tracing cannot tell what it does."""
    found = raw_lookup(meta, method)
    return isinstance(found, types.WrapperDescriptorType) and found.__objclass__ not in (type, object)


def _answers_as_type(cls: type, name: str) -> bool:
    """Whether a metaclass with a `__getattribute__` written in C gives what `type` gives: C alone is asked."""
    meta = type(cls)
    if not _is_in_c(meta, "__getattribute__"):
        return False
    for raw in (raw_lookup(cls, name), raw_lookup(meta, name)):
        if defines(type(raw), "__get__") and not is_fixed(type(raw)):
            return False
    answers = []
    for getattribute in (raw_lookup(meta, "__getattribute__"), type.__getattribute__):
        try:
            answers.append(getattribute(cls, name))
        except AttributeError:
            answers.append(MISSING)
    return answers[0] is answers[1]


def can_be_held(raw: Any) -> bool:
    """Whether a guard can hold an object: a constant, or weakly."""
    return (
        is_constant(raw) or bool(type.__dict__["__weakrefoffset__"].__get__(type(raw))) or has_type(raw, _FIXED_KINDS)
    )


_FIXED_KINDS = (types.GetSetDescriptorType, types.MemberDescriptorType, *METHOD_WRAPPERS, types.BuiltinFunctionType)


def _lasting_flags(value: ClassValue, tracer: Tracer) -> int:
    """`cls.__flags__`, without the one that comes and goes with the interpreter's caches."""
    flags: int = type.__dict__["__flags__"].__get__(value.concrete)
    if flags & _ABSTRACT:  # as long as it has abstract methods
        tracer.constant(value.computed(tracer, "__abstractmethods__"))
    return flags & ~_VERSION_IS_VALID


def _is_changeable(cls: type, name: str) -> bool:
    """Whether an attribute of a class written in Python means nothing to the interpreter itself."""
    flags = type.__dict__["__flags__"].__get__(cls)
    return bool(flags & _HEAPTYPE) and not flags & _IMMUTABLE and not (name.startswith("__") and name.endswith("__"))


def make_instance(tracer: Tracer, cls: type, args: Sequence[Any] = (), kwargs: Mapping[str, Any] = NOTHING) -> Any:
    """`object.__new__(cls, *args, **kwargs)`."""
    if not is_plain_class(cls):
        raise GraphBreak(FL0102, what=f"object.__new__ of class {qualified_name_of(cls)}")
    if args or kwargs:
        if not has_default(tracer, cls, "__new__", object.__new__):
            raise_what(object.__new__, type(stand_in(cls, __new__=lambda made: object.__new__(made))), None)
        if has_default(tracer, cls, "__init__", object.__init__):
            raise_what(type(stand_in(cls)), None)
    if type.__dict__["__flags__"].__get__(cls) & _ABSTRACT:
        py.fold(tracer, object.__new__, cls)  # says which methods are missing
    note_instantiable(tracer, cls)
    return UserObjectValue(cls)


def note_instantiable(tracer: Tracer, cls: type) -> None:
    """Whether nothing happens when an instance dies: residual code makes the objects that are left, and only those."""
    if class_lookup(tracer, cls, "__del__") is not None:
        raise GraphBreak(FL0102, what=f"class {qualified_name_of(cls)} with a __del__")


def init_instance(tracer: Tracer, instance: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """`object.__init__(instance, *args, **kwargs)`."""
    if args or kwargs:
        cls = py.type_of(instance)
        if not has_default(tracer, cls, "__init__", object.__init__):
            raise_what(object.__init__, stand_in(cls, __init__=lambda made: None), None)
        if has_default(tracer, cls, "__new__", object.__new__):
            raise_what(object.__init__, stand_in(cls), None)


class SuperValue(Value):
    """`super()`: attribute lookup that starts after `start` in the MRO of the instance's class."""

    __slots__ = ("start", "instance", "cls")

    def __init__(self, start: type, instance: Any, cls: type) -> None:
        super().__init__()
        self.start = start
        self.instance = instance
        # In a method of a metaclass the instance is a class, but not one below `start`.
        self.cls = cls if is_subclass(cls, start) or not isinstance(instance, ClassValue) else type(instance.concrete)

    def python_type(self) -> type:
        return super

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "__class__":
            return tracer.known_object(super)
        mro = mro_of(self.cls)
        position = next((i for i, base in enumerate(mro) if base is self.start), None)
        if position is None:
            raise_what(super, int, None)
        for count, base in enumerate(mro[position + 1 :], position + 2):
            found = class_lookup(tracer, base, name)
            if found is not None and note_own(tracer, base, name):
                note_mro(tracer, self.cls, count)
                is_class = isinstance(self.instance, ClassValue) and self.instance.concrete is self.cls
                return bind(tracer, found, None if is_class else self.instance, self.cls)
        note_mro(tracer, self.cls, len(mro))
        raise_no_attribute(super, name)

    def set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        self.refuse("assignment through super()")

    def parts(self) -> list[Any]:
        return [self.instance]

    def rebuild(self, emit: Emitter) -> None:
        emit.callable(super)
        emit.known_object(self.start)
        emit.value(self.instance)
        emit.call(2)


def note_mro(tracer: Tracer, cls: type, count: int) -> None:
    """Guard the first `count` classes of an MRO."""
    if tracer.noted_bases.get(id(cls), 0) >= count:
        return
    tracer.noted_bases[id(cls)] = count  # the source keeps the class
    mro = mro_of(cls)
    source: Source = tracer.sources.known(cls).child("GETATTR", "__mro__")
    tracer.guard(source, "LENGTH", len(mro))
    for position, base in enumerate(mro[:count]):
        tracer.guard(source.child("TUPLE_ITEM", position), "IS", base)
