"""torch's own compilers around lifted callables: torch.compile, TorchScript and FX trace the function itself."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch.utils.checkpoint import checkpoint

import framelift
from framelift.modules import LiftedModule
from tests.helpers import check

X = torch.tensor([0.5, 2.0])


def plain(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + 6

    @framelift.compile(backend="eager")
    def lifted_method(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


class Plain:
    factor = 3

    def method(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor

    @framelift.compile(backend="eager")
    def lifted_method(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


class Slotted(Net):
    __slots__ = ("factor",)

    def __init__(self) -> None:
        super().__init__()
        self.factor = 3

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * self.factor


class OwnCall(Net):
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return super().__call__(x) * 4


OWN_CALL = OwnCall()
NET, OBJECT, HOOKED, SLOTTED, IN_PLACE = Net(), Plain(), Net(), Slotted(), Net()
IN_PLACE.load_state_dict(NET.state_dict())
HOOKED.register_forward_hook(lambda module, args, output: output * 2)
with framelift.patch_torch():
    IN_PLACE.compile(backend="eager")
lifted = framelift.compile(plain, backend="eager")
lifted_net = framelift.compile(NET, backend="eager")
lifted_hooked = framelift.compile(HOOKED, backend="eager")
lifted_own_call = framelift.compile(OWN_CALL, backend="eager")
lifted_slotted = framelift.compile(SLOTTED, backend="eager")
lifted_outer = framelift.compile(nn.Sequential(lifted_net, NET), backend="eager")
bound = framelift.compile(OBJECT.method, backend="eager")
builtin = framelift.compile(torch.sin, backend="eager")
partial = framelift.compile(functools.partial(torch.mul, X), backend="eager")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


# -- torch.compile ---------------------------------------------------------------------------------------------------

# Callables that torch.compile is given, and what they do.
WHOLE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "function": (lifted, plain),
    "called": (lambda x: lifted(x) - 1, lambda x: plain(x) - 1),
    "method": (lambda x: OBJECT.lifted_method(x) + 1, lambda x: x * 3 + 1),
    "bound method": (lambda x: bound(x) + 1, lambda x: x * 3 + 1),
    "builtin": (builtin, torch.sin),
    "builtin called": (lambda x: builtin(x) + 1, lambda x: x.sin() + 1),
    "partial called": (lambda x: partial(x) + 1, lambda x: x * X + 1),
    "module": (lifted_net, NET),
    "method of a module": (lambda x: NET.lifted_method(x) + 1, lambda x: NET.linear(x) + 1),
    "forward": (lambda x: lifted_net.forward(x) + 1, lambda x: NET(x) + 1),
    "module called": (lambda x: lifted_net(x) + 1, lambda x: NET(x) + 1),
    "modules in a row": (nn.Sequential(lifted_net, lifted_net), nn.Sequential(NET, NET)),
    "module within a lifted one": (lambda x: lifted_outer(x) + 1, lambda x: NET(NET(x)) + 1),
    "module with a hook": (lambda x: lifted_hooked(x) + 1, lambda x: HOOKED(x) + 1),
    "module with slots": (lambda x: lifted_slotted(x) + 1, lambda x: SLOTTED(x) + 1),
    "module compiled in place": (lambda x: IN_PLACE(x) + 1, lambda x: NET(x) + 1),
    "module in vmap": (lambda x: torch.vmap(lifted_net)(x.repeat(3, 1)), lambda x: NET(x.repeat(3, 1))),
    "function in vmap": (lambda x: torch.vmap(lifted)(x), plain),
    "function in grad": (lambda x: torch.func.grad(lambda y: lifted(y).sum())(x), lambda x: torch.full_like(x, 2)),
    "checkpoint": (lambda x: checkpoint(lifted_net, x, use_reentrant=False), NET),
    "cond": (lambda x: torch.cond(x.sum() > 0, lifted, builtin, (x,)), plain),
    "in map": (lambda x: list(map(lifted, [x, x]))[1], plain),
}


@pytest.mark.parametrize("name", WHOLE)
def test_torch_compiles_the_function(name: str) -> None:
    outer, expected = WHOLE[name]
    counter = CompileCounter()
    compiled = torch.compile(outer, backend=counter, fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(X), expected(X))
    assert counter.frame_count == 1
    assert framelift.counters().captures == 0


def _broken(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    print(end="")
    return y * 2


# Where torch.compile does not see through: it breaks there, and what is lifted runs lifted.
BROKEN: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "bound method itself": (bound, OBJECT.method),
    "module with a break": (lambda x: lifted_breaking(x) + 1, lambda x: _broken(x) + 1),
}


class Breaking(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _broken(x)


lifted_breaking = framelift.compile(Breaking(), backend="eager")


@pytest.mark.parametrize("name", BROKEN)
def test_torch_does_not_compile_framelift(name: str, recwarn: pytest.WarningsRecorder) -> None:
    outer, expected = BROKEN[name]
    counter = CompileCounter()
    frames: list[str] = []

    def backend(graph_module: Any, inputs: Any) -> Any:
        frames.extend(node.stack_trace or "" for node in graph_module.graph.nodes)
        return counter(graph_module, inputs)

    compiled = torch.compile(outer, backend=backend)
    for _ in range(2):
        assert torch.equal(compiled(X), expected(X))
    assert not [frame for frame in frames if "src/framelift" in frame]
    assert framelift.counters().captured and not framelift.counters().failures
    assert not [warning for warning in recwarn if "framelift" in str(warning.message)]


class Holding(nn.Module):
    """A module that has a lifted one."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.weight = nn.Parameter(torch.tensor([2.0, 3.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x * self.weight)


