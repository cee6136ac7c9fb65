"""Python's built-in functions and types."""

from __future__ import annotations

import abc
import operator
from typing import TYPE_CHECKING, Any

import torch

from framelift.breaks import FL0102, GraphBreak
from framelift.values import protocol as py
from framelift.values.base import Exhausted, Identity, Raised, Value
from framelift.values.classes import ClassValue, SuperValue
from framelift.values.dicts import MISSING, DictValue, pairs
from framelift.values.exceptions import ExceptionValue, raise_error
from framelift.values.iterators import (
    DerivedIterator,
    SequenceIterator,
    enumerate_step,
    filter_step,
    map_step,
    zip_step,
)
from framelift.values.lookup import raw_lookup
from framelift.values.objects import UserObjectValue
from framelift.values.primitives import primitive
from framelift.values.sequences import ListValue, sort_items
from framelift.values.sets import SetValue, keys_of
from framelift.values.tensors import TensorValue

if TYPE_CHECKING:
    from framelift.capture.lift import Lift

# -- asking about objects --------------------------------------------------------------------------------------------


@primitive(len)
def _len(lift: Lift, obj: Any, /) -> Any:
    return py.length(lift, obj)


@primitive(bool)
def _bool(lift: Lift, obj: Any = False, /) -> Any:
    return py.truth(lift, obj)


@primitive(isinstance)
def _isinstance(lift: Lift, obj: Any, cls: Any, /) -> bool:
    return any(_is_instance(lift, obj, c) for c in _classes(lift, cls))


@primitive(issubclass)
def _issubclass(lift: Lift, obj: Any, cls: Any, /) -> bool:
    if not isinstance(obj, ClassValue):
        raise_error(TypeError, "issubclass() arg 1 must be a class")
    return any(_is_subclass(lift, obj.concrete, c) for c in _classes(lift, cls))


# Metaclasses whose instance checks look at nothing but classes.
_KNOWN_METACLASSES = {type, abc.ABCMeta, type(torch.Tensor), type(torch.nn.Parameter)}


def _classes(lift: Lift, cls: Any) -> list[type]:
    if py.type_of(cls) is tuple:
        return [found for part in py.items(lift, cls) for found in _classes(lift, part)]
    if isinstance(cls, ClassValue):
        cls.note(lift)
        return [cls.concrete]
    if cls is None:
        raise_error(TypeError, "isinstance() arg 2 must be a type, a tuple of types, or a union")
    raise GraphBreak(FL0102, what=f"isinstance with {py.describe(cls)}")


def _is_instance(lift: Lift, obj: Any, cls: type) -> bool:
    return _is_subclass(lift, lift.type_of(obj), cls)


def _is_subclass(lift: Lift, subclass: type, cls: type) -> bool:
    """`issubclass` without running a user's code: classes only, and the checks of the standard library's ABCs."""
    if type(cls) is abc.ABCMeta and cls.__module__ not in _STDLIB_ABCS:
        hook = raw_lookup(cls, "__subclasshook__")
        if isinstance(hook, classmethod):
            raise GraphBreak(FL0102, what=f"{cls.__qualname__}.__subclasshook__")
    elif type(cls) not in _KNOWN_METACLASSES and raw_lookup(type(cls), "__instancecheck__") not in _PLAIN_CHECKS:
        raise GraphBreak(FL0102, what=f"an instance check of {type(cls).__qualname__}")
    return issubclass(subclass, cls)


_STDLIB_ABCS = {"collections.abc", "abc", "numbers", "typing", "os", "io", "contextlib", "importlib.abc"}
_PLAIN_CHECKS = (type.__instancecheck__, abc.ABCMeta.__instancecheck__)


@primitive(callable)
def _callable(lift: Lift, obj: Any, /) -> bool:
    if isinstance(obj, UserObjectValue):
        lift.type_of(obj)
        return raw_lookup(obj.cls, "__call__") is not NotImplemented
    return hasattr(lift.type_of(obj), "__call__")


@primitive(type)
def _type(lift: Lift, obj: Any, *rest: Any) -> Any:
    if rest:
        raise GraphBreak(FL0102, what="type() with three arguments")
    if isinstance(obj, Value) and obj.source is not None:
        lift.type_of(obj)
    return lift.known_object(py.type_of(obj))


@primitive(id)
def _id(lift: Lift, obj: Any, /) -> Any:
    raise GraphBreak(FL0102, what="id()")


@primitive(hash)
def _hash(lift: Lift, obj: Any, /) -> Any:
    key = py.key_of(lift, obj)
    if isinstance(key, Identity) or not lift.is_constant(key):
        raise GraphBreak(FL0102, what=f"hash of {py.describe(obj)}")
    return hash(key)


