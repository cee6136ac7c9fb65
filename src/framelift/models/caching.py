"""The model of a function with a cache, as `functools.lru_cache` makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from framelift.models.output import afterwards


class _Missing:
    """Stands for a result that is not in the cache, and for the border between arguments and keywords in a key."""


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
        found = self.results.get(key, _Missing)
        if found is not _Missing:
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
        key += (_Missing, *[part for item in kwargs.items() for part in item])
    if typed:
        key += (*[type(value) for value in args], *[type(value) for value in kwargs.values()])
    return key


@afterwards
def ask_again(function: Callable[..., Any], names: tuple[str, ...], *values: Any) -> None:
    """Ask a real cache for what it has: it counts that, and keeps what was asked for last. `names` are of keywords."""
    first = len(values) - len(names)
    function(*values[:first], **dict(zip(names, values[first:], strict=True)))
