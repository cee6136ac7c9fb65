"""Named tuples and other subclasses of tuple that leave its behaviour alone."""

from __future__ import annotations

import abc
import collections
from functools import partial
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, FL0107, GraphBreak
from framelift.values.containers.structs import StructSequenceValue, TupleOfClassValue, is_result_class
from framelift.values.core import protocol as py
from framelift.values.core.constants import is_constant
from framelift.values.core.construct import make_tuple
from framelift.values.core.hash_keys import EqualKey
from framelift.values.core.lookup import (
    bind,
    class_lookup,
    flags_of,
    has_default,
    is_data_descriptor,
    mro_of,
    raw_lookup,
)
from framelift.values.core.operator_methods import BINARY_METHODS, INPLACE_METHODS, UNARY_METHODS
from framelift.values.core.primitives import Model, primitive
from framelift.values.core.stand_ins import raise_no_attribute
from framelift.values.objects.instances import plain_answer
from framelift.values.objects.number_slots import number_of

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

_HEAPTYPE = 1 << 9
_Field: type = type(collections.namedtuple("_Sample", "field").__dict__["field"])
# What a subclass may not define to be a tuple wherever Python reads one. Its own operators are asked.
_OWN = ("__len__", "__getitem__", "__iter__", "__contains__", "__hash__")
_COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
_FREE = ("__getattribute__", "__setattr__", "__delattr__")
_ABSENT = ("__getattr__", "__bool__", "__index__", "__call__", "__reversed__", "__del__")


def is_tuple_class(cls: type) -> bool:
    """Whether instances are tuples to every operator, whatever attributes and methods they have besides."""
    if type(cls) not in (type, abc.ABCMeta) or tuple not in mro_of(cls) or cls is tuple:
        return False
    return (
        all(flags_of(base) & _HEAPTYPE or base in (tuple, object) for base in mro_of(cls))
        and all(raw_lookup(cls, name) is tuple.__dict__[name] for name in (*_OWN, *_COMPARISONS))
        and all(raw_lookup(cls, name) is raw_lookup(tuple, name) for name in _FREE)
        and all(raw_lookup(cls, name) is NotImplemented for name in _ABSENT)
    )


def note_tuple_class(tracer: Tracer, cls: type) -> None:
    """Note what `is_tuple_class` found: methods can be added to a class later."""
    for name in (*_OWN, *_COMPARISONS, *_FREE):
        has_default(tracer, cls, name, raw_lookup(tuple, name))
    for name in _ABSENT:
        class_lookup(tracer, cls, name)


