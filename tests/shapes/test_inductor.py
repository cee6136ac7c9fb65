"""Inductor over symbolic sizes: one kernel serves them, and gradients are eager's."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

import framelift
from tests.helpers import assert_same
from tests.helpers.record import Record
from tests.shapes.test_sequences import rows
from tests.tolerances import tolerance


def counted(lifted: Any, *args: Any) -> tuple[Any, int]:
    record = Record()
    with record.listening():
        result = lifted(*args)
    assert not record.failures
    return result, record.captures


@pytest.mark.slow
def test_sizes() -> None:
    def fn(x):
        return (x.relu() * x.shape[0] + 1).reshape(-1, 2).sum(1), x.shape[0] * 2

    lifted = framelift.compile(fn)
    counts = []
    for (x,) in rows(3, 4, 5, 6, 1):
        (tensor, number), captures = counted(lifted, x)
        expected, expected_number = fn(x)
        assert_same(expected, tensor, partial(tolerance, "inductor"))
        assert number == expected_number and type(number) is int
        counts.append(captures)
    assert counts == [1, 1, 0, 0, 1]


@pytest.mark.slow
def test_ints() -> None:
    def fn(x, n):
        return x * n + n // 2

    lifted = framelift.compile(fn)
    counts = []
    for n in (3, 4, 5, 1, 0, -1):
        result, captures = counted(lifted, torch.ones(4), n)
        assert_same(fn(torch.ones(4), n), result, partial(tolerance, "inductor"))
        counts.append(captures)
    assert counts == [1, 1, 0, 0, 0, 0]


@pytest.mark.slow
def test_training() -> None:
    weight = torch.randn(4, 4, requires_grad=True)

    def fn(x):
        return (x @ weight).sin().sum() / x.shape[0]

    lifted = framelift.compile(fn)
    counts = []
    for (x,) in rows(3, 5, 7):
        result, captures = counted(lifted, x)
        (actual,) = torch.autograd.grad(result, weight)
        (expected,) = torch.autograd.grad(fn(x), weight)
        assert_same(expected, actual, partial(tolerance, "inductor"))
        counts.append(captures)
    assert counts == [1, 1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64])
def test_floats(dtype: torch.dtype) -> None:
    """Floats that change are inputs; the dtype of results is that which numbers give."""

    def fn(x, f):
        return x * f, x + f / 2, x / f, torch.full((2,), f), f * 2, x.clamp(max=f), torch.clip(x, f, f + 2)

    lifted = framelift.compile(fn)
    counts = []
    for f in (1.5, 2.5, 3.5, 0.1, -7.25):
        x = torch.arange(1, 5).to(dtype)
        result, captures = counted(lifted, x, f)
        assert_same(fn(x, f), result, partial(tolerance, "inductor"))
        counts.append(captures)
    assert counts == [1, 1, 0, 0, 0]


@pytest.mark.slow
def test_floats_in_training() -> None:
    def fn(x, f):
        return ((x * f).sin() * f).sum()

    lifted = framelift.compile(fn)
    counts = []
    for f in (1.5, 2.5, 3.5):
        x = torch.linspace(0, 1, 6).requires_grad_()
        result, captures = counted(lifted, x, f)
        expected, actual = [torch.autograd.grad(value, x)[0] for value in (fn(x, f), result)]
        assert_same(expected, actual, partial(tolerance, "inductor"))
        counts.append(captures)
    assert counts == [1, 1, 0]


@pytest.mark.slow
def test_floats_that_are_decided_on() -> None:
    def fn(x, f):
        return torch.add(x, x, alpha=f) if f > 2.0 else torch.lerp(x, x + 1, f)

    lifted = framelift.compile(fn)
    for f in (1.5, 1.25, 3.5, 4.5, 1.0):
        x = torch.linspace(0, 1, 6)
        assert_same(fn(x, f), lifted(x, f), partial(tolerance, "inductor"))
