"""Nested containers of the program as trees: what torch's function transforms take apart and put together again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from framelift.values.containers.dicts import DictValue
from framelift.values.containers.sequences import ListValue, TupleValue
from framelift.values.core import protocol as py
from framelift.values.core.construct import make_tuple

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


class Tree:
    """The shape of nested tuples, lists and dicts; everything else is a leaf."""

    __slots__ = ("kind", "keys", "parts")

    def __init__(self, kind: type | None, keys: tuple[Any, ...] = (), parts: Sequence[Tree] = ()) -> None:
        self.kind = kind
        self.keys = keys
        self.parts = tuple(parts)

    @property
    def is_leaf(self) -> bool:
        return self.kind is None

    @property
    def count(self) -> int:
        """How many leaves it has."""
        return 1 if self.is_leaf else sum(part.count for part in self.parts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        return (self.kind, self.keys, self.parts) == (other.kind, other.keys, other.parts)

    __hash__ = None  # type: ignore[assignment]

    def build(self, tracer: Tracer, leaves: Sequence[Any]) -> Any:
        """Containers of this shape, of other leaves."""
        return self._take(tracer, iter(leaves))

    def _take(self, tracer: Tracer, leaves: Iterator[Any]) -> Any:
        if self.kind is None:
            return next(leaves)
        items = [part._take(tracer, leaves) for part in self.parts]
        if self.kind is dict:
            return DictValue(dict(zip(self.keys, items, strict=True)))
        return make_tuple(items) if self.kind is tuple else ListValue(items)


LEAF = Tree(None)


def flatten(tracer: Tracer, value: Any) -> tuple[list[Any], Tree]:
    """The leaves of nested containers, and their shape."""
    if type(value) is DictValue and tracer.type_of(value) is dict:
        entries = value.entries(tracer)
        kind: type = dict
        keys, items = tuple(entries), list(entries.values())
    elif type(value) in (ListValue, TupleValue, tuple) and py.type_of(value) in (tuple, list):
        kind, keys, items = tracer.type_of(value), (), py.items(tracer, value)
    else:
        return [value], LEAF
    flat = [flatten(tracer, item) for item in items]
    return [leaf for leaves, _ in flat for leaf in leaves], Tree(kind, keys, [tree for _, tree in flat])
