"""What framelift finds out by running torch's code, nobody hears of: no warning and no log record, on this thread.
What torch's compilers warn of is heard, and no filter of the program's turns it into an exception.

Warnings of other threads are shown as ever, whoever shows them. That is why nothing is put in place for a while and
taken away again, as `warnings.catch_warnings` does: the place that all warnings pass asks which thread warns.
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from framelift.locks import Lock

T = TypeVar("T")


class _Silence(threading.local):
    depth = 0
    # How often something was not heard.
    unheard = 0
    # What is to be heard later, if at all, and how that begins.
    held: list[warnings.WarningMessage] | None = None
    beginning = ""


class _Unspent:
    """While any thread is silent, torch gives always what it gives once: so it stays to be given."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._blocks = 0
        self._before = False

    def begin(self) -> None:
        with self._lock:
            self._blocks += 1
            if self._blocks == 1:
                self._before = torch.is_warn_always_enabled()
                torch.set_warn_always(True)

    def end(self) -> None:
        with self._lock:
            self._blocks -= 1
            if self._blocks == 0:
                torch.set_warn_always(self._before)


_SILENCE = _Silence()
_UNSPENT = _Unspent()


@contextmanager
def silence() -> Iterator[None]:
    """A block that runs torch's code to learn something. What there is to warn about is said when the graph runs.

    >>> with silence():
    ...     warnings.warn("not heard")
    """
    _UNSPENT.begin()
    _SILENCE.depth += 1
    try:
        yield
    finally:
        _SILENCE.depth -= 1
        _UNSPENT.end()


@contextmanager
def raising_no_warnings() -> Iterator[None]:
    """Filters that raise are for warnings of the program's; torch warns of what its own compilers do and import.

    >>> with warnings.catch_warnings(record=True) as heard:
    ...     warnings.simplefilter("error")
    ...     with raising_no_warnings():
    ...         warnings.warn("old", DeprecationWarning)
    """
    if all(action != "error" for action, *_ in warnings.filters):
        yield  # after a change of filters what was warned about before would be warned about again
        return
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        yield


def hush(logger: logging.Logger) -> None:
    """From now on the logger leaves out what silent threads tell it."""
    logger.addFilter(lambda record: not _SILENCE.depth)


def unheard_warnings() -> int:
    """How many warnings silent blocks of this thread have swallowed so far."""
    return _SILENCE.unheard


def heard_when_done(function: Callable[..., T], beginning: str = "") -> Callable[..., T]:
    """A function whose warnings are heard when it returns. When it raises, Python does it all again, and warns then.

    Those that begin in another way are heard, or hidden by whoever hides them, at once.
    """

    @functools.wraps(function)
    def run(*args: Any) -> T:
        outer = _SILENCE.held, _SILENCE.beginning
        held: list[warnings.WarningMessage] = []
        _SILENCE.held, _SILENCE.beginning = held, beginning
        try:
            result = function(*args)
        finally:
            _SILENCE.held, _SILENCE.beginning = outer
        for message in held:
            _show_unless_silent(message)
        return result

    return run


def _show_unless_silent(message: warnings.WarningMessage) -> None:
    if _SILENCE.depth:
        _SILENCE.unheard += 1
        _forget(message)
    elif _SILENCE.held is not None and str(message.message).startswith(_SILENCE.beginning):
        _SILENCE.held.append(message)
    else:
        _show(message)


def _forget(message: warnings.WarningMessage) -> None:
    """Python notes which warnings it has shown, in the globals of whoever warns; this one it has not."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_lineno == message.lineno and frame.f_code.co_filename == message.filename:
            shown = frame.f_globals.get("__warningregistry__", {})
            text = str(message.message)
            for key in (
                (text, message.category, message.lineno),
                (text, message.category, 0),
                (text, message.category),
            ):
                shown.pop(key, None)
            return
        frame = frame.f_back


# Filters stay as they are: changing them would make Python forget all that it has shown.
_show = warnings._showwarnmsg  # type: ignore[attr-defined]
warnings._showwarnmsg = _show_unless_silent  # type: ignore[attr-defined]
