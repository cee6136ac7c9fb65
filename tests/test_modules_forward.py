"""`lifted.forward` is lifted by itself: it means what eager means by it, the method without hooks."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import pickle
import weakref
from typing import Any

import pytest
import torch
from torch import nn

import framelift
from tests.helpers import transcript

X = torch.ones(2)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.scale = 2

    def forward(self, x: torch.Tensor, *, bias: float = 0.0) -> torch.Tensor:
        """The forward of Net."""
        return self.linear(x) * self.scale + bias

    def generate(self, x: torch.Tensor) -> torch.Tensor:
        return self.forward(x) + 1


def lift(module: nn.Module, **options: Any) -> Any:
    return framelift.compile(module, **{"backend": "eager", **options})


def captures() -> int:
    return framelift.counters().captures


def test_is_lifted() -> None:
    net = Net()
    lifted = lift(net, fullgraph=True)
    for bias in (0.0, 1.0, 1.0):
        assert torch.equal(lifted.forward(X, bias=bias), net.forward(X, bias=bias))
    assert captures() == 2
    assert transcript(lifted.forward, [(torch.ones(3, 2),), (torch.ones(3, 2),)]) == "miss hit"


def test_runs_no_hooks() -> None:
    net = Net()
    lifted = lift(net)
    seen: list[str] = []
    net.register_forward_pre_hook(lambda module, args: seen.append("before"))
    net.register_forward_hook(lambda module, args, output: seen.append("after"))
    assert torch.equal(lifted.forward(X), net.forward(X))
    assert seen == [] and captures() == 1
    lifted(X)
    assert seen == ["before", "after"]


def test_what_is_below_has_its_hooks() -> None:
    net = Net()
    lifted = lift(net)
    net.linear.register_forward_hook(lambda module, args, output: output + 10)
    assert torch.equal(lifted.forward(X), net.forward(X))


def test_gradients() -> None:
    net, other = Net(), Net()
    other.load_state_dict(net.state_dict())
    lift(net, backend="aot_eager").forward(X).sum().backward()
    other.forward(X).sum().backward()
    assert torch.equal(net.linear.weight.grad, other.linear.weight.grad)


def test_tells_what_the_method_is() -> None:
    net = Net()
    forward = lift(net).forward
    assert inspect.signature(forward) == inspect.signature(net.forward)
    assert forward.__name__ == "forward" and forward.__doc__ == "The forward of Net."
    assert forward.__self__ is net
    assert type(lift(net)).forward is Net.forward


def test_is_made_once() -> None:
    lifted = lift(Net())
    assert lifted.forward is lifted.forward
    assert lift(lifted._orig_mod).forward.__func__.table is lifted.forward.__func__.table


def test_methods_of_the_module_call_the_lifted_one() -> None:
    net = Net()
    lifted = lift(net, fullgraph=True)
    assert torch.equal(lifted.generate(X), net.generate(X))
    assert captures() == 1


@pytest.mark.parametrize("side", ["original", "lifted"])
def test_patched_on_the_instance(side: str) -> None:
    net = Net()
    lifted = lift(net)
    lifted.forward(X)
    target = net if side == "original" else lifted
    target.forward = lambda x: x * 7
    assert "forward" in net.__dict__
    assert torch.equal(net.forward(X), X * 7)
    assert torch.equal(lifted.forward(X), X * 7) and torch.equal(lifted(X), X * 7)
    assert captures() == 3
    del target.forward
    assert torch.equal(lifted.forward(X), net.forward(X))
    assert captures() == 3


def test_patched_with_a_method_of_another_object() -> None:
    net, other = Net(), Net()
    lifted = lift(net)
    lifted.forward = other.forward
    assert torch.equal(lifted.forward(X), other.forward(X))
    other = Net()
    lifted.forward = other.forward
    assert torch.equal(lifted.forward(X), other.forward(X))


def test_patched_in_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    lifted = lift(net)
    lifted.forward(X)
    monkeypatch.setattr(Net, "forward", lambda self, x: x - self.scale)
    assert torch.equal(lifted.forward(X), X - 2)


@pytest.mark.parametrize("made", ["partial", "partialmethod", "static", "class", "object", "lifted"])
def test_forwards_of_other_kinds(made: str) -> None:
    def plain(x: torch.Tensor, more: int = 1) -> torch.Tensor:
        return x + more

    class Adder:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x + 3

    class Odd(nn.Module):
        scale = 4

        def scaled(self, x: torch.Tensor, more: int = 1) -> torch.Tensor:
            return x * self.scale + more

    net = Odd()
    if made == "partial":
        net.forward = functools.partial(plain, more=2)  # type: ignore[method-assign]
    elif made == "partialmethod":
        Odd.forward = functools.partialmethod(Odd.scaled, more=2)  # type: ignore[assignment]
    elif made == "static":
        Odd.forward = staticmethod(plain)  # type: ignore[assignment]
    elif made == "class":
        Odd.forward = classmethod(Odd.scaled)  # type: ignore[assignment,arg-type]
    elif made == "object":
        net.forward = Adder()  # type: ignore[method-assign]
    else:
        net.forward = framelift.compile(plain, backend="eager")
    lifted = lift(net, fullgraph=True)
    for _ in range(3):
        assert torch.equal(lifted.forward(X), net.forward(X))
    assert captures() == (2 if made == "lifted" else 1)


def test_a_forward_that_is_missing() -> None:
    net = nn.Module()
    with pytest.raises(NotImplementedError) as eager:
        net.forward(X)
    with pytest.raises(NotImplementedError) as lifted:
        lift(net).forward(X)
    assert str(lifted.value) == str(eager.value)


class Slotted(nn.Module):
    __slots__ = ("inner",)

    def __init__(self) -> None:
        super().__init__()
        self.inner = 3

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.inner


def test_a_class_with_slots() -> None:
    assert torch.equal(lift(Slotted(), fullgraph=True).forward(X), X * 3)
    assert captures() == 1


def test_a_lazy_module_becomes_another_class() -> None:
    lifted = lift(nn.LazyLinear(3))
    lifted(X)
    assert torch.equal(lifted.forward(X), lifted._orig_mod.forward(X))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda lifted: pickle.loads(pickle.dumps(lifted))])
def test_copies(copied: Any) -> None:
    net = Net()
    lifted = lift(net)
    lifted.forward(X)
    other = copied(lifted)
    other.scale = 5
    assert other.forward.__self__ is other._orig_mod
    assert torch.equal(other.forward(X), other._orig_mod.forward(X))
    assert not torch.equal(other.forward(X), net.forward(X))


def test_within_lifted_code() -> None:
    net = Net()
    seen: list[int] = []
    net.register_forward_hook(lambda module, args, output: seen.append(1))
    lifted = lift(net)

    @framelift.compile(backend="eager", fullgraph=True)
    def function(x: torch.Tensor) -> torch.Tensor:
        return lifted.forward(x) + 1

    for _ in range(2):
        assert torch.equal(function(X), net.forward(X) + 1)
    assert seen == [] and captures() == 1
    net.forward = lambda x: x * 3  # type: ignore[method-assign]
    assert torch.equal(function(X), X * 3 + 1)


@pytest.mark.parametrize("recursive", [True, False])
def test_of_a_disabled_module_runs_in_python(recursive: bool) -> None:
    net = Net()
    disabled = framelift.disable(net, recursive=recursive)
    assert torch.equal(disabled.forward(X), net.forward(X)) and captures() == 0
    assert inspect.signature(disabled.forward) == inspect.signature(net.forward)
    breaking = framelift.compile(lambda x: disabled.forward(x) + 1, backend="eager")
    assert torch.equal(breaking(X), net.forward(X) + 1)
    assert framelift.counters().breaks
    # The original itself is still lifted.
    whole = framelift.compile(lambda x: net.forward(x) + 1, backend="eager", fullgraph=True)
    assert torch.equal(whole(X), net.forward(X) + 1)


def test_keeps_no_module_alive() -> None:
    net = Net()
    lifted = lift(net)
    lifted.forward(X)
    watched = weakref.ref(net)
    del net, lifted
    gc.collect()
    assert watched() is None
