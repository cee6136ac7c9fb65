"""Frames of the traced program as objects: what `sys._getframe()` gives, as far as programs ask."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, GraphBreak
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.primitives import primitive
from framelift.values.functions.evaluation import variables

if TYPE_CHECKING:
    from framelift.values.core.tracer import TracedFrame, Tracer


class FrameObjectValue(Value):
    """The frame of a function that is being traced. What called the captured function is not known."""

    __slots__ = ("frame",)

    def __init__(self, frame: TracedFrame) -> None:
        super().__init__()
        self.frame = frame

    def python_type(self) -> type:
        return types.FrameType

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "f_globals":
            return self.frame.globals
        if name == "f_back":
            return _frame_above(self.frame, 1)
        if name == "f_builtins":
            return tracer.builtins
        if name == "f_locals" and sys.version_info < (3, 13):  # from then on what is written there is written here
            return variables(tracer, self.frame)
        if name == "__class__":
            return tracer.known_object(types.FrameType)
        return super().attribute(tracer, name)


def _frame_above(frame: TracedFrame | None, depth: int) -> FrameObjectValue:
    while frame is not None and depth > 0:
        frame, depth = frame.caller, depth - 1
    if frame is None:
        raise GraphBreak(FL0102, what="sys._getframe() of the frame that calls the compiled function")
    return FrameObjectValue(frame)


@primitive(sys._getframe)
def _getframe(tracer: Tracer, depth: Any = 0, /) -> Any:
    return _frame_above(tracer.frame, max(tracer.as_index(depth), 0))


if hasattr(sys, "_getframemodulename"):

    @primitive(sys._getframemodulename)
    def _getframemodulename(tracer: Tracer, depth: Any = 0) -> Any:
        found = _frame_above(tracer.frame, max(tracer.as_index(depth), 0))
        return py.attribute(tracer, found.frame.function, "__module__")


@primitive(sys.gettrace)
def _gettrace(tracer: Tracer) -> Any:
    """Where somebody traces, captured code does not run."""
    if sys.gettrace() is not None:
        raise GraphBreak(FL0102, what="sys.gettrace() of a program that is traced")
    return None
