"""How the arguments of a call that is exported reach the function that is traced.

Functions and methods are traced themselves. What is called in another way (a module, a partial, an object) is called by
a function of framelift's that takes `*args` and `**kwargs`, while users know its arguments by their names.

    >>> def forward(x, *rest, mask=None): ...
    >>> passing = Passing(inspect.signature(forward), True, ("mask",))
    >>> passing.source_name("x"), passing.source_name("rest[0]['a']"), passing.source_name("mask")
    ("L['args'][0]", "L['args'][1]['a']", "L['kwargs']['mask']")
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from typing import Any

from framelift.guards.source import Source

_ROOT = re.compile(r"[A-Za-z_]\w*")
_INDEX = re.compile(r"\[(\d+)\]")
_KEY = re.compile(r"\[('[^']*'|\"[^\"]*\")\]")
_SLOT = re.compile(r"L\['(\w+)'\]")
_STARS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass
class Passing:
    """The signature that users see, whether arguments are in `*args` and `**kwargs`, and which are in the latter."""

    signature: inspect.Signature
    is_wrapped: bool
    keywords: tuple[str, ...]
    _roots: dict[str, Source] = field(default_factory=dict)

    # -- from names to sources -------------------------------------------------------------------------------------

    def source_name(self, name: str) -> str:
        """The name of the source for the name of an input, which may go on after the parameter's."""
        root = _ROOT.match(name)
        if not self.is_wrapped or root is None or root[0] not in self.signature.parameters:
            return name
        rest, parameter = name[root.end() :], self.signature.parameters[root[0]]
        index, key = _INDEX.match(rest), _KEY.match(rest)
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL and index is not None:
            return f"L['args'][{self._before_star + int(index[1])}]{rest[index.end() :]}"
        if parameter.kind is inspect.Parameter.VAR_KEYWORD and key is not None:
            return f"L['kwargs']{rest}"
        if root[0] in self.keywords:
            return f"L['kwargs'][{root[0]!r}]{rest}"
        return f"L['args'][{list(self.signature.parameters).index(root[0])}]{rest}"

    @property
    def _before_star(self) -> int:
        return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in self.signature.parameters.values())

    # -- from sources to names -------------------------------------------------------------------------------------

    def place_of(self, source: Source) -> Source | None:
        """The same among the arguments, each a root with its own name; None for what is not among them."""
        if source.parent is None:
            slot = _SLOT.fullmatch(source.name) if source.access == "ARG" else None
            return None if slot is None or self.is_wrapped else self._root(slot[1])
        if self.is_wrapped and source.parent.parent is None and source.parent.access == "ARG":
            return self._passed(source)
        parent = self.place_of(source.parent)
        return None if parent is None else _step(parent, source.access, source.argument)

    def _root(self, name: str) -> Source | None:
        if name not in self.signature.parameters:
            return None
        index = list(self.signature.parameters).index(name)
        return self._roots.setdefault(name, Source(None, "ARG", index, name))

    def _passed(self, source: Source) -> Source | None:
        """An item of `*args` or `**kwargs`."""
        assert source.parent is not None
        star, key = source.parent.name, source.argument
        if star == "L['args']" and source.access == "TUPLE_ITEM":
            if key < self._before_star:
                return self._root(list(self.signature.parameters)[key])
            return self._in_star(_STARS[0], "TUPLE_ITEM", key - self._before_star)
        if star == "L['kwargs']" and source.access == "DICT_ITEM":
            parameter = self.signature.parameters.get(key)
            if parameter is not None and parameter.kind not in (*_STARS, inspect.Parameter.POSITIONAL_ONLY):
                return self._root(key)
            return self._in_star(_STARS[1], "DICT_ITEM", key)
        return None

    def _in_star(self, kind: Any, access: str, argument: Any) -> Source | None:
        name = next((name for name, p in self.signature.parameters.items() if p.kind is kind), None)
        root = None if name is None else self._root(name)
        return None if root is None else _step(root, access, argument)


def _step(parent: Source, access: str, argument: Any) -> Source:
    return parent.item(argument) if access == "DICT_ITEM" else parent.child(access, argument)
