"""Instances of classes written in Python."""

from __future__ import annotations

import operator
import sys
import types
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from torch._C import _disabled_torch_function_impl

from framelift.breaks import FL0102, FL0102_RESULT, FL0202, FL0203, FL0306, GraphBreak, Overridden
from framelift.guards.source import Source
from framelift.models.builtins import by_items
from framelift.native import _core
from framelift.values.containers.dicts import DELETED, MISSING, DictValue
from framelift.values.containers.namespaces import NamespaceValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Exhausted, Raised, Value
from framelift.values.core.exceptions import as_end, is_raised, raise_error
from framelift.values.core.hash_keys import EqualKey
from framelift.values.core.lookup import (
    class_lookup,
    defines,
    has_default,
    has_instance_dict,
    instance_dict,
    is_blocked,
    is_subclass,
    name_in_slot_errors,
    name_of,
    qualified_name_of,
    raw_lookup,
    special_method,
)
from framelift.values.core.operator_methods import BINARY_METHODS, COMPARE_METHODS, INPLACE_METHODS, UNARY_METHODS
from framelift.values.core.refusals import Operation
from framelift.values.core.stand_ins import (
    answering,
    raise_no_attribute,
    raise_unhashable,
    raise_what,
    stand_in,
    stand_in_for,
)
from framelift.values.numbers.symbolic import SymbolicValue
from framelift.values.objects import attributes
from framelift.values.objects.module_labels import label_with
from framelift.values.objects.number_slots import number_of

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


class _HasItems:
    def __getitem__(self, index: int) -> None: ...


_ITEM_ITERATOR: type = type(iter(_HasItems()))


def plain_answer(tracer: Tracer, result: Any) -> Any:
    """What a special method gave; NotImplemented as itself."""
    return tracer.constant(result) if py.type_of(result) is type(NotImplemented) else result


def _empty_slot(obj: Any, name: str) -> None:
    """What residual code does to a slot that the program emptied, perhaps after it had filled it."""
    with suppress(AttributeError):
        object.__delattr__(obj, name)


def _are_off(tracer: Tracer) -> bool:
    return not tracer.modes.asks_classes or bool(tracer.modes.without_overrides)


