"""Models of `copy.copy` and `copy.deepcopy` for plain data and plain objects.

What the originals keep by `id()` is found here by `is`. What copies itself (`__deepcopy__`, `__reduce__`, ...) and what
is handed a memo is left to Python: a call of the original with a memo has no model.
"""

from __future__ import annotations

import copy as copying
import copyreg
from typing import Any

from framelift.models.registry import models


def is_atomic(obj: Any) -> bool:
    """Whether a copy of an object is the object itself; the interpreter knows."""
    raise NotImplementedError


def is_plain_object(obj: Any) -> bool:
    """Whether an object is its class and its namespace, to `copy`; the interpreter knows."""
    raise NotImplementedError


@models(copying.deepcopy)
def deepcopy(x: Any, /) -> Any:
    return _deepcopy(x, [])


def _deepcopy(x: Any, memo: list[Any]) -> Any:
    if is_atomic(x):
        return x
    for original, copied in memo:
        if original is x:
            return copied
    cls = type(x)
    if cls is list:
        made_list: list[Any] = []
        memo.append((x, made_list))
        for item in x:
            made_list.append(_deepcopy(item, memo))
        return made_list
    if cls is dict:
        made: dict[Any, Any] = {}
        memo.append((x, made))
        for key, value in x.items():
            made[_deepcopy(key, memo)] = _deepcopy(value, memo)
        return made
    if cls is tuple:
        return _deepcopy_tuple(x, memo)
    if not is_plain_object(x) or hasattr(x, "__deepcopy__") or cls in copyreg.dispatch_table:
        return copying.deepcopy(x, {})
    copied = cls.__new__(cls)  # type: ignore[call-overload]
    memo.append((x, copied))
    return _give_state(copied, _deepcopy(x.__dict__, memo))


def _deepcopy_tuple(x: Any, memo: list[Any]) -> Any:
    items = [_deepcopy(item, memo) for item in x]
    for original, copied in memo:  # an item may refer to the tuple
        if original is x:
            return copied
    result = x
    for before, after in zip(x, items, strict=True):
        if before is not after:
            result = tuple(items)
            break
    memo.append((x, result))
    return result


def _give_state(copied: Any, state: Any) -> Any:
    if hasattr(copied, "__setstate__"):
        copied.__setstate__(state)
    else:
        copied.__dict__.update(state)
    return copied


@models(copying.copy)
def copy(x: Any, /) -> Any:
    cls = type(x)
    if is_atomic(x) or cls is tuple or cls is frozenset:
        return x
    if cls is list or cls is dict or cls is set:
        return x.copy()
    if hasattr(cls, "__copy__"):
        return cls.__copy__(x)
    if not is_plain_object(x) or cls in copyreg.dispatch_table:
        return copying.deepcopy(x, {})  # has no model: Python makes the copy
    return _give_state(cls.__new__(cls), x.__dict__)  # type: ignore[call-overload]
