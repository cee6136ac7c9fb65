"""Sizes and numbers that depend on data stay in the graph; sizes 0 and 1 are run by Python. Results are eager's."""

from __future__ import annotations

from functools import partial

import pytest
import torch

import framelift
from tests.helpers import assert_same, check
from tests.shapes.data_dependent import CASES, COUNTS
from tests.tolerances import tolerance


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_all_sizes(name: str, backend: str) -> None:
    case = CASES[name]
    first, *others = [case.arguments(count) for count in COUNTS]
    check(case.function, *first, changed=others, backend=backend, expect_breaks=0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_gradients(backend: str) -> None:
    def fn(x, m):
        return (x[m] * x[m]).sum() + x[m].sin().sum()

    lifted = framelift.compile(fn, backend=backend)
    for count in COUNTS:
        x = torch.arange(12.0).reshape(6, 2).requires_grad_()
        m = torch.arange(6) < count
        expected, actual = [torch.autograd.grad(f(x, m), x)[0] for f in (fn, lifted)]
        assert_same(expected, actual, partial(tolerance, backend))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_all_sizes_with_inductor(name: str) -> None:
    case = CASES[name]
    first, *others = [case.arguments(count) for count in COUNTS]
    check(case.function, *first, changed=others, backend="inductor", expect_breaks=0, deterministic=False)
