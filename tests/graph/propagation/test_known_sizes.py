"""Results whose sizes follow from the arguments: combinations, the loss of sequences."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import framelift
from tests.helpers import check
from tests.helpers.record import Record
from tests.helpers.same import assert_same
from tests.tolerances import Tolerance

ITEMS = torch.tensor([3.0, 1.0, 2.0, 5.0])


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("with_replacement", [False, True])
def test_combinations(count, with_replacement):
    def f(x):
        chosen = torch.combinations(x, count, with_replacement)
        return chosen.shape[0], chosen * 2

    check(f, ITEMS, fullgraph=True)
    check(f, ITEMS.clone().requires_grad_(), fullgraph=True)
    check(f, ITEMS.long(), fullgraph=True)


def test_combinations_of_other_numbers_of_items():
    check(lambda x: torch.combinations(x) + 1, ITEMS, changed=[(ITEMS[:n],) for n in (3, 2, 1, 0)])


LOGITS = torch.arange(60.0).reshape(5, 2, 6).sin()


def losses(logits, targets, input_lengths, target_lengths, reduction):
    scores = logits.log_softmax(-1)
    return F.ctc_loss(scores, targets, input_lengths, target_lengths, reduction=reduction)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_ctc_loss(reduction):
    targets = torch.tensor([[1, 2, 3], [4, 5, 1]])
    lengths = [(torch.tensor([5, 5]), torch.tensor(target)) for target in ([3, 2], [1, 1], [0, 3])]
    calls = [(LOGITS.clone().requires_grad_(), targets, *pair, reduction) for pair in lengths]
    check(losses, *calls[0], changed=calls[1:], fullgraph=True)
    check(losses, *calls[0][:2], [5, 4], [3, 2], reduction, changed=[], fullgraph=True)


def test_ctc_loss_of_one_sequence():
    def f(logits, target):
        return F.ctc_loss(logits.log_softmax(-1), target, torch.tensor(5), torch.tensor(2))

    check(f, LOGITS[:, 0].clone().requires_grad_(), torch.tensor([1, 2]), fullgraph=True)


def test_ctc_loss_of_lengths_that_are_too_large():
    targets = torch.tensor([[1, 2, 3], [4, 5, 1]])
    good, bad = torch.tensor([5, 5]), torch.tensor([9, 5])
    calls = [(LOGITS, targets, lengths, torch.tensor([3, 2]), "mean") for lengths in (bad, good)]
    check(losses, *calls[1], changed=calls)


def solutions(a, b, driver):
    found = torch.linalg.lstsq(a, b, driver=driver)
    return found.solution * 1, found, found.solution.is_contiguous(), found.residuals.shape, found.singular_values.shape


@pytest.mark.parametrize("driver", [None, "gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (3, 3), (2, 4, 3), (0, 3)])
def test_lstsq(driver, shape):
    """LAPACK rounds by where matrices lie in memory: it cannot be asked for the same bits."""
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(shape, generator=generator).requires_grad_()
    b = torch.randn((*shape[:-1], 2), generator=generator)
    record = Record()
    lifted = framelift.compile(solutions, backend="eager")
    with record.listening():
        for left in (a, a * 2):
            assert_same(solutions(left, b, driver), lifted(left, b, driver), lambda dtype: Tolerance(1e-3, 1e-4))
    has_residuals_by_rank = driver in ("gelsd", "gelss") and shape[-2] > shape[-1]
    assert bool(record.breaks) == has_residuals_by_rank


def test_lstsq_of_a_vector():
    def f(a, b):
        return torch.linalg.lstsq(a, b).solution.shape, a + 1

    check(f, torch.eye(4, 3), torch.ones(4, 1), fullgraph=True)
