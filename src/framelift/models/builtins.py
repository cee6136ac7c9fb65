"""Models of builtin functions: iteration over objects without `__iter__`, and as C code does it; `print`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from framelift.models.registry import models
from framelift.models.side_effects import shown


def by_items(sequence: Any) -> Iterator[Any]:
    """`iter(sequence)`: the items 0, 1, 2 ... up to the first that is not there."""
    position = 0
    while True:
        try:
            item = sequence[position]
        except (IndexError, StopIteration):
            return
        yield item
        position += 1


def asked(iterable: Iterable[Any]) -> Iterator[Any]:
    """`iter(iterable)`, for loops that begin anew where another one stopped.

    An iterator of the program's is then asked for items only: its `__iter__` is called once, as by C code.
    """
    return (item for item in iterable)


def walk(iterable: Any) -> Any:
    """An iterator; None for what has none: the caller raises, so that the error has no other as its context."""
    try:
        return asked(iterable)
    except TypeError:
        return None


@models(print)
def print_(*values: Any, sep: Any = " ", end: Any = "\n", file: Any = None, flush: Any = False) -> None:
    if file is None:
        file = sys.stdout
        if file is None:
            return
    sep, end = _separator("sep", sep, " "), _separator("end", end, "\n")
    for index, value in enumerate(values):
        if index:
            file.write(sep)
        file.write(shown(value))
    file.write(end)
    if flush:
        file.flush()


def _separator(name: str, value: Any, default: str) -> Any:
    if value is None:
        return default
    if not isinstance(value, str):
        raise TypeError(f"{name} must be None or a string, not {type(value).__name__}")
    return value
