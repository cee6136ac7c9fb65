"""Models of descriptors of the standard library."""

from __future__ import annotations

import functools
from typing import Any

from framelift.models.registry import models


class _Missing:
    """Stands for an attribute that is not there."""


@models(functools.cached_property.__get__)
def cached_property_get(descriptor: Any, instance: Any, owner: Any = None) -> Any:
    # The original holds a lock on some versions, which matters to threads that ask at the same time and to nobody else.
    if instance is None:
        return descriptor
    if descriptor.attrname is None:
        raise TypeError("Cannot use cached_property instance without calling __set_name__ on it.")
    cache = instance.__dict__
    found = cache.get(descriptor.attrname, _Missing)
    if found is _Missing:
        found = descriptor.func(instance)
        cache[descriptor.attrname] = found
    return found
