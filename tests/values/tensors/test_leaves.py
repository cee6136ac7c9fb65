"""Parameters, modules and leaves that the program makes: made before the graph runs, filled by it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import framelift
from tests.helpers import check, transcript

X = torch.arange(12.0).reshape(3, 4) / 7 - 0.5
BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


def made(kind: Any, *args: Any, **kwargs: Any) -> Any:
    def use(x: torch.Tensor) -> Any:
        module = kind(*args, **kwargs)
        return module(x), module

    return use


def shares_data(x: torch.Tensor) -> Any:
    data = torch.zeros(4)
    parameter = nn.Parameter(data)
    data.add_(1)
    return parameter * x, data, parameter


def writes_to_the_memory_of_an_input(x: torch.Tensor) -> Any:
    parameter = nn.Parameter(x)
    x.add_(1)
    return parameter * 2, parameter


def identities(x: torch.Tensor) -> Any:
    p, q = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(4))
    known = {p: 1, q: 2}
    return x + p, p is q, p is x, known[p], known[q], isinstance(p, nn.Parameter), type(p), p.grad, p.is_leaf


def initialised(x: torch.Tensor) -> Any:
    layer = nn.Linear(4, 3)
    nn.init.normal_(layer.weight)
    layer.bias.data.fill_(3.0)
    return layer(x), dict(layer.named_parameters())


def with_a_loss(x: torch.Tensor) -> Any:
    layer = nn.Linear(4, 3)
    return F.cross_entropy(layer(x), torch.tensor([0, 1, 2])), layer


def random_order(x: torch.Tensor) -> Any:
    before = torch.rand(2)
    layer = nn.Linear(4, 4)
    return before, layer(x), torch.rand(2)


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.scale = nn.Parameter(torch.ones(width), requires_grad=False)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = F.relu(layer(x))
        self.seen += 1
        return x * self.scale


PROGRAMS: dict[str, Any] = {
    "linear": made(nn.Linear, 4, 5),
    "convolution": made(nn.Conv1d, 3, 5, 1),
    "normalisation": made(nn.BatchNorm1d, 4),
    "layers": lambda x: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Dropout(0.5), nn.LayerNorm(5))(x),
    "recurrent": lambda x: nn.GRU(4, 3)(x),
    "embedding": lambda x: nn.Embedding(5, 4)(torch.tensor([1, 2, 3])) + x,
    "a module of one's own": made(Net, 4),
    "a parameter": lambda x: nn.Parameter(torch.zeros(4)) + x,
    "a parameter without gradients": lambda x: nn.Parameter(torch.ones(4), requires_grad=False) * x,
    "shared data": shares_data,
    "in the memory of an input": lambda x: (nn.Parameter(x) * 2).sum(),
    "identities": identities,
    "initialised": initialised,
    "with a loss": with_a_loss,
    "order of random numbers": random_order,
    "requires_grad=True": lambda x: (torch.ones(4, requires_grad=True) * x).sum(),
    "random numbers that require gradients": lambda x: (torch.randn(4, requires_grad=True) * x).sum(),
    "requires_grad_": lambda x: ((x * 2).requires_grad_() ** 2).sum(),
    "requires_grad_ of a detached input": lambda x: (x.detach().requires_grad_() ** 2).sum(),
    "sizes of an input": lambda x: nn.Linear(x.shape[1], x.shape[0])(x),
}


@BACKENDS
@pytest.mark.parametrize("name", PROGRAMS)
def test_in_one_graph(name: str, backend: str) -> None:
    assert len(check(PROGRAMS[name], X, backend=backend).graphs) == 1


def test_an_lstm_in_one_graph() -> None:
    assert len(check(lambda x: nn.LSTM(4, 3)(x), X, backend="eager").graphs) == 1


def undone_leaf(x: torch.Tensor) -> Any:
    def parts() -> Any:
        leaf = x.detach().clone().requires_grad_()
        framelift.graph_break()
        yield leaf * 3

    y = x * 2
    return y, next(parts())


def undone_parameter(x: torch.Tensor) -> Any:
    def parts() -> Any:
        leaf = nn.Parameter(torch.zeros(4))
        framelift.graph_break()
        yield leaf * x

    y = x * 2
    return y, next(parts())


@BACKENDS
@pytest.mark.parametrize("function", [undone_leaf, undone_parameter])
def test_making_that_is_undone_at_a_break(function: Any, backend: str) -> None:
    """A generator goes back to where it was entered: what it made is no leaf of the graph before."""
    check(function, X, backend=backend, expect_breaks=1)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_an_lstm_that_aot_autograd_does_not_differentiate(backend: str) -> None:
    """On the CPU AOTAutograd traces a layer of oneDNN whose backward it cannot run (torch.compile raises): autograd
    does it."""

    def forward(layer: Any, x: torch.Tensor) -> Any:
        output, _ = layer(x)
        return output

    results = []
    for function in (forward, framelift.compile(forward, backend=backend)):
        torch.manual_seed(3)
        layer = nn.LSTM(4, 3)
        output = function(layer, X.clone())
        output.sum().backward()
        results.append([output, *[parameter.grad for parameter in layer.parameters()]])
    assert all(map(torch.equal, *results))
    counts = framelift.counters()
    assert counts.captured == 1 and not counts.eager and not counts.failures


@BACKENDS
@pytest.mark.parametrize("name", ["linear", "a module of one's own", "shared data", "with a loss"])
def test_gradients_of_what_was_made(name: str, backend: str) -> None:
    results = []
    for function in (PROGRAMS[name], framelift.compile(PROGRAMS[name], backend=backend, fullgraph=True)):
        torch.manual_seed(3)
        output, *rest = function(X.clone())
        output.sum().backward()
        parameters = [
            *[p for m in rest if isinstance(m, nn.Module) for p in m.parameters()],
            *[p for p in rest if isinstance(p, nn.Parameter)],
        ]
        results.append([p.grad for p in parameters])
    assert results[0] and all((a is None and b is None) or torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_every_call_makes_new_ones() -> None:
    lifted = framelift.compile(made(nn.Linear, 4, 5), backend="eager", fullgraph=True)
    (_, one), (_, two) = lifted(X), lifted(X)
    assert one.weight is not two.weight and not torch.equal(one.weight, two.weight)
    assert transcript(made(nn.Linear, 4, 5), [(X,), (X,), (X + 1,)]) == "miss hit hit"


def test_a_module_made_before_a_break() -> None:
    def fn(x: torch.Tensor) -> Any:
        layer = nn.Linear(4, 4)
        y = layer(x)
        framelift.graph_break()
        return layer(y), layer

    assert len(check(fn, X, expect_breaks=1).graphs) == 2


def freezes(x: torch.Tensor, module: nn.Module) -> Any:
    for parameter in module.parameters():
        parameter.requires_grad = False
    return module(x), module


def freezes_for_a_while(x: torch.Tensor, module: nn.Module) -> Any:
    module.requires_grad_(False)
    frozen = module(x)
    module.requires_grad_(True)
    return frozen + module(x)


@BACKENDS
@pytest.mark.parametrize("fn", [freezes, freezes_for_a_while])
def test_freezing(fn: Any, backend: str) -> None:
    check(fn, X.clone().requires_grad_(), nn.Linear(4, 2), backend=backend)
    check(fn, X, nn.Linear(4, 2), backend=backend)


def detaches(x: torch.Tensor) -> Any:
    y = x * 2
    z = y + 1
    y.detach_()
    return y + 1, z, y


@BACKENDS
def test_detach_in_place(backend: str) -> None:
    check(detaches, X.clone().requires_grad_(), backend=backend)
    check(lambda x: x.detach_() + 1, X.clone(), backend=backend)


# What Python does itself.
BREAKS: dict[str, Any] = {
    "requires_grad_ of an input": lambda x: (x.requires_grad_() * 2).sum(),
    "requires_grad_ of a view": lambda x: ((x + 1)[0].requires_grad_() * 2).sum(),
    "requires_grad_ of integers": lambda x: (x + 1).long().requires_grad_(),
    "in inference mode": torch.inference_mode()(lambda x: nn.Parameter(torch.ones(4)) * x),
    "a parameter of a part": lambda x: nn.Parameter((x + 1)[0]) * 2,
    "in a branch": lambda x: torch.cond(x.sum() > 0, lambda a: a * nn.Parameter(torch.ones(4)), lambda a: a + 1, (x,)),
    "writes to the memory of an input": writes_to_the_memory_of_an_input,
    "attributes": lambda x: setattr(nn.Parameter(x + 1), "tag", 1),
    "data of a tensor with gradients": lambda x: nn.Parameter(nn.Parameter(torch.ones(4)) * 2) + x,
}


@pytest.mark.parametrize("name", BREAKS)
def test_left_to_python(name: str) -> None:
    assert check(BREAKS[name], X, expect_breaks=None, expect_ops=0).record.breaks


def test_undone_where_an_instruction_breaks() -> None:
    kept = []

    def key(x: torch.Tensor) -> int:
        kept.append(nn.Parameter(torch.ones(4)) * (x + 1).requires_grad_())
        framelift.graph_break()
        return 0

    def fn(x: torch.Tensor) -> Any:
        layer = nn.Linear(4, 4)
        y = x + 1
        y.detach_()
        return sorted([y], key=key), layer(y), kept

    check(fn, X, expect_breaks=None)


def test_export_refuses() -> None:
    with pytest.raises(framelift.errors.FullGraphError):
        framelift.export(made(nn.Linear, 4, 5))(X)


def copied_leaf(x: torch.Tensor) -> torch.Tensor:
    return x.detach().clone().requires_grad_()


def test_strides_of_leaves_with_symbolic_sizes() -> None:
    turned = [(torch.ones(3, rows).t(),) for rows in (3, 4)]
    check(copied_leaf, torch.ones(2, 3), changed=turned, expect_breaks=None)


def two_leaves(x: torch.Tensor) -> torch.Tensor:
    return x.clone().requires_grad_() * 2 + x.clone().requires_grad_()


def test_a_leaf_that_fixes_sizes_known_as_symbols() -> None:
    """What is made of the input before and after its size is a number is the same."""
    check(two_leaves, torch.ones(5), changed=[(torch.ones(6),)], dynamic=True)
