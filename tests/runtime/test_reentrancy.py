"""Lifted functions inside lifted functions, backends, hooks, and other tools that watch what runs."""

from __future__ import annotations

import bdb
import sys
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import framelift
from framelift.native import _core
from tests.helpers import check
from tests.helpers.record import Record

X = torch.linspace(-1, 1, 4)


@framelift.compile(backend="eager")
def inner(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def test_a_lifted_function_called_in_another_is_part_of_its_graph() -> None:
    def outer(x: torch.Tensor) -> torch.Tensor:
        return inner(x * 2) * 3

    checked = check(outer, X)
    assert "sin" in checked.graphs[0].code


def test_a_lifted_method_called_in_another_function() -> None:
    class Scaler:
        def __init__(self) -> None:
            self.n = 2

        @framelift.compile(backend="eager")
        def scale(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.n

    lifted = framelift.compile(lambda s, x: s.scale(x) + 1, backend="eager", fullgraph=True)
    scaler = Scaler()
    assert torch.equal(lifted(scaler, X), X * 2 + 1)
    scaler.n = 5
    assert torch.equal(lifted(scaler, X), X * 5 + 1)


def test_a_lifted_module_called_in_a_lifted_function() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    module = framelift.compile(net, backend="eager")
    lifted = framelift.compile(lambda x: module(x) + 1, backend="eager")
    record = Record()
    with record.listening():
        torch.testing.assert_close(lifted(X), net(X) + 1)
    assert record.failures == []
    net[1] = torch.nn.Tanh()
    torch.testing.assert_close(lifted(X), net(X) + 1)


def test_a_lifted_module_inside_a_lifted_module() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = framelift.compile(torch.nn.Linear(4, 4), backend="eager")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.part(x).relu()

    net = Net()
    torch.testing.assert_close(framelift.compile(net, backend="eager")(X), net(X))


def test_in_the_python_rest_of_another() -> None:
    def outer(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        framelift.graph_break()
        return inner(y) * 3

    check(outer, X, expect_breaks=None)


def test_in_a_compiled_graph_and_in_the_backend() -> None:
    def backend(graph_module: Any, example_inputs: Any) -> Any:
        before = inner(X)  # acts as its function while a capture is going on
        return lambda *args: [inner(result) + before * 0 for result in graph_module(*args)]

    lifted = framelift.compile(lambda x: x * 2, backend=backend)
    for _ in range(2):
        assert torch.equal(lifted(X), (X * 2).sin() + 1)


def test_a_backend_that_compiles_a_function() -> None:
    def backend(graph_module: Any, example_inputs: Any) -> Any:
        return framelift.compile(graph_module, backend="eager")

    lifted = framelift.compile(lambda x: x * 2 + 1, backend=backend)
    for _ in range(2):
        assert torch.equal(lifted(X), X * 2 + 1)


def test_in_a_module_hook_and_a_tensor_hook() -> None:
    net = torch.nn.Linear(4, 4)
    net.register_forward_hook(lambda module, args, result: inner(result))
    lifted = framelift.compile(net, backend="eager")
    torch.testing.assert_close(lifted(X), net(X))
    x = X.clone().requires_grad_()
    x.register_hook(lambda grad: inner(grad))
    framelift.compile(lambda x: (x * 2).sum(), backend="eager")(x).backward()
    assert torch.equal(x.grad, torch.full((4,), 2.0).sin() + 1)


def test_recursion_of_a_lifted_function() -> None:
    @framelift.compile(backend="eager")
    def count(x: torch.Tensor, n: int) -> torch.Tensor:
        return x if n == 0 else count(x + 1, n - 1)

    torch.testing.assert_close(count(X, 5), X + 5)


def test_lifting_something_lifted_is_lifting_its_function() -> None:
    again = framelift.compile(inner, backend="eager")
    assert again.__wrapped__ is inner.__wrapped__
    assert again.table is inner.table


# -- others who watch ------------------------------------------------------------------------------------------------


def test_vmap_grad_and_jvp() -> None:
    batch = torch.randn(3, 4)
    assert torch.equal(torch.func.vmap(inner)(batch), torch.stack([inner.__wrapped__(row) for row in batch]))
    gradient = torch.func.grad(lambda x: inner(x).sum())(X)
    torch.testing.assert_close(gradient, X.cos())
    _, tangent = torch.func.jvp(inner, (X,), (torch.ones(4),))
    torch.testing.assert_close(tangent, X.cos())


def test_vmap_after_and_before_a_plain_call() -> None:
    lifted = framelift.compile(lambda x: x * 2 + x.sum(), backend="eager")
    batch = torch.randn(3, 4)
    expected = torch.stack([row * 2 + row.sum() for row in batch])
    torch.testing.assert_close(torch.func.vmap(lifted)(batch), expected)
    lifted(batch[0])
    torch.testing.assert_close(torch.func.vmap(lifted)(batch), expected)
    torch.testing.assert_close(lifted(batch[0]), expected[0])


def test_under_a_fake_mode() -> None:
    inner(X)
    with FakeTensorMode() as mode:
        result = inner(mode.from_tensor(X))
    assert isinstance(result, FakeTensor) and result.shape == (4,)


def test_in_make_fx_and_symbolic_trace() -> None:
    traced = make_fx(inner)(X)
    assert "sin" in traced.code
    assert "sin" in torch.fx.symbolic_trace(lambda x: inner(x)).code
    assert torch.equal(traced(X), inner(X))


def test_in_torch_jit_trace() -> None:
    traced = torch.jit.trace(lambda x: inner(x) * 2, (X,))
    assert torch.equal(traced(X), inner(X) * 2)


def test_torch_export() -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return inner(x) * 2

    exported = torch.export.export(Net(), (X,), strict=False)
    assert torch.equal(exported.module()(X), inner(X) * 2)


@pytest.mark.parametrize("how", ["trace", "profile"])
def test_while_a_tracer_is_active(how: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        framelift.graph_break()
        return inner(y)

    lifted = framelift.compile(f, backend="eager")
    events: list[str] = []

    def tracer(frame: Any, event: str, arg: Any) -> Any:
        events.append(event)
        return tracer

    install = sys.settrace if how == "trace" else sys.setprofile
    before = sys.gettrace() if how == "trace" else sys.getprofile()
    install(tracer)
    try:
        results = [lifted(X), lifted(X)]
    finally:
        install(before)
    assert all(torch.equal(result, f(X)) for result in results)
    assert events
    assert torch.equal(lifted(X), f(X))


def test_under_a_debugger() -> None:
    class Debugger(bdb.Bdb):
        def user_line(self, frame: Any) -> None:
            lines.append(frame.f_code.co_name)
            self.set_step()

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1

    lines: list[str] = []
    lifted = framelift.compile(f, backend="eager")
    result = Debugger().runcall(lambda: lifted(X))
    assert torch.equal(result, f(X))
    assert torch.equal(lifted(X), f(X))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with 3.12")
def test_local_monitoring_events() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1

    monitoring = sys.monitoring  # type: ignore[attr-defined]
    lifted = framelift.compile(f, backend="eager")
    monitoring.use_tool_id(3, "test")
    try:
        monitoring.set_local_events(3, f.__code__, monitoring.events.LINE)
        assert torch.equal(lifted(X), f(X))
    finally:
        monitoring.set_local_events(3, f.__code__, 0)
        monitoring.free_tool_id(3)


# -- deep recursion --------------------------------------------------------------------------------------------------


def test_endless_recursion_is_a_recursion_error() -> None:
    @framelift.compile(backend="eager")
    def endless(x: torch.Tensor) -> torch.Tensor:
        return endless(x + 1)

    for _ in range(2):
        with pytest.raises(RecursionError):
            endless(X)
    assert not _core.is_suspended()
    assert torch.equal(inner(X), X.sin() + 1)


def test_endless_recursion_through_breaks() -> None:
    @framelift.compile(backend="eager")
    def endless(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        framelift.graph_break()
        return endless(y)

    with pytest.raises(RecursionError):
        endless(X)
    assert not _core.is_suspended()
    assert _core.hook_state()["users"] == 0
    assert torch.equal(inner(X), X.sin() + 1)


def test_a_deep_recursion_that_ends() -> None:
    def count(x: torch.Tensor, n: int) -> torch.Tensor:
        return x if n == 0 else count(x + 1, n - 1)

    lifted = framelift.compile(count, backend="eager")
    for n in (10, 200, 700):
        assert torch.equal(lifted(X, n), count(X, n))
