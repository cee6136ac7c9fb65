"""`functools.lru_cache`: what the real cache holds for the arguments is the result; a miss runs in Python.

That the entry is still there is a fact to guard, like any other of an object's state. (Statistics of the cache do not
count the hits of captured code.)
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, GraphBreak
from framelift.guards.equality import constants_equal
from framelift.guards.reading import lru_entries
from framelift.values.base import Value
from framelift.values.classes import ClassValue
from framelift.values.constants import is_constant
from framelift.values.dicts import MISSING, DictValue
from framelift.values.exceptions import raise_error
from framelift.values.lookup import Found, has_default, name_of, register_binder
from framelift.values.objects import UserObjectValue

if TYPE_CHECKING:
    from framelift.capture.lift import Lift


class CachedFunctionValue(Value, models=functools._lru_cache_wrapper):
    """A function with a cache that existed before the frame."""

    __slots__ = ()

    def describe(self) -> str:
        name = self.concrete.__dict__.get("__qualname__")
        return f"{name if type(name) is str else 'a function'}, which is cached,"

    def call(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        assert self.source is not None
        if kwargs:
            raise GraphBreak(FL0102, what=f"{self.describe()} with keywords")
        parts = [self._part(lift, argument) for argument in args]
        for key, result in lru_entries(self.concrete):
            if _matches(key, parts):
                source = self.source.child("LRU_RESULT", key)
                lift.require(source)
                return lift.wrap(result, source)
        raise GraphBreak(FL0102, what=f"{self.describe()} for new arguments")

    def _part(self, lift: Lift, argument: Any) -> Any:
        """What stands for an argument in the key: a constant, or an object that is equal to itself only."""
        if isinstance(argument, UserObjectValue) and argument.source is not None:
            argument.note(lift)
            defaults = [has_default(lift, argument.cls, n, object.__dict__[n]) for n in ("__hash__", "__eq__")]
            if all(defaults):
                lift.guard(argument.source, "IS", argument.concrete)
                return argument.concrete
        if isinstance(argument, ClassValue):
            argument.key(lift)  # classes are found by identity, unless their metaclass has it otherwise
            argument.note(lift)
            return argument.concrete
        if isinstance(argument, Value) and not is_constant(argument.concrete):
            raise GraphBreak(FL0102, what=f"{self.describe()} with {argument.describe()}")
        return lift.constant(argument)

    def attribute(self, lift: Lift, name: str) -> Any:
        assert self.source is not None
        namespace: DictValue = lift.wrap(self.concrete.__dict__, self.source.child("INSTANCE_DICT"))
        if name == "__class__":
            return lift.known_object(functools._lru_cache_wrapper)
        found = MISSING if name in _METHODS else namespace.get_key(lift, name)
        if found is not MISSING:
            return found
        if hasattr(functools._lru_cache_wrapper, name):
            self.refuse(f"attribute {name!r}")
        raise_error(AttributeError, f"'{name_of(functools._lru_cache_wrapper)}' object has no attribute '{name}'")


_METHODS = ("cache_info", "cache_clear")


def _matches(key: Any, parts: list[Any]) -> bool:
    """Whether the cache has these positional arguments under `key`: one int or str stands for itself."""
    if len(parts) == 1 and type(parts[0]) in (int, str):
        return constants_equal(key, parts[0])
    if type(key) is not tuple or len(key) != len(parts):
        return False
    return all(
        constants_equal(stored, part) if is_constant(stored) else stored is part
        for stored, part in zip(key, parts, strict=True)
    )


@register_binder(functools._lru_cache_wrapper)
def _bind_cached(lift: Lift, found: Found, instance: Any, cls: type) -> Any:
    function = lift.wrap(found.raw, found.source)
    return function if instance is None else lift.bound_method(function, instance)
