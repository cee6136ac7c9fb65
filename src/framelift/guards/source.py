"""Sources: how a value is reached from the inputs of a frame, as it was when the frame was entered.

A source is a node of the guard tree under construction: a parent, an accessor (the names are those of
`framelift.native._core`'s ACCESS_* constants) and its argument. Sources are interned per capture, so that
two ways of writing the same path are one object and a fact about it is noted once.

    >>> sources = Sources(("x", "self"))
    >>> weight = sources.argument(1).child("INSTANCE_DICT").child("DICT_ITEM", "weight")
    >>> weight.name
    "L['self'].weight"
    >>> weight is sources.argument(1).child("INSTANCE_DICT").child("DICT_ITEM", "weight")
    True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framelift.guards.accessors import ACCESSORS
from framelift.guards.equality import is_constant
from framelift.guards.words import name_of

_ACCESSORS = {accessor.name: accessor for accessor in ACCESSORS.values()}


class Source:
    """One way to reach an object: `parent` followed by one `access`."""

    __slots__ = ("parent", "access", "argument", "children", "_name")

    def __init__(self, parent: Source | None, access: str, argument: Any = None, name: str | None = None) -> None:
        self.parent = parent
        self.access = access
        self.argument = argument
        self.children: dict[Any, Source] = {}
        self._name = name

    def child(self, access: str, argument: Any = None) -> Source:
        """The interned source one step further."""
        # The type is part of the key: 1, 1.0 and True are different dictionary keys to a reader of guards.
        key = (access, type(argument), argument)
        found = self.children.get(key)
        if found is None:
            found = self.children[key] = Source(self, access, argument)
        return found

    def item(self, key: Any) -> Source:
        if is_constant(key):
            return self.child("DICT_ITEM", key)
        found = self.children.get(("DICT_ITEM", id(key)))  # not by the key: hashing it may run a user's code
        if found is None:
            found = self.children["DICT_ITEM", id(key)] = Source(self, "DICT_ITEM", key)
        return found

    def attribute(self, name: str) -> Source:
        """An entry of the instance dictionary."""
        return self.child("INSTANCE_DICT").child("DICT_ITEM", name)

    @property
    def name(self) -> str:
        """The path in words: `L['self'].layers[0]`."""
        if self._name is None:
            self._name = _spell(self)
        return self._name

    @property
    def is_new(self) -> bool:
        """Whether residual code makes it."""
        return self.access == "NEW"

    @property
    def is_buffer(self) -> bool:
        """Whether it is one of the tensors that torch's modules keep beside their parameters."""
        table = self.parent
        return (
            self.access == "DICT_ITEM"
            and table is not None
            and table.argument == "_buffers"
            and _is_module_table(table)
        )

    def __repr__(self) -> str:
        return f"<Source {self.name}>"


def _spell(source: Source) -> str:
    parent = source.parent
    assert parent is not None, "roots are named when they are made"
    if source.access == "DICT_ITEM" and parent.access == "INSTANCE_DICT" and parent.parent is not None:
        if isinstance(source.argument, str) and source.argument.isidentifier():
            return f"{parent.parent.name}.{source.argument}"
    if source.access == "DICT_ITEM" and _is_module_table(parent):
        owner = parent.parent.parent.name  # type: ignore[union-attr]
        return f"{owner}[{source.argument}]" if source.argument.isdigit() else f"{owner}.{source.argument}"
    if source.access == "DICT_ITEM" and parent.access == "MODULE_DICT" and parent.parent is not None:
        return f"{parent.parent.name}.{source.argument}"
    return _ACCESSORS[source.access].words(parent.name, source.argument)


def _is_module_table(source: Source) -> bool:
    """Whether a source is one of the tables in which torch's modules keep what `module.name` finds."""
    return (
        source.access == "DICT_ITEM"
        and source.argument in ("_parameters", "_buffers", "_modules")
        and source.parent is not None
        and source.parent.access == "INSTANCE_DICT"
    )


class Sources:
    """The roots of one capture."""

    def __init__(self, argument_names: Sequence[str]) -> None:
        self._arguments = [Source(None, "ARG", i, f"L[{name!r}]") for i, name in enumerate(argument_names)]
        self.function = Source(None, "FUNCTION", None, "F")
        self._known: dict[int, Source] = {}
        self._made: list[Source] = []

    def argument(self, slot: int) -> Source:
        return self._arguments[slot]

    def known(self, obj: Any) -> Source:
        """An object whose identity other guards have established (a class, a module): held weakly by the guards."""
        found = self._known.get(id(obj))
        if found is None:
            found = self._known[id(obj)] = Source(None, "KNOWN", obj, name_of(obj))
        return found

    def new(self, recipe: Any) -> Source:
        """An object that residual code makes, by a recipe, before the graph runs: guards know nothing of it."""
        source = Source(None, "NEW", recipe, f"new_{len(self._made) + 1}")
        self._made.append(source)
        return source

    def release(self) -> None:
        """Let go of the objects on the way: sources know their children, and these them, until the collector comes."""
        pending = [*self._arguments, self.function, *self._known.values(), *self._made]
        self._known.clear()
        self._made.clear()
        while pending:
            source = pending.pop()
            pending += source.children.values()
            source.children.clear()

    def in_order(self, made: Sequence[Source]) -> list[Source]:
        """Sources of objects that residual code makes, in the order of the program."""
        return sorted(made, key=self._made.index)
