"""Forked processes: whatever other threads were doing when the process forked, the child can capture and call."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from framelift.native import _core

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
PATIENCE = 60


def in_child(work: Callable[[], None]) -> None:
    """Run `work` in a forked child; what it raises, or its not ending, is an error here."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:  # the child must not go on with the test run
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0, "the child failed: see its standard error"
            return
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")


def capture_and_call() -> None:
    torch.set_num_threads(1)
    lifted = framelift.compile(lambda x: x.sin() + 1, backend="eager")
    for size in (3, 4, 5):
        x = torch.ones(size)
        assert torch.equal(lifted(x), x.sin() + 1)
    assert framelift.counters().captures >= 2
    assert len(lifted.table.entries) == 2


class Blocked:
    """A backend that waits until it is told to go on, so that a capture is under way."""

    def __init__(self) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()

    def __call__(self, graph_module: Any, example_inputs: Any) -> Any:
        self.reached.set()
        self.go_on.wait(PATIENCE)
        return graph_module.forward


def test_while_another_thread_captures() -> None:
    backend = Blocked()
    lifted = framelift.compile(lambda x: x * 2, backend=backend)
    thread = threading.Thread(target=lifted, args=(torch.ones(2),))
    thread.start()
    assert backend.reached.wait(PATIENCE)
    try:
        in_child(capture_and_call)
    finally:
        backend.go_on.set()
        thread.join()
    capture_and_call()


def test_a_function_whose_capture_was_under_way_can_be_captured() -> None:
    backend = Blocked()
    lifted = framelift.compile(lambda x: x * 2, backend=backend)
    thread = threading.Thread(target=lifted, args=(torch.ones(2),))
    thread.start()
    assert backend.reached.wait(PATIENCE)

    def work() -> None:
        backend.go_on = threading.Event()
        backend.go_on.set()
        assert torch.equal(lifted(torch.ones(2)), torch.full((2,), 2.0))
        assert len(lifted.table.entries) == 1

    try:
        in_child(work)
    finally:
        backend.go_on.set()
        thread.join()


def test_while_other_threads_do_all_they_can() -> None:
    stop = threading.Event()

    def busy(number: int) -> None:
        with config.patch(strict=True):
            while not stop.is_set():
                lifted = framelift.compile(eval(f"lambda x: x * {number}"), backend="eager")
                with framelift.set_stance("force_eager"):
                    lifted(torch.ones(2))
                lifted(torch.ones(3))
                framelift.counters()

    threads = [threading.Thread(target=busy, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(12):
            in_child(capture_and_call)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_below_a_block_of_another_thread() -> None:
    inside, leave = threading.Event(), threading.Event()

    def block() -> None:
        with framelift.optimize("eager"):
            inside.set()
            leave.wait(PATIENCE)

    thread = threading.Thread(target=block)
    thread.start()
    assert inside.wait(PATIENCE)

    def work() -> None:
        capture_and_call()
        (lambda: None)()  # the hook leaves with the next frame
        assert not _core.hook_state()["installed"]

    try:
        in_child(work)
    finally:
        leave.set()
        thread.join()


def test_a_child_of_a_capturing_thread() -> None:
    """The thread that forks has the lock itself, and nothing is lifted within its capture."""

    def work() -> None:
        lifted = framelift.compile(lambda x: x * 2, backend="eager")
        assert torch.equal(lifted(torch.ones(2)), torch.full((2,), 2.0))

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        in_child(work)
        return graph_module.forward

    lifted = framelift.compile(lambda x: x + 3, backend=backend)
    assert torch.equal(lifted(torch.ones(2)), torch.full((2,), 4.0))
