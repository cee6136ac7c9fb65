"""What residual code calls to make generators of the traced program real. None of it runs code of the user's."""

from __future__ import annotations

from collections.abc import Generator
from types import CodeType, FunctionType
from typing import Any

_STARRED, _DOUBLY_STARRED = 0x4, 0x8

_Made = Generator[Any, Any, Any]


def begin(function: FunctionType, *slots: Any) -> _Made:
    """A generator that was not asked for anything yet; `slots` hold its arguments as the frame has them."""
    code = function.__code__
    plain, named = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    others = list(slots[named:])
    more = others.pop(0) if code.co_flags & _STARRED else ()
    keywords = dict(zip(code.co_varnames[plain:named], slots[plain:named], strict=True))
    if code.co_flags & _DOUBLY_STARRED:
        keywords |= others.pop()
    made: _Made = function(*slots[:plain], *more, **keywords)
    return made


def begin_at_yield(function: FunctionType, code: CodeType, arguments: list[Any]) -> _Made:
    """A generator of `function` that `go_to_yield` brings to where `code` begins."""
    like = FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)
    like.__qualname__ = function.__qualname__
    made: _Made = like(arguments)
    return made


def go_to_yield(generator: _Made, arguments: list[Any], items: list[Any]) -> None:
    """Give such a generator what its frame holds: from then on it stands at its `yield`."""
    arguments += items
    generator.send(None)


def ended(function: FunctionType) -> _Made:
    """A generator that will give nothing more."""
    code = function.__code__
    slots: list[Any] = [None] * (code.co_argcount + code.co_kwonlyargcount)
    if code.co_flags & _STARRED:
        slots.append(())
    if code.co_flags & _DOUBLY_STARRED:
        slots.append({})
    generator = begin(function, *slots)
    generator.close()
    return generator
