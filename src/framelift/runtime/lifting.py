"""Lifting functions: entry tables, misses, and what happens when a capture fails."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from framelift import config
from framelift.capture.capture import Captured, Request, capture
from framelift.capture.headroom import Headroom
from framelift.capture.program import Programs
from framelift.errors import BackendError, FrameliftWarning, FullGraphError, InternalError
import framelift.guards.reference  # noqa: F401  (strict mode checks against it)
from framelift.graph import GraphBuilder, MetadataMemo
from framelift.native import _core, calibrate
from framelift.options import Options
from framelift.report import events, stream
from framelift.runtime.policy import worth_lifting


class Runtime:
    """What captures share: lowered programs, the metadata memo, the capture lock."""

    def __init__(self) -> None:
        self.programs = Programs()
        # One capture at a time; calls that hit take no lock. Re-entrant: a backend may call lifted code.
        self.lock = threading.RLock()
        self.memo = MetadataMemo(check=config.check)
        calibrate.ensure()

    def lift(self, function: FunctionType, options: Options) -> Any:
        """A callable that runs `function` lifted."""
        return _core.Lifted(function, _core.table_for(function.__code__, options), self.context(options).miss)

    @functools.cache  # noqa: B019  (one runtime per process)
    def context(self, options: Options) -> Context:
        return Context(self, options)

    def make_graph(self) -> GraphBuilder:
        return GraphBuilder(self.memo)


class Context:
    """Answers misses for one set of options: from lifted callables, and from frames below a break."""

    def __init__(self, runtime: Runtime, options: Options) -> None:
        self.runtime = runtime
        self.key = options
        self.options = options

    # -- misses ----------------------------------------------------------------------------------------------------

    def miss(self, lifted: Any, slots: tuple[Any, ...]) -> Any:
        """A lifted callable found no entry for these arguments."""
        return self.capture(lifted.__wrapped__, slots)

    def __call__(self, code: CodeType, function: FunctionType, slots: tuple[Any, ...]) -> Any:
        """The frame hook met a frame without an entry; False: never ask for this code again."""
        if not worth_lifting(code, function):
            return False
        return self.capture(function, slots)

    def capture(self, function: FunctionType, slots: tuple[Any, ...]) -> Any:
        """Capture a call and install its entry. None: run the function in Python this time."""
        with self.runtime.lock, _core.suspended():
            table = _core.table_for(function.__code__, self.key)
            entry = _fitting_entry(table, slots, function)
            if entry is not None:  # another thread was faster
                return entry
            if not Headroom().suffices:
                stream.emit(events.RanEagerly(function.__qualname__, "the stack is nearly used up"))
                return None
            number = stream.new_capture()
            self._report_recompile(number, table, function, slots)
            if len(table.entries) >= config.recompile_limit:
                stream.emit(events.RanEagerly(function.__qualname__, "the recompile limit is reached"))
                return None
            request = Request(function, slots, self.options, self.run_in_python, self.runtime.make_graph)
            try:
                captured = capture(request, self.runtime.programs, number)
                _check_guards(captured, slots, function)
            except (FullGraphError, BackendError) as error:
                raise error.with_traceback(None) from error.__cause__
            except Exception as error:  # framelift's own failure must not become the user's
                return self._fail(number, function, error)
            return table.install(captured.tree, captured.residual, function.__qualname__)

    def _report_recompile(self, number: int, table: Any, function: FunctionType, slots: tuple[Any, ...]) -> None:
        if not table.entries or not stream.wanted(events.Recompiled):
            return
        reasons = []
        for entry in table.entries:
            failure = entry.tree.explain(slots, function)
            if failure is not None:
                reasons.append(failure[2])
        stream.emit(events.Recompiled(number, function.__qualname__, tuple(reasons)))

    def _fail(self, number: int, function: FunctionType, error: Exception) -> None:
        stream.emit(events.InternalFailure(number, "FL0001", function.__qualname__, f"{type(error).__name__}: {error}"))
        if config.strict:
            raise InternalError("FL0001", f"capture of {function.__qualname__} failed: {error}") from error
        warnings.warn(
            f"FL0001: framelift failed to capture {function.__qualname__} ({type(error).__name__}: {error}); "
            "it runs in Python. Please report this.",
            FrameliftWarning,
            stacklevel=2,
        )
        return None

    # -- running what is left in Python ----------------------------------------------------------------------------

    @property
    def run_in_python(self) -> Callable[..., Any]:
        return functools.partial(_core.run_hooked, self)


def _fitting_entry(table: Any, slots: tuple[Any, ...], function: FunctionType) -> Any:
    for entry in table.entries:
        if entry.tree.check(slots, function) is not None:
            return entry
    return None


def _check_guards(captured: Captured, slots: tuple[Any, ...], function: FunctionType) -> None:
    """An entry must fit the very call it was captured from."""
    check = captured.tree.check_strict if config.strict else captured.tree.check
    if check(slots, function) is None:
        failure = captured.tree.explain(slots, function)
        raise AssertionError(f"the guards do not hold for their own inputs: {failure[2] if failure else 'unknown'}")
