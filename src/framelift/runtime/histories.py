"""Whose history a capture belongs to: the function's; a module's own, because all modules share one `__call__`."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from framelift.shapes.history import History
from framelift.values.lookup import is_subclass


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
