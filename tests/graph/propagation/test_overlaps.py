"""Writes that torch refuses on real tensors and lets pass on fake ones."""

from __future__ import annotations

import pytest
import torch

import framelift
from tests.helpers import check


def onto_itself(x: torch.Tensor) -> torch.Tensor:
    x.data.add_(2)
    try:
        x.view(-1)[:4].add_(x.view(-1)[2:])
    except RuntimeError as error:
        return x + len(str(error))
    return x


def by_copy(x: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    x.view(-1)[:4].copy_(x.view(-1)[2:])
    return x


def to_out(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    torch.mul(x.view(-1)[:4], 2, out=x.view(-1)[2:])
    return x


def to_expanded(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    x[:1].expand(2, 3).mul_(2)
    return x


def to_transposed(x: torch.Tensor) -> torch.Tensor:
    y = x[:2, :2].clone()
    x.add_(1)
    y.t().copy_(y)
    return x + y.sum()


def in_a_block(x: torch.Tensor, log: list[int]) -> torch.Tensor:
    try:
        framelift.graph_break()
        x.add_(1)
        x.view(-1)[:4].add_(x.view(-1)[2:])
    finally:
        log.append(1)
    return x


@pytest.mark.parametrize("program", [onto_itself, by_copy, to_out, to_expanded, to_transposed])
def test_refused(program) -> None:
    check(program, torch.arange(6.0).view(2, 3), expect_breaks=None)


def test_refused_in_a_block() -> None:
    check(in_a_block, torch.arange(6.0).view(2, 3), [], expect_breaks=None)


def test_refused_with_symbols() -> None:
    check(onto_itself, torch.ones(2, 3), changed=[(torch.ones(2, 3),)], dynamic=True, expect_breaks=None)


def columns(x: torch.Tensor) -> torch.Tensor:
    x[:, 0] += x[:, 1]
    x[:, :1].copy_(x[:, 2:])
    x[:, 1] = x[:, 2]
    return x * 2


def halves(x: torch.Tensor) -> torch.Tensor:
    x[:2].add_(x[2:])
    x[2:].mul_(x[2:])
    return x.view(-1)[:3] + x.view(-1)[3:6]


def itself(x: torch.Tensor) -> torch.Tensor:
    x.mul_(x)
    x.copy_(x)
    return x.add_(x)


def nothing(x: torch.Tensor) -> torch.Tensor:
    x[:1, :0].expand(4, 0).mul_(2)  # no element is there, so none is several
    return x + 1


@pytest.mark.parametrize("program", [columns, halves, itself, nothing])
def test_allowed_writes_stay_in_the_graph(program) -> None:
    check(program, torch.arange(12.0).view(4, 3))


@pytest.mark.parametrize("program", [columns, itself])
def test_allowed_with_symbols(program) -> None:
    more = [(torch.arange(3.0 * rows).view(rows, 3),) for rows in (5, 6)]
    check(program, torch.arange(12.0).view(4, 3), changed=more)


ELEMENTS = {
    "a column": lambda x: x.t()[0].add_(x[0, 0]),
    "the middle of a column": lambda x: x[:, 1].mul_(x[1, 1]),
    "every other": lambda x: x.view(-1)[::2].sub_(x[1, 1]),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", ELEMENTS)
def test_an_element_of_what_is_written(name, backend, dynamic):
    """Kernels read it again when it has been written."""

    def f(x):
        y = x * 2
        ELEMENTS[name](x)
        return x + y

    check(f, torch.arange(9.0).view(3, 3) + 2, backend=backend, dynamic=dynamic, expect_breaks=1)


def test_an_element_beside_what_is_written():
    def f(x):
        x.t()[0].add_(x[0, 1])
        x[:, 1].mul_(x[1, 2])
        return x + 1

    check(f, torch.arange(9.0).view(3, 3) + 2, backend="aot_eager")
