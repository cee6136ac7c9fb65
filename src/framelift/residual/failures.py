"""A graph that raised, and the call that Python has run in its place: what that was.

    Python raised as well       the program's own error: nobody is asked, and nothing is counted
    something did not hold      that framelift presumes, of data or of errors: counted; the next capture knows better
    an operation was handled    by a `try` or `with` of the program around it: the same
    none of these               the backend failed: warned of once; after three times the graph is not used any more

With `fullgraph=True`, and in strict mode, the last one is raised, when Python has run the call: once, effects included.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import FunctionType
from typing import Any

from framelift import config
from framelift.backends.registry import line_of
from framelift.bytecode.builder import Builder
from framelift.errors import BackendError, FullGraphError, warn_user
from framelift.fallbacks import (
    DATA_DIFFERS,
    ERROR_HANDLED,
    ERROR_PRESUMED_AWAY,
    GRAPH_FAILED,
    STACK_USED_UP,
    Because,
    Fallback,
)
from framelift.graph.emission.runtime_asserts import PROGRAM_RAISES, failed_check
from framelift.native import _core
from framelift.report import events, stream
from framelift.shapes.check_history import Lessons

# So often a graph may raise where Python does not.
MOST_FAILURES = 3


@dataclass(slots=True, eq=False)
class GraphJudge:
    """Judges what the graph of one entry raises. It knows the graph by words: entries keep nothing of the program's."""

    capture: int
    function: str
    backend: str
    ops: int
    # The stack traces of its first and last operation, empty if they have none.
    first: str
    last: str
    fullgraph: bool
    # Operations stand where the program handles what they raise.
    handles_errors: bool
    # Where what did not hold of data is noted; None: nothing is presumed of it.
    lessons: Lessons | None
    failed_checks: int = 0
    _failures: int = 0

    def python_succeeded(self, entry: Any, error: BaseException) -> BaseException | None:
        """Asked by native code; an exception that is returned is raised."""
        check = failed_check(error)
        if check is not None:
            self.failed_checks += 1
            stream.emit(events.CheckFailed(self.capture, self.function, check))
            self._learn(entry, check)
            _ran_eagerly(self.function, DATA_DIFFERS.because(check=check))
        elif PROGRAM_RAISES in str(error):
            _ran_eagerly(self.function, ERROR_PRESUMED_AWAY.because())
        elif isinstance(error, RecursionError):  # Python needs less of the stack
            return self._stack_used_up()
        elif self.handles_errors:
            _ran_eagerly(self.function, ERROR_HANDLED.because(error=type(error).__name__))
        else:
            return self._backend_failed(entry, error)
        return None

    def _learn(self, entry: Any, check: str) -> None:
        """Another graph takes the place of this one when the function is next called."""
        if self.lessons is not None:
            _drop(entry)
            self.lessons.learn(check)

    def _stack_used_up(self) -> BaseException | None:
        if self.fullgraph:
            return FullGraphError(f"{STACK_USED_UP.id}: {STACK_USED_UP.text}\n  in the graph of {self.lines}")
        _ran_eagerly(self.function, STACK_USED_UP.because())
        return None

    def _backend_failed(self, entry: Any, error: BaseException) -> BaseException | None:
        self._failures += 1
        words = _words(error)
        stream.emit(
            events.GraphFailed(self.capture, GRAPH_FAILED.id, self.function, self.backend, self.ops, self.lines, words)
        )
        if self.fullgraph or config.strict:
            raised = BackendError(
                self.backend, line_of(self.last), f"compiled a graph that raised {words}; Python does not"
            )
            raised.__cause__ = error
            return raised
        why = GRAPH_FAILED.because(error=type(error).__name__)
        _ran_eagerly(self.function, why)
        if self._failures == 1:
            warn_user(
                f"{GRAPH_FAILED.id}: the graph of {self.function} ({self.ops} operations, {self.lines}) that backend "
                f"{self.backend!r} compiled raised {words}\n  Python has run the call and does not raise; after "
                f"{MOST_FAILURES} such calls the graph is not used any more\n  {GRAPH_FAILED.remedy}"
            )
        if self._failures >= MOST_FAILURES:
            retire(entry, Presumption(self.function, why))
        return None

    @property
    def lines(self) -> str:
        """The lines of the program that the graph spans."""
        first, last = line_of(self.first), line_of(self.last)
        return first if first == last else f"{first} to {last}"


@dataclass(slots=True, eq=False)
class Presumption:
    """Judges a call that was given up for one reason, which may name what was raised."""

    function: str
    why: Because | Fallback

    def python_succeeded(self, entry: Any, error: BaseException | None) -> None:
        """Asked by native code."""
        why = self.why
        _ran_eagerly(self.function, why.because(error=type(error).__name__) if isinstance(why, Fallback) else why)


def retire(entry: Any, judge: Presumption) -> None:
    """Put an entry in the place of another that takes the same calls, and has Python run them."""
    table = entry.table
    if _drop(entry):
        table.install(entry.tree, _giving_up(entry.residual, judge), entry.label)


def _drop(entry: Any) -> bool:
    """Take an entry out of its table; False: another thread was faster."""
    table = entry.table
    if table is None:
        return False
    try:
        table.remove(entry)
    except ValueError:
        return False
    return True


def _giving_up(residual: FunctionType, judge: Presumption) -> FunctionType:
    code = residual.__code__
    builder = Builder(code.co_varnames[: code.co_argcount])
    builder.line(code.co_firstlineno)
    builder.load_callable(_core.give_up)
    builder.load_const(judge)
    builder.load_const(None)
    builder.call(2)
    builder.pop_top()
    builder.load_const(_core.RERUN)
    builder.return_value()
    made = builder.to_code(code.co_name, filename=code.co_filename, firstlineno=code.co_firstlineno)
    return FunctionType(made, residual.__globals__)


def _ran_eagerly(function: str, why: Because) -> None:
    stream.emit(events.RanEagerly(function, why.words, why.fallback.id))


def _words(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
