"""Models of functions that take an iterable and give a result."""

from __future__ import annotations

import functools
import math
import operator
from collections import _count_elements  # type: ignore[attr-defined]
from collections.abc import Callable, Iterable
from typing import Any

from framelift.models.by_items import asked
from framelift.models.registry import models


class _Missing:
    """Stands for an argument that was not given."""


def _walk(iterable: Any) -> Any:
    """An iterator; None for what has none: the caller raises, so that the error has no other as its context."""
    try:
        return asked(iterable)
    except TypeError:
        return None


@models(functools.reduce)
def reduce(function: Callable[..., Any], iterable: Iterable[Any], initial: Any = _Missing, /) -> Any:
    iterator = _walk(iterable)
    if iterator is None:
        raise TypeError("reduce() arg 2 must support iteration")
    if initial is _Missing:
        for first in iterator:
            result = first
            break
        else:
            raise TypeError("reduce() of empty iterable with no initial value")
    else:
        result = initial
    for item in iterator:
        result = function(result, item)
    return result


@models(math.prod)
def prod(iterable: Iterable[Any], /, *, start: Any = 1) -> Any:
    result = start
    for item in iterable:
        result = result * item
    return result


def _searched(iterable: Any) -> Any:
    iterator = _walk(iterable)
    if iterator is None:
        raise TypeError(f"argument of type '{type(iterable).__name__}' is not iterable")
    return iterator


@models(operator.countOf)
def count_of(iterable: Iterable[Any], wanted: Any, /) -> int:
    count = 0
    for item in _searched(iterable):
        if item is wanted or item == wanted:
            count += 1
    return count


@models(operator.indexOf)
def index_of(iterable: Iterable[Any], wanted: Any, /) -> int:
    for index, item in enumerate(_searched(iterable)):
        if item is wanted or item == wanted:
            return index
    raise ValueError("sequence.index(x): x not in sequence")


@models(operator.concat)
def concat(left: Any, right: Any, /) -> Any:
    _expect_sequences(left, right)
    return left + right


@models(operator.iconcat)
def iconcat(left: Any, right: Any, /) -> Any:
    _expect_sequences(left, right)
    left += right
    return left


def _expect_sequences(left: Any, right: Any) -> None:
    if isinstance(left, (list, tuple, str, bytes)):
        return  # says itself what it can be added to
    for operand in (left, right):
        if not hasattr(type(operand), "__getitem__") or isinstance(operand, dict):
            raise TypeError(f"'{type(left).__name__}' object can't be concatenated")


@models(operator.length_hint)
def length_hint(obj: Any, default: Any = 0, /) -> int:
    if not isinstance(default, int):
        raise TypeError(f"'{type(default).__name__}' object cannot be interpreted as an integer")
    if hasattr(type(obj), "__len__"):
        try:
            return len(obj)
        except TypeError:
            pass
    if not hasattr(type(obj), "__length_hint__"):
        return default
    try:
        hint = type(obj).__length_hint__(obj)
    except TypeError:
        return default
    if hint is NotImplemented:
        return default
    if not isinstance(hint, int):
        raise TypeError(f"__length_hint__ must be an integer, not {type(hint).__name__}")
    if hint < 0:
        raise ValueError("__length_hint__() should return >= 0")
    return hint


@models(operator.call) if hasattr(operator, "call") else (lambda function: function)
def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


@models(_count_elements)
def count_elements(mapping: Any, iterable: Iterable[Any], /) -> None:
    get = mapping.get
    for item in iterable:
        mapping[item] = get(item, 0) + 1
