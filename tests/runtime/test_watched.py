"""Debuggers and coverage tools see the program: where they follow it, lifted functions run as they were written."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

import pytest
import torch

import framelift

X = torch.arange(3.0)


def program(x: Any) -> Any:
    y = x + 1
    y = helper(y)
    return y * 2


def helper(y: Any) -> Any:
    return y - 3


def lines_seen(run: Any, *functions: Any) -> list[tuple[str, str, int]]:
    """The lines of functions that a trace function sees while `run` runs: (event, function, line within it)."""
    codes = [function.__code__ for function in functions]
    seen: list[tuple[str, str, int]] = []

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code not in codes:
            return None
        seen.append((event, frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return seen


@pytest.mark.parametrize("warm", [False, True])
def test_a_debugger_sees_every_line(warm: bool) -> None:
    lifted = framelift.compile(program, backend="eager")
    if warm:
        lifted(X)
    expected = lines_seen(lambda: program(X), program, helper)
    assert lines_seen(lambda: lifted(X), program, helper) == expected
    assert torch.equal(lifted(X), program(X))


def test_nothing_is_captured_for_a_debugger() -> None:
    lifted = framelift.compile(program, backend="eager")
    lines_seen(lambda: lifted(X), program)
    assert lifted.table.entries == []
    lifted(X)
    assert len(lifted.table.entries) == 1


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
def test_a_coverage_tool_that_watches_one_function() -> None:
    monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    lifted = framelift.compile(program, backend="eager")
    lifted(X)
    seen: list[int] = []
    tool = monitoring.COVERAGE_ID
    monitoring.use_tool_id(tool, "test")
    try:
        monitoring.register_callback(tool, monitoring.events.LINE, lambda code, line: seen.append(line))
        monitoring.set_local_events(tool, program.__code__, monitoring.events.LINE)
        lifted(X)
    finally:
        monitoring.set_local_events(tool, program.__code__, 0)
        monitoring.free_tool_id(tool)
    first = program.__code__.co_firstlineno
    assert seen == [first + 1, first + 2, first + 3]


def test_a_profiler_sees_what_runs() -> None:
    """Whoever measures wants to measure the compiled function."""
    lifted = framelift.compile(program, backend="eager")
    lifted(X)
    called: list[str] = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        lifted(X)
    finally:
        sys.setprofile(None)
    assert "helper" not in called


# -- what ends a program ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError, RecursionError, GeneratorExit])
@pytest.mark.parametrize("broken", [False, True])
def test_what_the_program_raises_passes_through(error: type[BaseException], broken: bool) -> None:
    def function(x: Any) -> Any:
        x = x + 1
        if broken:
            framelift.graph_break()
        raise error("why")

    lifted = framelift.compile(function, backend="eager")
    for _ in range(2):
        with pytest.raises(error) as info:
            lifted(X)
        assert info.value.args == ("why",)


def test_an_interrupt_during_capture_leaves_the_function_uncaptured() -> None:
    def long(x: Any) -> Any:
        for number in range(20_000):
            x = x + number
        return x

    lifted = framelift.compile(long, backend="eager")
    # A shell starts background jobs with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            lifted(X)
    finally:
        signal.signal(signal.SIGINT, before)
    assert lifted.table.entries == []
    assert torch.is_grad_enabled()
    short = framelift.compile(program, backend="eager", fullgraph=True)
    assert torch.equal(short(X), program(X))


def test_recursion_without_end_is_an_error_that_can_be_handled() -> None:
    def endless(x: Any) -> Any:
        return endless(x + 1)

    def function(x: Any) -> Any:
        try:
            return endless(x)
        except RecursionError:
            return x - 1

    with pytest.raises(RecursionError):
        framelift.compile(endless, backend="eager")(X)
    assert torch.equal(framelift.compile(function, backend="eager")(X), X - 1)
