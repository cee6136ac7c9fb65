"""Handlers of signals may raise at any moment: what they raise reaches the program, as itself, and nothing breaks."""

from __future__ import annotations

import functools
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import torch

import framelift
from framelift.backends.registry import Backend
from framelift.interrupts import is_failure
from framelift.native import _core
from tests.helpers.record import Record
from tests.runtime.test_interruptions import POINTS, blocked_in_a_call, inlined, resumed_in_a_loop

X = torch.linspace(0, 1, 3, requires_grad=True)


class TimeIsUp(Exception):
    pass


def time_is_up(*_: Any) -> None:
    raise TimeIsUp


class Handler:
    def __call__(self, *_: Any) -> None:
        raise TimeIsUp

    def method(self, *_: Any) -> None:
        raise TimeIsUp


HANDLERS = [time_is_up, Handler(), Handler().method, functools.partial(time_is_up, 1)]


@contextmanager
def handled_by(handler: Any) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


# -- holding them ----------------------------------------------------------------------------------------------------


def come() -> None:
    signal.raise_signal(signal.SIGUSR1)


def test_signals_wait() -> None:
    order = []
    with handled_by(lambda *_: order.append("came")):
        with _core.undisturbed(), _core.undisturbed():
            come()
            order.append("held")
        assert order == ["held", "came"]
        with _core.undisturbed():
            with _core.disturbed():
                come()
                order.append("not held")
            come()
            order.append("held again")
            _core.let_signals_in()
            order.append("held on")
        assert order[2:] == ["came", "not held", "held again", "came", "held on"]
        come()
        assert order[-1] == "came"


def test_what_a_handler_raises_comes_at_the_end() -> None:
    with handled_by(time_is_up):
        with pytest.raises(TimeIsUp), _core.undisturbed():
            come()
        with _core.undisturbed():
            come()
            with pytest.raises(TimeIsUp):
                _core.let_signals_in()
        with pytest.raises(TimeIsUp):
            come()


def test_other_threads_hold_nothing() -> None:
    begun, done = threading.Event(), threading.Event()

    def hold() -> None:
        with _core.undisturbed():
            begun.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait(10)
    with handled_by(time_is_up), pytest.raises(TimeIsUp):
        come()
    done.set()
    thread.join()


def test_a_block_that_was_not_entered() -> None:
    with pytest.raises(RuntimeError, match="not entered"):
        _core.undisturbed().__exit__(None, None, None)


# -- while framelift captures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", [inlined, blocked_in_a_call, resumed_in_a_loop])
def test_at_any_point_of_a_capture(program: Callable[..., Any]) -> None:
    expected = program(X, [])
    for owner, name in POINTS:
        lifted, record, log, calls = framelift.compile(program, backend="eager"), Record(), [], []

        def coming(*args: Any, real: Any = getattr(owner, name), calls: list[int] = calls, **kwargs: Any) -> Any:
            calls.append(1)
            if len(calls) == 2:
                come()
            return real(*args, **kwargs)

        with pytest.MonkeyPatch.context() as patch, handled_by(time_is_up), record.listening():
            patch.setattr(owner, name, coming)
            # (Not all have a second graph.)
            with suppress(TimeIsUp) if owner is Backend else pytest.raises(TimeIsUp):
                lifted(X, log)
        assert not record.failures
        assert torch.is_grad_enabled()
        assert not _core.is_suspended()
        again: list[str] = []
        assert torch.equal(lifted(X, again), expected)
        assert lifted.table.entries
        framelift.reset()


@pytest.mark.parametrize("program", [inlined, blocked_in_a_call, resumed_in_a_loop])
def test_at_any_point_of_a_capture_where_signals_do_not_wait(program: Callable[..., Any]) -> None:
    """With FRAMELIFT_HOLD_SIGNALS=0 a Ctrl-C comes out of the midst of things: the capture is given up as well."""
    expected = program(X, [])
    _core.hold_signals(False)
    try:
        for owner, name in POINTS:
            lifted, calls = framelift.compile(program, backend="eager"), []

            def coming(*args: Any, real: Any = getattr(owner, name), calls: list[int] = calls, **kwargs: Any) -> Any:
                calls.append(1)
                if len(calls) == 2:
                    come()
                    calls.append(2)
                return real(*args, **kwargs)

            with pytest.MonkeyPatch.context() as patch, handled_by(signal.default_int_handler):
                patch.setattr(owner, name, coming)
                with suppress(KeyboardInterrupt) if owner is Backend else pytest.raises(KeyboardInterrupt):
                    lifted(X, [])
            assert 2 not in calls, "it did not wait"
            assert torch.is_grad_enabled()
            assert not _core.is_suspended()
            assert torch.equal(lifted(X, []), expected)
            assert lifted.table.entries
            framelift.reset()
    finally:
        _core.hold_signals(True)


DURING_A_QUESTION = """
import signal
import torch, framelift
from torch._library import simple_registry

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background has none
framelift.config.strict = True
real, comes = simple_registry.find_torch_dispatch_rule, [True]

def find(operator, cls):  # what torch calls when autograd asks a fake tensor for its device
    if comes and operator.__qualname__ == "prim::device":
        comes.clear()
        signal.raise_signal(signal.SIGINT)
    return real(operator, cls)

simple_registry.find_torch_dispatch_rule = find
lifted = framelift.compile(lambda x: x.sin() + 1, backend="eager")
try:
    lifted(torch.ones(2, requires_grad=True))
except KeyboardInterrupt:
    print("interrupted")
lifted(torch.ones(2, requires_grad=True))
print("done")
"""


def test_torch_is_not_interrupted_where_that_would_end_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", DURING_A_QUESTION], capture_output=True, text=True, check=False)
    assert done.stdout == "interrupted\ndone\n", done.stderr


# -- while a graph runs ----------------------------------------------------------------------------------------------


def direct(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    return x.sin() + 1


def logging(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    log.append("logged")
    return x.sin() + 1


def handling(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    try:
        framelift.graph_break()
        return x.sin() + 1
    except TimeIsUp:
        log.append("handled")
        return x


@pytest.mark.parametrize("handler", HANDLERS, ids=["function", "object", "method", "partial"])
@pytest.mark.parametrize("program", [direct, logging, handling])
def test_while_a_graph_runs(program: Callable[..., Any], handler: Any) -> None:
    runs: list[int] = []

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            runs.append(1)
            if len(runs) == 2:
                come()
            return graph_module.forward(*args)

        return run

    lifted, log = framelift.compile(program, backend=backend), []
    lifted(X, log)
    log.clear()
    with handled_by(handler):
        if program is handling:
            assert lifted(X, log) is X
        else:
            with pytest.raises(TimeIsUp):
                lifted(X, log)
    assert log == (["handled"] if program is handling else [])
    assert len(runs) == 2
    assert torch.equal(lifted(X, log), X.sin() + 1)


def test_what_a_graph_raises_is_a_failure() -> None:
    def raised(function: Callable[[], Any]) -> BaseException:
        with pytest.raises(BaseException) as info:
            function()
        return info.value

    with handled_by(time_is_up):
        assert not is_failure(raised(time_is_up))
        assert not is_failure(KeyboardInterrupt())
        assert is_failure(raised(lambda: int("x")))
    assert is_failure(raised(time_is_up)), "it handles no signal"
