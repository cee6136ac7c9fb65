"""State has an owner: entries die with the code they belong to, and keep nothing of the user's alive."""

from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framelift
from framelift.native import _core


@pytest.fixture
def no_gc() -> Iterator[None]:
    """What is freed here is freed at once, not when the collector comes by."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def constant(graph_module: Any, example_inputs: Any) -> Callable[..., Any]:
    results = graph_module(*example_inputs)
    return lambda *args: results


BACKENDS = ["eager", "aot_eager", constant]


def fresh(source: str, name: str = "f", **names: Any) -> types.FunctionType:
    """A function with code and globals of its own."""
    namespace = {"torch": torch, "framelift": framelift, **names}
    exec(compile(source, "<fresh>", "exec"), namespace)
    function: types.FunctionType = namespace.pop(name)
    return function


PLAIN = "def f(x): return (x * 2).relu() + 1"
BROKEN = "def f(x):\n    y = x * 2\n    framelift.graph_break()\n    return y.relu() + 1"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("source", [PLAIN, BROKEN])
def test_function_and_code_are_freed(source: str, backend: Any) -> None:
    function = fresh(source)
    lifted = framelift.compile(function, backend=backend)
    lifted(torch.ones(2))
    lifted(torch.ones(3))
    watched = [weakref.ref(function), weakref.ref(function.__code__), weakref.ref(lifted), weakref.ref(lifted.table)]
    del function, lifted
    gc.collect()
    assert [ref() for ref in watched] == [None] * 4


@pytest.mark.parametrize("backend", ["eager", constant])
@pytest.mark.parametrize("source", [PLAIN, BROKEN])
def test_inputs_are_freed_at_once(source: str, backend: Any, no_gc: None) -> None:
    lifted = framelift.compile(fresh(source), backend=backend)
    lifted(torch.ones(7))  # what torch imports and keeps on first use
    for size in (2, 3):
        for _ in range(2):
            x = torch.ones(size)
            ref = weakref.ref(x)
            lifted(x)
            del x
            assert ref() is None


def test_inputs_are_freed_at_once_aot_eager(no_gc: None) -> None:
    lifted = framelift.compile(fresh(PLAIN), backend="aot_eager")
    lifted(torch.ones(7))
    x = torch.ones(7)
    ref = weakref.ref(x)
    lifted(x)
    del x
    assert ref() is None


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("source", [PLAIN, BROKEN])
def test_outputs_are_freed_at_once(source: str, backend: Any, no_gc: None) -> None:
    lifted = framelift.compile(fresh(source), backend=backend)
    lifted(torch.ones(2))
    ref = weakref.ref(lifted(torch.ones(2)))
    assert ref() is None


class Net(torch.nn.Module):
    def __init__(self, breaks: bool = False) -> None:
        super().__init__()
        self.first = torch.nn.Linear(2, 3)
        self.breaks = breaks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        if self.breaks:
            framelift.graph_break()
        return y.relu()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("breaks", [False, True])
def test_models_and_parameters_are_freed(breaks: bool, backend: str) -> None:
    net = Net(breaks)
    lifted = framelift.compile(net, backend=backend)
    lifted(torch.ones(1, 2))
    watched = [weakref.ref(net), weakref.ref(net.first.weight), weakref.ref(lifted)]
    del net, lifted
    gc.collect()
    assert [ref() for ref in watched] == [None] * 3


def test_models_are_freed_at_once_after_a_hit(no_gc: None) -> None:
    @framelift.compile(backend="eager")
    def call(model: Net, x: torch.Tensor) -> torch.Tensor:
        return model(x)

    call(Net(), torch.ones(1, 2))
    net = Net()
    call(net, torch.ones(1, 2))
    ref, weight = weakref.ref(net), weakref.ref(net.first.weight)
    del net
    assert ref() is None and weight() is None


def test_classes_of_the_user_are_freed() -> None:
    @framelift.compile(backend="eager")
    def read(obj: Any, x: torch.Tensor) -> Any:
        return obj.scale(x), obj

    class Scaler:
        def scale(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    read(Scaler(), torch.ones(2))
    ref = weakref.ref(Scaler)
    del Scaler
    gc.collect()
    assert ref() is None
    assert len(read.table.entries) <= 1
    read(types.SimpleNamespace(scale=torch.sin), torch.ones(2))
    assert all(not entry.dead for entry in read.table.entries)  # what cannot be hit any more goes on a miss


@pytest.mark.parametrize("source", [PLAIN, BROKEN])
def test_a_closure_backend_is_freed_and_its_entries_with_it(source: str) -> None:
    function = fresh(source)

    def make_backend() -> Callable[..., Any]:
        seen: list[Any] = []

        def backend(graph_module: Any, example_inputs: Any) -> Any:
            seen.append(len(example_inputs))
            return graph_module.forward

        return backend

    backend = make_backend()
    lifted = framelift.compile(function, backend=backend)
    lifted(torch.ones(2))
    ref = weakref.ref(backend)
    del backend
    assert ref() is not None  # a lifted callable keeps its backend
    lifted(torch.ones(3))
    assert len(_core.tables_of(function.__code__)) == 1
    del lifted
    gc.collect()
    assert ref() is None
    assert _core.tables_of(function.__code__) == []


def test_a_bound_method_is_one_backend_however_often_it_is_read() -> None:
    class Compiler:
        def __init__(self) -> None:
            self.calls = 0

        def run(self, graph_module: Any, example_inputs: Any) -> Any:
            self.calls += 1
            return graph_module.forward

    compiler, function = Compiler(), fresh(PLAIN)
    for _ in range(3):
        framelift.compile(function, backend=compiler.run)(torch.ones(2))
    assert compiler.calls == 1
    ref = weakref.ref(compiler)
    del compiler
    gc.collect()
    assert ref() is None


def test_backends_that_say_they_are_equal_are_still_two() -> None:
    class Same:
        def __init__(self) -> None:
            self.calls = 0

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

        def __call__(self, graph_module: Any, example_inputs: Any) -> Any:
            self.calls += 1
            return graph_module.forward

    one, two, function = Same(), Same(), fresh(PLAIN)
    for backend in (one, two, one, two):
        framelift.compile(function, backend=backend)(torch.ones(2))
    assert (one.calls, two.calls) == (1, 1)


def test_twelve_closures_of_one_code_share_an_entry() -> None:
    def make(scale: torch.Tensor) -> Callable[..., Any]:
        def apply(x: torch.Tensor) -> torch.Tensor:
            return x * scale + 1

        return apply

    calls = []

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        calls.append(1)
        return graph_module.forward

    for i in range(12):
        lifted = framelift.compile(make(torch.tensor(float(i))), backend=backend)
        assert torch.equal(lifted(torch.ones(2)), torch.full((2,), i + 1.0))
    assert len(calls) == 1
    assert len(lifted.table.entries) == 1


def test_equal_options_share_entries_and_different_ones_do_not() -> None:
    function = fresh(PLAIN)
    first = framelift.compile(function, backend="eager")
    second = framelift.compile(function, backend="eager")
    other = framelift.compile(function, backend="eager", fullgraph=True)
    for lifted in (first, second, other):
        lifted(torch.ones(2))
    assert first.table is second.table
    assert first.table is not other.table
    assert [len(lifted.table.entries) for lifted in (first, second, other)] == [1, 1, 1]


def test_entries_survive_the_callable_they_were_made_for() -> None:
    function = fresh(BROKEN)
    framelift.compile(function, backend="eager")(torch.ones(2))
    gc.collect()
    again = framelift.compile(function, backend="eager")
    misses = again.table.misses
    again(torch.ones(2))
    assert again.table.misses == misses


def test_frames_below_a_break_are_lifted_after_the_first_callable_is_gone() -> None:
    helper = fresh("def helper(x): return x.sin() * 2", "helper")
    called = framelift.disable(fresh("def called(x): return helper(x)", "called", helper=helper), recursive=False)
    function = fresh("def f(x):\n    y = x + 1\n    return called(y)", called=called)
    framelift.compile(function, backend="eager")(torch.ones(2))
    gc.collect()
    framelift.compile(function, backend="eager")(torch.ones(2))
    (table,) = [t for t in _core.tables_of(helper.__code__) if t.entries]
    assert table.hits == 1


def test_reset_forgets_all_entries() -> None:
    lifted = framelift.compile(fresh(PLAIN), backend="eager")
    lifted(torch.ones(2))
    framelift.reset()
    assert lifted.table.entries == []
    assert torch.equal(lifted(torch.ones(2)), torch.full((2,), 3.0))
