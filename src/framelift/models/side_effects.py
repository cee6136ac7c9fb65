"""What models tell the world, and where it comes from: `print`, warnings and log records are made of this.

The functions marked `afterwards` are not inlined: the interpreter notes a call of them in its journal, and residual
code makes it after the graph has run, in the order of the program and with the arguments as they were at that point.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

AFTERWARDS: list[Callable[..., Any]] = []


def afterwards(function: F) -> F:
    """Mark a function whose call is journaled instead of inlined. It must return None."""
    AFTERWARDS.append(function)
    return function


def shown(value: Any) -> str:
    """`str(value)`; the interpreter leaves it to residual code where that spares an assumption about the value."""
    return str(value)


@afterwards
def write(stream: Any, text: str) -> None:
    """Write to a text stream."""
    stream.write(text)


@afterwards
def flush(stream: Any) -> None:
    """Flush a text stream."""
    stream.flush()


# -- where a message comes from ----------------------------------------------------------------------------------------


class Caller(NamedTuple):
    """A line of the program: in a frame that is traced, or `above` frames above the outermost of them."""

    filename: str
    line: int
    function: str
    namespace: Any
    above: int


def find_caller(level: int, internal: str) -> Caller:
    """The line `level` frames above the caller, not counting those of the file `internal`; the interpreter knows."""
    raise NotImplementedError  # never called: values/ has a primitive for it


# By the code of a model: how many frames there are in Python where it is traced; of others there are none.
FRAMES: dict[CodeType, int] = {}


def stands_for(frames: int) -> Callable[[F], F]:
    """Mark a model that calls functions of the program's, which may ask who called them."""

    def mark(function: F) -> F:
        FRAMES[function.__code__] = frames
        return function

    return mark


def frame_above(level: int) -> FrameType:
    """The frame `level` above residual code, which called a function that called this one."""
    frame: FrameType | None = sys._getframe(2)
    while level and frame is not None and frame.f_back is not None:
        frame = frame.f_back
        if not frame.f_code.co_filename.startswith(PACKAGE):
            level -= 1
    assert frame is not None
    return frame


# Where no frame is one of the program's.
PACKAGE = __file__.removesuffix("models/side_effects.py")


def told(listeners: list[Any]) -> None:
    """Note who will hear what is journaled next; the interpreter keeps the program off what they know."""
    raise NotImplementedError  # never called: values/ has a primitive for it
