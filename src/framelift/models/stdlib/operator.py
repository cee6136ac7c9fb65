"""Models of `operator`: searching, concatenation, hints of lengths, calls."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from framelift.models.builtins import walk
from framelift.models.registry import models


def _searched(iterable: Any) -> Any:
    iterator = walk(iterable)
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
