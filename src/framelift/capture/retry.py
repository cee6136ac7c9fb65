"""Capturing again: what one attempt found out changes the next one.

    reason                            the next attempt                              it comes to an end, as
    NotCompiling                      answers the last question with no             in the end all are answered so
    NeedsNumbers                      has numbers in place of these symbols         there are so many inputs
    BackendError, CannotCheck         has numbers for floats, or for all symbols;   then the error is raised
                                      then breaks where data decides
    StepInto                          steps through calls so deep                   only a frame that cannot be entered
                                                                                    changes that again, to not at all
    BreakEarlier                      breaks before that instruction                it is always an earlier one

What an attempt has found out holds from then on, but for the break: another attempt may come to another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import torch

from framelift import config
from framelift.capture.interpreter.headroom import room_to_work
from framelift.capture.interpreter.program import Programs
from framelift.capture.interpreter.steps import BreakEarlier, StepInto, Steps
from framelift.capture.is_compiling import Answers, NotCompiling
from framelift.capture.lift import Lift
from framelift.capture.request import Request
from framelift.errors import BackendError
from framelift.graph import GraphBuilder, NeedsNumbers, NumberRef, TensorRef
from framelift.shapes.bindings import CannotCheck

T = TypeVar("T")

# What a backend raises that computes with numbers only: symbols have no hash, no format and no `shape`.
_NOT_FOR_SYMBOLS = (TypeError, AttributeError)
# What it raises whatever is open in the graph.
_NO_ROOM = (MemoryError, torch.OutOfMemoryError)
# What an attempt raises that may be a reason for another.
REASONS: Final = (NotCompiling, NeedsNumbers, BackendError, CannotCheck, StepInto, BreakEarlier)


class Retries:
    """The attempts to capture a call: what is known about it from those so far, and whether there is to be another."""

    def __init__(self, request: Request, programs: Programs, has_residual: bool = True) -> None:
        self.request = request
        self.programs = programs
        # Without residual code the graph stands for itself, and what was traced is looked at afterwards.
        self.has_residual = has_residual
        self.policy = request.policy()
        self.answers = Answers()
        # How deep calls are stepped through, if that was decided.
        self.depth: int | None = None
        self.break_before: BreakEarlier | None = None

    @property
    def is_first(self) -> bool:
        """Whether nothing was found out yet."""
        decided = self.depth is not None or self.break_before is not None
        return not (decided or self.answers.reconsidered or self.policy.reconsidered)

    def run(self, attempt: Callable[[Lift], T]) -> T:
        """What the first attempt gives that gets to the end."""
        while True:
            with room_to_work():
                lift = self._begin()
                try:
                    return attempt(lift)
                except REASONS as reason:
                    if not self._helps(reason, lift.graph):
                        raise
                finally:
                    self._end(lift)

    def _begin(self) -> Lift:
        request, fragments = self.request, self.request.fragments
        code = request.function.__code__
        graph = request.make_graph()
        lessons, env = request.history.lessons, graph.shape_env
        env.takes_data = config.data_dependent and lessons.takes_data
        env.foresees = lessons.foresees and request.context is not None
        env.least_sizes, env.may_presume = lessons.least_sizes, lessons.may_presume
        env.compiles = not self.has_residual or request.options.backend.derives
        lift = Lift(self.programs, graph, fragments, fragments.argument_names(code), self.policy)
        lift.answers = self.answers
        lift.modes.compiled = not self.has_residual or request.options.backend.derives
        lift.has_residual = self.has_residual
        is_fragment = fragments.is_fragment(code)
        lift.steps = Steps(break_before=self.break_before, depth=self.depth or 0, owns_arguments=is_fragment)
        self.answers.begin()
        return lift

    def _end(self, lift: Lift) -> None:
        """What an attempt worked on is not to live on, neither in it nor in the reason of the next one."""
        for given in (lift.steps.break_before, self.break_before):
            if given is not None:
                given.forget_frames()
        lift.modes.leave()
        if self.has_residual:
            lift.graph.release()
            lift.made.release()
            lift.release()

    def _helps(self, reason: Exception, graph: GraphBuilder) -> bool:
        """Whether another attempt can do better, now that this is known; else the reason is to be raised."""
        before, self.break_before = self.break_before, None
        match reason:
            case NotCompiling():
                self.answers.reconsider()
            case NeedsNumbers():
                self.policy.insist_on_numbers(reason.names)
            case StepInto():
                self.depth = reason.depth
            case BreakEarlier():
                # Always earlier than the last time, so that it comes to an end: with nothing captured.
                count = reason.count if before is None or reason.count < before.count else 1
                self.break_before = BreakEarlier(count, reason.reason)
            case _:
                return self._make_easier(reason, graph)
        return True

    def _make_easier(self, reason: Exception, graph: GraphBuilder) -> bool:
        """A graph was rejected: capture it with less that is open in it."""
        request = self.request
        if isinstance(reason.__cause__, _NO_ROOM):
            return False
        names = _names_of(ref for ref in graph.live_inputs if type(ref.example) is float)
        if not names and isinstance(reason.__cause__, _NOT_FOR_SYMBOLS):
            names = _names_of(ref for ref in graph.live_inputs if isinstance(ref, NumberRef) or ref.layout is not None)
        if names:
            self.policy.insist_on_numbers(names)
            request.history.refused_numbers.update(names)
            return True
        if graph.depends_on_data and not (request.options.fullgraph and isinstance(reason, BackendError)):
            request.history.lessons.withdraw()
            return True
        return False


def _names_of(inputs: Iterable[TensorRef | NumberRef]) -> tuple[str, ...]:
    return tuple(ref.source_name for ref in inputs if ref.source_name)
