"""Models of exceptions: notes, the methods of groups, and what `except*` does with the exception at hand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from framelift import controls
from framelift.models.registry import models

Accepts = Callable[[BaseException], Any]


@models(BaseException.add_note)
def add_note(error: Any, note: Any, /) -> None:
    if not isinstance(note, str):
        raise TypeError(f"note must be a str, not '{type(note).__name__}'")
    if not hasattr(error, "__notes__"):
        error.__notes__ = []
    if not isinstance(error.__notes__, list):
        raise TypeError("Cannot add note: __notes__ is not a list")
    error.__notes__.append(note)


@models(BaseExceptionGroup.derive)
def derive(group: Any, exceptions: Any, /) -> Any:
    return BaseExceptionGroup(group.message, exceptions)


@models(BaseExceptionGroup.split)
def split(group: Any, condition: Any, /) -> Any:
    return _parted(group, _condition(condition), True)


@models(BaseExceptionGroup.subgroup)
def subgroup(group: Any, condition: Any, /) -> Any:
    return _parted(group, _condition(condition), False)[0]


def _condition(condition: Any) -> Accepts:
    if isinstance(condition, tuple):
        if not all(_is_exception_class(cls) for cls in condition):
            controls.graph_break("an exception group is split by something that is no exception class")
        return lambda error: isinstance(error, condition)
    if _is_exception_class(condition):
        return lambda error: isinstance(error, condition)
    if isinstance(condition, type) or not ((_TAKES_CALLABLES and callable(condition)) or _is_function(condition)):
        controls.graph_break("an exception group is split by something that is no condition")
    return condition


# Before 3.12 a condition is a class, a tuple of classes or a function written in Python.
_TAKES_CALLABLES = sys.version_info >= (3, 12)


def _is_function(value: Any) -> bool:
    return type(value) is type(_is_function)


def _is_exception_class(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def _parted(error: Any, accepts: Accepts, with_rest: bool) -> tuple[Any, Any]:
    """What of `error` is accepted, and the rest; None for nothing."""
    if accepts(error):
        return error, None
    if not isinstance(error, BaseExceptionGroup):
        return None, error
    accepted, rest = [], []
    for inner in error.exceptions:
        yes, no = _parted(inner, accepts, with_rest)
        if yes is not None:
            accepted.append(yes)
        if no is not None and with_rest:
            rest.append(no)
    return _subset(error, accepted), _subset(error, rest)


def _subset(group: Any, exceptions: list[Any]) -> Any:
    """A group of some of the exceptions of `group`, which is like it in everything else."""
    if not exceptions:
        return None
    made = group.derive(exceptions)
    if not isinstance(made, BaseExceptionGroup):
        raise TypeError("derive must return an instance of BaseExceptionGroup")
    made.__traceback__ = group.__traceback__
    made.__context__ = group.__context__
    made.__cause__ = group.__cause__
    notes = getattr(group, "__notes__", None)
    if isinstance(notes, (list, tuple)):
        made.__notes__ = list(notes)
    elif notes is not None:
        controls.graph_break("notes of an exception group that are no list")
    return made


# -- except* -----------------------------------------------------------------------------------------------------------


def matched(error: Any, expected: Any) -> tuple[Any, Any]:
    """What of `error` a clause `except* expected` handles, as a group, and what is left for the clauses below."""
    for cls in expected if isinstance(expected, tuple) else (expected,):
        if not _is_exception_class(cls):
            raise TypeError("catching classes that do not inherit from BaseException is not allowed")
        if issubclass(cls, BaseExceptionGroup):
            raise TypeError("catching ExceptionGroup with except* is not allowed. Use except instead.")
    if error is None:
        return None, None
    if not isinstance(error, BaseExceptionGroup):
        return (BaseExceptionGroup("", (error,)), None) if isinstance(error, expected) else (None, error)
    found = (error, None) if isinstance(error, expected) else error.split(expected)
    if not isinstance(found, tuple) or len(found) < 2:
        controls.graph_break("an exception group whose split() gives something else than a pair")
    return found[0], found[1]


def raised_together(original: Any, left: Sequence[Any]) -> Any:
    """What a `try` with `except*` raises at its end: `left` is what its clauses raised, and what none of them took."""
    if not left:
        return None
    if not isinstance(original, BaseExceptionGroup):
        return left[0]
    raised: list[Any] = []
    kept: list[Any] = []
    for error in left:
        if error is None:
            continue
        # Parts of the original have its history; what a clause raised itself has its own.
        is_part = (
            error.__traceback__ is original.__traceback__
            and error.__cause__ is original.__cause__
            and error.__context__ is original.__context__
        )
        (kept if is_part else raised).append(error)
    leaves = [leaf for error in kept for leaf in _leaves(error)]
    part = _parted(original, lambda error: any(error is leaf for leaf in leaves), False)[0] if leaves else None
    if not raised:
        return part
    if part is not None:
        raised.append(part)
    return raised[0] if len(raised) == 1 else BaseExceptionGroup("", raised)


def _leaves(error: Any) -> list[Any]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
