"""Autograd functions, scripted functions and other functions of torch that run code of the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from tests.helpers import check

X = torch.arange(12.0).reshape(3, 4) / 7 - 0.5


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x.sin() * ctx.factor

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return grads[0] * x.cos() * ctx.factor, None


class WithSetup(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor, n: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
        return x * n, x + n

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * 2, None


class ReturnsInput(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]


class Asks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x * 2 if ctx.needs_input_grad[1] else x * 3

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0], None


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x.add_(1)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]


class Named(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * len(ctx.name()) if hasattr(ctx, "name") else x

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]


def test_autograd_function_without_gradients() -> None:
    assert len(check(lambda x: Scaled.apply(x + 1, 2.0) * 2, X).graphs) == 1


def test_autograd_function_under_no_grad() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return Scaled.apply(x * 1, 2.0)

    assert len(check(f, X.clone().requires_grad_()).graphs) == 1


def test_autograd_function_is_differentiated() -> None:
    check(lambda x: Scaled.apply(x + 1, 2.0) * 2, X.clone().requires_grad_(), expect_breaks=None)


def test_autograd_function_with_setup_context() -> None:
    check(lambda x: WithSetup.apply(x + 1, 3), X, expect_breaks=None)


@pytest.mark.parametrize("function", [ReturnsInput, Dirty, Named])
def test_autograd_functions_left_to_python(function: Any) -> None:
    check(lambda x: function.apply(x * 1) + 1, X, expect_breaks=None)


def test_autograd_function_asks_what_needs_gradients() -> None:
    w = torch.ones(4, requires_grad=True)
    with torch.no_grad():
        check(lambda x, w: Asks.apply(x * 1, w), X, w)
        check(lambda x, w: Asks.apply(x * 1, w), X, w.detach())


def test_gradients_asked_for_later() -> None:
    lifted = framelift.compile(lambda x: Scaled.apply(x * 1, 2.0), backend="eager")
    assert torch.equal(lifted(X), X.sin() * 2)
    x = X.clone().requires_grad_()
    lifted(x).sum().backward()
    assert x.grad is not None and torch.equal(x.grad, x.detach().cos() * 2)


@torch.jit.script
def scripted(x: torch.Tensor, scale: float, n: int = 2) -> torch.Tensor:
    return (x * scale).unsqueeze(0).expand(n, -1, -1)


@torch.jit.script
def scripted_differs(x: torch.Tensor) -> torch.Tensor:
    if torch.jit.is_scripting():
        return x + 1
    return x + 2


class Scripts:
    """Scripted functions cannot be copied, classes need not be."""

    expanded = staticmethod(scripted)
    differs = staticmethod(scripted_differs)


def test_scripted_function() -> None:
    assert len(check(lambda x: Scripts.expanded(x * 2, 0.5) + 1, X).graphs) == 1
    assert len(check(lambda x: Scripts.expanded(x * 2, scale=0.5, n=3), X).graphs) == 1


def test_scripted_function_converts() -> None:
    check(lambda x: Scripts.expanded(x * 2, 2), torch.arange(12).reshape(3, 4), expect_breaks=None)


def test_scripted_function_that_tells_apart() -> None:
    check(lambda x: Scripts.differs(x * 2), X, expect_breaks=None)


TYPES: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda x: torch.zeros(3, dtype=int) + x[0, 0],
    "to": lambda x: (x.to(int), x.to(dtype=float), x.to(bool), x.to(complex)),
    "sum": lambda x: x.sum(dtype=float),
}


@pytest.mark.parametrize("name", TYPES)
def test_types_as_dtypes(name: str) -> None:
    assert len(check(TYPES[name], X).graphs) == 1


def test_types_that_are_no_dtypes() -> None:
    check(lambda x: (x * 1).type(int), X, expect_ops=0, expect_breaks=None)


class Limits(torch.nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.info = torch.finfo(dtype)
        self.integers = torch.iinfo(torch.int8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + self.info.min * self.integers.max).to(getattr(torch, self.info.dtype))


def test_limits_that_came_from_outside() -> None:
    module = Limits(torch.float16)
    lifted = framelift.compile(module, backend="eager", fullgraph=True)
    for dtype in (torch.float16, torch.bfloat16, torch.float16):
        module.info = torch.finfo(dtype)
        assert torch.equal(lifted(X), module(X)) and lifted(X).dtype == module(X).dtype


def test_flags_of_backends() -> None:
    lifted = framelift.compile(
        lambda x: x + 1 if torch.backends.cuda.flash_sdp_enabled() else x - 1, backend="eager", fullgraph=True
    )
    before = torch.backends.cuda.flash_sdp_enabled()
    try:
        for flag in (True, False, True):
            torch.backends.cuda.enable_flash_sdp(flag)
            assert torch.equal(lifted(X), X + 1 if flag else X - 1)
    finally:
        torch.backends.cuda.enable_flash_sdp(before)


def test_tensor_types() -> None:
    def f(x: torch.Tensor) -> Any:
        kinds = (torch.FloatTensor, torch.DoubleTensor, torch.cuda.FloatTensor, torch.LongTensor)
        return (
            x * 2,
            [isinstance(x, kind) for kind in kinds],
            isinstance(x.long(), torch.LongTensor),
            isinstance(3, kinds),
        )

    assert len(check(f, X, changed=[(X.double(),)]).graphs) == 2


def test_functions_that_torch_compiles_are_left_to_it() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    compiled = torch.compile(inner, backend="eager")
    lifted = framelift.compile(lambda x: compiled(x * 2) * 3, backend="eager")
    for _ in range(2):
        assert torch.equal(lifted(X), inner(X * 2) * 3)
