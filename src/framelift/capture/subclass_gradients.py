"""Whether gradients of a class of their own may come back to a graph.

What a compiler works out in advance takes gradients that are plain tensors. Where a tensor that dispatches in its own
way meets what a graph computes, in Python after the graph, the gradient is of that class, too. So graphs of frames
from which such tensors can be reached are run by autograd.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterable
from itertools import chain
from types import FunctionType, ModuleType
from typing import Any, Literal

import torch

from framelift.values.core.lookup import is_subclass
from framelift.values.subclasses.tensors import dispatches

# So many objects are looked at.
_MOST = 1 << 15


def is_subclass_in_sight(function: FunctionType, slots: Iterable[Any]) -> bool:
    """Whether a frame can reach such a tensor, or names such a class. Runs no code of the user's."""
    named: list[Any] = [*map(function.__globals__.get, function.__code__.co_names)]
    if any(is_subclass(type(obj), type) and dispatches(obj) for obj in named):
        return True
    pending, seen = deque([*slots, *named, function.__closure__]), set[int]()
    kinds: dict[int, _Kind] = {}
    while pending and len(seen) < _MOST:
        obj = pending.popleft()
        if id(obj) in seen:
            continue
        seen.add(id(obj))
        kind = kinds.get(id(type(obj))) or kinds.setdefault(id(type(obj)), _kind(type(obj)))
        if kind == "subclass":
            return True
        if kind == "holder":
            pending.extend(_held(obj))
    return False


_Kind = Literal["subclass", "leaf", "holder"]
_LEAVES = (str, int, float, type(None), torch.Tensor, type, ModuleType)


def _kind(cls: type) -> _Kind:
    if dispatches(cls):
        return "subclass"
    return "leaf" if any(is_subclass(cls, leaf) for leaf in _LEAVES) else "holder"


def _held(obj: Any) -> Iterable[Any]:
    if type(obj) is FunctionType:
        return obj.__closure__ or ()
    # Not by way of `__dict__`: asked for it, an instance makes one, and is slower ever after.
    held = gc.get_referents(obj)
    return chain.from_iterable(gc.get_referents(item) if type(item) is dict else (item,) for item in held)
