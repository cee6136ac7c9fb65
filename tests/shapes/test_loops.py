"""Loops whose rounds depend on data: one round is captured, and Python decides whether to go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from tests.helpers import assert_same
from tests.helpers.record import Record

LOOPS: list[Callable[[torch.Tensor], Any]] = []


def _loop(function: Any) -> Any:
    LOOPS.append(function)
    return function


@_loop
def halved(x):
    """As in the suppression of overlapping boxes."""
    kept = []
    while x.numel() > 0:
        kept.append(x[0])
        rest = x[1:]
        x = rest[rest > x[0] * 2]
    return torch.stack(kept)


@_loop
def left_from_within(x):
    total = x.sum() * 0
    while True:
        if len(x) == 0:
            break
        total = total + x.sum()
        x = x[x > x.min()]
    return total


@_loop
def of_a_number(x):
    left = int(x.sum())
    while left > 3:
        x = x + 1
        left = left // 2
    return x


@pytest.mark.parametrize("function", LOOPS, ids=lambda function: function.__name__)
def test_loops(function: Any) -> None:
    lifted = framelift.compile(function, backend="eager")
    calls = [torch.arange(1.0, size + 1) for size in (20, 5, 9, 1, 2, 17, 30, 3)]
    counts = []
    for _ in range(3):
        record = Record()
        with record.listening():
            for x in calls:
                assert_same(function(x), lifted(x))
        counts.append(record.captures)
    assert sum(counts) <= 16


def test_rounds_that_are_known() -> None:
    """Sizes decide nothing about how often a `for` runs."""

    def function(x, masks):
        result = x.sum(0)
        for mask in masks:
            rows = x[mask]
            if rows.numel() > 0:
                result = result + rows.mean(0)
        return result

    lifted = framelift.compile(function, backend="eager", fullgraph=True)
    masks = [torch.arange(8) < n for n in (3, 5, 8)]
    x = torch.randn(8, 2)
    assert_same(function(x, masks), lifted(x, masks))
