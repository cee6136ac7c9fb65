"""The model of how `functools.singledispatch` finds an implementation."""

from __future__ import annotations

import functools
from typing import Any

from framelift.models.registry import models_inner


@models_inner(functools.singledispatch, "dispatch")
def dispatch(cls: Any, *, registry: Any) -> Any:
    # The original remembers what it found, in a dict that it clears where the answer may have changed.
    if cls in registry:
        return registry[cls]
    bases = cls.__mro__
    for kind in registry:
        if kind not in bases and issubclass(cls, kind):  # an abstract class, which has to find its place among them
            return functools._find_impl(cls, registry)  # type: ignore[attr-defined]
    for base in bases:
        if base in registry:
            return registry[base]
    return None
