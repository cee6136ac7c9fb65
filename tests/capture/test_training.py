"""Training: losses, gradients of inputs and parameters, several steps, optimisers outside, backends."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import framelift
from tests.helpers import check
from tests.test_modules_lifted import IMAGE, MLP, ROWS, TOKENS, ResidualCNN, Transformer

X = torch.arange(12.0).reshape(3, 4) / 5 - 1


def loss_of(model: nn.Module, *args: Any) -> torch.Tensor:
    return model(*args).float().pow(2).mean()


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...]]] = {
    "mlp": (MLP, (ROWS,)),
    "cnn": (ResidualCNN, (IMAGE,)),
    "transformer": (Transformer, (TOKENS,)),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", CASES)
def test_three_steps_of_adamw(name: str, backend: str) -> None:
    make, args = CASES[name]
    torch.manual_seed(0)
    eager = make()
    lifted = copy.deepcopy(eager)
    compiled = framelift.compile(lifted, backend=backend, fullgraph=True)
    for model, call in ((eager, eager), (lifted, compiled)):
        optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
        for _ in range(3):
            optimiser.zero_grad()
            loss_of(call, *args).backward()
            optimiser.step()
    for (key, one), other in zip(eager.state_dict().items(), lifted.state_dict().values(), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5, msg=key)


def test_whole_loss_function_lifted() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    target = torch.tensor([0, 1, 1])

    def loss(x: Any) -> Any:
        return F.cross_entropy(model(x), target)

    check(loss, X.clone().requires_grad_(), fullgraph=True)


def test_gradients_of_inputs_and_closure() -> None:
    weight = torch.ones(4, requires_grad=True)

    def function(x: Any) -> Any:
        return (x * weight).sin().sum(), x.detach() * 2

    check(function, X.clone().requires_grad_(), fullgraph=True)


def test_requires_grad_is_a_fact() -> None:
    check(lambda x: x * 2, X, changed=[(X.clone().requires_grad_(),), (X,)])


def test_gradient_read() -> None:
    def function(x: Any) -> Any:
        return x * 2 if x.grad is None else x + x.grad

    x = X.clone().requires_grad_()
    lifted = framelift.compile(function, backend="eager")
    assert torch.equal(lifted(x), function(x))
    function(x).sum().backward()
    assert torch.equal(lifted(x), function(x))
    x.grad = None
    assert torch.equal(lifted(x), function(x))


def test_backward_inside_breaks_and_is_right() -> None:
    def function(x: Any) -> Any:
        y = (x * 2).sum()
        y.backward()
        return x.grad * 2

    check(function, X.clone().requires_grad_(), expect_breaks=None)


def test_autograd_grad_inside() -> None:
    def function(x: Any) -> Any:
        y = (x**3).sum()
        (gradient,) = torch.autograd.grad(y, x)
        return gradient + 1

    check(function, X.clone().requires_grad_(), expect_breaks=None)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "entered", [lambda: torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad], ids=["a", "n"]
)
def test_backward_before_a_block_that_breaks(entered: Callable[[], Any], backend: str) -> None:
    """The graph ends within the block; it is differentiated, and compiled, as it began."""

    def function(x: Any, model: nn.Linear) -> Any:
        model(x).sum().backward()
        y = x + model.weight.grad.sum()
        with entered():
            z = y.sin()
            framelift.graph_break()
            z = model(z) + y.sum()
        return z, y, model.bias.grad

    torch.manual_seed(0)
    check(function, X, nn.Linear(4, 4), backend=backend, expect_breaks=1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sizes_from_data_after_backward(backend: str) -> None:
    def function(x: Any, scale: Any, numbers: Any) -> Any:
        y = x.detach().clone().requires_grad_()
        (y * scale).sum().backward()
        return y.grad * 2, torch.unique(numbers), x.detach().clone().requires_grad_() * scale

    numbers = [torch.tensor(each) for each in ([1, 1, 2], [3, 3, 3], [1, 2, 3])]
    check(function, X, torch.ones(4, requires_grad=True), numbers[0], backend=backend, expect_breaks=0)


def test_custom_autograd_function() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * 3

    check(lambda x: Double.apply(x + 1) * 2, X.clone().requires_grad_(), expect_breaks=None)


def test_tensor_hooks_break() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda g: g * 10)
        return y.sum()

    check(function, X.clone().requires_grad_(), expect_breaks=None)


def test_detach_stops_gradients() -> None:
    check(lambda x: x * x.detach() + (x * 2).detach(), X.clone().requires_grad_(), fullgraph=True)


def test_checkpoint_is_right() -> None:
    layer = nn.Linear(4, 4)

    def function(x: Any) -> Any:
        return checkpoint(layer, x * 2, use_reentrant=False) + 1

    check(function, X.clone().requires_grad_(), expect_breaks=None)


def test_intermediate_leaf() -> None:
    def function(x: Any) -> Any:
        y = (x * 2).detach().requires_grad_()
        z = y * 3
        return y, z

    check(function, X, expect_breaks=None)


def test_hooks_on_saved_tensors_hear_of_real_ones_only():
    """Capture runs operations on fake tensors; what autograd keeps of those is nothing to the program's hooks."""
    seen = []

    def note(tensor):
        seen.append(type(tensor))
        return tensor

    def f(x):
        return (x.sin() * x).exp()

    counts = []
    for call in (f, framelift.compile(f, backend="eager", fullgraph=True)):
        seen.clear()
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            call(torch.ones(3, requires_grad=True))
        counts.append(list(seen))
    assert counts[0] == counts[1] and set(counts[1]) <= {torch.Tensor}
