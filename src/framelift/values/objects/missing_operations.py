"""Operations that a value does not answer: what its type has no slot for raises, as in Python; the rest is a break."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.lookup import is_fixed, raw_lookup
from framelift.values.core.stand_ins import raise_what, stand_in


class _Slot(NamedTuple):
    methods: tuple[str, ...]  # a type without any of these lacks the operation
    operation: Callable[..., Any]
    operands: tuple[Any, ...] = ()


_SLOTS = {
    "len()": _Slot(("__len__",), len),
    "indexing": _Slot(("__getitem__",), operator.getitem, (0,)),
    "item assignment": _Slot(("__setitem__",), operator.setitem, (0, None)),
    "item deletion": _Slot(("__delitem__", "__len__"), operator.delitem, (None,)),
    "iteration": _Slot(("__iter__", "__getitem__"), iter),
    "next()": _Slot(("__next__",), next),
    "'in'": _Slot(("__contains__", "__iter__", "__getitem__"), operator.contains, (None,)),
    "calling": _Slot(("__call__",), operator.call),
    "unary -": _Slot(("__neg__",), operator.neg),
    "unary +": _Slot(("__pos__",), operator.pos),
    "unary ~": _Slot(("__invert__",), operator.invert),
}


def refuse_operation(value: Value, operation: str) -> NoReturn:
    """Raise TypeError where the type of `value` can never do this; else break."""
    slot, kind = _SLOTS.get(operation), value.python_type()
    if slot is not None and is_fixed(kind) and all(raw_lookup(kind, name) is NotImplemented for name in slot.methods):
        raise_what(slot.operation, stand_in(kind), *slot.operands)
    value.refuse(operation)


def refuse_comparison(symbol: str, left: type, right: type) -> NoReturn:
    """Raise TypeError for objects neither of which knows an order."""
    raise_what(py.COMPARE[symbol], stand_in(left), stand_in(right))


def refuse_operands(symbol: str, left: type, right: type) -> NoReturn:
    """Raise TypeError for objects neither of which knows an operator with the other."""
    raise_what(py.BINARY[symbol], stand_in(left), stand_in(right))
