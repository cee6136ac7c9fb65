"""Names of graph nodes: readable, unique, and the same every time the same program is captured."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Iterator
from typing import Any

from torch._ops import OpOverload, OpOverloadPacket

from framelift.graph.record import operation_name

_NOT_IDENTIFIER = re.compile(r"\W+")
# Names the code torch.fx generates needs for itself.
_TAKEN = frozenset({*keyword.kwlist, *dir(builtins), "torch", "device", "inf", "nan", "NoneType", "self", "operator"})


def unspellable(words: Iterable[str]) -> str | None:
    """The first of some words that generated code cannot have as a name.

    >>> unspellable(["to", "from"]), unspellable(["a b"]), unspellable(["lambd"])
    ('from', 'a b', None)
    """
    return next((word for word in words if not word.isidentifier() or keyword.iskeyword(word)), None)


def words_of(target: Any, kwargs: dict[str, Any]) -> Iterator[str]:
    """What the code of a graph names where it calls a target."""
    if isinstance(target, OpOverload | OpOverloadPacket):
        yield from str(target).split(".")
    yield from kwargs


class Names:
    """Hands out unique names.

    >>> names = Names()
    >>> names.unique("add"), names.unique("add"), names.unique("sum")
    ('add', 'add_1', 'sum_1')
    """

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}
        self._bases: dict[Any, str] = {}

    def for_operation(self, target: Any) -> str:
        """A unique name for the result of an operation."""
        base = self._bases.get(target)
        if base is None:
            base = self._bases[target] = operation_base(target)
        return self.unique(base)

    def unique(self, base: str) -> str:
        name = base
        if name in self._used or name in _TAKEN:
            count = self._counts.get(base, 0)
            while True:
                count += 1
                name = f"{base}_{count}"
                if name not in self._used:
                    break
            self._counts[base] = count
        self._used.add(name)
        return name


def input_base(source: str) -> str:
    """A name for an input from the words for its source.

    >>> input_base("L['x']"), input_base("L['self'].layers[0].weight")
    ('l_x_', 'l_self_layers_0_weight')
    """
    base = _NOT_IDENTIFIER.sub("_", source)
    if base[:2] in ("L_", "G_"):
        base = base[0].lower() + base[1:]
    return base if base and not base[0].isdigit() else f"_{base}"


def operation_base(target: Any) -> str:
    """A name for the result of an operation.

    >>> operation_base("view"), operation_base(len), operation_base("__add__")
    ('view', 'len', 'add')
    """
    base = _NOT_IDENTIFIER.sub("_", operation_name(target))
    if base.startswith("__") and base.endswith("__"):
        base = base[2:-2]
    return base if base and not base[0].isdigit() else f"_{base}"
