"""Lifted modules between calls: parts replaced, hooks added and removed, classes changed; and what their graphs say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import framelift
from tests.helpers import check
from tests.helpers.record import Record
from tests.test_modules_lifted import MLP, ROWS, TOKENS, Transformer, X

# -- what changes between calls must be seen -------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.act = nn.ReLU()
        self.scale = 2.0
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.linear(x)) * self.scale + self.shift


def replace_parameter(net: Any) -> None:
    net.linear.weight = nn.Parameter(torch.ones(4, 4))


def replace_data(net: Any) -> None:
    net.linear.weight.data = torch.ones(4, 4) * 3


def write_parameter(net: Any) -> None:
    with torch.no_grad():
        net.linear.weight.add_(1)


def drop_bias(net: Any) -> None:
    net.linear.bias = None


def replace_submodule(net: Any) -> None:
    net.act = nn.Tanh()


def replace_linear(net: Any) -> None:
    net.linear = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))


def change_attribute(net: Any) -> None:
    net.scale = 3.0


def change_attribute_type(net: Any) -> None:
    net.scale = torch.tensor(4.0)


def replace_buffer(net: Any) -> None:
    net.shift = torch.zeros(4)


def double(net: Any) -> None:
    net.double()


def freeze(net: Any) -> None:
    net.requires_grad_(False)


def patch_forward(net: Any) -> None:
    net.forward = lambda x: x * 7


def patch_submodule_forward(net: Any) -> None:
    net.act.forward = lambda x: x - 1


def pre_hook(net: Any) -> None:
    net.linear.register_forward_pre_hook(lambda module, args: (args[0] * 2,))


def post_hook(net: Any) -> None:
    net.register_forward_hook(lambda module, args, output: output + 10)


def kwargs_hook(net: Any) -> None:
    net.act.register_forward_hook(lambda module, args, kwargs, output: output + len(kwargs) + 1, with_kwargs=True)


def own_call(net: Any) -> None:
    class Other(type(net)):  # type: ignore[misc]
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * 5

    net.__class__ = Other


CHANGES = [
    replace_parameter,
    replace_data,
    write_parameter,
    drop_bias,
    replace_submodule,
    replace_linear,
    change_attribute,
    change_attribute_type,
    replace_buffer,
    double,
    freeze,
    patch_forward,
    patch_submodule_forward,
    pre_hook,
    post_hook,
    kwargs_hook,
    own_call,
]


@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_seen(change: Callable[[Any], None]) -> None:
    torch.manual_seed(0)
    net = Net()
    lifted = framelift.compile(net, backend="eager")
    x = X.clone()
    before = lifted(x)
    assert torch.equal(before, net(x))
    change(net)
    if change is double:
        x = x.double()
    for _ in range(2):
        actual, expected = lifted(x), net(x)
        assert torch.equal(actual, expected) and actual.dtype is expected.dtype
        assert actual.requires_grad == expected.requires_grad


def test_hooks_come_and_go() -> None:
    net, seen = Net(), []
    lifted = framelift.compile(net, backend="eager")
    plain = lifted(X)
    handle = net.act.register_forward_hook(lambda module, args, output: output * 0)
    assert torch.equal(lifted(X), net(X)) and not torch.equal(lifted(X), plain)
    handle.remove()
    assert torch.equal(lifted(X), plain)
    handle = net.register_forward_pre_hook(lambda module, args: seen.append(1))
    lifted(X)
    handle.remove()
    lifted(X)
    assert seen == [1]


def test_global_hooks() -> None:
    net = Net()
    lifted = framelift.compile(net, backend="eager")
    plain = lifted(X)
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, output: output + 1)
    try:
        assert torch.equal(lifted(X), net(X)) and not torch.equal(lifted(X), plain)
    finally:
        handle.remove()
    assert torch.equal(lifted(X), plain)


def test_backward_hooks() -> None:
    def gradients(call: Any, net: Any) -> Any:
        net.zero_grad()
        call(X).sum().backward()
        return [parameter.grad.clone() for parameter in net.parameters()]

    net = Net()
    lifted = framelift.compile(net, backend="eager")
    expected = gradients(net, net)
    assert all(map(torch.equal, gradients(lifted, net), expected))
    seen: list[int] = []
    net.linear.register_full_backward_hook(lambda module, grad_in, grad_out: seen.append(1))
    assert all(map(torch.equal, gradients(lifted, net), expected)) and seen == [1]


def test_classes_do_not_share_entries() -> None:
    class A(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    class B(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 2

    a, b = framelift.compile(A(), backend="eager"), framelift.compile(B(), backend="eager")
    assert torch.equal(a(X), X + 1) and torch.equal(b(X), X + 2)
    one, two = a._framelift_call.__func__, b._framelift_call.__func__
    assert one.__wrapped__.__code__ is not two.__wrapped__.__code__
    assert one.__qualname__.endswith("A.__call__")


def test_two_models_of_one_class() -> None:
    one, two = Net(), Net()
    two.linear = nn.Linear(4, 4, bias=False)
    lifted = [framelift.compile(net, backend="eager") for net in (one, two)]
    for _ in range(2):
        for net, call in zip((one, two), lifted, strict=True):
            assert torch.equal(call(X), net(X))


class Keywords(nn.Module):
    def forward(self, x: torch.Tensor, *, scale: float = 1.0, **rest: Any) -> torch.Tensor:
        for value in rest.values():
            x = x + value
        return x * scale


def test_keyword_arguments() -> None:
    net = Keywords()
    lifted = framelift.compile(net, backend="eager", fullgraph=True)
    for kwargs in ({}, {"scale": 2.0}, {"scale": 2.0, "a": X, "b": 3}, {"b": X}):
        assert torch.equal(lifted(X, **kwargs), net(X, **kwargs))


class OwnCall(nn.Module):
    def __call__(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return super().__call__(x * 2) + 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin()


def test_own_call() -> None:
    check(OwnCall(), X, fullgraph=True)


def test_function_that_calls_modules() -> None:
    one, two = nn.Linear(4, 4), Net()

    def function(x: torch.Tensor) -> torch.Tensor:
        return two.forward(one(x)) + two.linear.weight.sum() + one.bias

    check(function, X, fullgraph=True)


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU())])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name, layer in self.layers.named_children():
            x = layer(x) + len(name)
        for parameter in self.parameters():
            x = x + parameter.sum()
        return x + sum(p.numel() for _, p in self.named_parameters())


def test_walks_over_a_module() -> None:
    check(Inner(), X, expect_breaks=None)


def test_module_attributes_set_in_forward() -> None:
    class Storing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("state", torch.zeros(4))
            self.seen = None
            self.steps = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen = x * 2
            self.state = self.state + x[0, 0]
            self.steps += 1
            return self.seen + self.state

    eager, lifted = Storing(), Storing()
    call = framelift.compile(lifted, backend="eager", fullgraph=True)
    for _ in range(3):
        assert torch.equal(call(X), eager(X))
    assert torch.equal(eager.state, lifted.state) and torch.equal(eager.seen, lifted.seen)
    assert lifted.steps == 3 and "state" in lifted.state_dict() and "state" not in vars(lifted)


# -- what the graph says ------------------------------------------------------------------------------------------


def graph_of(module: Any, *args: Any) -> Any:
    record = Record()
    framelift.reset()
    with record.listening():
        framelift.compile(module, backend="eager", fullgraph=True)(*args)
    (graph,) = record.graphs
    return graph.graph


def test_names_and_module_stacks() -> None:
    graph = graph_of(MLP(), ROWS)
    names = [node.name for node in graph.nodes if node.op == "placeholder"]
    assert "l_self_layers_0_weight" in names and "l_self_first_bias" in names
    assert names == [node.name for node in graph_of(MLP(), ROWS).nodes if node.op == "placeholder"]
    calls = [node for node in graph.nodes if node.op.startswith("call")]
    for node in calls:
        assert "example_value" in node.meta and "source_fn_stack" in node.meta
        assert "test_modules_lifted.py" in node.meta["stack_trace"]
        assert any(cls.endswith("MLP") for _, cls in node.meta["nn_module_stack"].values())
    linear = [node for node in calls if node.target is torch._C._nn.linear]
    paths = [list(node.meta["nn_module_stack"].values())[-1][0] for node in linear]
    assert paths == ["first", "layers.0", "layers.1", "layers.2", "last"]


def test_tied_weights_are_one_input() -> None:
    graph = graph_of(Transformer(), TOKENS)
    names = [node.name for node in graph.nodes if node.op == "placeholder"]
    assert sum("embed" in name or "head_weight" in name for name in names) == 1


def test_a_class_given_to_the_lifted_module_is_the_originals() -> None:
    class Other(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * 5

    net = Net()
    lifted = framelift.compile(net, backend="eager")
    lifted(X)
    lifted.__class__ = Other
    assert type(net) is Other and isinstance(lifted, Other)
    assert torch.equal(lifted(X), net(X)) and torch.equal(lifted.forward(X), net.forward(X))
    assert framelift.counters().captures == 3


def test_called_by_its_class() -> None:
    lifted = framelift.compile(Net(), backend="eager")
    assert torch.equal(type(lifted).__call__(lifted, X), lifted(X))
    assert framelift.counters().captures == 1

    def calls(x: torch.Tensor) -> torch.Tensor:
        return type(lifted).__call__(lifted, x) + 1

    assert torch.equal(framelift.compile(calls, backend="eager", fullgraph=True)(X), lifted(X) + 1)
