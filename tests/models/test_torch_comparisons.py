"""Models of `torch.equal` and `torch.allclose`: against the originals, and lifted."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from framelift.models.torch_comparisons import allclose, equal
from tests.helpers import check

TENSORS = [
    torch.tensor([1.0, 2.0]),
    torch.tensor([1.0, 2.0 + 1e-6]),
    torch.tensor([1.0, math.nan]),
    torch.tensor([0.0, -0.0]),
    torch.tensor([-0.0, 0.0]),
    torch.tensor([[1.0, 2.0]]),
    torch.tensor([1.5, 2.0], dtype=torch.float64),
    torch.tensor([1, 2]),
    torch.tensor([16777217, 2]),
    torch.tensor([16777216.0, 2]),
    torch.tensor([True, False]),
    torch.tensor([1 + 1j, 2]),
    torch.tensor([]),
    torch.tensor([], dtype=torch.int64),
    torch.tensor(3.0),
]


def outcome(function, *args, **kwargs):
    try:
        return function(*args, **kwargs)
    except RuntimeError as error:
        return str(error)


def test_equal_says_what_torch_says():
    for one, other in itertools.product(TENSORS, TENSORS):
        assert outcome(equal, one, other) == outcome(torch.equal, one, other), (one, other)


@pytest.mark.parametrize("options", [{}, {"rtol": 0.5}, {"atol": 1.0, "rtol": 0.0}, {"equal_nan": True}])
def test_allclose_says_what_torch_says(options):
    for one, other in itertools.product(TENSORS, TENSORS):
        assert outcome(allclose, one, other, **options) == outcome(torch.allclose, one, other, **options), (one, other)


@pytest.mark.parametrize("number", range(len(TENSORS)))
def test_comparisons_are_numbers_of_the_graph(number):
    def f(x, y):
        return x + 1, torch.equal(x, y), y.equal(x), torch.equal(x, x)

    check(f, TENSORS[number], TENSORS[number].clone(), changed=[(TENSORS[number], TENSORS[number] * 2)])


def test_closeness_is_a_number_of_the_graph():
    def f(x, y):
        return x + 1, torch.allclose(x, y), y.allclose(x, rtol=1e-8, atol=0.0)

    check(f, TENSORS[0], TENSORS[1], changed=[(TENSORS[0], TENSORS[2]), (TENSORS[0], TENSORS[0])])


def test_a_branch_on_equality_is_a_break():
    def f(x, y):
        return x + 1 if torch.equal(x, y) else x - 1

    check(f, TENSORS[0], TENSORS[1], changed=[(TENSORS[0], TENSORS[0])], expect_breaks=None, expect_ops=0)


def test_equality_that_is_asserted_is_one_graph():
    def f(x, y):
        if not torch.equal(x, y):
            raise ValueError("not equal")
        return x + 1

    check(f, TENSORS[0], TENSORS[0].clone(), changed=[(TENSORS[0], TENSORS[1])])
