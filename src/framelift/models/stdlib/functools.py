"""Models of `functools`: `reduce`, what caches do, and how functions of several implementations find one."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

from framelift.controls import graph_break
from framelift.models.builtins import walk
from framelift.models.registry import Missing, models, models_inner
from framelift.models.side_effects import afterwards


@models(functools.reduce)
def reduce(function: Callable[..., Any], iterable: Iterable[Any], initial: Any = Missing, /) -> Any:
    iterator = walk(iterable)
    if iterator is None:
        raise TypeError("reduce() arg 2 must support iteration")
    if initial is Missing:
        for first in iterator:
            result = first
            break
        else:
            raise TypeError("reduce() of empty iterable with no initial value")
    else:
        result = initial
    for item in iterator:
        result = function(result, item)
    return result


# -- caches ------------------------------------------------------------------------------------------------------------


class Cache:
    """A function and what it returned, the result that was not asked for the longest first."""

    def __init__(self, function: Callable[..., Any], maxsize: Any, typed: Any, info: Callable[..., Any]) -> None:
        self.function = function
        self.maxsize = maxsize if maxsize is None else max(maxsize, 0)
        self.typed = typed
        self.make_info = info
        self.clear()

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.maxsize == 0:
            self.misses += 1
            return self.function(*args, **kwargs)
        key = _key(args, kwargs, self.typed)
        found = self.results.get(key, Missing)
        if found is not Missing:
            self.hits += 1
            if self.maxsize is not None:
                self.results[key] = self.results.pop(key)
            return found
        self.misses += 1
        result = self.function(*args, **kwargs)
        if self.maxsize is None:
            self.results[key] = result
        elif key not in self.results:  # unless that very call put it there
            if len(self.results) >= self.maxsize:
                del self.results[next(iter(self.results))]
            self.results[key] = result
        return result

    def info(self) -> Any:
        return self.make_info(self.hits, self.misses, self.maxsize, len(self.results))

    def clear(self) -> None:
        self.hits = self.misses = 0
        self.results: dict[Any, Any] = {}


def _key(args: tuple[Any, ...], kwargs: dict[str, Any], typed: Any) -> Any:
    """What results are found by. One int or str stands for itself, so that it is not taken for a float."""
    if not typed and not kwargs and len(args) == 1 and type(args[0]) in (int, str):
        return args[0]
    key = args
    if kwargs:
        key += (Missing, *[part for item in kwargs.items() for part in item])
    if typed:
        key += (*[type(value) for value in args], *[type(value) for value in kwargs.values()])
    return key


@afterwards
def ask_again(function: Callable[..., Any], names: tuple[str, ...], *values: Any) -> None:
    """Ask a real cache for what it has: it counts that, and keeps what was asked for last. `names` are of keywords."""
    first = len(values) - len(names)
    function(*values[:first], **dict(zip(names, values[first:], strict=True)))


@models(functools.cached_property.__get__)
def cached_property_get(descriptor: Any, instance: Any, owner: Any = None) -> Any:
    # The original holds a lock on some versions, which matters to threads that ask at the same time and to nobody else.
    if instance is None:
        return descriptor
    if descriptor.attrname is None:
        raise TypeError("Cannot use cached_property instance without calling __set_name__ on it.")
    cache = instance.__dict__
    found = cache.get(descriptor.attrname, Missing)
    if found is Missing:
        found = descriptor.func(instance)
        cache[descriptor.attrname] = found
    return found


# -- dispatch ----------------------------------------------------------------------------------------------------------


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