@primitive(hasattr)
def _hasattr(lift: Lift, obj: Any, name: Any, /) -> bool:
    return lift.has_attribute(obj, lift.constant(name))


@primitive(getattr)
def _getattr(lift: Lift, obj: Any, name: Any, default: Any = MISSING, /) -> Any:
    try:
        return py.attribute(lift, obj, lift.constant(name))
    except Raised as raised:
        error = raised.value
        if default is MISSING or not (isinstance(error, ExceptionValue) and issubclass(error.cls, AttributeError)):
            raise
    return default


@primitive(setattr)
def _setattr(lift: Lift, obj: Any, name: Any, value: Any, /) -> None:
    py.set_attribute(lift, obj, lift.constant(name), value)


@primitive(delattr)
def _delattr(lift: Lift, obj: Any, name: Any, /) -> None:
    py.delete_attribute(lift, obj, lift.constant(name))


@primitive(vars)
def _vars(lift: Lift, obj: Any, /) -> Any:
    return py.attribute(lift, obj, "__dict__")


@primitive(super)
def _super(lift: Lift, cls: Any = None, instance: Any = None, /) -> Any:
    if cls is None:
        cls, instance = lift.super_arguments()
    if not isinstance(cls, ClassValue):
        raise GraphBreak(FL0102, what="super() of something that is no class")
    cls.note(lift)
    if isinstance(instance, ClassValue):
        instance.note(lift)
        return SuperValue(cls.concrete, instance, instance.concrete)
    return SuperValue(cls.concrete, instance, lift.type_of(instance))


# -- methods of object -----------------------------------------------------------------------------------------------


@primitive(object.__getattribute__)
def _object_getattribute(lift: Lift, obj: Any, name: Any, /) -> Any:
    if isinstance(obj, UserObjectValue):
        return obj.plain_attribute(lift, lift.constant(name))
    return py.attribute(lift, obj, lift.constant(name))


@primitive(object.__setattr__)
def _object_setattr(lift: Lift, obj: Any, name: Any, value: Any, /) -> None:
    if not isinstance(obj, UserObjectValue):
        raise GraphBreak(FL0102, what=f"object.__setattr__ on {py.describe(obj)}")
    obj.plain_set_attribute(lift, lift.constant(name), value)


@primitive(object.__delattr__)
def _object_delattr(lift: Lift, obj: Any, name: Any, /) -> None:
    if not isinstance(obj, UserObjectValue):
        raise GraphBreak(FL0102, what=f"object.__delattr__ on {py.describe(obj)}")
    obj.plain_delete_attribute(lift, lift.constant(name))


