"""One attempt to capture a call: its frames are traced to their end, or to a graph break."""

from __future__ import annotations

import linecache
import time
from traceback import FrameSummary
from types import CodeType
from typing import Any

from framelift.backends.example_inputs import Reason
from framelift.breaks import FL0102, FL0105, FL0106, FL0107, FL0108, FL0305, FL0306, FL0401, GraphBreak
from framelift.capture import opcodes as opcodes  # registers the handlers
from framelift.capture.graph_break import all_in_python, go_on_at, step_at
from framelift.capture.interpreter.stepping import Left, SteppingFrame
from framelift.capture.interpreter.steps import BreakEarlier, StepInto
from framelift.capture.lift import Lift
from framelift.capture.request import Request
from framelift.errors import FullGraphError
from framelift.native import _core
from framelift.report import events, stream
from framelift.residual.codegen import Activation, Ending, ResidualCode, Rest, Return, whole_frame
from framelift.residual.resume import CannotResume
from framelift.residual.waiting_frames import Part, handled_by, split
from framelift.silence import unheard_warnings
from framelift.values.functions.functions import FunctionValue, has_plain_globals
from framelift.values.torch.autograd.hooks import told_too_early

# Deep recursion and long loops are left to Python for good: lifting them again would take quadratic time.
_LEFT_FOR_GOOD = (FL0106, FL0108)


