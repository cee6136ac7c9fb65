"""Functions that ask an object of a class written in Python for a number: `round(obj)`, `math.floor(obj)`, `divmod`.

What they say of an object without the method they look for is asked of them, about an object of an empty class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from framelift.breaks import FL0102, GraphBreak
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.folding import fold_call
from framelift.values.core.lookup import (
    class_lookup,
    is_subclass,
    name_in_errors,
    raw_lookup,
    scalar_base,
    special_method,
)
from framelift.values.core.primitives import primitive
from framelift.values.objects.instances import UserObjectValue, plain_answer
from framelift.values.subclasses.tuples import TupleObjectValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


# Instances whose class may say what they are as numbers.
HasMethods: TypeAlias = UserObjectValue | TupleObjectValue


def by_method(
    tracer: Tracer,
    function: Callable[..., Any],
    value: UserObjectValue | TupleObjectValue,
    names: Sequence[str],
    *args: Any,
) -> Any:
    """What `function(value, *args)` gets from the first of these methods that the class of `value` has."""
    tracer.type_of(value)
    for name in names:
        if class_lookup(tracer, value.cls, name) is not None:
            return py.call(tracer, special_method(tracer, value, value.cls, name), list(args), {})
    return py.fold(tracer, function, _like(value), *[_like(arg) if isinstance(arg, Value) else arg for arg in args])


# What these methods must give; Python warns of subclasses and refuses all else.
_KINDS = {"__complex__": complex, "__float__": float, "__index__": int}


def plain_number(tracer: Tracer, function: Callable[..., Any], value: HasMethods, names: Sequence[str]) -> Any:
    """The same, as a number of the kind that the method is there for; what Python says of others is left to it."""
    result = by_method(tracer, function, value, names)
    asked = next(name for name in names if class_lookup(tracer, value.cls, name) is not None)
    if py.type_of(result) is not _KINDS[asked]:
        raise GraphBreak(FL0102, what=f"{asked}() that gives {py.describe(result)}")
    return tracer.constant(result)


def _like(value: Any) -> Any:
    """An object that can do nothing, of a class of the same name."""
    return type(name_in_errors(py.type_of(value)), (), {})()


def divmod_of_objects(tracer: Tracer, left: Any, right: Any) -> Any:
    """`divmod(left, right)` where one of them is of a class written in Python."""
    mine, theirs = tracer.type_of(left), tracer.type_of(right)
    asked = [(left, "__divmod__", right)]
    if mine is not theirs:
        asked.append((right, "__rdivmod__", left))
        if is_subclass(theirs, mine) and raw_lookup(theirs, "__rdivmod__") is not raw_lookup(mine, "__rdivmod__"):
            asked.reverse()
    for value, name, other in asked:
        if not isinstance(value, HasMethods):
            result = _answer_of_number(tracer, value, name, other)
        else:
            method = special_method(tracer, value, value.cls, name)
            result = NotImplemented if method is None else plain_answer(tracer, py.call(tracer, method, [other], {}))
        if result is not NotImplemented:
            return result
    return py.fold(tracer, divmod, _like(left), _like(right))


def _answer_of_number(tracer: Tracer, number: Any, name: str, other: Any) -> Any:
    """What a plain number says to an object with a number inside."""
    if py.type_of(number) not in (int, bool, float) or scalar_base(py.type_of(other)) is None:
        return NotImplemented
    return py.fold(tracer, getattr(py.type_of(number), name), tracer.constant(number), tracer.constant(other))


def _register_roundings() -> None:
    for function, name in ((math.floor, "__floor__"), (math.ceil, "__ceil__"), (math.trunc, "__trunc__")):

        def rounded(tracer: Tracer, value: Any, /, *, _function: Any = function, _name: str = name) -> Any:
            if not isinstance(value, HasMethods):
                return fold_call(tracer, _function, [value], {})
            if _function is math.trunc or class_lookup(tracer, tracer.type_of(value), _name) is not None:
                return by_method(tracer, _function, value, [_name])
            return py.fold(tracer, _function, plain_number(tracer, _function, value, ["__float__", "__index__"]))

        primitive(function)(rounded)


_register_roundings()
