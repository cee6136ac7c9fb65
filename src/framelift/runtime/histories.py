"""What is known about the arguments of a call before it is captured: their history, and what the user wishes.

Modules have a history each, because all of them share one `__call__`.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import torch

from framelift.options import Options
from framelift.shapes.history import History, Wish
from framelift.shapes.wishes import named
from framelift.values.lookup import is_subclass, raw_lookup


class Histories:
    """Histories by table and, for calls of modules, by module. They go with them."""

    def __init__(self) -> None:
        self._by_table: weakref.WeakKeyDictionary[Any, dict[int, tuple[Any, History]]] = weakref.WeakKeyDictionary()

    def of(self, table: Any, slots: tuple[Any, ...]) -> History:
        """The history for a call with these arguments."""
        histories = self._by_table.setdefault(table, {})
        owner = slots[0] if slots and is_subclass(type(slots[0]), torch.nn.Module) else None
        if owner is None:
            return histories.setdefault(0, (None, History()))[1]
        # By identity: a module may have a hash of its own.
        key = id(owner)
        known = histories.get(key)
        if known is None or known[0]() is not owner:
            known = histories[key] = (weakref.ref(owner, lambda _: histories.pop(key, None)), History())
        return known[1]

    def clear(self) -> None:
        self._by_table.clear()


def wishes_for(options: Options, slots: tuple[Any, ...]) -> Mapping[str, Wish]:
    """What `dynamic={...}` says about the inputs of a call."""
    if options.dynamic is None or isinstance(options.dynamic, bool):
        return {}
    return named(options.dynamic, _arguments_of_forward(slots))


def _arguments_of_forward(slots: tuple[Any, ...]) -> dict[str, list[str]]:
    """Where the arguments of `forward` are found in a call of a module: among `*args` and `**kwargs`."""
    forward = raw_lookup(type(slots[0]), "forward") if slots else None
    if not isinstance(forward, FunctionType) or not is_subclass(type(slots[0]), torch.nn.Module):
        return {}
    names = list(inspect.signature(forward).parameters)[1:]
    return {name: [f"L['args'][{index}]", f"L['kwargs'][{name!r}]"] for index, name in enumerate(names)}
