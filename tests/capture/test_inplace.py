"""Writes to inputs, buffers, closures; errors at run time with nothing applied twice; modes restored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from tests.helpers import check

X = torch.arange(6.0) + 1
BASE = torch.zeros(6)


def chain(x: Any) -> Any:
    x.add_(1).mul_(2).sub_(3)
    return x.sum()


def then_break(x: Any) -> Any:
    x.add_(1)
    y = x * 2
    if y.sum() > 0:
        x.mul_(2)
    return y + x


def break_then_write(x: Any) -> Any:
    y = (x * 2).sum().item()
    x.add_(y)
    return x


def write_in_loop(x: Any) -> Any:
    for i in range(3):
        x[i] = x[i + 1] * i
    return x


def write_to_list_items(items: Any) -> Any:
    for item in items:
        item.add_(1)
    items[0] = items[1] * 2
    return items


def copy_between(x: Any, y: Any) -> Any:
    x.copy_(y)
    y.zero_()
    return x + y


def augmented_rebinding(x: Any) -> Any:
    y = x
    x += 1
    x = x * 2
    return x, y


def resize_free(x: Any) -> Any:
    x.squeeze_().unsqueeze_(0)
    return x * 2


def transposed(x: Any) -> Any:
    y = x.view(2, 3)
    y.t_()
    return y * 1


def global_written(x: Any) -> Any:
    BASE.add_(x)
    return BASE * 2


PROGRAMS: list[Callable[..., Any]] = [
    chain,
    then_break,
    break_then_write,
    write_in_loop,
    augmented_rebinding,
    resize_free,
    transposed,
    global_written,
]


@pytest.mark.parametrize("function", PROGRAMS)
def test_programs(function: Callable[..., Any]) -> None:
    check(function, X, expect_breaks=None, expect_ops=1 if function is not resize_free else 0)


def test_two_inputs() -> None:
    check(copy_between, X, X * 2)
    check(write_to_list_items, [X, X * 2])


def test_leaf_that_requires_grad_raises() -> None:
    check(lambda x: (x * 2, x.add_(1)), X.clone().requires_grad_(), expect_breaks=None)


def test_written_under_no_grad() -> None:
    def function(x: Any) -> Any:
        with torch.no_grad():
            x.add_(1)
        return x * 2

    check(function, X.clone().requires_grad_())


# -- errors at run time --------------------------------------------------------------------------------------------


INDEX = torch.tensor([0, 5])
BAD = torch.tensor([0, 6])


def embed(x: Any, index: Any) -> Any:
    return torch.nn.functional.embedding(index, x.view(6, 1) * 2)


def select(x: Any, index: Any) -> Any:
    return (x * 2).index_select(0, index)


def gather(x: Any, index: Any) -> Any:
    return (x + 1).gather(0, index)


def getitem(x: Any, index: Any) -> Any:
    return (x + 1)[index] * 2


def assertion(x: Any, index: Any) -> Any:
    torch._assert(index.max() < 6, "too big")
    return x * 2


def one_hot(x: Any, index: Any) -> Any:
    return torch.nn.functional.one_hot(index, 6) * x


def divide(x: Any, index: Any) -> Any:
    return index // (6 - index)


def with_random(x: Any, index: Any) -> Any:
    noise = torch.rand(6)
    return (x + noise)[index]


def write_before(x: Any, index: Any) -> Any:
    x.add_(1)
    return x[index]


def write_after(x: Any, index: Any) -> Any:
    y = x[index]
    x.add_(1)
    return y


def no_grad_and_raise(x: Any, index: Any) -> Any:
    with torch.no_grad():
        return (x * 2)[index] * 2


def list_and_raise(x: Any, index: Any) -> Any:
    seen = [1]
    seen.append(2)
    return (x * 2)[index], seen


def python_effect(x: Any, index: Any) -> Any:
    COUNTS.append(1)
    return (x * 2)[index]


COUNTS: list[int] = []


@pytest.mark.parametrize(
    "function",
    [
        embed,
        select,
        gather,
        getitem,
        assertion,
        one_hot,
        divide,
        with_random,
        write_before,
        write_after,
        no_grad_and_raise,
        list_and_raise,
        python_effect,
    ],
)
def test_errors_at_run_time(function: Callable[..., Any]) -> None:
    check(function, X, INDEX, changed=[(X, BAD), (X, INDEX), (X, BAD)], expect_breaks=None)
    framelift.reset()
    check(function, X.clone(), BAD, changed=[(X, INDEX)], expect_breaks=None)


def test_modes_are_restored_after_an_error() -> None:
    lifted = framelift.compile(no_grad_and_raise, backend="eager")
    lifted(X, INDEX)
    for _ in range(2):
        with pytest.raises(IndexError):
            lifted(X, BAD)
        assert torch.is_grad_enabled()
    x = X.clone().requires_grad_()

    def function(x: Any, index: Any) -> Any:
        with torch.no_grad():
            y = (x * 2)[index]
        return x * 3, y

    lifted = framelift.compile(function, backend="eager")
    assert lifted(x, INDEX)[0].requires_grad
    with pytest.raises(IndexError):
        lifted(x, BAD)
    assert torch.is_grad_enabled() and lifted(x, INDEX)[0].requires_grad


def test_cholesky_of_a_bad_matrix() -> None:
    good, bad = torch.eye(3) * 2, -torch.eye(3)
    check(lambda a: torch.linalg.cholesky(a + 0) * 2, good, changed=[(bad,), (good,)], expect_breaks=None)


def test_shape_mismatch_is_pythons_error() -> None:
    check(lambda x: (x * 2) + torch.ones(5), X, expect_breaks=None)
    check(lambda x: (x * 2) @ torch.ones(5, 5), X, expect_breaks=None)
    check(lambda x: (x * 2).view(4, 4), X, expect_breaks=None)


def test_mismatch_caught_by_the_program() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        try:
            return y.view(4, 4)
        except RuntimeError:
            return y + 1

    check(function, X, expect_breaks=None)
