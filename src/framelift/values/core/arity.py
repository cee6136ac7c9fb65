"""Calls that a C function rejects for the number or the names of their arguments, in its own words.

Each C function words this in its own way, so it is asked: it is called with as many arguments of the same names that
are nothing but `object()`. Where it complains about their number or names it has not looked at them, and says the same
of the program's arguments. Whatever else it says or does is a graph break.
"""

from __future__ import annotations

import re
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType
from typing import Any, NoReturn

from framelift.breaks import FL0102_ARGUMENTS, GraphBreak
from framelift.values.core.exceptions import raise_error

# Functions and classes of these modules do nothing to the world when they are called with plain objects ...
_HARMLESS = frozenset({"builtins", "_operator", "itertools", "collections", "_collections", "functools", "_functools"})
_HARMLESS |= {"math", "_heapq", "_bisect"}
# ... but for these.
_WITH_EFFECTS = frozenset({"print", "input", "open", "exec", "eval", "breakpoint", "__import__", "__build_class__"})
# Types whose methods are asked on an empty instance.
_SAMPLES = (list, dict, set, frozenset, tuple, str, bytes, int, float, complex, bool, deque, OrderedDict, defaultdict)
_IMMUTABLE, _HEAPTYPE = 1 << 8, 1 << 9
_flags_of = type.__dict__["__flags__"].__get__
# How CPython's parsers of arguments speak of numbers and names.
_ABOUT_THE_CALL = re.compile(
    r"argument.* \(\d+ given\)|expected .*argument.*, got \d+|takes no (keyword )?arguments|missing required argument"
    r"|invalid keyword argument|unexpected keyword argument|needs an argument|must have at least \w+ arguments"
)


def reject(target: Any, args: list[Any], kwargs: dict[str, Any], what: str) -> NoReturn:
    """Raise what the C function or class `target` says of these arguments, which do not fit; else break for `what`."""
    asked = _asked(target, len(args), bool(kwargs))
    if asked is not None:
        function, count = asked
        try:
            function(*[object()] * count, **dict.fromkeys(kwargs, object()))
        except Exception as error:  # noqa: BLE001  (what it says of plain objects is of no interest)
            if type(error) is TypeError and _ABOUT_THE_CALL.search(str(error)):
                raise_error(TypeError, *error.args)
    raise GraphBreak(FL0102_ARGUMENTS, what=what)


def reject_method(kind: type, name: str, args: list[Any], kwargs: dict[str, Any], what: str) -> NoReturn:
    """The same for the method `name` of an instance of `kind`."""
    reject(getattr(kind(), name) if _has_sample(kind) else None, args, kwargs, what)


def reject_init(base: type, name: str, args: list[Any], kwargs: dict[str, Any]) -> NoReturn:
    """The same for `base.__init__` of a subclass called `name`, which may be what the words are about."""
    stand_in = type(name, (base,), {})()
    # What it makes of names depends on the class.
    reject(None if kwargs else getattr(stand_in, "__init__"), args, kwargs, f"{base.__name__}.__init__")  # noqa: B009


def _has_sample(kind: type) -> bool:
    return any(kind is sample for sample in _SAMPLES)  # by identity: a class may compare in its own way


def _asked(target: Any, count: int, named: bool) -> tuple[Callable[..., Any], int] | None:
    """What is called in place of `target`, with how many arguments: a method is bound to an instance of its class."""
    if isinstance(target, (MethodDescriptorType, WrapperDescriptorType)):
        kind = target.__objclass__
        return (getattr(kind(), target.__name__), count - 1) if count and _has_sample(kind) else None
    owner = target.__self__ if isinstance(target, (BuiltinFunctionType, MethodWrapperType)) else None
    if type(owner) is type and target.__name__ == "__new__":
        # What it makes of names depends on the class.
        return (partial(target, owner), count - 1) if count and not named and _has_sample(owner) else None
    if isinstance(owner, _SAMPLES):
        return target, count
    harmless = _is_in_c(target) and target.__module__ in _HARMLESS
    return (target, count) if harmless and target.__name__ not in _WITH_EFFECTS else None


def _is_in_c(target: Any) -> bool:
    """What a program writes itself may be called like anything, and does what it likes."""
    if isinstance(target, type):
        flags = _flags_of(target)
        return not flags & _HEAPTYPE or bool(flags & _IMMUTABLE)
    return isinstance(target, BuiltinFunctionType)
