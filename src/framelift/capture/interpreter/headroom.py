"""How deep tracing may go: it needs several frames of Python's own stack for each frame of the traced program."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType

# What an operation of torch's on fake tensors, or a backend, may need.
_RESERVE = 300
# Calls through C count against Python's limit too, but show no frame.
_WEIGHT = 1.5
# What a capture may use beyond Python's own limit: its frames take little of the C stack.
_EXTRA = 4000


@contextmanager
def room_to_work() -> Iterator[None]:
    """While capturing: more frames than the program itself may use, and no search for garbage.

    A capture makes many objects that all stay alive until its end; the collector would walk them, and all of torch,
    several times for nothing.
    """
    limit = sys.getrecursionlimit()
    collecting = gc.isenabled()
    sys.setrecursionlimit(limit + _EXTRA)
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
        sys.setrecursionlimit(limit)


def depth_of(frame: FrameType | None, stop: CodeType | None = None) -> int:
    """The number of frames from `frame` outwards, up to the next one that runs `stop`."""
    count = 0
    while frame is not None and (count == 0 or frame.f_code is not stop):
        count += 1
        frame = frame.f_back
    return count


class Headroom:
    """The frames that tracing may still use, counted from where the capture began."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = (sys.getrecursionlimit() - _RESERVE - depth_of(sys._getframe())) / _WEIGHT

    @property
    def suffices(self) -> bool:
        """Whether a capture is possible at all from here."""
        return self.left > 0

    def enter(self, stop: CodeType) -> int | None:
        """Account for the frames since the caller's own last activation, which runs `stop`; None: too deep."""
        used = depth_of(sys._getframe(1), stop)
        if used > self.left:
            return None
        self.left -= used
        return used

    def leave(self, used: int) -> None:
        self.left += used
