"""Instances of Python classes that inherit from a built-in container: `class Output(OrderedDict)`.

Such an instance is an object (class, namespace, slots) that owns a *storage*: the value of its C base. Attributes and
operators are looked up on the class as for any instance. Where that finds a method of the C base, it acts on the
storage; where it finds the user's own, that one runs. Inputs are read and changed through methods of the C base only.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102_OPERAND, FL0109, GraphBreak
from framelift.guards.reading import stored_items
from framelift.guards.source import Source
from framelift.values.containers.collections_deque import DequeValue, deque_inside, limit_of
from framelift.values.containers.collections_dicts import DefaultDictValue, OrderedDictValue, is_in_order
from framelift.values.containers.dicts import DictValue, pairs
from framelift.values.containers.sequences import ListValue
from framelift.values.containers.sets import SetValue
from framelift.values.core import protocol as py
from framelift.values.core.arity import reject_init
from framelift.values.core.constants import is_constant
from framelift.values.core.exceptions import raise_error
from framelift.values.core.hash_keys import stored_again
from framelift.values.core.lookup import (
    class_lookup,
    container_base,
    has_default,
    is_subclass,
    name_of,
    raw_lookup,
    special_method,
)
from framelift.values.core.primitives import Arity, primitive
from framelift.values.core.refusals import Operation
from framelift.values.objects import attributes
from framelift.values.objects.classes import ClassValue, note_instantiable
from framelift.values.objects.instances import UserObjectValue

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


class ContainerObjectValue(UserObjectValue):
    """An instance whose class inherits from a C container."""

    __slots__ = ("base", "_storage")
    base: type
    # C code takes instances of subclasses in places that the models of the exact types do not know.
    answers_operators = False

    def __init__(self, cls: type, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(cls, source, concrete)
        base = container_base(cls)
        assert base is not None
        self.base = base
        self._storage: Any = None if source is not None else _STORAGES[base].fresh(self)

    def storage(self, tracer: Tracer) -> Any:
        """The value of the C base."""
        if self._storage is None:
            self.note(tracer)
            self._storage = _STORAGES[self.base].stored(self, tracer)
        return self._storage

    def storage_of(self, tracer: Tracer, kind: type) -> Any:
        return self.storage(tracer) if is_subclass(self.base, kind) else None

    def mergeable(self, tracer: Tracer) -> Any:
        """The storage, if the class is a dict with the `__iter__` of dict: then C code does not ask it."""
        if is_subclass(self.base, dict):
            self.note(tracer)
            if has_default(tracer, self.cls, "__iter__", dict.__iter__):
                return self.storage(tracer)
        return self

    def default(self, name: str) -> Any:
        return raw_lookup(self.base, name)  # C types repeat what `object` has

    def get_slot(self, tracer: Tracer, descriptor: Any) -> Any:
        if descriptor.__objclass__ is defaultdict:
            return self.storage(tracer).factory(tracer)
        return super().get_slot(tracer, descriptor)

    def set_slot(self, tracer: Tracer, descriptor: Any, value: Any) -> None:
        if descriptor.__objclass__ is defaultdict:
            self.refuse("assignment of default_factory")
        super().set_slot(tracer, descriptor, value)

    def get_computed(self, tracer: Tracer, descriptor: Any) -> Any:
        if descriptor.__objclass__ is deque:
            return self.storage(tracer).limit
        return super().get_computed(tracer, descriptor)

    def overrides(self, tracer: Tracer, *names: str) -> bool:
        """Whether the class has an own version of one of these methods of its C base; noted."""
        defaults = [has_default(tracer, self.cls, name, raw_lookup(self.base, name)) for name in names]
        return not all(defaults)

    def inherited(self, tracer: Tracer, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Call the method `name` of the C base."""
        if name in attributes.METHODS:
            return attributes.by_method(tracer, self, name, args, kwargs)
        if self.base is deque and name in _ON_A_COPY and len(args) == _ON_A_COPY[name].count("=") and not kwargs:
            return self._on_a_copy(tracer, _ON_A_COPY[name], args)
        if (self.base, name) in _MAKES_ANOTHER:
            self.refuse(f"{name}(), which makes another instance")
        if name in _WALKING and class_lookup(tracer, self.cls, "__del__") is not None:
            raise GraphBreak(FL0109, what=self.describe())  # as an iterator does that comes to its end
        storage = self.storage(tracer)
        if self.base is OrderedDict and name in _ASKS_THE_CLASS and self.overrides(tracer, *_ITEM_METHODS):
            if name not in ("__init__", "update", "__ior__"):
                self.refuse(f"{name}() with item methods of its own")
            self._update_by_items(tracer, args, kwargs)
            return self if name == "__ior__" else None
        if name == "__init__":
            if not _arity_of_init(type(storage).initialise)(args, kwargs):
                reject_init(self.base, self.cls.__name__, args, kwargs)
            storage.initialise(tracer, *args, **kwargs)
            return None
        if name in _READS_OTHERS:
            args = [_raw(tracer, argument, self.base, name) for argument in args]
        if name in _COPIES and is_subclass(self.base, dict):
            storage = _merged(tracer, self)
        result = py.call(tracer, py.attribute(tracer, storage, name), args, kwargs)
        return self if result is storage else result

    def _on_a_copy(self, tracer: Tracer, operator: str, args: list[Any]) -> Any:
        """What `deque` does for a subclass: its class makes another instance, which C code then changes."""
        limit = self.storage(tracer).limit
        others = [deque_inside(tracer, argument) if operator == "+=" else argument for argument in args]
        if any(other is None for other in others):
            return NotImplemented
        made = py.call(tracer, tracer.known_object(self.cls), [self] if limit is None else [self, limit], {})
        items = deque_inside(tracer, made)
        if items is None:
            self.refuse("a copy that is no deque")
        if operator and items.binary(tracer, operator, *others) is NotImplemented:
            return NotImplemented
        return made

    def _update_by_items(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> None:
        """What `OrderedDict` does for a subclass: every item is set by the class's `__setitem__`."""
        if len(args) > 1:
            self.refuse(Operation.ARGUMENTS, name="update")
        for key, value in pairs(tracer, args[0], OrderedDictStorage.halves) if args else ():
            py.set_item(tracer, self, key, value)
        for name, value in kwargs.items():
            py.set_item(tracer, self, name, value)

    def parts(self) -> list[Any]:
        return [*super().parts(), *([] if self._storage is None else self._storage.parts())]

    def rebuild_new(self, emit: Emitter) -> None:
        emit.known_object(self.base)
        emit.load_method("__new__")
        emit.known_object(self.cls)
        emit.call(1)
        emit.remember(self)
        self._storage.rebuild_filling(emit)


# What gives an iterator that keeps the container, or leads to one.
_WALKING = frozenset({"__iter__", "__reversed__", "keys", "values", "items"})
# What a subclass of OrderedDict does by way of the methods of its class.
_ASKS_THE_CLASS = frozenset({"__init__", "update", "setdefault", "__ior__"})
_ITEM_METHODS = ("__getitem__", "__setitem__", "__delitem__", "__contains__")
_MAKES_ANOTHER = {
    (OrderedDict, "copy"),
    (OrderedDict, "__or__"),
    (OrderedDict, "__ror__"),
    (defaultdict, "copy"),
    (defaultdict, "__or__"),
    (defaultdict, "__ror__"),
    (defaultdict, "__copy__"),
    (set, "copy"),
}
# Methods of deques that make a copy, and what they then do to it.
_ON_A_COPY = {"copy": "", "__copy__": "", "__add__": "+=", "__mul__": "*=", "__rmul__": "*="}
# Methods whose C code reads the storage of a second container directly.
_COMPARISONS = frozenset({"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"})
_READS_OTHERS = _COMPARISONS | {"__add__", "__or__", "__ror__", "__and__", "__rand__", "__sub__", "__rsub__", "__xor__"}
# Methods of dicts whose C code makes a copy first.
_COPIES = frozenset({"copy", "__or__", "__ror__"})


@functools.cache
def _arity_of_init(initialise: Callable[..., None]) -> Arity:
    return Arity(initialise, 2)


def _raw(tracer: Tracer, value: Any, base: type, method: str) -> Any:
    if isinstance(value, ContainerObjectValue) and (is_subclass(value.base, base) or is_subclass(base, value.base)):
        value.note(tracer)
        return _merged(tracer, value) if method in _COPIES and is_subclass(base, dict) else value.storage(tracer)
    return value


def _merged(tracer: Tracer, value: ContainerObjectValue) -> DictValue:
    """What C code makes a dict from: the storage, or what `keys` says of a class with an `__iter__` of its own."""
    storage = value.mergeable(tracer)
    if storage is value:
        storage = DictValue({})
        storage.update(tracer, value)
    found: DictValue = storage
    return found


# -- storages --------------------------------------------------------------------------------------------------------


class Storage:
    """A value of the C base that is part of an instance; it reaches the real object through methods of that base."""

    __slots__ = ()
    owner: ContainerObjectValue

    @classmethod
    @abstractmethod
    def fresh(cls, owner: ContainerObjectValue) -> Any:
        """The storage of an instance that the program makes."""

    @classmethod
    @abstractmethod
    def stored(cls, owner: ContainerObjectValue, tracer: Tracer) -> Any:
        """The storage of an instance that existed before the frame."""

    def _own(self: Any, owner: ContainerObjectValue) -> Any:
        self.owner = owner
        self.noted = True  # the owner's type is
        return self

    def emit_call(self, emit: Emitter, name: str, *args: Any) -> None:
        """Emit `base.name(owner, *args)`."""
        emit.known_object(self.owner.base)
        emit.call_method(name, (self.owner, *args))

    def emit_store(self, emit: Emitter, key: Any, value: Any) -> None:
        self.emit_call(emit, "__setitem__", key, value)
        emit.pop_top()

    def emit_delete(self, emit: Emitter, key: Any) -> None:
        self.emit_call(emit, "__delitem__", key)
        emit.pop_top()

    def rebuild(self, emit: Emitter) -> None:
        emit.value(self.owner)


class DictStorage(Storage, DictValue):
    """The items of an instance of a dict subclass."""

    __slots__ = ("owner",)

    @classmethod
    def fresh(cls, owner: ContainerObjectValue) -> Any:
        return cls({})._own(owner)

    @classmethod
    def stored(cls, owner: ContainerObjectValue, tracer: Tracer) -> Any:
        return cls(None, owner.source, _read_dict(owner))._own(owner)

    def missing(self, tracer: Tracer, key: Any) -> Any:
        method = special_method(tracer, self.owner, self.owner.cls, "__missing__")
        if method is None:
            raise_error(KeyError, key)
        return py.call(tracer, method, [key], {})

    def make(self, entries: dict[Any, Any]) -> DictValue:
        return DictValue(entries)

    def initialise(self, tracer: Tracer, other: Any = (), /, **kwargs: Any) -> None:
        self.update(tracer, other, **kwargs)

    def rebuild_filling(self, emit: Emitter) -> None:
        for key, value in self.overlay.items():
            self.emit_call(emit, "__setitem__", stored_again(key), value)
            emit.pop_top()


class OrderedDictStorage(Storage, OrderedDictValue):
    """The items of an instance of a subclass of OrderedDict."""

    __slots__ = ("owner",)
    fresh = DictStorage.__dict__["fresh"]
    missing = DictStorage.missing
    initialise = DictStorage.initialise
    rebuild_filling = DictStorage.rebuild_filling
    attribute = DictValue.attribute  # what shadows methods is in the namespace of the owner, which has been asked

    @classmethod
    def stored(cls, owner: ContainerObjectValue, tracer: Tracer) -> Any:
        if not is_in_order(owner.concrete):
            owner.refuse("use after methods of dict changed it")
        return cls(None, owner.source, _read_dict(owner))._own(owner)

    def text(self, tracer: Tracer, conversion: str) -> str:
        return name_of(self.owner.cls) + super().text(tracer, conversion).removeprefix("OrderedDict")


class DefaultDictStorage(Storage, DefaultDictValue):
    """The items of an instance of a subclass of defaultdict."""

    __slots__ = ("owner",)

    @classmethod
    def fresh(cls, owner: ContainerObjectValue) -> Any:
        return cls({}, factory=None)._own(owner)

    @classmethod
    def stored(cls, owner: ContainerObjectValue, tracer: Tracer) -> Any:
        assert owner.source is not None
        storage = cls(None, owner.source, _read_dict(owner))._own(owner)
        member = defaultdict.__dict__["default_factory"]
        if not has_default(tracer, owner.cls, "default_factory", member):
            owner.refuse("use with a default_factory that its class hides")
        storage._factory = tracer.wrap(member.__get__(owner.concrete), owner.source.child("GETATTR", "default_factory"))
        return storage

    def missing(self, tracer: Tracer, key: Any) -> Any:
        if not has_default(tracer, self.owner.cls, "__missing__", defaultdict.__dict__["__missing__"]):
            return py.call(tracer, special_method(tracer, self.owner, self.owner.cls, "__missing__"), [key], {})
        if py.same(tracer, self._factory, None):
            raise_error(KeyError, key)
        value = py.call(tracer, self._factory, [], {})
        py.set_item(tracer, self.owner, key, value)
        return value

    def initialise(self, tracer: Tracer, factory: Any = None, other: Any = (), /, **kwargs: Any) -> None:
        if self.source is not None:
            self.refuse(Operation.INIT_AGAIN)
        tracer.journal.touch(self)
        self._factory = factory
        self.update(tracer, other, **kwargs)

    def text(self, tracer: Tracer, conversion: str) -> str:
        return name_of(self.owner.cls) + super().text(tracer, conversion).removeprefix("defaultdict")

    def rebuild_filling(self, emit: Emitter) -> None:
        self.emit_call(emit, "__init__", self._factory)
        emit.pop_top()
        DictStorage.rebuild_filling(self, emit)  # type: ignore[arg-type]


class ListStorage(Storage, ListValue):
    """The items of an instance of a list subclass."""

    __slots__ = ("owner",)

    @classmethod
    def fresh(cls, owner: ContainerObjectValue) -> Any:
        return cls([])._own(owner)

    @classmethod
    def stored(cls, owner: ContainerObjectValue, tracer: Tracer) -> Any:
        return cls(None, owner.source, list(list.__iter__(owner.concrete)))._own(owner)

    def initialise(self, tracer: Tracer, iterable: Any = (), /) -> None:
        new = py.listed(tracer, iterable)
        self.change(tracer)[:] = new

    def replay(self, emit: Emitter) -> None:
        if self._items is None:
            self.emit_call(emit, "extend", ListValue(list(self._appended)))
        else:
            self.emit_call(emit, "__setitem__", slice(None), ListValue(list(self._items)))
        emit.pop_top()

    def rebuild_filling(self, emit: Emitter) -> None:
        if self.parts():
            self.emit_call(emit, "extend", ListValue(list(self.parts())))
            emit.pop_top()


class DequeStorage(Storage, DequeValue):
    """The items of an instance of a subclass of deque."""

    __slots__ = ("owner",)
    assigns = (*DequeValue.assigns, "limit")

    @classmethod
    def fresh(cls, owner: ContainerObjectValue) -> Any:
        return cls([], None)._own(owner)

    @classmethod
    def stored(cls, owner: ContainerObjectValue, tracer: Tracer) -> Any:
        assert owner.source is not None
        member = deque.__dict__["maxlen"]
        if not has_default(tracer, owner.cls, "maxlen", member):
            owner.refuse("use with a maxlen that its class hides")
        limit = member.__get__(owner.concrete)
        tracer.guard(owner.source.child("GETATTR", "maxlen"), "IS" if limit is None else "EQUALS", limit)
        return cls(None, limit, owner.source, list(deque.__iter__(owner.concrete)))._own(owner)

    @property
    def name(self) -> str:
        return name_of(self.owner.cls)

    def initialise(self, tracer: Tracer, iterable: Any = (), maxlen: Any = None) -> None:
        if self.source is not None:
            self.refuse(Operation.INIT_AGAIN)
        limit = limit_of(tracer, maxlen)
        items = self.change(tracer)
        self.limit = limit
        items.clear()
        self.extend(tracer, iterable)

    def rebuild_filling(self, emit: Emitter) -> None:
        if self.limit is not None:
            self.emit_call(emit, "__init__", (), self.limit)
            emit.pop_top()
        if self.parts():
            self.emit_extend(emit)


class SetStorage(Storage, SetValue):
    """The members of an instance of a set subclass."""

    __slots__ = ("owner",)

    @classmethod
    def fresh(cls, owner: ContainerObjectValue) -> Any:
        return cls(set())._own(owner)

    @classmethod
    def stored(cls, owner: ContainerObjectValue, tracer: Tracer) -> Any:
        members = list(set.__iter__(owner.concrete))
        if not all(map(is_constant, members)):
            owner.refuse(Operation.CONSTANT_MEMBERS)
        return cls(None, set, owner.source, members, ordered=False)._own(owner)

    def initialise(self, tracer: Tracer, iterable: Any = (), /) -> None:
        self.clear(tracer)
        self.update(tracer, iterable)

    def text(self, tracer: Tracer, conversion: str) -> str:
        shown = super().text(tracer, conversion)
        return f"{name_of(self.owner.cls)}({shown if shown.startswith('{') else ''})"

    def text_again(self) -> str | None:
        return f"{name_of(self.owner.cls)}(...)"

    def emit_change(self, emit: Emitter, name: str, operands: list[Any]) -> None:
        self.emit_call(emit, name, *operands)

    def rebuild_filling(self, emit: Emitter) -> None:
        members, _ = self.ordered_members(set)
        if members:
            self.emit_call(emit, "update", ListValue([stored_again(member) for member in members]))
            emit.pop_top()


_STORAGES: dict[type, Any] = {
    dict: DictStorage,
    OrderedDict: OrderedDictStorage,
    defaultdict: DefaultDictStorage,
    list: ListStorage,
    deque: DequeStorage,
    set: SetStorage,
}


def _read_dict(owner: ContainerObjectValue) -> dict[Any, Any]:
    """A copy of the items in the real object, read below every method of the user's."""
    items = stored_items(owner.concrete)
    if not all(is_constant(key) for key, _ in items):
        owner.refuse("use with keys that are not plain constants")
    return dict(items)


# -- making them -----------------------------------------------------------------------------------------------------


@primitive(dict.__new__, list.__new__, deque.__new__, set.__new__)
def _container_new(tracer: Tracer, cls: Any, /, *args: Any, **kwargs: Any) -> Any:
    """`dict.__new__(cls, ...)`: empty, whatever the arguments."""
    if not isinstance(cls, ClassValue):
        raise_error(TypeError, f"X is not a type object ({name_of(py.type_of(cls))})")
    cls.note(tracer)
    kind = cls.concrete
    makers: dict[type, Any] = {dict: DictValue, OrderedDict: OrderedDictValue}
    if kind in makers:
        return makers[kind]({})
    if container_base(kind) is None or kind in _STORAGES:
        raise GraphBreak(FL0102_OPERAND, what="__new__", operand=cls.describe())
    note_instantiable(tracer, kind)
    return ContainerObjectValue(kind)
