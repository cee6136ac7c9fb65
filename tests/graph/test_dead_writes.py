"""Writes that nobody reads: backward may raise over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from tests.backends.test_users_backends import simplified_boxed
from tests.helpers import check

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager", simplified_boxed])


def operand(x):
    y = x.sin()
    z = y * y
    y.add_(1)
    return z.sum()


def result(x):
    y = x.exp()
    z = y + 1
    y.add_(1)
    return z.sum()


def twice(x):
    y = x.sin()
    z = y * y
    y.add_(1)
    y.mul_(2)
    return z.sum()


def written_before(x):
    y = torch.zeros_like(x)
    y.add_(x)
    z = y * x
    y.add_(1)
    return z.sum()


def of_a_constant(x):
    scale = torch.full((3,), 2.0)
    z = x * scale
    scale.zero_()
    return z.sum()


def set_items(x):
    y = x.sigmoid()
    z = y.pow(2)
    y[0] = 1
    return z.sum()


def allowed(x):
    y = x.sin()
    z = y + 1
    y.add_(1)
    return z.sum()


def never_differentiated(x):
    y = x.detach().sin()
    z = y * y
    y.add_(1)
    return z.sum() + x.sum()


REFUSED = [operand, result, twice, written_before, of_a_constant, set_items]


@BACKENDS
@pytest.mark.parametrize("program", [*REFUSED, allowed, never_differentiated])
def test_dead_writes(program: Callable[..., Any], backend: Any) -> None:
    check(program, torch.randn(3, requires_grad=True), backend=backend)
    loss = framelift.compile(program, backend=backend)(torch.randn(3, requires_grad=True))
    if program in REFUSED:
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    else:
        loss.backward()


def test_writes_that_nothing_can_raise_over_are_not_in_the_graph() -> None:
    graphs = []

    def backend(module, _):
        graphs.append([node.target for node in module.graph.nodes])
        return module.forward

    def f(x):
        y = torch.zeros(3)
        y.add_(1)
        w = x.detach() * 2
        v = w * w
        w.add_(1)
        return x * v

    framelift.compile(f, backend=backend)(torch.randn(3, requires_grad=True))
    assert "add_" not in graphs[0]
