"""Frames of the traced program: variables, stack, and the loop that runs their steps."""

from __future__ import annotations

from functools import partial
from typing import Any

from framelift.bytecode.canonical import Handler
from framelift.capture.interpreter.location import SourceLine
from framelift.capture.interpreter.program import Program, Run
from framelift.capture.interpreter.tracing import Tracing
from framelift.guards.guardset import Where
from framelift.report.events import Location
from framelift.values.containers.dicts import DictValue
from framelift.values.core.base import NULL, Raised
from framelift.values.core.exceptions import TracebackValue, give_context
from framelift.values.functions.functions import BoundMethodValue, FunctionLike

# What a handler returns to leave the loop.
LEAVE = -1


def _location(program: Program, pc: int) -> Location:
    return Location(program.filename, program.line(pc))


class Frame:
    """One activation of a Python function."""

    __slots__ = (
        "lift",
        "program",
        "function",
        "globals",
        "locals",
        "stack",
        "pc",
        "result",
        "yielded",
        "caller",
        "called_from",
        "names",
    )

    def __init__(
        self, lift: Tracing, program: Program, function: FunctionLike, globals: DictValue, arguments: list[Any]
    ) -> None:
        self.lift = lift
        self.program = program
        self.function = function
        self.globals = globals
        slots = len(program.canonical.slot_names)
        self.locals: list[Any] = arguments + [NULL] * (slots - len(arguments))
        self.stack: list[Any] = []
        self.pc = 0
        self.result: Any = None
        self.yielded = False
        self.caller: Frame | None = None
        # Where its caller stands, once somebody has asked.
        self.called_from: SourceLine | None = None
        # The namespace of a class body; of other frames what locals() gave, before 3.13.
        self.names: Any = None

    @property
    def line(self) -> int:
        """The line of the current step."""
        return self.program.line(self.pc)

    def enter(self, caller: Frame | None) -> None:
        """Be called, or gone on with, by the current step of another frame."""
        self.caller = caller
        self.called_from = None

    def here(self) -> SourceLine:
        """The current step among the active frames."""
        unknown, frame = [], self
        while frame.called_from is None and frame.caller is not None:
            unknown.append(frame)
            frame = frame.caller
        for inner in reversed(unknown):
            assert inner.caller is not None
            inner.called_from = inner.caller._step()
        return self._step()

    def _step(self) -> SourceLine:
        outer = self.called_from
        is_handled = outer is not None and outer.is_handled
        if not is_handled and self.program.steps[self.pc].handler is not None:
            is_handled = self._ends_what_is_raised()
        return SourceLine(self.program.canonical.code, self.line, outer, is_handled)

    def _ends_what_is_raised(self) -> bool:
        """Whether a handler of this frame may end what is raised by the current step."""
        handler = self.program.steps[self.pc].handler
        # Beside each, how much of what is on the stack now is still there when it begins.
        waiting = [] if handler is None else [(handler, len(self.stack))]
        seen = set[Handler]()
        while waiting:
            handler, kept = waiting.pop()
            if handler in seen:
                continue
            seen.add(handler)
            way = self.program.way_from(handler.target)
            # The manager of a block that a handler enters is not there yet.
            asked = self.stack[handler.depth - 1] if way.asks_manager and handler.depth <= kept else None
            if way.may_end_it and not self._ends_nothing(asked):
                return True
            waiting += [(outer, min(kept, handler.depth)) for outer in way.outer]
        return False

    def _ends_nothing(self, leave: Any) -> bool:
        """Whether the `__exit__` of a manager is a function that returns nothing true."""
        function = leave.parts()[:1] if isinstance(leave, BoundMethodValue) else ()
        return any(isinstance(part, FunctionLike) and self._returns_nothing_true(part) for part in function)

    def _returns_nothing_true(self, function: FunctionLike) -> bool:
        return self.lift.programs.of(function.code).returns_nothing_true

    def place(self) -> Where:
        """Where the current step stands, for whoever wants to know later."""
        return partial(_location, self.program, self.pc)

    def run(self) -> Any:
        """Run until the function returns or yields."""
        return self._loop(self.program.runs)

    def _loop(self, runs: list[Run]) -> Any:
        pc = self.pc
        while True:
            self.pc = pc
            try:
                jump = runs[pc](self)
            except Raised as raised:
                handler = self.unwind(raised)
                if handler is None:
                    raise
                pc = handler
                continue
            if jump is None:
                pc += 1
            elif jump == LEAVE:
                return self.result
            else:
                pc = jump

    def throw(self, exception: Any) -> Any:
        """Go on, with `exception` raised where the frame stopped: at a `yield`, in place of whose result None lies."""
        self.stack.append(None)
        handler = self.unwind(Raised(exception))
        if handler is None:
            raise Raised(exception)
        self.pc = handler
        return self.run()

    @property
    def protected(self) -> bool:
        """Whether the current step stands in a `try` or `with` of the user's."""
        steps = self.program.steps
        handler = steps[self.pc].handler
        # From 3.12 on every `yield from` has a handler of its own, which asks the iterator below ...
        while handler is not None and steps[handler.target].op == "CLEANUP_THROW":
            handler = steps[handler.target].handler
        # ... and every generator has one, which turns StopIteration into RuntimeError.
        return handler is not None and steps[handler.target].op != "CALL_INTRINSIC"

    @property
    def delegates(self) -> bool:
        """Whether the frame stopped in a `yield from`."""
        return self.pc > 0 and self.program.steps[self.pc - 1].op == "SEND"

    def unwind(self, raised: Raised) -> int | None:
        """Go to the handler of the current step; None: the exception leaves the frame.

        It is not raised from here: this frame, then in its traceback, would hold it, and it all of the capture.
        """
        exception = raised.value
        if exception.traceback is None:
            give_context(self.lift, exception)
            exception.traceback = TracebackValue(self.lift.steps.count)
        handler = self.program.steps[self.pc].handler
        if handler is None:
            self.lift.answers.doubt_of(self.program.canonical.code)
            exception.leave_frame()
            return None
        del self.stack[handler.depth :]
        if handler.lasti:
            self.stack.append(self.program.steps[self.pc].offset // 2)
        self.stack.append(raised.value)
        return handler.target

    def drop(self, value: Any) -> None:
        """A reference to a value is about to go. What this frame holds others hold, too, if it is seen to die."""

    def let_all_go(self) -> None:
        """The frame is about to return."""

    def holds(self) -> list[Any]:
        """What the frame keeps alive."""
        return [*self.locals, *self.stack, self.names, self.function]

    # -- saving ------------------------------------------------------------------------------------------------------

    def snapshot(self) -> Any:
        return list(self.locals), list(self.stack), self.pc

    def restore(self, snapshot: Any) -> None:
        self.locals, self.stack, self.pc = list(snapshot[0]), list(snapshot[1]), snapshot[2]
