"""Changes of modules are seen."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import framelift
from tests.soundness.scenario import ANY, HIT, MISS, Scenarios, Steps, X, play

scenario = Scenarios()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("offset", torch.ones(4))
        self.scale = 2.0

    def forward(self, x: Any) -> Any:
        return self.lin(x).detach() * self.scale + self.offset


def call(net: Any, x: Any) -> Any:
    return net(x)


@scenario
def parameter_values_and_replacement() -> Steps:
    net = Net()
    yield call, (net, X)
    with torch.no_grad():
        net.lin.weight.add_(1)
    yield HIT
    net.lin.weight = nn.Parameter(torch.ones(4, 4))
    yield HIT
    net.lin.weight = nn.Parameter(torch.ones(4, 4), requires_grad=False)
    yield MISS
    net.lin.bias = None
    yield MISS


@scenario
def data_replaced() -> Steps:
    net = Net()
    yield call, (net, X)
    net.lin.weight.data = torch.ones(4, 4)
    yield HIT
    net.lin.weight.data, net.lin.bias.data = torch.ones(2, 4), torch.ones(2)
    net.offset = torch.ones(2)
    yield MISS
    net.double()
    yield MISS, (net, X.double())


@scenario
def requires_grad_of_a_parameter() -> Steps:
    def f(net: Any, x: Any) -> Any:
        y = net.lin(x)
        return y.detach(), y.requires_grad

    net = Net()
    yield f, (net, X)
    net.requires_grad_(False)
    yield MISS


@scenario
def train_and_eval() -> Steps:
    def f(net: Any, x: Any) -> Any:
        return x * 2 if net.training else x * 3

    net = Net()
    yield f, (net, X)
    net.eval()
    yield MISS
    net.train()
    yield HIT


@scenario
def training_of_a_submodule() -> Steps:
    net = nn.Sequential(nn.BatchNorm1d(4), nn.ReLU())
    yield (lambda net, x: net(x).detach()), (net.eval(), X.reshape(1, 4))
    net[0].train()
    yield MISS, (net, torch.arange(8.0).reshape(2, 4))


@scenario
def attribute_of_a_module() -> Steps:
    net = Net()
    yield call, (net, X)
    net.scale = 3.0
    yield MISS
    net.unrelated = 1
    yield HIT


@scenario
def submodule_replaced_and_added() -> Steps:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    yield (lambda net, x: net(x).detach()), (net, X)
    net[1] = nn.Tanh()
    yield MISS
    net.append(nn.Sigmoid())
    yield MISS
    del net[2]  # torch makes the table of modules anew, as an OrderedDict
    yield ANY


@scenario
def module_list_grown() -> Steps:
    class Stack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList([nn.ReLU()])
            self.named = nn.ModuleDict({"a": nn.Tanh()})

        def forward(self, x: Any) -> Any:
            for part in self.parts:
                x = part(x) + 1
            for name, part in self.named.items():
                x = part(x) * len(name)
            return x

    net = Stack()
    yield call, (net, X)
    net.parts.append(nn.Sigmoid())
    yield MISS
    net.named["bb"] = nn.ReLU()
    yield MISS


@scenario
def buffer_replaced() -> Steps:
    net = Net()
    yield call, (net, X)
    net.offset = torch.zeros(4)
    yield HIT
    net.offset = torch.zeros(1)
    yield MISS
    net.offset = None
    yield ANY


@scenario
def forward_monkeypatched() -> Steps:
    class Mine(Net):
        pass

    net = Mine()
    yield call, (net, X)
    Mine.forward = lambda self, x: x * 5
    yield MISS
    net.forward = lambda x: x * 6
    yield MISS


@scenario
def call_monkeypatched() -> Steps:
    class Mine(Net):
        pass

    net = Mine()
    yield call, (net, X)
    Mine.__call__ = lambda self, x: x * 5
    yield MISS


@scenario
def forward_hooks() -> Steps:
    """Row f."""
    net = Net()
    yield call, (net, X)
    handle = net.register_forward_hook(lambda module, args, result: result + 100)
    yield MISS
    inner = net.lin.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    yield MISS
    handle.remove()
    yield MISS
    inner.remove()
    yield HIT


@scenario
def global_forward_hooks() -> Steps:
    net = Net()
    yield call, (net, X)
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, result: result + 100)
    try:
        yield MISS
    finally:
        handle.remove()
    yield HIT
    handle = nn.modules.module.register_module_forward_pre_hook(lambda module, args: (args[0] * 2,))
    try:
        yield MISS
    finally:
        handle.remove()
    yield HIT


@scenario
def another_instance() -> Steps:
    yield call, (Net(), X)
    yield HIT, (Net(), X)
    other = Net()
    other.scale = 5.0
    yield MISS, (other, X)


@scenario
def shared_submodules() -> Steps:
    one = nn.Linear(4, 4)
    yield (lambda net, x: net(x).detach()), (nn.Sequential(one, nn.Linear(4, 4)), X)
    yield MISS, (nn.Sequential(one, one), X)


def test_a_lifted_module() -> None:
    """The module itself lifted, changed from outside."""
    net = Net()
    lifted = framelift.compile(net, backend="eager")
    torch.testing.assert_close(lifted(X), net(X))
    net.scale = 4.0
    torch.testing.assert_close(lifted(X), net(X))
    net.lin = nn.Linear(4, 4, bias=False)
    torch.testing.assert_close(lifted(X), net(X))
    net.register_forward_hook(lambda module, args, result: result + 100)
    torch.testing.assert_close(lifted(X), net(X))
    net.forward = lambda x: x * 6
    torch.testing.assert_close(lifted(X), net(X))
    net.__class__ = type("Other", (Net,), {"forward": lambda self, x: x * 7})
    del net.__dict__["forward"]
    torch.testing.assert_close(lifted(X), net(X))


@scenario.parametrize()
def test_change_is_seen(steps: Any, breaks: bool) -> None:
    play(steps, breaks)