class Attempt:
    """A call is traced up to its return, or to where it breaks; then it is known how its residual code ends."""

    def __init__(self, request: Request, lift: Lift, number: int, depth: int | None) -> None:
        self.request = request
        self.lift = lift
        self.number = number
        # How deep calls are stepped through, if that was decided.
        self.depth = depth
        self.code: CodeType = request.function.__code__
        self.phases: dict[str, float] = {}
        self.started = time.perf_counter()
        self.broke = False
        # Whether it did so where autograd does not let the program write.
        self.is_write_refused = False
        # Why the graph ends where it does.
        self.reason = Reason("return_value", [], graph_break=False)
        self.eager = False
        # Whether it ends at a tensor with rules of its own.
        self.meets_subclass = False
        self.whole = whole_frame(self.code)
        _core.never_lift(self.whole.code)
        self.slots: list[Any] = []
        self.state = _core.torch_state()
        # What operations warn of is heard when the graph runs.
        self.unheard = unheard_warnings()

    def trace(self) -> ResidualCode:
        lift, request = self.lift, self.request
        self.slots = [lift.wrap(slot, lift.sources.argument(index)) for index, slot in enumerate(request.slots)]
        replaced = self.state.values["operators of tensors"]
        if replaced:
            return self._untraced(GraphBreak(FL0305, what=replaced))
        if lift.programs.of(self.code).is_generator:
            return self._untraced(GraphBreak(FL0105, what=self.code.co_qualname))
        if not has_plain_globals(request.function):
            return self._untraced(GraphBreak(FL0102, what=f"{self.code.co_qualname}, whose globals are no plain dict"))
        waiting = self.parts()
        try:
            while True:
                part = waiting.pop()
                lift.steps.are_waiting = bool(waiting)
                lift.handled = handled_by(request.fragments, waiting)
                frame = self._frame(part)
                if lift.steps.owns_arguments and not waiting:
                    frame.take_over()
                result = lift.run_frame(frame)
                if not waiting:
                    return self._possible(Return(result))
                waiting[-1].give(request.fragments, result)
        except Left as left:
            self.meets_subclass = left.reason.reason is FL0306
            depth = self._depth_of(left.reason)
            if self.depth is None and depth > 0:
                raise StepInto(depth) from left
            if self._is_error(left.reason):  # said before what must be rebuilt for Python to go on may not be
                self._report_break(left.reason, left.frame.line)
            residual = self._rest_of(left.frame, waiting, left.reason)
            self._report_break(left.reason, left.frame.line)
            return residual

    def _untraced(self, reason: GraphBreak) -> ResidualCode:
        self._report_break(reason, self.code.co_firstlineno)
        return self._all_in_python(reason)

    def parts(self) -> list[Part]:
        """The frames to go on with, outermost first: one, unless several were left together."""
        lift, request = self.lift, self.request
        if request.fragments.is_chain(self.code):
            return split(request.fragments, self.code, self.slots)
        function = FunctionValue(lift.sources.function, request.function)
        function.noted = True
        return [Part(self.code, function, self.slots)]

    def _frame(self, part: Part) -> SteppingFrame:
        lift = self.lift
        program = lift.programs.of(part.code)
        return SteppingFrame(lift, program, part.function, part.function.globals(lift), list(part.arguments))

    def _depth_of(self, reason: GraphBreak) -> int:
        """How deep in calls Python's part is to begin."""
        if not reason.within_call or self._is_error(reason) or self._is_left_for_good(reason):
            return 0
        depth: int = reason.point.users_depth
        return depth

    def _is_error(self, reason: GraphBreak) -> bool:
        """Whether a break must not be; without a context to lift what follows it cannot be."""
        is_leaving = reason.reason is FL0401  # the one graph ends there, and the caller is to see the exception
        return self.request.context is None or (self._wants_one_graph(reason) and not is_leaving)

    def _wants_one_graph(self, reason: GraphBreak) -> bool:
        return self.request.options.fullgraph if reason.is_error is None else reason.is_error

    def _is_left_for_good(self, reason: GraphBreak) -> bool:
        """Whether nothing that follows is lifted again."""
        return reason.reason in _LEFT_FOR_GOOD or (reason.reason is FL0401 and self._wants_one_graph(reason))

    def _rest_of(self, frame: SteppingFrame, waiting: list[Part], reason: GraphBreak) -> ResidualCode:
        """Python runs the instruction; what comes after it is lifted again. Where that cannot be, Python runs all."""
        fragments, context = self.request.fragments, self.request.context
        try:
            if self._is_left_for_good(reason) and not waiting:
                return self._possible(Rest([go_on_at(fragments, frame)], None))
            return self._possible(step_at(fragments, waiting, frame, context))
        except CannotResume as error:
            if self.depth:
                raise StepInto(0) from error
            return self._all_in_python(reason)

    def _all_in_python(self, reason: GraphBreak) -> ResidualCode:
        """Nothing was captured, or the frame cannot be entered where it broke: all of it runs in Python."""
        self.eager = True
        self.lift.journal.changed.clear()
        self.lift.modes.leave()
        parts = self.parts()
        if len(parts) > 1:
            return self._ending(all_in_python(self.request.fragments, parts, self.request.context))
        context = None if self._is_left_for_good(reason) else self.request.context
        return self._ending(Rest([Activation(self.whole, self.slots, (), parts[0].function)], context))

    def _ending(self, ending: Ending) -> ResidualCode:
        self.lap("interpretation")
        return ResidualCode(self.lift, self.code, ending)

    def _possible(self, ending: Ending) -> ResidualCode:
        """Code for an ending, unless it needs a value that cannot be rebuilt: then that is left before it was made."""
        lift = self.lift
        for born in sorted(lift.modes.born):
            raise BreakEarlier(born, GraphBreak(FL0107, what="a block in which torch asks others, or nobody"))
        try:
            residual = self._ending(ending)
        except GraphBreak as reason:
            raise BreakEarlier(reason.details.get("born", 1), reason) from reason
        told = told_too_early(lift, residual.outputs)
        if told is not None:
            raise BreakEarlier(told.told_since, GraphBreak(FL0102, what="a hook that is called later"))
        going_on, changed = residual.generators, len(lift.journal.changed)
        for generator in lift.suspended:
            goes_on = any(generator is other for other in going_on)
            if generator.waits_in_try() and not goes_on and not generator.closes_quietly(lift, going_on):
                raise BreakEarlier(generator.born, GraphBreak(FL0107, what=generator.describe()))
        # (What they have raised while they were closed may be an exception of the program's.)
        return residual if len(lift.journal.changed) == changed else self._ending(ending)

    def _report_break(self, reason: GraphBreak, line: int) -> None:
        self.broke = True
        self.is_write_refused = getattr(reason.__cause__, "is_write_refused", False)
        code, line = (self.code, line) if reason.point is None else reason.point.user_line()
        text = linecache.getline(code.co_filename, line).strip()
        place = FrameSummary(code.co_filename, line, code.co_qualname, lookup_line=False)
        self.reason = Reason(f"{reason.reason.id}: {reason.words}", [place], graph_break=True)
        stream.emit(events.GraphBroke(self.number, reason.reason.id, reason.words, code.co_filename, line, text))
        if self._is_error(reason):
            where = f"{code.co_filename}:{line} in {code.co_qualname}: {text}"
            raise FullGraphError(
                f"{reason.reason.id}: {reason.words}\n  at {where}\n  {reason.reason.remedy}"
            ) from None

    def lap(self, phase: str) -> None:
        """What was done since the last lap was this."""
        now = time.perf_counter()
        spent = now - self.started - sum(self.phases.values())
        self.phases[phase] = self.phases.get(phase, 0.0) + spent
