"""Frames that can be left between any two instructions, with everything undone since.

The outermost frame of a capture is one. A break further in undoes the outermost instruction, at first; when it turns
out that this was a call of a function of the user's, the frame is captured again with calls stepped through, down to
there, so that the break costs the one instruction that cannot be traced. Stepping takes time, and most captures do not
break. What torch and the standard library do within a call stays part of that call.
"""

from __future__ import annotations

from typing import Any

from framelift.breaks import FL0109, FL0401, GraphBreak
from framelift.bytecode.canonical_ops import effect
from framelift.capture.interpreter.frame import Frame
from framelift.capture.interpreter.steps import BreakEarlier, Steps
from framelift.values.core.base import NULL, Raised, Value
from framelift.values.core.lookup import special_method
from framelift.values.functions.functions import BoundMethodValue
from framelift.values.objects.instances import UserObjectValue
from framelift.values.objects.lifetimes import end_shows, is_argument, is_held


class Left(Exception):
    """A frame was left at its current instruction because of `reason`; its state is that before the instruction."""

    def __init__(self, frame: SteppingFrame, reason: GraphBreak) -> None:
        super().__init__(reason)
        self.frame = frame
        self.reason = reason


class SteppingFrame(Frame):
    """Runs like any frame, but every real instruction is a step that can be taken back."""

    __slots__ = ("_mark", "_stack_before", "_handled_before")

    def run(self) -> Any:
        try:
            return self._loop(self.program.stepping_runs)
        except GraphBreak as reason:
            self.lift.locate(reason)
            self._take_back(reason)
            raise Left(self, reason) from reason

    def begin_step(self) -> None:
        """Note how things are before an instruction."""
        lift = self.lift
        steps = lift.steps
        steps.count += 1
        lift.journal.begin_step()
        self._mark = lift.graph.mark()
        self._stack_before = self.stack[:]
        self._handled_before = lift.handled
        if steps.break_before is not None and steps.count >= steps.break_before.count:
            if self.pc >= self.program.canonical.body:  # before that the frame is being set up
                raise steps.break_before.reason
        if steps.owned:
            self._look_after(steps)

    def unwind(self, raised: Raised) -> int | None:
        step, steps = self.program.steps[self.pc], self.lift.steps
        if not self._is_handled():
            self.lift.answers.doubt()
            if step.op == "RERAISE" and _is_traced(raised.value):
                # The exception lies on the stack: Python must raise it from the beginning.
                raise BreakEarlier(steps.raised_at, _leaving(raised))
            raise _leaving(raised) from raised  # no name for it here: a frame in its traceback would hold it
        if not _is_traced(self.lift.handled) and step.op != "RERAISE":
            steps.raised_at = steps.count
        if step.handler is not None:
            for item in self.stack[step.handler.depth :]:
                self.drop(item)
        return super().unwind(raised)

    def _is_handled(self) -> bool:
        """Whether this frame, or one that called it, has a handler for what is raised here."""
        frame: Frame | None = self
        while frame is not None:
            if frame.program.steps[frame.pc].handler is not None:
                return True
            frame = frame.caller
        return False

    # -- what ends before the frame does: code of the user's that runs then must run there ----------------------------

    def drop(self, value: Any) -> None:
        if isinstance(value, Value) and is_argument(value) and self.lift.steps.owns_arguments:
            is_last = sum(item is value for item in (*self.locals, *self.stack)) == 1
            if is_last and end_shows(self.lift, value):
                raise GraphBreak(FL0109, what=value.describe())

    def let_all_go(self) -> None:
        if self.lift.steps.are_waiting:
            for value in self.locals:
                self.drop(value)

    def take_over(self) -> None:
        """The frame has its arguments to itself."""
        held = (*self.locals, *self.stack)
        self.lift.steps.owned = [v for v in held if isinstance(v, Value) and v.death_shows and is_argument(v)]

    def _look_after(self, steps: Steps) -> None:
        """Whether something has ended with the instruction before: with a container, say, that it was put into."""
        gone = [value for value in steps.owned if not self._holds(value)]
        ending = [value for value in gone if end_shows(self.lift, value)]
        for value in ending:
            if not is_held(self.lift, value):
                raise BreakEarlier(steps.count - 1, GraphBreak(FL0109, what=value.describe()))
        if len(ending) < len(gone):
            steps.owned = [value for value in steps.owned if all(value is not other for other in gone)] + ending

    def _holds(self, value: Value) -> bool:
        """Whether a variable, or the stack, of this frame or one that called it has the value."""
        frame: Frame | None = self
        while frame is not None:
            if any(item is value for item in frame.locals) or any(item is value for item in frame.stack):
                return True
            frame = frame.caller
        return False

    def _take_back(self, reason: GraphBreak) -> None:
        lift = self.lift
        if _is_traced(self._handled_before) or self._exception_on_stack():
            raise BreakEarlier(lift.steps.raised_at, reason)
        lift.handled = self._handled_before
        lift.journal.roll_back()
        lift.graph.rollback(self._mark)
        self.stack = self._stack_before
        self.pc = self.program.steps[self.pc].first

    def _exception_on_stack(self) -> bool:
        """Between the instruction that raised and PUSH_EXC_INFO the exception is on the stack only."""
        step = self.program.steps[self.pc]
        return step.op == "PUSH_EXC_INFO" or self.program.steps[step.first].op == "PUSH_EXC_INFO"

    # -- calls ---------------------------------------------------------------------------------------------------

    @property
    def level(self) -> int:
        """How many calls lie between the outermost frame and this one."""
        return 0 if self.caller is None else 1 + self.caller.level  # type: ignore[attr-defined]

    @property
    def operands(self) -> int:
        """How many items of the stack the current instruction takes."""
        step = self.program.steps[self.pc]
        return effect(step.op, step.arg)[0]

    def calls(self, function: Any) -> bool:
        """Whether the current instruction is a call of that function and gives what the function returns."""
        step = self.program.steps[self.pc]
        if step.op not in ("CALL", "CALL_FUNCTION_EX"):
            return False
        first, second = self.stack[-self.operands :][:2]
        if step.arg.null == "below":
            callee = second if first is NULL else first
        else:
            callee = first
        if isinstance(callee, UserObjectValue):
            callee = special_method(self.lift, callee, callee.cls, "__call__")
        while isinstance(callee, BoundMethodValue):
            callee = callee.function(self.lift)
        return callee is function


def _is_traced(exception: Any) -> bool:
    """Whether an exception exists in the capture only."""
    return exception is not None and exception.source is None


def _leaving(raised: Raised) -> GraphBreak:
    return GraphBreak(FL0401, what=_spell(raised.value))


def _spell(exception: Any) -> str:
    return exception.describe() if hasattr(exception, "describe") else str(exception)
