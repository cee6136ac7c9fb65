"""Numbers that differ from call to call."""

import sys

import pytest
import torch

from tests.helpers import check


def _sum(number):
    return number + 1


def _product(number):
    return number * 4


def _difference(number):
    return -2 - number


@pytest.mark.parametrize("compute", [_sum, _product, _difference])
def test_arithmetic_that_needs_more_than_64_bits(compute):
    def fn(x, number):
        computed = compute(number)
        return (x + 1 if computed > 97 else x - 1), computed

    numbers = (5, sys.maxsize, 7, sys.maxsize - 1, 2**70, 2**62)
    check(fn, torch.ones(2), 96, changed=[(torch.ones(2), number) for number in numbers])
