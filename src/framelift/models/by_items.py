"""Models of iteration: over objects that have items but no `__iter__`, and as C code does it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


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