class TupleObjectValue(TupleOfClassValue):
    """An instance of a subclass of tuple."""

    __slots__ = ()

    def note_facts(self, tracer: Tracer) -> None:
        super().note_facts(tracer)
        note_tuple_class(tracer, self.cls)

    def key(self, tracer: Tracer) -> Any:
        """Equal to any tuple with the same items, and yet another object: the dict has the one that came first."""
        keys = tuple([py.key_of(tracer, item) for item in self.items(tracer)])
        if not all(is_constant(key) or type(key) is EqualKey for key in keys):
            self.refuse("use as a key with items whose hash is not known")
        return EqualKey(tracer, self, hash(keys))

    def attribute(self, tracer: Tracer, name: str) -> Any:
        found = class_lookup(tracer, self.cls, name)
        if found is None:
            self._note_namespace(tracer)
            raise_no_attribute(self.cls, name)
        if type(found.raw) is _Field:
            tracer.guard(found.source, "TYPE", _Field)  # which cannot be changed, nor held weakly
            made_of: Any = found.raw.__reduce__()
            return self.items(tracer)[made_of[1][0]]
        if not is_data_descriptor(found.raw):
            self._note_namespace(tracer)
        if name == "__class__":
            return tracer.known_object(self.cls)
        if found.raw is raw_lookup(tuple, name):
            return super().attribute(tracer, name)
        return bind(tracer, found, self, self.cls)

    def _note_namespace(self, tracer: Tracer) -> None:
        """The instance dictionary could hide what the class has: it is not modelled, so it must be empty."""
        if self.source is None or self.cls.__dictoffset__ == 0:
            return
        if object.__getattribute__(self.concrete, "__dict__"):
            self.refuse("use with attributes of its own")
        tracer.guard(self.source.child("INSTANCE_DICT"), "LENGTH", 0)

    # -- operators, which the class may have of its own ------------------------------------------------------------

    def unary(self, tracer: Tracer, operator: str) -> Any:
        own = self._own_method(tracer, UNARY_METHODS[operator])
        return super().unary(tracer, operator) if own is None else py.call(tracer, own, [], {})

    def number(self, tracer: Tracer, slot: str, *args: Any) -> Any:
        own = super().number(tracer, slot, *args)
        return number_of(tracer, self, slot, *args) if own is NotImplemented else own

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        own = self._own_method(tracer, INPLACE_METHODS.get(operator) or BINARY_METHODS[operator][0])
        if own is not None:
            return plain_answer(tracer, py.call(tracer, own, [other], {}))
        return NotImplemented if operator in INPLACE_METHODS else super().binary(tracer, operator, other)

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if py.type_of(other) is self.cls:  # the interpreter does not ask the second one
            return NotImplemented
        own = self._own_method(tracer, BINARY_METHODS[operator][1])
        result = NotImplemented if own is None else plain_answer(tracer, py.call(tracer, own, [other], {}))
        if result is NotImplemented and (own is None or operator == "+"):  # which the tuple on the left knows
            return super().reflected(tracer, operator, other)
        return result

    def goes_first(self, operator: str, other: type) -> bool:
        method = BINARY_METHODS[operator][1]
        return raw_lookup(self.cls, method) is not raw_lookup(other, method)

    def format(self, tracer: Tracer, spec: Any) -> str:
        own = self._own_method(tracer, "__format__")
        if own is None:
            return super().format(tracer, spec)
        text: str = tracer.constant(py.call(tracer, own, [spec], {}))
        return text

    def _own_method(self, tracer: Tracer, name: str) -> Any:
        """A method that the class has in place of the tuple's; None: it has none."""
        self.note(tracer)
        found, default = class_lookup(tracer, self.cls, name), raw_lookup(tuple, name)
        if found is None or (default is not NotImplemented and has_default(tracer, self.cls, name, default)):
            return None
        return bind(tracer, found, self, self.cls)

    def text_again(self) -> str | None:
        return super().text_again() if raw_lookup(self.cls, "__repr__") is tuple.__repr__ else None

    def text(self, tracer: Tracer, conversion: str) -> str:
        name = f"__{conversion}__"
        if raw_lookup(self.cls, name) is object.__str__:
            name = "__repr__"
        if raw_lookup(self.cls, name) is tuple.__repr__:
            return super().text(tracer, conversion)
        text: str = tracer.constant(py.call(tracer, self.attribute(tracer, name), [], {}))
        return text

    def rebuild(self, emit: Emitter) -> None:
        if self._items is None:
            raise GraphBreak(FL0107, what=self.describe())
        emit.known_object(tuple)
        emit.load_method("__new__")
        emit.known_object(self.cls)
        for item in self._items:
            emit.value(item)
        emit.build_tuple(len(self._items))
        emit.call(2)


def tuple_class_model(target: Any) -> Model | None:
    """How calling a class behaves that is a tuple class; None for everything else."""
    if is_result_class(target):
        return partial(_result, target)
    if type(target) not in (type, abc.ABCMeta) or not is_tuple_class(target):
        return None

    def model(tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        new, init = class_lookup(tracer, target, "__new__"), class_lookup(tracer, target, "__init__")
        assert new is not None and init is not None
        instance = py.call(tracer, bind(tracer, new, None, target), [tracer.known_object(target), *args], kwargs)
        if init.raw is not object.__init__ and py.type_of(instance) is target:
            py.call(tracer, bind(tracer, init, instance, target), args, kwargs)
        return instance

    return model


def _result(target: type, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What an operation of torch gives with names, made by the program of its parts."""
    if len(args) != 1 or kwargs:
        raise GraphBreak(FL0102, what=target.__qualname__)
    items = py.listed(tracer, args[0])
    if len(items) != target.n_sequence_fields:  # type: ignore[attr-defined]
        raise GraphBreak(FL0102, what=target.__qualname__)
    return StructSequenceValue(target, items)


@primitive(tuple.__new__)
def _tuple_new(tracer: Tracer, cls: Any, iterable: Any = (), /) -> Any:
    cls.note(tracer)
    items = py.listed(tracer, iterable)
    if cls.concrete is tuple:
        return make_tuple(items)
    if not is_tuple_class(cls.concrete):
        cls.refuse("tuple.__new__")
    note_tuple_class(tracer, cls.concrete)
    return TupleObjectValue(cls.concrete, items)