class UserObjectValue(Value):
    """An instance: a class, a namespace, perhaps slots. Operators go through the methods of its class."""

    __slots__ = ("cls", "_namespace", "slots", "written")
    assigns: tuple[str, ...] = ("_namespace",)
    mutates: tuple[str, ...] = ("slots", "written")
    death_shows = True

    def __init__(self, cls: type, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(source, concrete)
        self.cls = cls
        self._namespace: DictValue | None = None
        self.slots: dict[Any, Any] = {}
        self.written: set[Any] = set()

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(type(obj), source, obj)

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"{qualified_name_of(self.cls)} object"

    # -- attributes ----------------------------------------------------------------------------------------------

    def default(self, name: str) -> Any:
        """The method of a class that has none of its own."""
        return object.__dict__[name]

    def namespace(self, tracer: Tracer) -> DictValue | None:
        """The instance dictionary; None for a class that has none."""
        if self._namespace is None and has_instance_dict(self.cls):
            if self.source is None:
                self._namespace = NamespaceValue(self)
            else:
                self.note(tracer)
                real = instance_dict(self.concrete)
                if type(real) is not dict:
                    self.refuse("use with a __dict__ of another type")
                self._namespace = tracer.wrap(real, self.source.child("INSTANCE_DICT"))
        return self._namespace

    def get_slot(self, tracer: Tracer, descriptor: Any) -> Any:
        found = self.slots.get(descriptor, MISSING)
        if found is MISSING and self.source is not None:
            if not _core.is_slot(descriptor):
                raise GraphBreak(FL0203, type=name_of(self.cls), name=descriptor.__name__)
            try:
                real = descriptor.__get__(self.concrete, self.cls)
            except AttributeError:
                self.refuse(f"reading the unset slot {descriptor.__name__!r}")
            found = self.slots[descriptor] = tracer.wrap(real, self.source.child("SLOT", descriptor))
        if found is MISSING or found is DELETED:
            raise_no_attribute(name_in_slot_errors(self.cls), descriptor.__name__)
        return found

    def set_slot(self, tracer: Tracer, descriptor: Any, value: Any) -> None:
        if raw_lookup(self.cls, descriptor.__name__) is not descriptor:
            self.refuse(f"assignment of the hidden slot {descriptor.__name__!r}")
        tracer.journal.touch(self)
        self.slots[descriptor] = value
        self.written.add(descriptor)

    def delete_slot(self, tracer: Tracer, descriptor: Any) -> None:
        try:
            self.get_slot(tracer, descriptor)
        except Raised:
            raise_error(AttributeError, descriptor.__name__)
        self.set_slot(tracer, descriptor, DELETED)

    def has_index(self, tracer: Tracer) -> bool:
        return class_lookup(tracer, self.guarded_type(tracer), "__index__") is not None

    def get_computed(self, tracer: Tracer, descriptor: Any) -> Any:
        """An attribute that C code computes."""
        name = descriptor.__name__
        if name == "__dict__":
            return self.namespace(tracer)
        if name == "__class__":
            return tracer.known_object(self.cls)
        raise GraphBreak(FL0203, type=name_of(self.cls), name=name)

    def set_computed(self, tracer: Tracer, name: str, value: Any) -> None:
        if name != "__dict__" or self.source is not None or not py.has_type(value, dict):
            self.refuse(Operation.SET, name=name)
        tracer.journal.touch(self)
        self._namespace = value

    def attribute(self, tracer: Tracer, name: str) -> Any:
        plain = has_default(tracer, self.cls, "__getattribute__", self.default("__getattribute__"))
        return self._with_fallback(tracer, name, attributes.find if plain else _ask_getattribute)

    def _with_fallback(self, tracer: Tracer, name: str, find: Callable[[Tracer, Any, str], Any]) -> Any:
        """`__getattr__` answers where nothing was found, or AttributeError raised."""
        try:
            found = find(tracer, self, name)
        except Raised as raised:  # known by this name only: a frame in its traceback would hold it
            fallback = self._fallback(tracer) if is_raised(raised, AttributeError) else None
            if fallback is None:
                raise
        else:
            if found is not MISSING:
                return found
            fallback = self._fallback(tracer)
            if fallback is None:
                self.raise_missing(name)
        return py.call(tracer, fallback, [name], {})

    def raise_missing(self, name: str) -> NoReturn:
        attributes.raise_missing(self, name)

    def _fallback(self, tracer: Tracer) -> Any:
        return special_method(tracer, self, self.cls, "__getattr__")

    def plain_attribute(self, tracer: Tracer, name: str) -> Any:
        return attributes.read(tracer, self, name)

    def set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        if has_default(tracer, self.cls, "__setattr__", self.default("__setattr__")):
            attributes.write(tracer, self, name, value)
        else:
            py.call(tracer, special_method(tracer, self, self.cls, "__setattr__"), [name, value], {})

    def plain_set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        attributes.write(tracer, self, name, value)

    def delete_attribute(self, tracer: Tracer, name: str) -> None:
        if has_default(tracer, self.cls, "__delattr__", self.default("__delattr__")):
            attributes.delete(tracer, self, name)
        else:
            py.call(tracer, special_method(tracer, self, self.cls, "__delattr__"), [name], {})

    def plain_delete_attribute(self, tracer: Tracer, name: str) -> None:
        attributes.delete(tracer, self, name)

    # -- operators -----------------------------------------------------------------------------------------------

    def _special(self, tracer: Tracer, name: str, *args: Any) -> Any:
        """Call a special method; NotImplemented where the class has none."""
        method = special_method(tracer, self, self.cls, name)
        return NotImplemented if method is None else plain_answer(tracer, py.call(tracer, method, list(args), {}))

    def _required(self, tracer: Tracer, name: str, operation: Callable[..., Any], *args: Any) -> Any:
        """Call a special method; where the class has none, raise what `operation` says of it."""
        method = special_method(tracer, self, self.cls, name)
        if method is None:
            raise_what(operation, stand_in(self.cls), *map(stand_in_for, args))
        return py.call(tracer, method, list(args), {})

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        model = tracer.promised_model(self)
        if model is not None:
            return model(tracer, args, kwargs)
        method = special_method(tracer, self, self.cls, "__call__")
        if method is None:
            raise_what(operator.call, stand_in(self.cls))
        with label_with(tracer, self.cls, self.source):
            return py.call(tracer, method, args, kwargs)

    def truth(self, tracer: Tracer) -> bool:
        method = special_method(tracer, self, self.cls, "__bool__")
        if method is None:
            has_length = special_method(tracer, self, self.cls, "__len__") is not None
            return not has_length or py.truth(tracer, self.length(tracer))
        result = py.call(tracer, method, [], {})
        if py.type_of(result) is not bool:
            raise_what(bool, answering(self.cls, "__bool__", stand_in(py.type_of(result))))
        return py.truth(tracer, result)

    def length(self, tracer: Tracer) -> Any:
        result = self._required(tracer, "__len__", len)
        length = result if py.type_of(result) is int else int(tracer.as_index(result))
        if py.truth(tracer, py.compare(tracer, "<", length, 0)):
            raise_what(len, answering(self.cls, "__len__", -1))
        if not isinstance(length, SymbolicValue) and py.truth(tracer, py.compare(tracer, ">", length, sys.maxsize)):
            raise_what(len, answering(self.cls, "__len__", sys.maxsize + 1))
        return length

    def ask_length(self, tracer: Tracer) -> None:
        for name, ask in (("__len__", self.length), ("__length_hint__", self._ask_hint)):
            found = class_lookup(tracer, self.cls, name)
            if found is None or type(found.raw) is types.WrapperDescriptorType:
                continue
            try:
                ask(tracer)
                break
            except Raised as raised:
                if not is_raised(raised, TypeError):
                    raise

    def _ask_hint(self, tracer: Tracer) -> None:
        hint = self._special(tracer, "__length_hint__")
        if hint is NotImplemented:
            return
        if py.type_of(hint) is not int or py.truth(tracer, py.compare(tracer, "<", hint, 0)):
            self.refuse("__length_hint__() that gives no length")

    def torch_rules(self, tracer: Tracer) -> type | None:
        found = class_lookup(tracer, self.cls, "__torch_function__")
        if found is not None:
            return None if found.raw is _disabled_torch_function_impl or _are_off(tracer) else self.cls
        if tracer.has_attribute(self, "__torch_function__"):
            raise GraphBreak(FL0306, type=name_of(self.cls))
        return None

    def graph_argument(self, tracer: Tracer) -> Any:
        if self.torch_rules(tracer) is not None:
            raise Overridden(name_of(self.cls))
        return super().graph_argument(tracer)

    def is_exactly(self, cls: type) -> bool:
        return False  # its class may override what the C type has

    def format(self, tracer: Tracer, spec: Any) -> str:
        self.note(tracer)
        if has_default(tracer, self.cls, "__format__", object.__format__):
            return super().format(tracer, spec)
        return self._plain_text(tracer, "__format__", format, spec)

    def _plain_text(self, tracer: Tracer, name: str, operation: Callable[..., Any], *args: Any) -> str:
        """The text that a method gives, which `operation` asks for."""
        result = self._special(tracer, name, *args)
        kind = py.type_of(result)
        if kind is not str:
            if not is_subclass(kind, str):
                raise_what(operation, answering(self.cls, name, stand_in(kind)))
            raise GraphBreak(FL0102, what=f"a text that is {py.describe(result)}")
        text: str = tracer.constant(result)
        return text

    def as_index(self, tracer: Tracer) -> Any:
        result = self._required(tracer, "__index__", operator.index)
        if not issubclass(py.type_of(result), int):
            raise_what(operator.index, answering(self.cls, "__index__", stand_in(py.type_of(result))))
        if py.type_of(result) is not int:
            raise GraphBreak(FL0102_RESULT, what="__index__()", result=py.describe(result))  # Python warns
        return result

    def item(self, tracer: Tracer, key: Any) -> Any:
        return self._required(tracer, "__getitem__", operator.getitem, key)

    def set_item(self, tracer: Tracer, key: Any, value: Any) -> None:
        self._required(tracer, "__setitem__", operator.setitem, key, value)

    def delete_item(self, tracer: Tracer, key: Any) -> None:
        self._required(tracer, "__delitem__", operator.delitem, key)

    def iterate(self, tracer: Tracer) -> Any:
        if not defines(self.cls, "__iter__") and defines(self.cls, "__getitem__"):
            class_lookup(tracer, self.cls, "__iter__")
            iterator = py.call(tracer, tracer.known_object(by_items), [self], {})
            iterator.kind, iterator.sequence = _ITEM_ITERATOR, self
            return iterator
        method = special_method(tracer, self, self.cls, "__iter__")
        if method is None or is_blocked(tracer, method):
            raise_what(iter, stand_in(self.cls))
        result = py.call(tracer, method, [], {})
        if not defines(tracer.type_of(result), "__next__"):
            raise_what(iter, answering(self.cls, "__iter__", stand_in(py.type_of(result))))
        return result

    def next(self, tracer: Tracer) -> Any:
        try:
            return self._required(tracer, "__next__", next)
        except Raised as raised:
            raise as_end(raised) from None

    def contains(self, tracer: Tracer, item: Any) -> Any:
        method = special_method(tracer, self, self.cls, "__contains__")
        if is_blocked(tracer, method):
            raise_what(operator.contains, stand_in(self.cls, __contains__=None), None)
        if method is not None:
            return py.truth(tracer, py.call(tracer, method, [item], {}))
        iterator = self._iterate_to_search(tracer)
        try:
            while True:
                if py.equal(tracer, py.next_item(tracer, iterator), item):
                    return True
        except Exhausted:
            return False

    def _iterate_to_search(self, tracer: Tracer) -> Any:
        try:
            return py.iterate(tracer, self)
        except Raised as raised:
            if not is_raised(raised, TypeError):
                raise
        raise_what(operator.contains, stand_in(self.cls), None)

    def unary(self, tracer: Tracer, operator: str) -> Any:
        return self._required(tracer, UNARY_METHODS[operator], py.UNARY[operator])

    def number(self, tracer: Tracer, slot: str, *args: Any) -> Any:
        return number_of(tracer, self, slot, *args)

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        name = INPLACE_METHODS.get(operator) or BINARY_METHODS[operator][0]
        return self._special(tracer, name, other)

    def goes_first(self, operator: str, other: type) -> bool:
        method = BINARY_METHODS[operator][1]
        return raw_lookup(self.cls, method) is not raw_lookup(other, method)

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        # Two operands of one type: the interpreter does not ask the second one.
        if py.type_of(other) is self.cls:
            return NotImplemented
        return self._special(tracer, BINARY_METHODS[operator][1], other)

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        name = COMPARE_METHODS[operator]
        if not has_default(tracer, self.cls, name, getattr(object, name)):
            try:
                method = special_method(tracer, self, self.cls, name)
            except Raised:  # comparisons take that for a method that is not there
                return NotImplemented
            return NotImplemented if method is None else plain_answer(tracer, py.call(tracer, method, [other], {}))
        if operator == "!=" and not has_default(tracer, self.cls, "__eq__", object.__eq__):
            result = self._special(tracer, "__eq__", other)
            return result if result is NotImplemented else not py.truth(tracer, result)
        return NotImplemented

    def key(self, tracer: Tracer) -> Any:
        if raw_lookup(self.cls, "__hash__") is None:
            has_default(tracer, self.cls, "__hash__", None)
            raise_unhashable(self.cls)
        if has_default(tracer, self.cls, "__hash__", object.__hash__) and has_default(
            tracer, self.cls, "__eq__", object.__eq__
        ):
            return super().key(tracer)
        return EqualKey(tracer, self)

    def hashed(self, tracer: Tracer) -> int:
        """`hash(self)`, of a class with a `__hash__` of its own."""
        if has_default(tracer, self.cls, "__hash__", object.__hash__):
            self.refuse("the hash that comes from its address")
        given = self._special(tracer, "__hash__")
        if not is_subclass(py.type_of(given), int):
            raise_what(hash, answering(self.cls, "__hash__", stand_in(py.type_of(given))))
        result: int = tracer.constant(given)
        # A number that fits is taken as it is; -1 means an error to C code.
        return result if -sys.maxsize <= result <= sys.maxsize and result != -1 else hash(result)

    def text(self, tracer: Tracer, conversion: str) -> str:
        name = "__repr__" if conversion == "repr" else "__str__"
        if name == "__str__" and has_default(tracer, self.cls, name, object.__str__):
            name = "__repr__"
        if raw_lookup(self.cls, name) is object.__repr__:
            self.refuse("repr() that shows an address")
        return self._plain_text(tracer, name, repr if conversion == "repr" else str)

    # -- change and the way back ----------------------------------------------------------------------------------

    def replay(self, emit: Emitter) -> None:
        for descriptor in self.slots:
            if descriptor in self.written:
                self._store_slot(emit, descriptor, lambda: emit.source(self.source))

    def _store_slot(self, emit: Emitter, descriptor: Any, load: Callable[[], None]) -> None:
        value = self.slots[descriptor]
        if value is DELETED:
            emit.callable(_empty_slot)
            load()
            emit.constant(descriptor.__name__)
            emit.call(2)
        else:
            emit.known_object(object)
            emit.load_method("__setattr__")
            load()
            emit.constant(descriptor.__name__)
            emit.value(value)
            emit.call(3)
        emit.pop_top()

    def parts(self) -> list[Any]:
        namespace = [] if self._namespace is None else [self._namespace]
        return [*namespace, *[value for value in self.slots.values() if value is not DELETED]]

    def rebuild_new(self, emit: Emitter) -> None:
        """Make and remember the object, with what its C base holds."""
        emit.known_object(object)
        emit.load_method("__new__")
        emit.known_object(self.cls)
        emit.call(1)
        emit.remember(self)

    def rebuild(self, emit: Emitter) -> None:
        self.rebuild_new(emit)
        if self.fills_namespace():
            self._rebuild_namespace(emit)
        for descriptor, value in self.slots.items():
            if value is not DELETED:
                self._store_slot(emit, descriptor, lambda: emit.load_remembered(self))

    def fills_namespace(self) -> bool:
        """Whether the rebuilt object needs more than the empty `__dict__` it may get anyway."""
        return self._namespace is not None

    def _rebuild_namespace(self, emit: Emitter) -> None:
        if isinstance(self._namespace, NamespaceValue) and self._namespace.owner is self:
            self._namespace.fill_real(emit)
            return
        emit.known_object(object)  # the program gave it another one
        emit.load_method("__setattr__")
        emit.load_remembered(self)
        emit.constant("__dict__")
        emit.value(self._namespace)
        emit.call(3)
        emit.pop_top()


def _ask_getattribute(tracer: Tracer, value: UserObjectValue, name: str) -> Any:
    """What the `__getattribute__` of its class gives."""
    return py.call(tracer, special_method(tracer, value, value.cls, "__getattribute__"), [name], {})


class OpaqueValue(Value):
    """An object without a model: it may be passed around, stored and returned, and that is all."""

    __slots__ = ()
    answers_operators = False
    death_shows = True

    def note_facts(self, tracer: Tracer) -> None:
        raise GraphBreak(FL0202, type=name_of(type(self.concrete)))

    def guarded_type(self, tracer: Tracer) -> type:
        if self.source is None:
            return super().guarded_type(tracer)
        tracer.guard(self.source, "TYPE", type(self.concrete))
        return type(self.concrete)

    def describe(self) -> str:
        return name_of(type(self.concrete))


def method_of_protocol(tracer: Tracer, value: Any, name: str, what: str) -> Any:
    """A special method of any value, looked up on its type."""
    if isinstance(value, UserObjectValue):
        tracer.type_of(value)
        method = special_method(tracer, value, value.cls, name)
        if method is None:
            raise_error(TypeError, f"'{name_of(value.cls)}' object does not support the {what} protocol")
        return method
    return py.attribute(tracer, value, name)
