"""Deep copies of tensors, parameters and modules; modules that are made and moved in the function."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from tests.helpers import check

X = torch.arange(12.0).reshape(3, 4) / 7 - 0.5


def layer() -> tuple[Any, ...]:
    torch.manual_seed(0)
    return nn.Linear(4, 4), X.clone().requires_grad_()


def module(m: Any, x: Any) -> Any:
    other = copy.deepcopy(m)
    with torch.no_grad():
        other.weight.add_(1)
    return other(x) + m(x), other.weight is m.weight, other.weight, other.bias.requires_grad


def stack(m: Any, x: Any) -> Any:
    layers = nn.ModuleList([copy.deepcopy(m) for _ in range(2)])
    return layers[1](layers[0](x)), type(layers[0].weight), layers[0].weight is layers[1].weight


def made(m: Any, x: Any) -> Any:
    fresh = nn.Linear(4, 2)
    other = copy.deepcopy(fresh)
    return fresh(x) - other(x), m.weight


def tensor(m: Any, x: Any) -> Any:
    other = copy.deepcopy(x)
    with torch.no_grad():
        other[0] = 7
    return other * 2, x * 3, other.requires_grad, other.is_leaf


def containers(m: Any, x: Any) -> Any:
    plain = x.detach() + 1
    a, b = copy.deepcopy([plain, {"again": plain}])
    a.add_(1)
    return a, b["again"] is a, plain, copy.deepcopy(torch.empty_strided((2, 3), (1, 2))).stride()


@pytest.mark.parametrize("program", [module, stack, made, tensor, containers], ids=lambda program: program.__name__)
def test_deepcopy(program: Any) -> None:
    check(program, inputs=layer, fullgraph=True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_deepcopy_that_is_trained(backend: str) -> None:
    def f(m: Any, x: Any) -> Any:
        other = copy.deepcopy(m)
        return other(x).sin(), [*other.parameters()]

    check(f, inputs=layer, fullgraph=True, backend=backend)


def shared(x: Any) -> Any:
    base = x.detach() + 1
    a, b = copy.deepcopy((base, base[0]))
    a.add_(1)
    return a, b


def computed(x: Any) -> Any:
    y = x.requires_grad_() * 2
    return copy.deepcopy(y)


def expanded(x: Any) -> Any:
    return copy.deepcopy(torch.ones(1, 4).expand(3, 4)) + x


def sliced(x: Any) -> Any:
    other = copy.deepcopy(x[1:])
    return other + 1, other.storage_offset()


@pytest.mark.parametrize("program", [shared, computed, expanded, sliced], ids=lambda program: program.__name__)
def test_copies_that_only_python_makes(program: Any) -> None:
    check(program, X, expect_breaks=None, expect_ops=0)


def test_gradients_and_attributes_are_copied_too() -> None:
    def f(x: Any) -> Any:
        other = copy.deepcopy(x)
        return other * 2, other

    def with_gradient() -> tuple[Any, ...]:
        x = X.clone().requires_grad_()
        x.grad = torch.ones(3, 4)
        return (x,)

    def with_attribute() -> tuple[Any, ...]:
        x = X.clone()
        x.note = [1]
        return (x,)

    check(f, X, fullgraph=True)
    check(f, inputs=with_gradient, expect_breaks=None, expect_ops=0)
    check(f, inputs=with_attribute, expect_breaks=None, expect_ops=0)


MOVES: dict[str, Any] = {
    "to dtype": lambda m: m.to(torch.float64),
    "double": lambda m: m.double(),
    "to device": lambda m: m.to("cpu"),
    "half and back": lambda m: m.bfloat16().double(),
    "both": lambda m: m.to("cpu", torch.float64),
    "to_empty": lambda m: m.to_empty(device="cpu").requires_grad_(False),
}


@pytest.mark.parametrize("name", MOVES)
def test_a_module_that_is_made_and_moved(name: str) -> None:
    move = MOVES[name]

    def f(x: Any) -> Any:
        m = move(nn.Linear(4, 4))
        if name == "to_empty":
            with torch.no_grad():
                m.weight.fill_(1)
                m.bias.fill_(2)
        return m(x.to(m.weight.dtype)), m.weight, m.bias.is_leaf

    check(f, X.clone().requires_grad_(), fullgraph=True)


def test_a_module_that_stays_where_it_is() -> None:
    check(lambda m, x: m.to("cpu").float()(x), inputs=layer, fullgraph=True)


def test_data_of_a_leaf_that_was_used() -> None:
    def f(x: Any) -> Any:
        m = nn.Linear(4, 4)
        y = m(x)
        m.double()
        return y, m(x.double()), m.weight

    check(f, X, expect_breaks=None)


def test_a_given_module_that_is_moved() -> None:
    check(lambda m, x: (m.double()(x.double()), m.weight), inputs=layer, expect_breaks=None, expect_ops=0)


def test_data_that_is_shared() -> None:
    def f(x: Any) -> Any:
        p = nn.Parameter(torch.zeros(4))
        t = x[0] * 2
        p.data = t
        t.add_(1)
        return p * 1, t

    check(f, X, expect_breaks=None)
