"""The models of how `singledispatch` finds an implementation, and `singledispatchmethod` one for an object."""

from __future__ import annotations

import functools
import sys
from typing import Any
from weakref import WeakKeyDictionary

from framelift.controls import graph_break
from framelift.models.registry import models, models_inner


@models_inner(functools.singledispatch, "dispatch")
def dispatch(cls: Any, *, registry: Any, dispatch_cache: Any) -> Any:
    # The original remembers what it found, in a dict that it clears where the answer may have changed.
    if type(dispatch_cache) is not WeakKeyDictionary:
        graph_break("singledispatch remembers what it found where others may see it")
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


def bound_to(self: Any, obj: Any, cls: Any = None) -> Any:
    # The original remembers what it made for an object, as long as that lives.
    def method(*args: Any, **kwargs: Any) -> Any:
        if not args:
            raise TypeError(f"{getattr(self.func, '__name__', 'singledispatchmethod method')} {_TOO_FEW}")
        chosen = self.dispatcher.dispatch(args[0].__class__)
        return chosen.__get__(obj, cls)(*args, **kwargs)

    method.__isabstractmethod__ = self.__isabstractmethod__  # type: ignore[attr-defined]
    method.register = self.register  # type: ignore[attr-defined]
    return functools.update_wrapper(method, self.func)


_TOO_FEW = "requires at least 1 positional argument"
if sys.version_info >= (3, 13):
    models(functools.singledispatchmethod.__get__)(bound_to)
