"""Functions and classes in C of a module that is loaded twice: the second copy's do what the first copy's do."""

from __future__ import annotations

import sys
import types
from typing import Any

from framelift.native import _core
from framelift.values.core.lookup import name_of, own_entries


def twin_of(target: Any) -> Any:
    """The function of the module that goes by its name, for one of another copy of that module; else None.

    For the `__new__` of a class it is that of the class's twin.
    """
    if type(target) is not types.BuiltinFunctionType:
        return None
    owner = target.__self__
    if isinstance(owner, type) and target.__name__ == "__new__":
        twin = twin_class(owner)
        return None if twin is None else own_entries(twin).get("__new__")
    if type(owner) is not types.ModuleType:
        return None
    known = sys.modules.get(owner.__name__)
    twin = known.__dict__.get(target.__name__) if type(known) is types.ModuleType else None
    return twin if twin is not target and _core.is_same_function(twin, target) else None


def twin_class(cls: type) -> type | None:
    """The class of the module that goes by its name, for one of another copy of that module; else None."""
    methods = [entry for entry in own_entries(cls).values() if type(entry) is types.MethodDescriptorType]
    known = sys.modules.get(own_entries(cls).get("__module__", "")) if methods else None
    twin = known.__dict__.get(name_of(cls)) if type(known) is types.ModuleType else None
    if twin is cls or not isinstance(twin, type):
        return None
    others = own_entries(twin)
    return twin if all(_core.is_same_function(others.get(method.__name__), method) for method in methods) else None
