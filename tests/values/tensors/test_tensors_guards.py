"""What an entry assumes about its tensors: each fact, changed, must lead to another entry or to Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from tests.helpers import check

X = torch.arange(6.0) + 1


def sparse() -> torch.Tensor:
    return X.to_sparse()


def non_leaf() -> torch.Tensor:
    return X.clone().requires_grad_() * 1


def inference() -> torch.Tensor:
    with torch.inference_mode():
        return X * 1


class Scaled(torch.Tensor):
    """A subclass with rules of its own."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(function, types, args, kwargs or {})
        return result + 10 if function is torch.Tensor.mul else result


OTHERS: dict[str, Callable[[], Any]] = {
    "dtype": lambda: X.double(),
    "int": lambda: X.long(),
    "complex": lambda: torch.complex(X, X),
    "shape": lambda: torch.ones(7),
    "dims": lambda: X.view(2, 3),
    "strides": lambda: torch.arange(12.0)[::2],
    "requires grad": lambda: X.clone().requires_grad_(),
    "not a leaf": non_leaf,
    "parameter": lambda: torch.nn.Parameter(X.clone()),
    "inference": inference,
    "sparse": sparse,
    "conjugate": lambda: torch.complex(X, X).conj(),
    "negative": lambda: torch.complex(X, X).conj().imag,
    "subclass": lambda: X.clone().as_subclass(Scaled),
    "number": lambda: 3,
    "none": lambda: None,
    "meta": lambda: X.to("meta"),
    "view": lambda: torch.arange(8.0)[1:7],
}


def describe(x: Any) -> Any:
    if x is None:
        return None
    if not isinstance(x, torch.Tensor):
        return x + 1
    facts = (
        x.dtype,
        x.shape,
        x.requires_grad,
        x.is_leaf,
        x.layout,
        x.is_inference(),
        isinstance(x, torch.nn.Parameter),
    )
    return x.mul(2), facts


@pytest.mark.parametrize("name", OTHERS)
def test_facts(name: str) -> None:
    lifted = framelift.compile(describe, backend="eager")
    for value in (X, OTHERS[name](), X, OTHERS[name]()):
        expected, actual = describe(value), lifted(value)
        if not isinstance(expected, tuple):
            assert actual == expected
            continue
        assert actual[1] == expected[1] and type(actual[0]) is type(expected[0])
        assert actual[0].requires_grad == expected[0].requires_grad
        assert actual[0].is_conj() == expected[0].is_conj() and actual[0].is_neg() == expected[0].is_neg()
        if actual[0].device.type != "meta":
            assert torch.equal(actual[0].to_dense(), expected[0].to_dense())


LEAVES: list[Callable[[Any], Any]] = [
    lambda x: x * 2 if x.is_leaf else x * 3,
    lambda x: x * 2 if x.grad_fn is None else x * 3,
    lambda x: x * 2 if x.grad is None else x * 3,
]


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
@pytest.mark.parametrize("program", LEAVES)
def test_leaves_and_others_that_require_gradients(program: Callable[[Any], Any]) -> None:
    """Their metadata are the same."""
    leaf, retained = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True) * 1
    retained.retain_grad()
    retained.sum().backward()
    lifted = framelift.compile(program, backend="eager")
    for value in (leaf, leaf * 1, retained, leaf, torch.ones(2), leaf * 1, retained):
        assert torch.equal(lifted(value), program(value))


def metadata_of_input(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        y = x * 2
        change(x)
        return y, x.shape, x.requires_grad

    return function


CHANGES: dict[str, Callable[[Any], Any]] = {
    "requires_grad_": lambda x: x.requires_grad_(),
    "requires_grad": lambda x: setattr(x, "requires_grad", True),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "t_": lambda x: x.unsqueeze_(0).t_(),
    "resize_": lambda x: x.resize_(2),
    "set_": lambda x: x.set_(torch.ones(4)),
    "detach_": lambda x: x.detach_(),
    "data": lambda x: x.data.add_(1),
    "detach": lambda x: x.detach().mul_(3),
    "as_strided_": lambda x: x.as_strided_((2, 3), (3, 1)),
    "set data": lambda x: setattr(x, "data", torch.ones(3)),
    "copy_": lambda x: x.copy_(torch.zeros(6)),
    "squeeze_": lambda x: x.squeeze_(),
    "swap": lambda x: x.view(2, 3).swapaxes_(0, 1).zero_(),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", CHANGES)
def test_metadata_of_inputs_changed(name: str, backend: str) -> None:
    check(metadata_of_input(CHANGES[name]), X, expect_breaks=None, expect_ops=0, backend=backend)


def test_intermediate_that_requires_grad() -> None:
    def function(x: Any) -> Any:
        y = (x * 2).requires_grad_()
        return (y * 3).sum(), y

    check(function, X, expect_breaks=None)
    framelift.reset()
    check(function, X, expect_breaks=None, backend="aot_eager")


@pytest.mark.parametrize("value", [True, 2, -1, 0.5, float("inf"), float("nan"), 1e300, 2 + 1j, None, "sum"])
def test_other_arguments(value: Any) -> None:
    def function(x: Any, value: Any) -> Any:
        if value is None or isinstance(value, str):
            return x * 2
        return x * value + (value if isinstance(value, bool) else 1)

    check(function, X, value, changed=[(X, 3), (X, value)])


def test_numbers_computed_from_arguments() -> None:
    def function(x: Any, n: int, f: float) -> Any:
        return x[: n + 1] * f + torch.arange(n + 1) / n + torch.full((n + 1,), f * 2)

    check(function, X, 2, 0.5, changed=[(X, 3, 0.5), (X, 3, 1.5), (X, 2, 0.5)])
