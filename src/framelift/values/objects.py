"""Instances of classes written in Python."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0202, GraphBreak
from framelift.guards.source import Source
from framelift.values import protocol as py
from framelift.values.base import Exhausted, Raised, Value
from framelift.values.dicts import MISSING, DictValue
from framelift.values.exceptions import ExceptionValue, raise_error
from framelift.values.lookup import bind, class_lookup, is_data_descriptor, raw_lookup, special_method

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator

_BINARY_METHODS = {
    "+": ("__add__", "__radd__"),
    "-": ("__sub__", "__rsub__"),
    "*": ("__mul__", "__rmul__"),
    "/": ("__truediv__", "__rtruediv__"),
    "//": ("__floordiv__", "__rfloordiv__"),
    "%": ("__mod__", "__rmod__"),
    "**": ("__pow__", "__rpow__"),
    "@": ("__matmul__", "__rmatmul__"),
    "<<": ("__lshift__", "__rlshift__"),
    ">>": ("__rshift__", "__rrshift__"),
    "&": ("__and__", "__rand__"),
    "|": ("__or__", "__ror__"),
    "^": ("__xor__", "__rxor__"),
}
_INPLACE_METHODS = {symbol + "=": "__i" + names[0][2:] for symbol, names in _BINARY_METHODS.items()}
_COMPARE_METHODS = {"<": "__lt__", "<=": "__le__", "==": "__eq__", "!=": "__ne__", ">": "__gt__", ">=": "__ge__"}
_UNARY_METHODS = {"-": "__neg__", "+": "__pos__", "~": "__invert__"}


class UserObjectValue(Value):
    """An instance: a class, a namespace, perhaps slots. Operators go through the methods of its class."""

    __slots__ = ("cls", "_namespace", "slots")

    def __init__(self, cls: type, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(source, concrete)
        self.cls = cls
        self._namespace: DictValue | None = None
        self.slots: dict[Any, Any] = {}

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(type(obj), source, obj)

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"{self.cls.__qualname__} object"

    # -- attributes ----------------------------------------------------------------------------------------------

    def namespace(self, lift: Lift) -> DictValue | None:
        """The instance dictionary; None for a class that has none."""
        if self._namespace is None and getattr(self.cls, "__dictoffset__", 0) != 0:
            if self.source is None:
                self._namespace = DictValue({})
            else:
                self.note(lift)
                real = object.__getattribute__(self.concrete, "__dict__")
                self._namespace = lift.wrap(real, self.source.child("INSTANCE_DICT"))
        return self._namespace

    def get_slot(self, lift: Lift, descriptor: Any) -> Any:
        found = self.slots.get(descriptor, MISSING)
        if found is MISSING and self.source is not None:
            try:
                real = descriptor.__get__(self.concrete, self.cls)
            except AttributeError:
                self.refuse(f"reading the unset slot {descriptor.__name__!r}")
            found = self.slots[descriptor] = lift.wrap(real, self.source.child("SLOT", descriptor))
        if found is MISSING:
            raise_error(AttributeError, descriptor.__name__)
        return found

    def attribute(self, lift: Lift, name: str) -> Any:
        getter = raw_lookup(self.cls, "__getattribute__")
        if getter is not object.__getattribute__:
            method = special_method(lift, self, self.cls, "__getattribute__")
            return self._with_fallback(lift, name, lambda: py.call(lift, method, [name], {}))
        return self._with_fallback(lift, name, lambda: self.plain_attribute(lift, name))

    def _with_fallback(self, lift: Lift, name: str, read: Any) -> Any:
        """`__getattr__` answers where reading raised AttributeError."""
        try:
            return read()
        except Raised as raised:
            error = raised.value
            if not (isinstance(error, ExceptionValue) and issubclass(error.cls, AttributeError)):
                raise
            fallback = special_method(lift, self, self.cls, "__getattr__")
            if fallback is None:
                raise
        return py.call(lift, fallback, [name], {})

    def plain_attribute(self, lift: Lift, name: str) -> Any:
        """`object.__getattribute__(self, name)`."""
        found = class_lookup(lift, self.cls, name)
        if found is not None and is_data_descriptor(found.raw):
            return bind(lift, found, self, self.cls)
        namespace = self.namespace(lift)
        if namespace is not None:
            value = namespace.get_key(lift, name)
            if value is not MISSING:
                return value
        if found is not None:
            return bind(lift, found, self, self.cls)
        raise_error(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")

    def set_attribute(self, lift: Lift, name: str, value: Any) -> None:
        if raw_lookup(self.cls, "__setattr__") is object.__setattr__:
            self.plain_set_attribute(lift, name, value)
        else:
            py.call(lift, special_method(lift, self, self.cls, "__setattr__"), [name, value], {})

    def plain_set_attribute(self, lift: Lift, name: str, value: Any) -> None:
        """`object.__setattr__(self, name, value)`."""
        found = class_lookup(lift, self.cls, name)
        if found is not None and is_data_descriptor(found.raw):
            self._set_descriptor(lift, found, name, value)
            return
        namespace = self.namespace(lift)
        if namespace is None:
            raise_error(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
        namespace.set_key(lift, name, value)

    def _set_descriptor(self, lift: Lift, found: Any, name: str, value: Any) -> None:
        raw = found.raw
        if type(raw) is types.MemberDescriptorType:
            lift.guard(found.source, "IS", raw)
            lift.journal.touch(self)
            self.slots[raw] = value
        elif type(raw) is property:
            lift.guard(found.source, "TYPE", property)
            if raw.fset is None:
                raise_error(AttributeError, f"property '{name}' of '{self.cls.__name__}' object has no setter")
            setter = lift.wrap(raw.fset, found.source.child("GETATTR", "fset"))
            py.call(lift, setter, [self, value], {})
        elif type(raw_lookup(type(raw), "__set__")) is types.FunctionType:
            descriptor = lift.wrap(raw, found.source)
            descriptor.note(lift)
            py.call(lift, special_method(lift, descriptor, type(raw), "__set__"), [self, value], {})
        else:
            self.refuse(f"assignment of attribute {name!r}")

    def delete_attribute(self, lift: Lift, name: str) -> None:
        if raw_lookup(self.cls, "__delattr__") is object.__delattr__:
            self.plain_delete_attribute(lift, name)
        else:
            py.call(lift, special_method(lift, self, self.cls, "__delattr__"), [name], {})

    def plain_delete_attribute(self, lift: Lift, name: str) -> None:
        found = class_lookup(lift, self.cls, name)
        if found is not None and is_data_descriptor(found.raw):
            self.refuse(f"deletion of attribute {name!r}")
        namespace = self.namespace(lift)
        if namespace is None or namespace.get_key(lift, name) is MISSING:
            raise_error(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
        namespace.delete_key(lift, name)

    # -- operators -----------------------------------------------------------------------------------------------

    def _special(self, lift: Lift, name: str, *args: Any) -> Any:
        """Call a special method; NotImplemented where the class has none."""
        method = special_method(lift, self, self.cls, name)
        return NotImplemented if method is None else py.call(lift, method, list(args), {})

    def _required(self, lift: Lift, name: str, message: str, *args: Any) -> Any:
        method = special_method(lift, self, self.cls, name)
        if method is None:
            raise_error(TypeError, message.format(type=self.cls.__name__))
        return py.call(lift, method, list(args), {})

    def call(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        method = special_method(lift, self, self.cls, "__call__")
        if method is None:
            raise_error(TypeError, f"'{self.cls.__name__}' object is not callable")
        with lift.inside_object(self):
            return py.call(lift, method, args, kwargs)

    def truth(self, lift: Lift) -> bool:
        result = self._special(lift, "__bool__")
        if result is NotImplemented:
            result = self._special(lift, "__len__")
        return True if result is NotImplemented else py.truth(lift, result)

    def length(self, lift: Lift) -> Any:
        return self._required(lift, "__len__", "object of type '{type}' has no len()")

    def item(self, lift: Lift, key: Any) -> Any:
        return self._required(lift, "__getitem__", "'{type}' object is not subscriptable", key)

    def set_item(self, lift: Lift, key: Any, value: Any) -> None:
        self._required(lift, "__setitem__", "'{type}' object does not support item assignment", key, value)

    def delete_item(self, lift: Lift, key: Any) -> None:
        self._required(lift, "__delitem__", "'{type}' object does not support item deletion", key)

    def iterate(self, lift: Lift) -> Any:
        if raw_lookup(self.cls, "__iter__") is NotImplemented and raw_lookup(self.cls, "__getitem__") is not NotImplemented:
            self.refuse("iteration by __getitem__")
        return self._required(lift, "__iter__", "'{type}' object is not iterable")

    def next(self, lift: Lift) -> Any:
        try:
            return self._required(lift, "__next__", "'{type}' object is not an iterator")
        except Raised as raised:
            if isinstance(raised.value, ExceptionValue) and issubclass(raised.value.cls, StopIteration):
                raise Exhausted from None
            raise

    def contains(self, lift: Lift, item: Any) -> Any:
        result = self._special(lift, "__contains__", item)
        if result is NotImplemented:
            return any(py.equal(lift, member, item) for member in py.items(lift, self))
        return py.truth(lift, result)

    def unary(self, lift: Lift, operator: str) -> Any:
        return self._required(lift, _UNARY_METHODS[operator], f"bad operand type for unary {operator}: '{{type}}'")

    def binary(self, lift: Lift, operator: str, other: Any) -> Any:
        name = _INPLACE_METHODS.get(operator) or _BINARY_METHODS[operator][0]
        return self._special(lift, name, other)

    def reflected(self, lift: Lift, operator: str, other: Any) -> Any:
        return self._special(lift, _BINARY_METHODS[operator][1], other)

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        name = _COMPARE_METHODS[operator]
        raw = raw_lookup(self.cls, name)
        if raw is getattr(object, name):
            class_lookup(lift, self.cls, name)
            if operator == "!=" and raw_lookup(self.cls, "__eq__") is not object.__eq__:
                result = self._special(lift, "__eq__", other)
                return result if result is NotImplemented else not py.truth(lift, result)
            return NotImplemented
        return self._special(lift, name, other)

    def key(self, lift: Lift) -> Any:
        if raw_lookup(self.cls, "__hash__") is object.__hash__ and raw_lookup(self.cls, "__eq__") is object.__eq__:
            class_lookup(lift, self.cls, "__hash__")
            class_lookup(lift, self.cls, "__eq__")
            return super().key(lift)
        self.refuse("use as a key with its own __eq__ or __hash__")

    def text(self, lift: Lift, conversion: str) -> str:
        name = "__repr__" if conversion == "repr" else "__str__"
        if raw_lookup(self.cls, name) is object.__str__:
            name = "__repr__"
        if raw_lookup(self.cls, name) is object.__repr__:
            self.refuse("repr() that shows an address")
        text: str = lift.constant(self._special(lift, name))
        return text

    # -- change and the way back ----------------------------------------------------------------------------------

    def state(self) -> Any:
        return dict(self.slots)

    def restore(self, state: Any) -> None:
        self.slots = state

    def replay(self, generate: Generator) -> None:
        for descriptor, value in self.slots.items():
            generate.known_object(object)
            generate.load_method("__setattr__")
            generate.source(self.source)
            generate.constant(descriptor.__name__)
            generate.value(value)
            generate.call(3)
            generate.pop_top()

    def parts(self) -> list[Any]:
        namespace = [] if self._namespace is None else [self._namespace]
        return [*namespace, *self.slots.values()]

    def rebuild(self, generate: Generator) -> None:
        generate.known_object(object)
        generate.load_method("__new__")
        generate.known_object(self.cls)
        generate.call(1)
        generate.remember(self)
        if self._namespace is not None and self._namespace.overlay:
            generate.copy_top()
            generate.load_attribute("__dict__")
            generate.load_method("update")
            generate.value(self._namespace)
            generate.call(1)
            generate.pop_top()
        for descriptor, value in self.slots.items():
            generate.known_object(object)
            generate.load_method("__setattr__")
            generate.load_remembered(self)
            generate.constant(descriptor.__name__)
            generate.value(value)
            generate.call(3)
            generate.pop_top()


class OpaqueValue(Value):
    """An object without a model: it may be passed around, stored and returned, and that is all."""

    __slots__ = ()
    answers_operators = False

    def note_facts(self, lift: Lift) -> None:
        raise GraphBreak(FL0202, type=type(self.concrete).__qualname__)

    def describe(self) -> str:
        return type(self.concrete).__qualname__
