"""What user code may call inside lifted code to steer framelift: `graph_break`, `disable`, `error_on_graph_break` ...

Run by Python these functions do next to nothing. Capture recognises the function objects of this module (and the mark
that `disable` leaves) and does what they mean.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import ContextVar
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

from framelift.errors import short
from framelift.native import _core

_MARK = "__framelift_disabled__"


def graph_break(reason: str = "") -> None:
    """End the graph here: what comes next is a new one. Nothing happens outside lifted code.

    >>> @framelift.compile(backend="eager")
    ... def f(x):
    ...     y = x + 1
    ...     framelift.graph_break()
    ...     return y * 2
    """
    if not isinstance(reason, str):
        raise TypeError(f"graph_break(reason=...) is {short(reason)}: a str is needed")


def is_compiling() -> bool:
    """True in lifted code, False when Python runs the code.

    >>> framelift.is_compiling()
    False
    """
    return False


_error_on_graph_break: ContextVar[bool | None] = ContextVar("framelift_error_on_graph_break", default=None)


class error_on_graph_break(ContextDecorator):  # noqa: N801  (used like a function)
    """Whether a graph break is an error: for a block, or as a decorator for a function. The innermost one decides.

    Without one `fullgraph` decides. With `True` the error names the line and the reason, with `False` Python runs the
    instruction, also under `fullgraph=True`.

    >>> @framelift.compile(backend="eager")
    ... def f(x):
    ...     with framelift.error_on_graph_break(True):
    ...         y = x.sin()
    ...     return y
    """

    def __init__(self, error: bool = True) -> None:
        if not isinstance(error, bool):
            raise TypeError(f"error_on_graph_break(error) is {short(error)}: True or False is needed")
        self._error = error
        self._before: list[bool | None] = []

    # Traced like any code; a token would not survive a break in the block.
    def __enter__(self) -> None:
        self._before.append(_error_on_graph_break.get())
        _error_on_graph_break.set(self._error)

    def __exit__(self, *_: object) -> None:
        _error_on_graph_break.set(self._before.pop())


@dataclass(frozen=True, slots=True)
class Disabled:
    """The mark `disable` leaves on a function: why, and whether what the function calls is left alone too."""

    reason: str
    recursive: bool
    # A decorator with functools.wraps copies a function's attributes; the mark holds for this code only.
    code: CodeType


def disabled_mark(function: object) -> Disabled | None:
    """The mark `disable` left on a function (or on the function of a bound method), if there is one."""
    inner = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(inner, FunctionType):
        return None
    mark = inner.__dict__.get(_MARK)
    return mark if isinstance(mark, Disabled) and mark.code is inner.__code__ else None


def disable_function(function: Callable[..., Any], recursive: bool, reason: str) -> Callable[..., Any]:
    """`function` run by Python: with everything it calls (a marked wrapper), or itself only (marked in place)."""
    if recursive:
        marked = _suspending(function)
    elif isinstance(function, FunctionType):
        marked = function
    else:
        raise TypeError(f"disable(recursive=False) needs a Python function, got {short(function)}")
    marked.__dict__[_MARK] = Disabled(reason, recursive, marked.__code__)
    return marked


def _suspending(function: Callable[..., Any]) -> FunctionType:
    @functools.wraps(function)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        with _core.suspended():
            return function(*args, **kwargs)

    assert isinstance(disabled, FunctionType)
    return disabled
