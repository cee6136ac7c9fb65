"""Operations that a value does not answer: what its type has no slot for raises, as in Python; the rest is a break."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.exceptions import raise_error
from framelift.values.core.lookup import is_fixed, name_in_errors, name_of, raw_lookup


class _Slot(NamedTuple):
    methods: tuple[str, ...]  # a type without any of these lacks the operation
    words: str  # what Python says then


_SLOTS = {
    "len()": _Slot(("__len__",), "object of type '{}' has no len()"),
    "indexing": _Slot(("__getitem__",), "'{}' object is not subscriptable"),
    "item assignment": _Slot(("__setitem__",), "'{}' object does not support item assignment"),
    "item deletion": _Slot(("__delitem__", "__len__"), "'{}' object does not support item deletion"),
    "iteration": _Slot(("__iter__", "__getitem__"), "'{}' object is not iterable"),
    "next()": _Slot(("__next__",), "'{}' object is not an iterator"),
    "'in'": _Slot(("__contains__", "__iter__", "__getitem__"), "argument of type '{}' is not iterable"),
    "calling": _Slot(("__call__",), "'{}' object is not callable"),
    "unary -": _Slot(("__neg__",), "bad operand type for unary -: '{}'"),
    "unary +": _Slot(("__pos__",), "bad operand type for unary +: '{}'"),
    "unary ~": _Slot(("__invert__",), "bad operand type for unary ~: '{}'"),
}


def refuse_operation(value: Value, operation: str) -> NoReturn:
    """Raise TypeError where the type of `value` can never do this; else break."""
    slot, kind = _SLOTS.get(operation), value.python_type()
    if slot is not None and is_fixed(kind) and all(raw_lookup(kind, name) is NotImplemented for name in slot.methods):
        raise_error(TypeError, slot.words.format(name_in_errors(kind)))
    value.refuse(operation)


def refuse_comparison(symbol: str, left: type, right: type) -> NoReturn:
    """Raise TypeError for objects neither of which knows an order."""
    names = [name_in_errors(kind) for kind in (left, right)]
    raise_error(TypeError, f"'{symbol}' not supported between instances of '{names[0]}' and '{names[1]}'")


def refuse_operands(symbol: str, left: type, right: type) -> NoReturn:
    """Raise TypeError for objects neither of which knows an operator with the other."""
    plain = symbol.removesuffix("=")
    names = [name_in_errors(kind) for kind in (left, right)]
    if plain == "*" and (py.is_sequence(left) or py.is_sequence(right)):
        times = names[1] if py.is_sequence(left) else names[0]
        raise_error(TypeError, f"can't multiply sequence by non-int of type '{times}'")
    if plain == "+" and left is bytes:
        raise_error(TypeError, f"can't concat {names[1]} to bytes")
    if plain == "+" and py.is_sequence(left):
        raise_error(TypeError, f'can only concatenate {name_of(left)} (not "{names[1]}") to {name_of(left)}')
    shown = "** or pow()" if symbol == "**" else symbol
    raise_error(TypeError, f"unsupported operand type(s) for {shown}: '{names[0]}' and '{names[1]}'")
