"""Calls of C functions on constants, which are run while capturing."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, GraphBreak
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.construct import make_list
from framelift.values.core.lookup import class_lookup, is_fixed

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

# What depends on the day, the time zone or the language.
_UNSTEADY = frozenset({"today", "fromtimestamp", "strftime", "__format__"})


def refuse_unsteady(method: Any) -> None:
    """Break at a method of constants that does not always say the same of one constant."""
    owner, _, name = getattr(method, "__qualname__", "").partition(".")
    if owner == datetime.date.__name__ and name in _UNSTEADY:
        raise GraphBreak(FL0102, what=f"{owner}.{name}")


def fold_call(tracer: Tracer, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call a C function on constants, while capturing; on numbers that may change, it is called in each call."""
    calculated = None if kwargs else tracer.calculate(function, *args)
    if calculated is not None:
        return calculated
    read = _READING.get(getattr(function, "__name__", ""))
    if read is not None:
        args = [make_list(read(tracer, item)) if _is_asked_for_items(tracer, item) else item for item in args]
    plain = [_consumed(tracer, argument) for argument in args]
    return py.fold(tracer, function, *plain, **{name: tracer.constant(argument) for name, argument in kwargs.items()})


# How functions read an iterable that they are given.
_READING: dict[str, Callable[[Tracer, Any], list[Any]]] = {
    "join": lambda tracer, iterable: py.listed(tracer, py.iterate(tracer, iterable)),
    "dist": py.listed,
    "fsum": py.items,
}


def _is_asked_for_items(tracer: Tracer, argument: Any) -> bool:
    """Whether an object is an iterator, or of a class of the program's that can be iterated over."""
    if not isinstance(argument, Value) or argument.is_read_by_items:
        return isinstance(argument, Value)
    cls = tracer.type_of(argument)
    return not is_fixed(cls) and any(
        class_lookup(tracer, cls, name) is not None for name in ("__iter__", "__getitem__")
    )


def _consumed(tracer: Tracer, argument: Any) -> Any:
    """A constant; an iterator is read to its end, as the functions that take one do."""
    if isinstance(argument, Value) and argument.is_read_by_items:
        return [tracer.constant(item) for item in py.items(tracer, argument)]
    return tracer.constant(argument)
