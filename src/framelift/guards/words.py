"""Objects in words, for guards that are shown."""

from __future__ import annotations

import types
from typing import Any

from framelift.guards.equality import has_type, is_constant, is_instance
from framelift.native import core

_qualname = type.__dict__["__qualname__"].__get__


def shown(value: Any, limit: int = 80) -> str:
    """A value in words, without its `__repr__` being asked unless it is a constant."""
    if is_constant(value):
        if type(value) is int and value.bit_length() > _BITS_SHOWN:  # interpreters have a limit for digits
            return f"an int of {value.bit_length()} bits"
        text = repr(value)
        return text if len(text) <= limit else text[: limit - 1] + "…"
    if is_instance(value, type):  # not by getattr: a metaclass may answer
        return str(_qualname(value))
    if is_instance(value, types.ModuleType):
        return _module_name(value)
    if is_instance(value, (types.FunctionType, types.BuiltinFunctionType)):
        return str(value.__qualname__)
    if type(value) is core.ByParts:
        return "what it was"
    return f"a {_qualname(type(value))} object"


def _module_name(module: types.ModuleType) -> str:
    names: Any = _variables(module)
    return str((names or {}).get("__name__", "a module without a name"))


_variables: Any = vars(types.ModuleType)["__dict__"].__get__
_BITS_SHOWN = 1000
# Objects whose `__qualname__` is read without running a user's code.
_NAMED = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType)


def name_of(obj: Any) -> str:
    """The name of a class, function or module; what else it is."""
    if is_instance(obj, type):  # not by getattr: a metaclass may answer
        return str(_qualname(obj))
    if has_type(obj, (types.ModuleType,)):
        return _module_name(obj)
    if has_type(obj, _NAMED):
        return str(obj.__qualname__)
    return f"<{_qualname(type(obj))}>"


def list_shown(values: Any) -> str:
    """The first values of many, in their order."""
    items = [shown(value, 40) for value in values]
    return f"[{', '.join(items[:8])}{', …' if len(items) > 8 else ''}]"


def set_shown(values: Any) -> str:
    """The first values of many, sorted."""
    items = sorted(shown(value, 40) for value in values)
    return f"{{{', '.join(items[:8])}{', …' if len(items) > 8 else ''}}}"
