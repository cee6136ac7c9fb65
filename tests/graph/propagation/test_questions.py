"""Operations that look at data, and decide by it only whether to raise or to warn."""

from __future__ import annotations

import pytest
import torch

from framelift.graph.propagation.questions import Answers, whatever_the_data
from tests.helpers import check

X = torch.arange(12.0).reshape(3, 4).sin()
SPECTRUM = torch.ones(3, 5, dtype=torch.complex64)


def covariance(x, weights):
    return torch.cov(x, fweights=weights) * 2


def test_what_does_not_raise_is_one_graph():
    weights = torch.tensor([1, 2, 1, 3])
    check(covariance, X, weights, fullgraph=True)
    check(lambda x: torch.corrcoef(x) + 1, X.clone().requires_grad_(), fullgraph=True)
    check(lambda z, w: torch.istft(z, 4, window=w) + 1, SPECTRUM, torch.ones(4), changed=[(SPECTRUM * 2, X[0] + 3)])


def test_what_raises_raises_when_it_runs():
    good, bad = torch.ones(4, dtype=torch.int64), -torch.ones(4, dtype=torch.int64)
    check(covariance, X, good, changed=[(X, bad), (X, good)])
    check(covariance, X, bad, changed=[(X, good)], expect_breaks=None, expect_ops=0, expect_hit=False)
    check(lambda z, w: torch.istft(z, 4, window=w) + 1, SPECTRUM, torch.ones(4), changed=[(SPECTRUM, torch.zeros(4))])


def test_what_nobody_uses_raises_as_well():
    def f(x, weights):
        torch.cov(x, fweights=weights)
        return x + 1

    good, bad = torch.ones(4, dtype=torch.int64), -torch.ones(4, dtype=torch.int64)
    check(f, X, good, changed=[(X, bad)])


def test_what_was_written_before_it_raises_is_taken_back():
    def f(x, weights):
        x.add_(1)
        try:
            return torch.cov(x, fweights=weights) + 1
        except RuntimeError:
            return x * 2

    good, bad = torch.ones(4, dtype=torch.int64), -torch.ones(4, dtype=torch.int64)
    check(f, X, good, changed=[(X, bad)], expect_breaks=None)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_backend_that_cannot_ask_has_a_break_there(backend):
    expected = {"eager": 0, "aot_eager": None}[backend]
    check(lambda x: torch.corrcoef(x) + 1, X, backend=backend, expect_breaks=expected, expect_hit=False)


def run_on(operation):
    """How often an operation is run, and what comes of it; it is given a function that asks."""
    runs = []

    def run(answers: Answers):
        runs.append(answers)
        return operation(answers.next)

    return whatever_the_data(run, lambda tensor: tuple(tensor.shape)), len(runs)


def raising_if(condition: bool, error: type[Exception] = RuntimeError) -> None:
    if condition:
        raise error("so it is")


def test_every_series_of_answers_is_tried():
    def operation(ask):
        if ask():
            raising_if(ask())
            return torch.ones(2)
        raising_if(not ask(), ValueError)
        return torch.zeros(2)

    results, runs = run_on(operation)
    assert runs == 4 and [tensor.tolist() for tensor in results] == [[1, 1], [0, 0]]


def test_results_that_differ_are_not_known():
    assert run_on(lambda ask: torch.ones(2 if ask() else 3)) == ([], 2)
    assert run_on(lambda ask: ask()) == ([], 2)
    assert run_on(lambda ask: (torch.ones(2), 1 if ask() else 1.0)) == ([], 2)


def test_what_fakes_cannot_answer_is_no_error_of_the_program():
    def operation(ask):
        raising_if(not ask(), NotImplementedError)
        return torch.ones(2)

    assert run_on(operation) == ([], 2)


def test_what_always_raises_gives_nothing():
    assert run_on(lambda ask: raising_if(ask() or True))[0] == []


def test_endless_questions_end():
    def operation(ask):
        while ask():
            raising_if(False)
        return torch.ones(2)

    endless = [0]

    def patient(ask):
        while endless[0] < 1000 and not ask():
            endless[0] += 1
        return torch.ones(2)

    assert run_on(patient)[1] <= 16
