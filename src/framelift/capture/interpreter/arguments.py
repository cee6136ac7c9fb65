"""Binding the arguments of a call to the slots of a frame, as CPython does it."""

from __future__ import annotations

import sys
import types
from functools import partial
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, GraphBreak
from framelift.values.containers.dicts import DictValue
from framelift.values.core.base import NULL
from framelift.values.core.construct import make_tuple
from framelift.values.core.exceptions import raise_error

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer
    from framelift.values.functions.functions import FunctionLike

_VARARGS, _VARKEYWORDS = 0x04, 0x08


def bind_arguments(lift: Tracer, function: FunctionLike, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The argument slots of a frame of `function`; a TypeError of the traced program where they do not fit."""
    code = function.code
    name_of_function = partial(function.qualified_name, lift)
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
                raise_error(TypeError, f"{name_of_function()}() {_unexpected(code, name, kwargs)}")
            extra[name] = value
        elif slots[index] is not NULL:
            raise_error(TypeError, f"{name_of_function()}() got multiple values for argument '{name}'")
        else:
            slots[index] = value
    if surplus and not code.co_flags & _VARARGS:
        given_by_keyword = sum(slot is not NULL for slot in slots[positional:])
        raise_error(TypeError, f"{name_of_function()}() {_too_many(lift, function, len(args), given_by_keyword)}")
    if given < positional and any(slot is NULL for slot in slots[:positional]):
        _fill_defaults(lift, function, slots, positional)
    if keyword_only and any(slot is NULL for slot in slots[positional:]):
        _fill_keyword_defaults(lift, function, slots, positional)
    if code.co_flags & _VARARGS:
        slots.append(make_tuple(surplus))
    if code.co_flags & _VARKEYWORDS:
        slots.append(DictValue(extra))
    return slots


def _slot_of(names: tuple[str, ...], name: str, start: int, stop: int) -> int | None:
    for index in range(start, stop):
        if names[index] == name:
            return index
    return None


def _fill_defaults(lift: Tracer, function: FunctionLike, slots: list[Any], positional: int) -> None:
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
        raise_error(TypeError, f"{function.qualified_name(lift)}() {_missing(missing, 'positional')}")


def _fill_keyword_defaults(lift: Tracer, function: FunctionLike, slots: list[Any], positional: int) -> None:
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
        raise_error(TypeError, f"{function.qualified_name(lift)}() {_missing(missing, 'keyword-only')}")


def _missing(names: list[str], kind: str) -> str:
    quoted = [f"'{name}'" for name in names]
    if len(quoted) == 1:
        listed = quoted[0]
    elif len(quoted) == 2:
        listed = " and ".join(quoted)
    else:
        listed = ", ".join(quoted[:-1]) + f", and {quoted[-1]}"
    plural = "" if len(names) == 1 else "s"
    return f"missing {len(names)} required {kind} argument{plural}: {listed}"


def _unexpected(code: types.CodeType, name: str, kwargs: dict[str, Any]) -> str:
    positional_only = [only for only in code.co_varnames[: code.co_posonlyargcount] if only in kwargs]
    if positional_only:
        return f"got some positional-only arguments passed as keyword arguments: '{', '.join(positional_only)}'"
    if sys.version_info >= (3, 13):
        raise GraphBreak(FL0102, what=f"{code.co_qualname} with an unexpected keyword, for which Python makes a guess")
    return f"got an unexpected keyword argument '{name}'"


def _too_many(lift: Tracer, function: FunctionLike, given: int, by_keyword: int) -> str:
    takes, defaults = function.code.co_argcount, len(function.defaults(lift))
    expected = f"from {takes - defaults} to {takes}" if defaults else str(takes)
    also = (
        f" positional argument{_s(given)} (and {by_keyword} keyword-only argument{_s(by_keyword)})"
        if by_keyword
        else ""
    )
    was = "was" if given == 1 and not by_keyword else "were"
    return f"takes {expected} positional argument{'s' if defaults else _s(takes)} but {given}{also} {was} given"


def _s(count: int) -> str:
    return "" if count == 1 else "s"
