"""The outermost frame of a capture: it can be left between any two instructions, with everything undone since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0401, GraphBreak
from framelift.capture.compiling import NotCompiling
from framelift.capture.frame import LEAVE, Frame
from framelift.values.base import Raised

if TYPE_CHECKING:
    from framelift.capture.lift import Lift


class Restart(Exception):
    """The frame cannot be left where it broke: capture again and break before instruction `count`.

    So it is while an exception is handled, and where something would be alive that cannot be rebuilt.
    """

    def __init__(self, count: int, reason: GraphBreak) -> None:
        super().__init__(count, reason)
        self.count = count
        self.reason = reason


class Left(Exception):
    """The frame was left at its current instruction because of `reason`; its state is that before the instruction."""

    def __init__(self, reason: GraphBreak) -> None:
        super().__init__(reason)
        self.reason = reason


class OutermostFrame(Frame):
    """Runs like any frame, but every real instruction is a step that can be taken back."""

    __slots__ = ("count", "break_before", "raised_at", "_mark", "_stack_before", "_handled_before")

    def prepare(self, break_before: Restart | None) -> None:
        self.count = 0
        self.break_before = break_before
        # The instruction that raised the outermost exception being handled.
        self.raised_at = 0
        self._handled_before: Any = None
        self._mark = self.lift.graph.mark()
        self._stack_before: list[Any] = []

    def run(self) -> Any:
        runs, steps = self.program.runs, self.program.steps
        pc = self.pc
        try:
            while True:
                self.pc = pc
                if steps[pc].first == pc:
                    self._begin_step()
                try:
                    jump = runs[pc](self)
                except Raised as raised:
                    pc = self._handle(raised)
                    continue
                if jump is None:
                    pc += 1
                elif jump == LEAVE:
                    return self.result
                else:
                    pc = jump
        except GraphBreak as reason:
            self._take_back(reason)
            raise Left(reason) from reason

    def _begin_step(self) -> None:
        lift = self.lift
        self.count += 1
        lift.journal.begin_step()
        self._mark = lift.graph.mark()
        self._stack_before = self.stack[:]
        self._handled_before = lift.handled
        lift.step = self.count
        if self.break_before is not None and self.count == self.break_before.count:
            raise self.break_before.reason

    def _handle(self, raised: Raised) -> int:
        step = self.program.steps[self.pc]
        if step.handler is None:
            if self.lift.answers.can_reconsider:
                raise NotCompiling from raised
            reason = GraphBreak(FL0401, what=_spell(raised.value))
            if step.op == "RERAISE":  # the exception lies on the stack: Python must raise it from the beginning
                raise Restart(self.raised_at, reason)
            raise reason from raised
        if self.lift.handled is None and step.op != "RERAISE":
            self.raised_at = self.count
        return self.unwind(raised)

    def _take_back(self, reason: GraphBreak) -> None:
        lift: Lift = self.lift
        if self._handled_before is not None or self._exception_on_stack():
            raise Restart(self.raised_at, reason)
        lift.handled = None
        lift.journal.roll_back()
        lift.graph.rollback(self._mark)
        self.stack = self._stack_before
        self.pc = self.program.steps[self.pc].first

    def _exception_on_stack(self) -> bool:
        """Between the instruction that raised and PUSH_EXC_INFO the exception is on the stack only."""
        step = self.program.steps[self.pc]
        return step.op == "PUSH_EXC_INFO" or self.program.steps[step.first].op == "PUSH_EXC_INFO"


def _spell(exception: Any) -> str:
    return exception.describe() if hasattr(exception, "describe") else str(exception)
