"""Models of functions that take an iterable and give a result."""

from __future__ import annotations

import functools
import operator
from collections import _count_elements  # type: ignore[attr-defined]
from collections.abc import Callable, Iterable
from typing import Any

from framelift.models.registry import models


class _Missing:
    """Stands for an argument that was not given."""


@models(functools.reduce)
def reduce(function: Callable[..., Any], iterable: Iterable[Any], initial: Any = _Missing, /) -> Any:
    iterator = iter(iterable)
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


@models(operator.countOf)
def count_of(iterable: Iterable[Any], wanted: Any, /) -> int:
    count = 0
    for item in iterable:
        if item is wanted or item == wanted:
            count += 1
    return count


@models(operator.indexOf)
def index_of(iterable: Iterable[Any], wanted: Any, /) -> int:
    for index, item in enumerate(iterable):
        if item is wanted or item == wanted:
            return index
    raise ValueError("sequence.index(x): x not in sequence")


@models(operator.concat)
def concat(left: Any, right: Any, /) -> Any:
    return left + right


@models(operator.call) if hasattr(operator, "call") else (lambda function: function)
def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


@models(_count_elements)
def count_elements(mapping: Any, iterable: Iterable[Any], /) -> None:
    get = mapping.get
    for item in iterable:
        mapping[item] = get(item, 0) + 1
