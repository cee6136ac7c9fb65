"""Many threads at once: right results, each frame captured once, settings of one thread left alone by the others."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framelift
from framelift.native import _core

THREADS = 8


@pytest.fixture(autouse=True)
def switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(work: Callable[[int], Any]) -> list[Any]:
    """Run `work(i)` on all threads at the same time."""
    barrier = threading.Barrier(THREADS)
    results: list[Any] = [None] * THREADS
    errors: list[BaseException] = []

    def run(i: int) -> None:
        try:
            barrier.wait()
            results[i] = work(i)
        except BaseException as error:  # reported by the test, whatever it is
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def test_one_function_is_captured_once() -> None:
    calls = []

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        calls.append(1)
        return graph_module.forward

    lifted = framelift.compile(lambda x: x.sin() * 2, backend=backend)
    x = torch.ones(3)
    results = together(lambda i: [lifted(x) for _ in range(20)])
    assert all(torch.equal(result, x.sin() * 2) for row in results for result in row)
    assert len(calls) == 1
    assert len(lifted.table.entries) == 1


def test_compiling_and_calling_different_functions() -> None:
    def make(i: int) -> Any:
        names: dict[str, Any] = {}
        exec(f"def f(x): return x * {i} + 1", names)
        return names["f"]

    functions = [make(i) for i in range(THREADS)]

    def work(i: int) -> Any:
        return [framelift.compile(functions[(i + j) % THREADS], backend="eager")(torch.ones(2)) for j in range(THREADS)]

    for i, row in enumerate(together(work)):
        for j, result in enumerate(row):
            assert torch.equal(result, torch.full((2,), (i + j) % THREADS + 1.0))
    for function in functions:
        (table,) = _core.tables_of(function.__code__)
        assert len(table.entries) == 1


def test_different_shapes_and_breaks() -> None:
    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        y = x + n
        framelift.graph_break()
        return y * 2

    lifted = framelift.compile(f, backend="eager", dynamic=False)

    def work(i: int) -> Any:
        return [lifted(torch.ones(1 + (i + j) % 4), i) for j in range(8)]

    for i, row in enumerate(together(work)):
        for j, result in enumerate(row):
            assert torch.equal(result, torch.full((1 + (i + j) % 4,), (1.0 + i) * 2))


def test_modes_belong_to_their_thread() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    lifted = framelift.compile(f, backend="eager")
    x = torch.ones(2, requires_grad=True)

    def work(i: int) -> Any:
        with torch.set_grad_enabled(i % 2 == 0):
            return [lifted(x).requires_grad for _ in range(10)]

    for i, row in enumerate(together(work)):
        assert row == [i % 2 == 0] * 10
    assert len(lifted.table.entries) == 2


def test_suspension_belongs_to_its_thread() -> None:
    lifted = framelift.compile(lambda x: torch.compiler.is_compiling(), backend="eager")
    lifted(torch.ones(1))

    @framelift.disable
    def off(x: torch.Tensor) -> Any:
        return lifted(x)

    rows = together(lambda i: [(off if i % 2 else lifted)(torch.ones(1)) for _ in range(50)])
    for i, row in enumerate(rows):
        assert row == [i % 2 == 0] * 50


def test_a_capture_that_fails_on_one_thread_does_not_block_the_others() -> None:
    def backend(graph_module: Any, example_inputs: Any) -> Any:
        if threading.current_thread().name.endswith("bad"):
            raise KeyboardInterrupt
        return graph_module.forward

    lifted = framelift.compile(lambda x: x + 1, backend=backend)
    x = torch.ones(2)

    def work(i: int) -> Any:
        if i == 0:
            threading.current_thread().name += "bad"
            try:
                return lifted(x)
            except KeyboardInterrupt:
                return x + 1
        return lifted(x)

    assert all(torch.equal(result, x + 1) for result in together(work))


def test_sizes_become_symbolic_once() -> None:
    lifted = framelift.compile(lambda x: x.sin() * x.shape[0], backend="eager")

    def work(i: int) -> Any:
        return [(n, lifted(torch.ones(n))) for n in range(2 + i, 12 + i)]

    for row in together(work):
        for n, result in row:
            assert torch.equal(result, torch.ones(n).sin() * n)
    assert len(lifted.table.entries) == 2  # the first size, and all others


def test_modules_counters_and_breaks() -> None:
    class Model(torch.nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.linear(x).relu()
            framelift.graph_break()
            return x.sum(0)

    models = [Model(2 + i % 3) for i in range(THREADS)]

    def work(i: int) -> Any:
        lifted = framelift.compile(models[i], backend="eager")
        inputs = [torch.randn(n, 2 + i % 3) for n in (2, 3, 4, 2, 3)]
        return [(lifted(x), models[i](x)) for x in inputs]

    for row in together(work):
        for actual, expected in row:
            assert torch.equal(actual, expected)
    assert framelift.counters().failures == {} and framelift.counters().eager == {}


def test_entries_go_while_others_use_them() -> None:
    lifted = framelift.compile(lambda x: x * 2, backend="eager", dynamic=False, recompile_limit=2)

    def work(i: int) -> Any:
        with framelift.config.patch(evict_entries=True, total_recompile_limit=10_000):
            return [(n, lifted(torch.ones(n))) for n in [1 + (i + j) % 5 for j in range(20)]]

    for row in together(work):
        assert all(torch.equal(result, torch.full((n,), 2.0)) for n, result in row)
    assert len(lifted.table.entries) <= 2


def test_stances_belong_to_their_thread() -> None:
    lifted = framelift.compile(lambda x: framelift.is_compiling(), backend="eager")
    lifted(torch.ones(1))

    def work(i: int) -> Any:
        seen = []
        for _ in range(30):
            with framelift.set_stance("force_eager" if i % 2 else "eager_on_recompile"):
                seen.append(lifted(torch.ones(1)))
        return seen

    for i, row in enumerate(together(work)):
        assert row == [i % 2 == 0] * 30


CAPTURING_AT_EXIT = """
import threading, torch, framelift

started = threading.Event()

def work():
    while True:
        for number in range(2, 7):
            framelift.compile(lambda x: x * number + x.sin(), backend="{backend}")(torch.ones(number))
            started.set()

threading.Thread(target=work, daemon=True).start()
started.wait()
print("the end")
"""


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_daemon_thread_that_captures_when_the_program_ends(backend: str) -> None:
    """torch alone aborts if such a thread is within one of its operations then, in these words."""
    command = [sys.executable, "-c", CAPTURING_AT_EXIT.format(backend=backend)]
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.stdout == "the end\n"
        assert done.returncode == 0 or done.stderr.endswith("terminate called without an active exception\n")
        assert "Traceback" not in done.stderr and "framelift" not in done.stderr
