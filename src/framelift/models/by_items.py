"""The model of iteration over objects that have items but no `__iter__`."""

from __future__ import annotations

from collections.abc import Iterator
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
