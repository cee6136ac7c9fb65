"""What user code may call inside lifted code to steer framelift: `graph_break`, `disable`, `error_on_graph_break` ...

Run by Python these functions do next to nothing. Capture recognises the function objects of this module (and the mark
that `disable` leaves) and does what they mean.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
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


# -- callables that are not traced, and have no graph break either ---------------------------------------------------


class Promise(Enum):
    """What a program promises of a callable."""

    CONSTANT = "assume_constant_result"
    IN_GRAPH = "allow_in_graph"


class _Promises:
    """What was promised of which callables: by identity, because not all can be asked, or given attributes."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Any, Promise]] = {}

    def add(self, target: Any, promise: Promise) -> None:
        key = id(target)
        try:
            reference: Any = weakref.ref(target, lambda _: self._kept.pop(key, None))
        except TypeError:  # then it lives on, and its id stays its own

            def reference() -> Any:
                return target

        self._kept[key] = reference, promise

    def of(self, target: Any) -> Promise | None:
        found = self._kept.get(id(target))
        return found[1] if found is not None and found[0]() is target else None


_PROMISES = _Promises()
promise_of = _PROMISES.of


def assume_constant_result(fn: Any = None) -> Any:
    """Promise that calls of `fn` with equal arguments give the same: capture calls it, and keeps what it gave.

    Where an argument is computed by the graph, the function is traced like any other. Also a decorator.

    >>> @framelift.assume_constant_result
    ... def hidden_size(name): ...
    """
    return _promised(fn, Promise.CONSTANT)


def allow_in_graph(fn: Any = None) -> Any:
    """Put calls of `fn` into the graph as they are: the backend sees one operation, and may look inside.

    It takes and returns tensors and constants, and uses no other tensors. Where that does not hold, it is traced like
    any other. Also a decorator; a list or tuple of callables gives a list.

    >>> @framelift.allow_in_graph
    ... def attention(q, k, v): ...
    """
    return _promised(fn, Promise.IN_GRAPH)


def _promised(target: Any, promise: Promise) -> Any:
    if target is None:
        return functools.partial(_promised, promise=promise)
    if isinstance(target, list | tuple):
        return [_promised(item, promise) for item in target]
    if not callable(target):
        raise TypeError(f"{promise.value}() was given {short(target)}: a callable is needed")
    inner = target.__func__ if isinstance(target, MethodType) else target
    _PROMISES.add(inner.__wrapped__ if isinstance(inner, _core.Lifted) else inner, promise)
    return target