@primitive(object.__new__)
def _object_new(lift: Lift, cls: Any, /, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(cls, ClassValue):
        raise_error(TypeError, "object.__new__(X): X is not a type object")
    cls.note(lift)
    return lift.make_instance(cls.concrete)


@primitive(object.__init__)
def _object_init(lift: Lift, obj: Any, /, *args: Any, **kwargs: Any) -> None:
    pass


@primitive(object)
def _object(lift: Lift) -> Any:
    return lift.make_instance(object)


@primitive(type.__call__)
def _type_call(lift: Lift, cls: Any, /, *args: Any, **kwargs: Any) -> Any:
    return cls.instantiate(lift, list(args), kwargs)


# -- numbers and strings ---------------------------------------------------------------------------------------------


@primitive(int)
def _int(lift: Lift, value: Any = 0, /, base: Any = MISSING) -> Any:
    return _number(lift, int, "__int__", value, base)


@primitive(float)
def _float(lift: Lift, value: Any = 0.0, /) -> Any:
    return _number(lift, float, "__float__", value, MISSING)


def _number(lift: Lift, kind: type, name: str, value: Any, base: Any) -> Any:
    if isinstance(value, TensorValue):
        return lift.call_tensor_method(name, (value,), {})
    if isinstance(value, UserObjectValue):
        return py.call(lift, lift.special_method(value, name, "number"), [], {})
    rest = [] if base is MISSING else [lift.constant(base)]
    return py.fold(lift, kind, lift.constant(value), *rest)


@primitive(str)
def _str(lift: Lift, value: Any = "", *rest: Any) -> Any:
    if rest:
        return py.fold(lift, str, lift.constant(value), *map(lift.constant, rest))
    return lift.text(value, "str")


@primitive(repr)
def _repr(lift: Lift, value: Any, /) -> Any:
    return lift.text(value, "repr")


@primitive(ascii)
def _ascii(lift: Lift, value: Any, /) -> Any:
    return lift.text(value, "repr").encode("ascii", "backslashreplace").decode("ascii")


@primitive(format)
def _format(lift: Lift, value: Any, spec: Any = "", /) -> Any:
    return lift.format(value, spec)


@primitive(abs)
def _abs(lift: Lift, value: Any, /) -> Any:
    return _dunder(lift, abs, "__abs__", torch.abs, value)


@primitive(round)
def _round(lift: Lift, value: Any, ndigits: Any = None) -> Any:
    if isinstance(value, TensorValue):
        kwargs = {} if ndigits is None else {"decimals": ndigits}
        return lift.call_torch(torch.round, (value,), kwargs)
    return py.fold(lift, round, lift.constant(value), lift.constant(ndigits))


def _dunder(lift: Lift, function: Any, name: str, torch_function: Any, value: Any) -> Any:
    if isinstance(value, TensorValue):
        return lift.call_torch(torch_function, (value,), {})
    if isinstance(value, UserObjectValue):
        return py.call(lift, lift.special_method(value, name, "operand"), [], {})
    return py.fold(lift, function, lift.constant(value))


def _register_constant_functions() -> None:
    for function in (bin, oct, hex, chr, ord, bytes, complex):

        def fold(lift: Lift, *args: Any, _function: Any = function) -> Any:
            return py.fold(lift, _function, *map(lift.constant, args))

        primitive(function)(fold)


_register_constant_functions()


@primitive(divmod)
def _divmod(lift: Lift, left: Any, right: Any, /) -> Any:
    return lift.tuple((py.binary(lift, "//", left, right), py.binary(lift, "%", left, right)))


@primitive(pow)
def _pow(lift: Lift, base: Any, exp: Any, mod: Any = None) -> Any:
    if mod is None:
        return py.binary(lift, "**", base, exp)
    return py.fold(lift, pow, lift.constant(base), lift.constant(exp), lift.constant(mod))


@primitive(range)
def _range(lift: Lift, *bounds: Any) -> Any:
    return py.fold(lift, range, *[lift.as_index(bound) for bound in bounds])


@primitive(slice)
def _slice(lift: Lift, *bounds: Any) -> Any:
    start, stop, step = (None, bounds[0], None) if len(bounds) == 1 else (*bounds, None)[:3]
    return lift.slice(start, stop, step)


# -- containers ------------------------------------------------------------------------------------------------------


@primitive(list)
def _list(lift: Lift, iterable: Any = (), /) -> Any:
    return ListValue(py.items(lift, iterable))


@primitive(tuple)
def _tuple(lift: Lift, iterable: Any = (), /) -> Any:
    if py.type_of(iterable) is tuple:
        return iterable
    return lift.tuple(py.items(lift, iterable))


@primitive(dict)
def _dict(lift: Lift, source: Any = (), /, **kwargs: Any) -> Any:
    result = DictValue({})
    for key, value in pairs(lift, source):
        result.set_item(lift, key, value)
    for name, value in kwargs.items():
        result.set_key(lift, name, value)
    return result


@primitive(set)
def _set(lift: Lift, iterable: Any = (), /) -> Any:
    return SetValue(keys_of(lift, iterable))


@primitive(frozenset)
def _frozenset(lift: Lift, iterable: Any = (), /) -> Any:
    members = keys_of(lift, iterable)
    return frozenset(members) if all(map(lift.is_constant, members)) else SetValue(members, frozenset)


# -- iterators -------------------------------------------------------------------------------------------------------


@primitive(iter)
def _iter(lift: Lift, iterable: Any, sentinel: Any = MISSING, /) -> Any:
    if sentinel is not MISSING:
        raise GraphBreak(FL0102, what="iter() with a sentinel")
    return py.iterate(lift, iterable)


@primitive(next)
def _next(lift: Lift, iterator: Any, default: Any = MISSING, /) -> Any:
    try:
        return py.next_item(lift, iterator)
    except Exhausted as exhausted:
        if default is MISSING:
            raise_error(StopIteration, *exhausted.args)
        return default


@primitive(enumerate)
def _enumerate(lift: Lift, iterable: Any, start: Any = 0) -> Any:
    return DerivedIterator(enumerate, enumerate_step, [py.iterate(lift, iterable)], start)


@primitive(zip)
def _zip(lift: Lift, *iterables: Any, strict: Any = False) -> Any:
    iterators = [py.iterate(lift, iterable) for iterable in iterables]
    if py.truth(lift, strict):
        return _strict_zip(lift, iterators)
    return DerivedIterator(zip, zip_step, iterators)


def _strict_zip(lift: Lift, iterators: list[Any]) -> Any:
    columns = [py.items(lift, iterator) for iterator in iterators]
    for position, column in enumerate(columns[1:], 2):
        if len(column) != len(columns[0]):
            shorter = "shorter" if len(column) < len(columns[0]) else "longer"
            others = "argument 1" if position == 2 else f"arguments 1-{position - 1}"
            raise_error(ValueError, f"zip() argument {position} is {shorter} than {others}")
    return SequenceIterator([lift.tuple(row) for row in zip(*columns, strict=True)])


@primitive(map)
def _map(lift: Lift, function: Any, *iterables: Any) -> Any:
    return DerivedIterator(map, map_step, [function, *[py.iterate(lift, iterable) for iterable in iterables]])


@primitive(filter)
def _filter(lift: Lift, function: Any, iterable: Any, /) -> Any:
    return DerivedIterator(filter, filter_step, [function, py.iterate(lift, iterable)])


@primitive(reversed)
def _reversed(lift: Lift, sequence: Any, /) -> Any:
    if isinstance(sequence, UserObjectValue) and raw_lookup(sequence.cls, "__reversed__") is not NotImplemented:
        return py.call(lift, lift.special_method(sequence, "__reversed__", "sequence"), [], {})
    return SequenceIterator(py.items(lift, sequence)[::-1], type(reversed([])))


@primitive(sorted)
def _sorted(lift: Lift, iterable: Any, /, *, key: Any = None, reverse: Any = False) -> Any:
    return ListValue(sort_items(lift, py.items(lift, iterable), key, py.truth(lift, reverse)))


@primitive(sum)
def _sum(lift: Lift, iterable: Any, /, start: Any = 0) -> Any:
    total = start
    for item in py.items(lift, iterable):
        total = py.binary(lift, "+", total, item)
    return total


@primitive(any)
def _any(lift: Lift, iterable: Any, /) -> bool:
    return _search(lift, iterable, True)


@primitive(all)
def _all(lift: Lift, iterable: Any, /) -> bool:
    return not _search(lift, iterable, False)


def _search(lift: Lift, iterable: Any, wanted: bool) -> bool:
    iterator = py.iterate(lift, iterable)
    try:
        while True:
            if py.truth(lift, py.next_item(lift, iterator)) is wanted:
                return True
    except Exhausted:
        return False


@primitive(max)
def _max(lift: Lift, *args: Any, key: Any = None, default: Any = MISSING) -> Any:
    return _extreme(lift, "max", ">", args, key, default)


@primitive(min)
def _min(lift: Lift, *args: Any, key: Any = None, default: Any = MISSING) -> Any:
    return _extreme(lift, "min", "<", args, key, default)


def _extreme(lift: Lift, name: str, symbol: str, args: tuple[Any, ...], key: Any, default: Any) -> Any:
    items = list(args) if len(args) > 1 else py.items(lift, args[0])
    if not items:
        if default is MISSING:
            raise_error(ValueError, f"{name}() arg is an empty sequence")
        return default
    best = items[0]
    best_key = best if key is None else py.call(lift, key, [best], {})
    for item in items[1:]:
        item_key = item if key is None else py.call(lift, key, [item], {})
        if py.truth(lift, py.compare(lift, symbol, item_key, best_key)):
            best, best_key = item, item_key
    return best


# -- the operator module ---------------------------------------------------------------------------------------------


def _register_operators() -> None:
    for symbol, function in py.BINARY.items():
        primitive(function)(lambda lift, a, b, _symbol=symbol: py.binary(lift, _symbol, a, b))
    for symbol, function in py.COMPARE.items():
        primitive(function)(lambda lift, a, b, _symbol=symbol: py.compare(lift, _symbol, a, b))
    for symbol, function in py.UNARY.items():
        primitive(function)(lambda lift, a, _symbol=symbol: py.unary(lift, _symbol, a))


_register_operators()


@primitive(operator.getitem)
def _operator_getitem(lift: Lift, container: Any, key: Any, /) -> Any:
    return py.item(lift, container, key)


@primitive(operator.setitem)
def _operator_setitem(lift: Lift, container: Any, key: Any, value: Any, /) -> None:
    py.set_item(lift, container, key, value)


@primitive(operator.index)
def _operator_index(lift: Lift, value: Any, /) -> Any:
    return lift.as_index(value)


@primitive(operator.truth)
def _operator_truth(lift: Lift, value: Any, /) -> Any:
    return py.truth(lift, value)


@primitive(operator.not_)
def _operator_not(lift: Lift, value: Any, /) -> Any:
    return not py.truth(lift, value)


@primitive(operator.is_)
def _operator_is(lift: Lift, left: Any, right: Any, /) -> Any:
    return py.same(lift, left, right)


@primitive(operator.is_not)
def _operator_is_not(lift: Lift, left: Any, right: Any, /) -> Any:
    return not py.same(lift, left, right)


@primitive(operator.contains)
def _operator_contains(lift: Lift, container: Any, item: Any, /) -> Any:
    return py.contains(lift, container, item)
