"""Stops a real frame before any instruction and reads its raw state: variables, stack, NULLs and all.

The frame runs in a thread of its own and is parked before the wanted instruction. What is under test then
goes on from the state that was read.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
import traceback
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple

from framelift.bytecode.decode import slot_names
from framelift.bytecode.stack_shapes import HANDLED, NULL, StackTag, stack_shapes

# The same on 3.11, 3.12 and 3.13, 64 bits: PyFrameObject.f_frame, and in it the slots followed by the stack.
_F_FRAME = 24
_SLOTS = 72
_WORD = ctypes.sizeof(ctypes.c_void_p)


class Null:
    """Stands for NULL in what is read from a frame."""


class _Stop(BaseException):
    pass


class State(NamedTuple):
    offset: int
    slots: list[Any]  # without free variables
    free: list[Any]
    stack: list[Any]
    tags: tuple[StackTag, ...]


def call(function: Any, log: list) -> Any:
    code = function.__code__
    by_name = "log" in code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return function(log=log) if by_name else function(log)


def _raw(frame: FrameType, count: int) -> list[Any]:
    inner = ctypes.c_void_p.from_address(id(frame) + _F_FRAME).value
    assert inner is not None
    pointers = (ctypes.c_void_p * count).from_address(inner + _SLOTS)
    return [ctypes.cast(pointer, ctypes.py_object).value if pointer else Null for pointer in pointers]


@functools.cache
def _shapes(code: CodeType) -> dict[int, tuple[StackTag, ...]]:
    return stack_shapes(code)


class Frozen(threading.Thread):
    """Runs the thunk and parks before the function's n-th instruction; `state` is None if it comes to fewer.

    `tool` numbers those that are parked at the same time apart.
    """

    def __init__(self, function: Any, thunk: Callable[[], Any], n: int, tool: int = 4) -> None:
        super().__init__(daemon=True)
        self.thunk, self.left, self.tool = thunk, n, tool
        self.code: CodeType = function.__code__
        self.shapes = _shapes(self.code)
        self.state: State | None = None
        self.parked, self.released = threading.Event(), threading.Event()

    def __enter__(self) -> Frozen:
        self.start()
        self.parked.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.state = None
        self.released.set()
        self.join()

    def run(self) -> None:
        try:
            if sys.version_info >= (3, 12):
                self._run_monitored()
            else:
                self._run_traced()
        except BaseException:  # what the function raises, or _Stop
            pass
        finally:
            self.parked.set()

    def _run_monitored(self) -> None:
        """Only this code object is instrumented; sys.settrace would instrument every one that runs."""
        monitoring, tool = sys.monitoring, self.tool
        event = monitoring.events.INSTRUCTION
        monitoring.use_tool_id(tool, "frozen")
        monitoring.register_callback(tool, event, lambda code, offset: self._before(sys._getframe(1), offset))
        monitoring.set_local_events(tool, self.code, event)
        try:
            self.thunk()
        finally:
            monitoring.set_local_events(tool, self.code, 0)
            monitoring.register_callback(tool, event, None)
            monitoring.free_tool_id(tool)

    def _run_traced(self) -> None:
        sys.settrace(self._on_call)
        try:
            self.thunk()
        finally:
            sys.settrace(None)

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code is not self.code:
            return None
        frame.f_trace_opcodes = True
        return self._on_event

    def _on_event(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode":
            self._before(frame, frame.f_lasti)
        return self._on_event

    def _before(self, frame: FrameType, offset: int) -> None:
        if self.released.is_set() or offset not in self.shapes:
            return
        if self.left == 0:
            try:
                self.state = self._read(frame, offset)
            except Exception:
                traceback.print_exc()
            self.parked.set()
            self.released.wait()
            raise _Stop
        self.left -= 1

    def _read(self, frame: FrameType, offset: int) -> State:
        tags = self.shapes[offset]
        names, free = len(slot_names(self.code)), len(self.code.co_freevars)
        values = _raw(frame, names + len(tags))
        stack = values[names:]
        found = tuple(NULL if value is Null else tag for value, tag in zip(stack, tags, strict=True))
        current = sys.exc_info()[1]
        for index in range(len(found) - 1, -1, -1):
            if found[index] == HANDLED:
                stack[index], current = current, stack[index]
        return State(offset, values[: names - free], values[names - free : names], stack, found)


def outcome(thunk: Any, log: list, hide: frozenset[str]) -> Any:
    """Everything about a run that can be seen from outside."""
    try:
        result: Any = ("returned", repr(thunk()))
    except BaseException as error:
        frames = [(f.f_code.co_name, line) for f, line in traceback.walk_tb(error.__traceback__)][1:]
        frames = [entry for entry in frames if entry[0] not in hide]
        result = ("raised", repr(error), repr(error.__cause__), repr(error.__context__), frames)
    return result, repr(log), repr(sys.exc_info()[1])
