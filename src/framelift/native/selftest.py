"""What is checked at import, before any frame is touched: this interpreter is one the extension knows.

Struct layouts are not promised between patch releases of CPython, so the layouts the extension relies on are looked at
in a live frame, and one frame is swapped. All of it takes well under a millisecond.
"""

from __future__ import annotations

import sys
import threading
from _signal import signal  # type: ignore[import-not-found]
from types import CodeType, FunctionType

from framelift.native.switches import HOLD_SIGNALS

SUPPORTED = ((3, 11), (3, 12), (3, 13))
SUPPORTED_TEXT = "framelift supports CPython 3.11, 3.12 and 3.13 with the global interpreter lock"


def refuse_unsupported() -> None:
    """Raises ImportError on an interpreter the extension is not made for."""
    if sys.implementation.name != "cpython":
        raise ImportError(f"{SUPPORTED_TEXT}; this is {sys.implementation.name}")
    if tuple(sys.version_info[:2]) not in SUPPORTED:
        raise ImportError(f"{SUPPORTED_TEXT}; this is Python {sys.version_info[0]}.{sys.version_info[1]}")
    if "t" in sys.abiflags:
        raise ImportError(f"{SUPPORTED_TEXT}; this is a free-threaded build")


try:
    from framelift.native import _core as core
except ImportError:
    refuse_unsupported()  # the likeliest reason, and the clearer message
    raise


def run_selftest() -> None:
    """Raises ImportError unless the extension fits this interpreter."""
    refuse_unsupported()
    running = tuple(sys.version_info[:2])
    if running != core.BUILT_FOR:
        raise ImportError(f"framelift's native module was built for Python {core.BUILT_FOR}, this is {running}")
    _layout(object(), object())
    _swap_a_frame()
    core.hold_signals(bool(HOLD_SIGNALS.from_environment()) and _signals_can_wait())


def _signals_can_wait() -> bool:
    """Whether CPython follows when its main thread is exchanged, as while a frame is captured."""
    return core.main_thread_can_be_exchanged(signal, threading.main_thread().ident)


def _layout(first: object, second: object) -> None:
    core.check_layout(_layout, first, second)


def _original(argument: object) -> object:
    return argument


def _residual(argument: object, function: object) -> object:
    result = [argument]
    result.append(function)  # a frame larger than the original's
    return result


class _Context:
    """Answers the frames of one code object with an entry that fetches the function, and leaves all others alone."""

    key = "framelift.native.selftest"

    def __init__(self, lifted: CodeType) -> None:
        self._lifted = lifted

    def __call__(self, code: CodeType, _function: FunctionType, _slots: tuple[object, ...]) -> core.Entry | None:
        if code is not self._lifted:
            return None
        tree = core.GuardTree([(-1, core.ACCESS_FUNCTION, None, [], 0)], [], 1, 1, None)
        return core.table_for(code, self.key).install(tree, _residual, "selftest")


def _swap_a_frame() -> None:
    """Frames that a coverage tool, a debugger or a profiler follows stay as they are. So none of them is told of this
    one, and its code is new: none can have asked to watch it."""
    token = object()
    function = FunctionType(_original.__code__.replace(), globals())
    answer = core.untold(core.run_hooked, _Context(function.__code__), function, token)
    if answer != [token, function]:
        raise ImportError(f"framelift cannot exchange the code of a frame on Python {sys.version}")
