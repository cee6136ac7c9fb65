"""A float computed from symbols that has to be a number is the one Python computes: rounded at each step."""

from __future__ import annotations

import random

import torch

import framelift
from framelift import config


def ratio(x, a, n):
    product = a * n
    return x + 1, product.as_integer_ratio(), product


def mixed(x, a, n):
    value = (a + n) / 3.0
    return x + 1, [value].index(value), hash(value)


def test_products_of_numbers_that_change():
    numbers = random.Random(3)
    x = torch.ones(1)
    with config.patch(strict=True, recompile_limit=10_000, total_recompile_limit=10_000):
        for function in (ratio, mixed):
            lifted = framelift.compile(function, backend="eager")
            for _ in range(60):
                a, n = numbers.random(), 10 ** numbers.randint(0, 40)
                assert lifted(x, a, n)[1:] == function(x, a, n)[1:]
