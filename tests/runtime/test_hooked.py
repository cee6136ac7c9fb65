"""Frames that nobody compiled: below a break, and inside `with framelift.optimize(...)`."""

from __future__ import annotations

import collections
import functools
import gc
import json
import threading
import weakref
from typing import Any

import pytest
import torch

import framelift
from framelift import runtime
from framelift.api import make_lifting
from framelift.native import _core
from framelift.report.events import CaptureStarted
from framelift.runtime.policy import foreign_mode, has_tensors_in_sight, worth_lifting
from tests.helpers.record import Record
from tests.tolerances import COMPILED_OPTIMIZER


def helper(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


def without_tensors(a: int, b: int) -> int:
    return a + b


@framelift.disable
def disabled(x: torch.Tensor) -> torch.Tensor:
    return helper(x)


@torch.compiler.disable
def disabled_by_torch(x: torch.Tensor) -> torch.Tensor:
    return x.cos()


def counting(x: torch.Tensor) -> Any:
    yield helper(x)


class Holder:
    def __init__(self) -> None:
        self.weight = torch.ones(2)

    def scaled(self, factor: float) -> torch.Tensor:
        return self.weight * factor


def captured_by(function: Any, *args: Any, **options: Any) -> tuple[Any, list[str]]:
    """The result of a function run in Python inside a block, and which frames were captured."""
    record = Record()
    with record.listening(), framelift.optimize("eager", **options):
        result = function(*args)
    return result, [event.function for event in record.of(CaptureStarted)]


@functools.partial(framelift.disable, recursive=False)
def call_in_python(called: Any, *args: Any) -> Any:
    return called(*args)


def below_break(called: Any, *args: Any) -> tuple[Any, list[str]]:
    """The same for what is called by an instruction that Python runs."""

    def f() -> Any:
        return call_in_python(called, *args)

    record = Record()
    with record.listening():
        result = framelift.compile(f, backend="eager")()
    return result, [event.function for event in record.of(CaptureStarted)][1:]


both_ways = pytest.mark.parametrize("run", [captured_by, below_break])


@both_ways
def test_a_function_is_lifted(run: Any) -> None:
    x = torch.ones(2)
    result, captured = run(helper, x)
    assert torch.equal(result, helper(x))
    assert captured == ["helper"]


@both_ways
def test_a_second_call_hits(run: Any) -> None:
    run(helper, torch.ones(2))
    assert run(helper, torch.ones(2))[1] == []


@both_ways
def test_methods_of_objects_that_hold_tensors(run: Any) -> None:
    result, captured = run(Holder().scaled, 3.0)
    assert torch.equal(result, torch.full((2,), 3.0))
    assert captured == ["Holder.scaled"]


@both_ways
def test_the_forward_of_a_module_called_by_torch(run: Any) -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    net = Net()
    net.register_forward_hook(lambda module, args, result: result + 1)
    result, captured = run(net, torch.ones(2))
    assert torch.equal(result, torch.full((2,), 3.0))
    assert any("forward" in name for name in captured)


@both_ways
def test_frames_without_tensors_are_left_alone(run: Any) -> None:
    assert run(without_tensors, 1, 2) == (3, [])


@both_ways
def test_the_standard_library_is_left_alone(run: Any) -> None:
    assert run(json.dumps, {"a": [1]}) == ('{"a": [1]}', [])
    pair = collections.namedtuple("pair", "a b")
    x = torch.ones(2)
    assert run(pair, x, 1) == ((x, 1), [])


@both_ways
def test_disabled_functions_are_left_alone(run: Any) -> None:
    x = torch.ones(2)
    result, captured = run(disabled, x)
    assert torch.equal(result, helper(x))
    assert captured == []


@both_ways
def test_functions_disabled_for_torch_are_left_alone(run: Any) -> None:
    x = torch.ones(2)
    result, captured = run(disabled_by_torch, x)
    assert torch.equal(result, x.cos())
    assert captured == []


@both_ways
def test_generators_run_and_what_they_call_is_lifted(run: Any) -> None:
    x = torch.ones(2)
    result, captured = run(lambda: [item + 0 for item in counting(x)])
    assert torch.equal(result[0], helper(x))
    assert "counting" not in captured


def test_exceptions_leave_the_block() -> None:
    def fails(x: torch.Tensor) -> Any:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"), framelift.optimize("eager"):
        fails(torch.ones(2))
    assert not _core.hook_state()["installed"]


def test_blocks_nest_and_end() -> None:
    def backend(graph_module: Any, example_inputs: Any) -> Any:
        calls.append(1)
        return graph_module.forward

    calls: list[int] = []
    x = torch.ones(2)
    with framelift.optimize("eager"):
        with framelift.optimize(backend):
            helper(x)
        assert len(calls) == 1
        helper(x + 0)
        assert len(calls) == 1
    state = _core.hook_state()
    assert state["users"] == 0 and not state["installed"]


def test_a_block_holds_its_backend_and_lets_it_go() -> None:
    def make() -> Any:
        def backend(graph_module: Any, example_inputs: Any) -> Any:
            return graph_module.forward

        return backend

    backend = make()
    ref = weakref.ref(backend)
    with framelift.optimize(backend):
        del backend
        helper(torch.ones(2))
        assert ref() is not None
    gc.collect()
    assert ref() is None


def test_one_object_entered_again_inside_itself_and_by_threads() -> None:
    block = framelift.optimize("eager")
    x = torch.ones(2)
    results = []

    def run() -> None:
        with block, block:
            results.append(helper(x))

    with block:
        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(torch.equal(result, helper(x)) for result in results)
    assert _core.hook_state()["users"] == 0


def test_blocks_that_end_out_of_turn() -> None:
    def generator() -> Any:
        with framelift.optimize("eager"):
            yield helper(torch.ones(2))

    with framelift.optimize("eager", fullgraph=True):
        iterator = generator()
        next(iterator)
    helper(torch.ones(2))
    iterator.close()
    helper(torch.ones(2))
    assert _core.hook_state()["users"] == 0


def lifted_frames() -> int:
    state = _core.hook_state()
    return state["swapped"] + state["called"]


@functools.partial(framelift.disable, recursive=False)
def is_lifted_meanwhile(function: Any) -> bool:
    """Whether this thread lifts a call that nobody asked to lift, while another thread keeps the hook in place."""
    entered, done = threading.Event(), threading.Event()

    def keep_hook() -> None:
        with framelift.optimize("eager"):
            entered.set()
            done.wait()

    thread = threading.Thread(target=keep_hook)
    thread.start()
    entered.wait()
    before = lifted_frames()
    function(torch.ones(2))
    lifted = lifted_frames() > before
    done.set()
    thread.join()
    return lifted


def suspended_in_a_block() -> Any:
    with framelift.optimize("eager"):
        yield


def leave_out_of_turn() -> None:
    with framelift.optimize("eager"):
        iterator = suspended_in_a_block()
        next(iterator)
    iterator.close()


def leave_while_it_is_set_aside() -> None:
    block = framelift.optimize("eager")
    block.__enter__()
    framelift.compile(lambda x: (x + 1, block.__exit__(None, None, None)), backend="eager")(torch.ones(2))


def leave_on_another_thread() -> None:
    block = runtime.hooked(make_lifting(backend="eager").options)
    block.__enter__()
    thread = threading.Thread(target=block.__exit__, args=(None, None, None))
    thread.start()
    thread.join()


@pytest.mark.parametrize("leave", [leave_out_of_turn, leave_while_it_is_set_aside, leave_on_another_thread])
def test_nothing_is_lifted_after_a_block(leave: Any) -> None:
    leave()
    assert not is_lifted_meanwhile(helper)
    with framelift.optimize("eager"):
        assert is_lifted_meanwhile(helper)
    assert not is_lifted_meanwhile(helper)


def test_an_outer_block_goes_on_after_one_that_was_left_out_of_turn() -> None:
    with framelift.optimize("eager"):
        leave_out_of_turn()
        assert is_lifted_meanwhile(helper)
    assert not is_lifted_meanwhile(helper)


def test_a_block_that_is_dropped_while_entered() -> None:
    block = _core.hooked(lambda code, function, slots: None)
    block.__enter__()
    with pytest.raises(RuntimeError, match="once"):
        block.__enter__()
    del block
    assert _core.hook_state()["users"] == 0
    with pytest.raises(RuntimeError, match="not entered"):
        _core.hooked(None).__exit__(None, None, None)


def test_disable_in_optimize() -> None:
    with framelift.optimize("eager", disable=True):
        helper(torch.ones(2))
        assert not _core.hook_state()["installed"]


def test_worth_lifting() -> None:
    assert worth_lifting(helper.__code__, helper)
    for function in (json.dumps, torch.nn.Module.__call__, framelift.compile, disabled):
        assert not worth_lifting(function.__code__, function)


class Trap:
    """Reading anything of it the user's way is a mistake."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(name)

    __len__ = __iter__ = __bool__ = __eq__ = __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        (torch.ones(1), True),
        (torch.nn.Linear(1, 1), True),
        ([1, [torch.ones(1)]], True),
        ({"a": (torch.ones(1),)}, True),
        (Holder(), True),
        (without_tensors, False),
        ([[[torch.ones(1)]]], False),
        (3, False),
        (Holder, False),
    ],
)
def test_tensors_in_sight(value: Any, seen: bool) -> None:
    def function(value: Any) -> Any:
        return value

    assert has_tensors_in_sight(function.__code__, function, (value,)) is seen


def test_looking_for_tensors_runs_no_code_of_the_user() -> None:
    assert not has_tensors_in_sight(without_tensors.__code__, without_tensors, (Trap(), [Trap()]))


def test_looking_for_tensors_leaves_no_trace() -> None:
    inner = functools.partial(int, "1")
    assert not has_tensors_in_sight(without_tensors.__code__, without_tensors, (inner,))
    assert functools.partial(inner, base=2).func is int  # a partial that has a __dict__ is kept as it is


def test_tensors_in_closures_and_globals() -> None:
    x = torch.ones(2)

    def closed() -> Any:
        return x

    def makes() -> Any:
        return torch.zeros(2)

    for function in (closed, makes):
        assert has_tensors_in_sight(function.__code__, function, ())


def test_a_frame_that_shows_no_tensors_is_asked_about_only_so_often() -> None:
    def f() -> Any:
        return call_in_python(lambda: [without_tensors(i, 1) for i in range(100)])

    asked = _core.hook_state()["asked"]
    framelift.compile(f, backend="eager")()
    assert _core.hook_state()["asked"] - asked < 40


def test_a_training_loop_inside_a_block() -> None:
    def train(model: torch.nn.Module) -> list[float]:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        losses = []
        for step in range(3):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(torch.full((2, 4), float(step))), torch.ones(2, 1))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    def make() -> torch.nn.Module:
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))

    expected = train(make())
    record = Record()
    with record.listening(), framelift.optimize("eager"):
        actual = train(make())
    assert actual == pytest.approx(expected, rel=COMPILED_OPTIMIZER)
    assert record.failures == []


def test_no_foreign_mode_here() -> None:
    assert foreign_mode() is None
