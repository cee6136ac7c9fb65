"""Binding the arguments of a call to the slots of a frame, as CPython does it."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from framelift.values.base import NULL
from framelift.values.dicts import DictValue
from framelift.values.exceptions import raise_error

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.values.functions import FunctionLike

_VARARGS, _VARKEYWORDS = 0x04, 0x08


def bind_arguments(lift: Lift, function: FunctionLike, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The argument slots of a frame of `function`; a TypeError of the traced program where they do not fit."""
    code = function.code
    positional, keyword_only = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    slots: list[Any] = [NULL] * (positional + keyword_only)
    given = min(len(args), positional)
    slots[:given] = args[:given]
    surplus = args[positional:]
    extra: dict[str, Any] = {}
    for name, value in kwargs.items():
        index = _slot_of(names, name, code.co_posonlyargcount, positional + keyword_only)
        if index is None:
            if not code.co_flags & _VARKEYWORDS:
                raise_error(TypeError, f"{code.co_qualname}() got an unexpected keyword argument '{name}'")
            extra[name] = value
        elif slots[index] is not NULL:
            raise_error(TypeError, f"{code.co_qualname}() got multiple values for argument '{name}'")
        else:
            slots[index] = value
    if surplus and not code.co_flags & _VARARGS:
        raise_error(TypeError, _too_many(code, len(args)))
    if any(slot is NULL for slot in slots[:positional]):
        _fill_defaults(lift, function, slots, positional)
    if any(slot is NULL for slot in slots[positional:]):
        _fill_keyword_defaults(lift, function, slots, positional)
    if code.co_flags & _VARARGS:
        slots.append(lift.tuple(surplus))
    if code.co_flags & _VARKEYWORDS:
        slots.append(DictValue(extra))
    return slots


def _slot_of(names: tuple[str, ...], name: str, start: int, stop: int) -> int | None:
    for index in range(start, stop):
        if names[index] == name:
            return index
    return None


def _fill_defaults(lift: Lift, function: FunctionLike, slots: list[Any], positional: int) -> None:
    defaults = function.defaults(lift)
    first = positional - len(defaults)
    missing = []
    for index in range(positional):
        if slots[index] is NULL:
            if index >= first:
                slots[index] = defaults[index - first]
            else:
                missing.append(function.code.co_varnames[index])
    if missing:
        raise_error(TypeError, _missing(function.code, missing, "positional"))


def _fill_keyword_defaults(lift: Lift, function: FunctionLike, slots: list[Any], positional: int) -> None:
    defaults = function.keyword_defaults(lift)
    missing = []
    for index in range(positional, len(slots)):
        if slots[index] is NULL:
            name = function.code.co_varnames[index]
            if name in defaults:
                slots[index] = defaults[name]
            else:
                missing.append(name)
    if missing:
        raise_error(TypeError, _missing(function.code, missing, "keyword-only"))


def _missing(code: types.CodeType, names: list[str], kind: str) -> str:
    quoted = [f"'{name}'" for name in names]
    if len(quoted) == 1:
        listed = quoted[0]
    elif len(quoted) == 2:
        listed = " and ".join(quoted)
    else:
        listed = ", ".join(quoted[:-1]) + f", and {quoted[-1]}"
    plural = "" if len(names) == 1 else "s"
    return f"{code.co_qualname}() missing {len(names)} required {kind} argument{plural}: {listed}"


def _too_many(code: types.CodeType, given: int) -> str:
    takes = code.co_argcount
    plural = "" if takes == 1 else "s"
    was = "was" if given == 1 else "were"
    return f"{code.co_qualname}() takes {takes} positional argument{plural} but {given} {was} given"
