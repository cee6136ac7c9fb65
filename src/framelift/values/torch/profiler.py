"""Marks for the profiler. They tell whoever watches the process where it is; no program can ask about them.

A graph runs as a whole, so inside of it there is nothing to mark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._C import ScriptObject

from framelift.breaks import FL0102, GraphBreak
from framelift.torch_names import TORCH_NAMES
from framelift.values.core.base import Call, Value
from framelift.values.core.primitives import primitive
from framelift.values.torch.modes import BlockValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


class IgnoredContextValue(BlockValue):
    """A block that changes nothing for what happens inside of it."""

    __slots__ = ("cls",)

    def __init__(self, cls: Any) -> None:
        super().__init__()
        self.cls = cls

    def python_type(self) -> type:
        return self.cls


class MarkedBlockValue(IgnoredContextValue):
    """A block with a mark. If the graph ends inside of it, Python goes on in a block whose mark has ended."""

    __slots__ = ("given", "entered")
    assigns = ("entered",)

    def __init__(self, given: list[Any]) -> None:
        super().__init__(torch.autograd.profiler.record_function)
        self.given = given
        self.entered = False

    def enter(self, tracer: Tracer) -> MarkedBlockValue:
        tracer.journal.touch(self)
        self.entered = True
        return self

    def parts(self) -> list[Any]:
        return self.given

    def made_by(self) -> Call:
        return _block_with_its_mark_behind_it if self.entered else self.cls, self.given


def _block_with_its_mark_behind_it(name: Any, args: Any) -> Any:
    block = torch.autograd.profiler.record_function(name, args)
    block.run_callbacks_on_exit = False
    return block


@primitive(torch.autograd.profiler.record_function)
def _record_function(tracer: Tracer, name: Any, args: Any = None) -> MarkedBlockValue:
    return MarkedBlockValue([name, args])


# A block made before the frame, such as one that decorates a function: what its methods call.


class HandleValue(Value):
    """What entering a block gives. The block keeps it when it is left, so there must be a real one in the end."""

    __slots__ = ()

    def python_type(self) -> type:
        return ScriptObject

    def made_by(self) -> Call:
        return _handle_of_left_block, []


def _handle_of_left_block() -> Any:
    handle = _ENTER("", None)
    _EXIT(handle)
    return handle


_ENTER = TORCH_NAMES.operator("profiler._record_function_enter_new")
_EXIT = TORCH_NAMES.operator("profiler._record_function_exit._RecordFunction")


@primitive(_ENTER)
def _enter(tracer: Tracer, name: Any, args: Any = None) -> HandleValue:
    return HandleValue()


@primitive(_EXIT)
def _exit(tracer: Tracer, handle: Any) -> None:
    if not isinstance(handle, HandleValue):
        raise GraphBreak(FL0102, what="the end of a profiler's block that was entered before")