# Modules that torch's compilers are given, and what they do.
HOLDING: dict[str, tuple[nn.Module, nn.Module]] = {
    "in a sequence": (nn.Sequential(lifted_net, nn.ReLU()), nn.Sequential(NET, nn.ReLU())),
    "in a module": (Holding(lifted_net), Holding(NET)),
    "with a hook": (Holding(lifted_hooked), Holding(HOOKED)),
    "with a call of its own": (Holding(lifted_own_call), Holding(OWN_CALL)),
    "with slots": (Holding(lifted_slotted), Holding(SLOTTED)),
    "one within another": (Holding(framelift.compile(Holding(lifted_net), backend="eager")), Holding(Holding(NET))),
    "a leaf": (Holding(framelift.compile(NET.linear, backend="eager")), Holding(NET.linear)),
    "twice": (nn.Sequential(lifted_net, lifted_net), nn.Sequential(NET, NET)),
    "with its original": (nn.Sequential(lifted_net, NET), nn.Sequential(NET, NET)),
    "itself": (lifted_net, NET),
    "compiled in place": (Holding(IN_PLACE), Holding(NET)),
}


@pytest.mark.parametrize("name", HOLDING)
def test_torch_compiles_the_module(name: str) -> None:
    holding, expected = HOLDING[name]
    counter = CompileCounter()
    assert torch.equal(torch.compile(holding, backend=counter, fullgraph=True)(X), expected(X))
    assert counter.frame_count == 1 and framelift.counters().captures == 0


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", HOLDING)
def test_torch_exports_the_module(name: str, strict: bool) -> None:
    holding, expected = HOLDING[name]
    exported = torch.export.export(holding, (X,), strict=strict)
    assert torch.equal(exported.module()(X), expected(X))
    assert [*exported.state_dict] == [*torch.export.export(expected, (X,), strict=strict).state_dict]
    assert framelift.counters().captures == 0


def test_a_lazy_module() -> None:
    """It gets another class in the midst of its first call, which torch.compile follows up to 2.14 and then breaks."""
    torch.manual_seed(0)
    lazy = framelift.compile(nn.LazyLinear(3), backend="eager")
    compiled = torch.compile(lambda x: lazy(x) + 1, backend="eager")
    results = [compiled(X) for _ in range(2)]
    assert type(lazy._orig_mod) is nn.Linear and type(lazy) is not nn.LazyLinear
    assert all(torch.equal(result, nn.functional.linear(X, lazy.weight, lazy.bias) + 1) for result in results)


def test_a_disabled_module_is_not_taken_apart() -> None:
    """Somebody said that it is for Python."""
    disabled = framelift.disable(NET)
    counter = CompileCounter()
    compiled = torch.compile(lambda x: disabled(x + 1) + 1, backend=counter)
    assert torch.equal(compiled(X), NET(X + 1) + 1)
    assert counter.frame_count > 1


def test_a_compiled_function_that_is_lifted_is_not_changed() -> None:
    compiled = torch.compile(plain, backend="eager")
    assert torch.equal(framelift.compile(compiled, backend="eager")(X), plain(X))


# -- TorchScript -----------------------------------------------------------------------------------------------------


def test_script_of_a_function() -> None:
    scripted = torch.jit.script(lifted)
    assert isinstance(scripted, torch.jit.ScriptFunction)
    assert torch.equal(scripted(X), plain(X))


