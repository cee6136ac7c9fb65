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

import types
from collections.abc import Callable, Sequence
from typing import Any

from framelift.guards.kinds import is_constant


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
    return _SPELLINGS[source.access](parent.name, source.argument)


def _is_module_table(source: Source) -> bool:
    """Whether a source is one of the tables in which torch's modules keep what `module.name` finds."""
    return (
        source.access == "DICT_ITEM"
        and source.argument in ("_parameters", "_buffers", "_modules")
        and source.parent is not None
        and source.parent.access == "INSTANCE_DICT"
    )


_SPELLINGS: dict[str, Callable[[str, Any], str]] = {
    "DICT_ITEM": lambda parent, key: f"{parent}[{repr(key) if is_constant(key) else _name_of(key)}]",
    "INSTANCE_DICT": lambda parent, _: f"{parent}.__dict__",
    "TYPE_LOOKUP": lambda parent, name: f"{parent}.{name}",
    "TYPE_OF": lambda parent, _: f"type({parent})",
    "LIST_ITEM": lambda parent, index: f"{parent}[{index}]",
    "TUPLE_ITEM": lambda parent, index: f"{parent}[{index}]",
    "CELL_CONTENTS": lambda parent, _: f"{parent}.cell_contents",
    "FUNC_CODE": lambda parent, _: f"{parent}.__code__",
    "FUNC_GLOBALS": lambda parent, _: "G" if parent == "F" else f"{parent}.__globals__",
    "FUNC_CLOSURE": lambda parent, _: f"{parent}.__closure__",
    "FUNC_DEFAULTS": lambda parent, _: f"{parent}.__defaults__",
    "FUNC_KWDEFAULTS": lambda parent, _: f"{parent}.__kwdefaults__",
    "METHOD_SELF": lambda parent, _: f"{parent}.__self__",
    "METHOD_FUNC": lambda parent, _: f"{parent}.__func__",
    "MODULE_DICT": lambda parent, _: f"{parent}.__dict__",
    "SLOT": lambda parent, descriptor: f"{parent}.{descriptor.__name__}",
    "GETATTR": lambda parent, name: f"{parent}.{name}",
    "CONTEXT_VALUE": lambda parent, _: f"{parent}.get()",
    "LRU_RESULT": lambda parent, key: f"{parent}.cache[{key!r}]" if is_constant(key) else f"{parent}.cache[...]",
}


class Sources:
    """The roots of one capture."""

    def __init__(self, argument_names: Sequence[str]) -> None:
        self._arguments = [Source(None, "ARG", i, f"L[{name!r}]") for i, name in enumerate(argument_names)]
        self.function = Source(None, "FUNCTION", None, "F")
        self._known: dict[int, Source] = {}

    def argument(self, slot: int) -> Source:
        return self._arguments[slot]

    def known(self, obj: Any) -> Source:
        """An object whose identity other guards have established (a class, a module): held weakly by the guards."""
        found = self._known.get(id(obj))
        if found is None:
            found = self._known[id(obj)] = Source(None, "KNOWN", obj, _name_of(obj))
        return found


_qualname_of_class = type.__dict__["__qualname__"].__get__
# Objects whose `__qualname__` or `__name__` is read without running a user's code.
_NAMED = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.MethodDescriptorType)


def _name_of(obj: Any) -> str:
    if issubclass(type(obj), type):  # not by getattr: a metaclass may answer
        return str(_qualname_of_class(obj))
    if type(obj) in _NAMED:
        return str(getattr(obj, "__qualname__", None) or obj.__name__)
    return f"<{_qualname_of_class(type(obj))}>"
