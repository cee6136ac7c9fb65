"""What is known about calls before they are captured: what earlier ones were like, and what the user wishes.

Modules are known one by one, because all of them share one `__call__`.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

import torch

from framelift.native import _core
from framelift.native.torch.tensor_spec import TensorSpec
from framelift.options import Options
from framelift.shapes.dynamic_argument import named
from framelift.shapes.history import History, Wish
from framelift.values.core.lookup import is_subclass, raw_lookup

# Containers among arguments are looked into so deep.
_DEPTH = 2


@dataclass(slots=True, eq=False)
class Known:
    """Calls of one function, or of one module. Entries carry it as their label."""

    name: str
    history: History = field(default_factory=History)
    # How often a capture was begun.
    captures: int = 0
    # A capture failed: Python runs it from then on.
    failed: bool = False
    # The user was told about the limit.
    told: bool = False
    # Python ran its first call, because the stance said so.
    seen: bool = False

    def entries(self, table: Any) -> list[Any]:
        """Its entries, most recently used first."""
        return [entry for entry in table.entries if entry.label is self]


class Histories:
    """What is known, by table and, for calls of modules, by module. It goes with them."""

    def __init__(self) -> None:
        self._by_table: weakref.WeakKeyDictionary[Any, dict[int, tuple[Any, Known]]] = weakref.WeakKeyDictionary()

    def of(self, table: Any, function: FunctionType, slots: tuple[Any, ...]) -> Known:
        """What is known about a call of the function with these arguments."""
        found = self._by_table.setdefault(table, {})
        owner = slots[0] if slots and is_subclass(type(slots[0]), torch.nn.Module) else None
        if owner is None:
            known = found.get(0)
            return (known or found.setdefault(0, (None, Known(function.__qualname__))))[1]
        # By identity: a module may have a hash of its own.
        key = id(owner)
        known = found.get(key)
        if known is None or known[0]() is not owner:
            gone = weakref.ref(owner, lambda _: found.pop(key, None))
            known = found[key] = (gone, Known(function.__qualname__))
        return known[1]

    def clear(self) -> None:
        self._by_table.clear()


def wishes_for(options: Options, function: FunctionType, slots: tuple[Any, ...]) -> Mapping[str, Wish]:
    """What `dynamic={...}` says about the inputs of a call."""
    if options.dynamic is None or isinstance(options.dynamic, bool):
        return {}
    forward = _forward_of(slots)
    of_forward = [] if forward is None else list(inspect.signature(forward).parameters)[1:]

    def places(name: str) -> list[str]:
        if name in function.__code__.co_freevars:
            return [f"F.__closure__[{function.__code__.co_freevars.index(name)}].cell_contents"]
        if name in of_forward:  # among `*args` and `**kwargs` of the call of a module
            return [f"L['args'][{of_forward.index(name)}]", f"L['kwargs'][{name!r}]"]
        return _global_places(name, (forward or function).__globals__)

    return named(options.dynamic, places)


def _forward_of(slots: tuple[Any, ...]) -> FunctionType | None:
    """What the call of a module runs."""
    if not slots or not is_subclass(type(slots[0]), torch.nn.Module):
        return None
    forward = raw_lookup(type(slots[0]), "forward")
    return forward if type(forward) is FunctionType else None


def _global_places(name: str, namespace: dict[str, Any]) -> list[str]:
    found = namespace.get(name)
    if type(found) is ModuleType:
        return [found.__name__]
    return [f"G[{name!r}]", f"{namespace.get('__name__')}.{name}"] if name in namespace else []


def note_arguments(history: History, names: Sequence[str], slots: tuple[Any, ...]) -> None:
    """Remember a call that is not captured: sizes and numbers among its arguments. Runs no code of the user's."""
    for name, slot in zip(names, slots, strict=True):
        _note(history, f"L[{name!r}]", slot, _DEPTH)


def _note(history: History, name: str, obj: Any, depth: int) -> None:
    kind, facts = type(obj), _core.tensor_facts(obj)
    if facts is not None:
        spec = TensorSpec(*facts)
        history.sizes.setdefault(name, tuple(size or 0 for size in spec.sizes or ()))
        history.strides.setdefault(name, tuple(stride or 0 for stride in spec.strides or ()))
    elif kind in (int, float):
        history.numbers.setdefault(name, obj)
    elif kind in (list, tuple) and depth:
        for index, item in enumerate(obj):
            _note(history, f"{name}[{index}]", item, depth - 1)
    elif kind is dict and depth:
        for key, item in obj.items():
            if type(key) in (str, int):
                _note(history, f"{name}[{key!r}]", item, depth - 1)