def test_script_of_a_function_that_calls_a_lifted_one() -> None:
    def outer(x: torch.Tensor) -> torch.Tensor:
        return lifted(x) + 1

    assert torch.equal(torch.jit.script(outer)(X), plain(X) + 1)


def test_script_of_a_module() -> None:
    net = framelift.compile(Net(), backend="eager")
    scripted = torch.jit.script(net)
    assert isinstance(scripted, torch.jit.ScriptModule)
    assert torch.equal(scripted(X), net(X))


def test_script_of_a_module_that_has_a_lifted_one() -> None:
    outer = nn.Sequential(framelift.compile(nn.Linear(2, 2), backend="eager"), nn.ReLU())
    scripted = torch.jit.script(outer)
    assert torch.equal(scripted(X), outer(X))
    assert isinstance(outer[0], LiftedModule)


def test_trace() -> None:
    assert torch.equal(torch.jit.trace(lifted, X)(X), plain(X))
    assert torch.equal(torch.jit.trace(lifted_net, X)(X), NET(X))


# -- FX --------------------------------------------------------------------------------------------------------------


def _keywords(x: torch.Tensor, *more: torch.Tensor, scale: int = 2, **others: Any) -> torch.Tensor:
    return x * scale


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (lifted, plain),
        (lambda x: lifted(x) + 1, lambda x: plain(x) + 1),
        (lambda x: bound(x) + 1, lambda x: x * 3 + 1),
        (lambda x: builtin(x) + 1, lambda x: x.sin() + 1),
        (lifted_net, NET),
    ],
    ids=["function", "called", "method", "builtin", "module"],
)
def test_symbolic_trace(given: Any, expected: Any) -> None:
    traced = torch.fx.symbolic_trace(given)
    assert torch.equal(traced(X), expected(X))
    targets = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert not [target for target in targets if isinstance(target, framelift.native._core.Lifted)]
    assert framelift.counters().captures == 0


@pytest.mark.parametrize("name", HOLDING)
def test_symbolic_trace_of_a_module(name: str) -> None:
    holding, expected = HOLDING[name]
    traced = torch.fx.symbolic_trace(holding)
    assert traced.code == torch.fx.symbolic_trace(expected).code
    assert torch.equal(traced(X), expected(X))


def test_a_leaf_of_a_traced_module_stays_lifted() -> None:
    traced = torch.fx.symbolic_trace(Holding(framelift.compile(nn.Linear(2, 2), backend="eager")))
    traced(X)
    assert isinstance(traced.inner, LiftedModule) and framelift.counters().captures == 1


def test_a_call_of_modules_that_the_program_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is part of what is captured."""
    called: list[str] = []
    usual = nn.Module.__call__

    def replaced(self: nn.Module, *args: Any) -> Any:
        called.append(type(self).__name__)
        return usual(self, *args) + 1

    monkeypatch.setattr(nn.Module, "__call__", replaced)
    expected = NET(X)
    for _ in range(2):
        assert torch.equal(lifted_net(X), expected)
    assert called == ["Net", "Linear"] * 3
    assert framelift.counters().captures == 1 and not framelift.counters().eager


def test_symbolic_trace_of_an_odd_signature() -> None:
    traced = torch.fx.symbolic_trace(framelift.compile(_keywords, backend="eager"))
    assert traced.code == torch.fx.symbolic_trace(_keywords).code


# -- a function for whoever asks ---------------------------------------------------------------------------------------


def test_is_a_function() -> None:
    assert isinstance(lifted, types.FunctionType) and inspect.isfunction(lifted)
    assert isinstance(lifted, framelift.native._core.Lifted)
    assert inspect.getsource(lifted) == inspect.getsource(plain)
    assert inspect.signature(lifted) == inspect.signature(plain)


def test_is_a_function_in_lifted_code() -> None:
    def asks(x: torch.Tensor) -> Any:
        return x + 1, isinstance(lifted, types.FunctionType), isinstance(lifted, type(X)), callable(lifted)

    check(asks, X)


def test_asked_by_inspect_in_lifted_code() -> None:
    def asks(x: torch.Tensor) -> Any:
        return x + 1, inspect.isfunction(lifted), inspect.ismethod(lifted), inspect.isroutine(bound)

    check(asks, X, expect_breaks=None)


def test_lifted_from_its_method() -> None:
    graph_module, _ = framelift.export(OBJECT.lifted_method, X)
    assert torch.equal(graph_module(X), X * 3)
