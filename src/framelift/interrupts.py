"""Signals: their handlers may raise at any moment of the main thread, and what they raise is the program's to handle.

While a frame is captured signals wait; handlers run where the capture can be given up. What they raise would come out
of the midst of things else: torch ends the process if that happens while autograd asks a fake tensor for its device,
and an `Exception` would be taken for a failure of framelift's, or of the operation that is looked at.
While a graph runs they do not wait. What they raise then is told from what the graph raises by the traceback. So is
what hooks on saved tensors raise: a checkpoint ends the second run of its function that way when it has what it needs.
Both have happened, and must not happen again.
"""

from __future__ import annotations

import functools
import signal
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, TracebackType
from typing import Any

import torch

from framelift.native import _core


class Interrupted(BaseException):
    """The handler of a signal raised something. Not an Exception: nobody in between has to do with it."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def let_signals_in() -> None:
    """Called where a capture can be given up."""
    try:
        _core.let_signals_in()
    except BaseException as error:  # noqa: BLE001  (whatever it is: it is handed on)
        raise Interrupted(error) from None


def is_failure(error: BaseException) -> bool:
    """Whether a graph raised this because of what it computes: Python would raise it as well if it ran instead."""
    if not isinstance(error, Exception):
        return False
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    handlers += torch._C._autograd._top_saved_tensors_default_hooks(False) or ()
    # By identity: residual code with a slice among its constants has no hash.
    heard = {id(_code_of(handler)) for handler in handlers}
    return heard.isdisjoint(map(id, _codes_in(error.__traceback__)))


def _codes_in(traceback: TracebackType | None) -> Iterator[CodeType]:
    while traceback is not None:
        yield traceback.tb_frame.f_code
        traceback = traceback.tb_next


def _code_of(handler: Any) -> CodeType | None:
    """The code that runs when a handler is called; looked up without running any."""
    while type(handler) is MethodType or type(handler) is functools.partial:
        handler = handler.__func__ if type(handler) is MethodType else handler.func
    if type(handler) is FunctionType:
        return handler.__code__
    found = (vars(cls)["__call__"] for cls in type(handler).__mro__ if "__call__" in vars(cls))
    called = next(found, None)
    return called.__code__ if type(called) is FunctionType else None


_core.connect(is_failure=is_failure)
