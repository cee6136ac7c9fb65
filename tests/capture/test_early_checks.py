"""Indices that may be out of range, after inputs were written to that are too large for copies: caches of decoders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import framelift
from framelift.graph.analysis.writes import MOST
from tests.helpers import check

WIDTH = 4
LENGTH = MOST // (4 * WIDTH) + 8  # one cache is more than would be copied


def caches() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(1, LENGTH, WIDTH), torch.ones(1, LENGTH, WIDTH)


def two_layers(x, start, keys, values):
    position = start + torch.arange(x.shape[1])
    start.add_(x.shape[1])
    keys.index_copy_(1, position, x)
    values[:, position] = x * 2
    return keys.index_select(1, position) + values[:, position]


def arguments(count: int, start: int) -> tuple[Any, ...]:
    return torch.randn(1, count, WIDTH), torch.tensor([start]), *caches()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_within_and_beyond(backend: str) -> None:
    others = [arguments(3, 5), arguments(2, LENGTH - 2), arguments(2, LENGTH - 1), arguments(2, -1), arguments(7, 3)]
    record = check(two_layers, *arguments(3, 0), changed=others, backend=backend, expect_breaks=0)
    assert record.graphs


def test_no_graph_break() -> None:
    lifted = framelift.compile(two_layers, backend="eager", fullgraph=True)
    for count in (7, 12, 5):
        given = arguments(count, 2)
        copies = [tensor.clone() for tensor in given]
        assert torch.equal(lifted(*given), two_layers(*copies))
        assert all(map(torch.equal, given, copies))
    assert framelift.counters().captures == 2


def test_indices_from_what_was_written() -> None:
    """They are not known before, so the graph ends there."""

    def function(x, start, keys):
        keys.mul_(2)
        start.add_(x.shape[1])
        keys.index_copy_(1, start + torch.arange(x.shape[1]), x)
        return keys.sum()

    def given(start: int) -> tuple[Any, ...]:
        return torch.randn(1, 3, WIDTH), torch.tensor([start]), caches()[0]

    check(function, *given(0), changed=[given(4), given(LENGTH)], expect_breaks=1)


def test_a_write_through_a_view() -> None:
    def function(x, positions, keys):
        keys.mul_(2)
        positions[1:].add_(1)
        keys.index_copy_(1, positions, x)
        return keys.sum()

    def given(*positions: int) -> tuple[Any, ...]:
        return torch.randn(1, 3, WIDTH), torch.tensor(positions), caches()[0]

    check(function, *given(0, 1, 2), changed=[given(5, 4, 3), given(0, 1, LENGTH - 1)], expect_breaks=1)


def test_modes_between() -> None:
    """What runs under another mode of torch stays where it is."""

    def function(x, start, keys):
        keys.mul_(2)
        with torch.inference_mode():
            position = start + torch.arange(x.shape[1])
        keys.index_copy_(1, position, x)
        return keys.sum()

    def given(start: int) -> tuple[Any, ...]:
        return torch.randn(1, 3, WIDTH), torch.tensor([start]), caches()[0]

    check(function, *given(0), changed=[given(4), given(LENGTH)], expect_breaks=None)


OPERATIONS: dict[str, tuple[Callable[..., torch.Tensor], list[list[int]]]] = {
    "classes": (lambda w, at: F.cross_entropy(w[:4].t()[:2], at), [[0, 3], [3, -100], [4, 0], [0, -1]]),
    "classes of pixels": (lambda w, at: F.cross_entropy(w[:3][None], at[None, :4]), [[2, 0, 1, 2], [3, 0, 0, 0]]),
    "another class is ignored": (
        lambda w, at: F.cross_entropy(w[:4].t()[:2], at, ignore_index=7, label_smoothing=0.1),
        [[0, 7], [0, -100]],
    ),
    "likelihoods": (lambda w, at: F.nll_loss(w[:4].t()[:2], at, None, None, 1), [[1, 2], [2, 4]]),
    "rows": (lambda w, at: F.embedding(at, w[:4]), [[3, 0], [3, 4], [-1, 0]]),
    "elements": (lambda w, at: w[:4].gather(0, at[:, None]), [[3, 0], [3, 4], [-1, 0]]),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_behind_a_write_to_a_parameter(operation: str, backend: str) -> None:
    """Nothing is written where the indices are wrong, but what Python writes when it finds out."""
    run, choices = OPERATIONS[operation]

    def function(weight: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            weight.add_(1)
        return run(weight, at)

    def given(at: list[int]) -> tuple[Any, ...]:
        return torch.linspace(0, 1, 4 * (MOST // 16 + 8)).view(-1, 4).requires_grad_(), torch.tensor(at)

    first, *others = map(given, choices)
    check(function, *first, changed=[given(choices[0][::-1]), *others], backend=backend, expect_breaks=0)


def test_a_number_that_is_read_behind_a_write() -> None:
    """Nothing is presumed about it, so nothing can fail; where it becomes a size, the graph ends before."""

    def counted(weight: torch.Tensor, at: torch.Tensor, seen: dict[str, int]) -> torch.Tensor:
        with torch.no_grad():
            weight.add_(1)
        seen["right"] += (at == 1).sum().item()
        return weight * 2

    def sized(weight: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            weight.add_(1)
        return torch.ones((at == 1).sum().item())

    def given(*at: int) -> tuple[Any, ...]:
        return torch.ones(3, requires_grad=True), torch.tensor(at)

    check(counted, *given(1, 2), {"right": 1}, changed=[(*given(1, 1), {"right": 5})], fullgraph=True)
    check(sized, *given(1, 2), changed=[given(1, 1), given(3, 2)], expect_breaks=None)
