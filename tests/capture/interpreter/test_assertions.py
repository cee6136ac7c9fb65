"""Branches on a tensor's value one of which raises: captured as if it would not, and right if it does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.distributions import Bernoulli, Categorical, Independent, Normal, kl_divergence

from tests.capture.interpreter.asserting import after_a_write, after_an_effect, after_random, asserts, several_numbers
from tests.helpers import check

GOOD = torch.arange(6.0).reshape(2, 3) / 7
BAD = GOOD - 0.5


def raises(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    if (x < 0).any():
        raise ValueError(f"{x.shape} has negative numbers, at least {x.min()}")
    return y * 2


def either(x: torch.Tensor) -> torch.Tensor:
    if x.min() < 0 or x.max() > 1:
        raise ValueError("out of range")
    return x.sqrt()


def handled(x: torch.Tensor) -> torch.Tensor:
    try:
        if not torch.all(x >= 0):
            raise ValueError("negative")
        return x * 2
    except ValueError:
        return x * 3


def check_range(x: torch.Tensor) -> None:
    if x.sum() < 0:
        raise RuntimeError("sum")


def in_a_call(x: torch.Tensor) -> torch.Tensor:
    check_range(x)
    return x * 2


def value_unused(x: torch.Tensor) -> str:
    if (x < 0).any():
        raise ValueError("negative")
    return "fine"


PROGRAMS = [asserts, raises, either, handled, in_a_call, after_a_write, after_random, after_an_effect, value_unused]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", PROGRAMS)
def test_whatever_the_data(function: Any, backend: str) -> None:
    check(function, GOOD, changed=[(BAD,), (GOOD,), (BAD - 1,)], backend=backend)


def test_data_that_raises_at_once() -> None:
    check(raises, BAD, changed=[(GOOD,), (BAD,)], expect_hit=False)


def two_ways(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x + 1
    return x - 1


@pytest.mark.parametrize("function", [two_ways, several_numbers])
def test_left_to_python(function: Any) -> None:
    check(function, GOOD, changed=[(BAD,)], expect_breaks=None, expect_ops=0)


def normal(mean: torch.Tensor, scale: torch.Tensor) -> Any:
    distribution = Normal(mean, scale)
    sample = distribution.rsample()
    prior = Normal(torch.zeros_like(mean), torch.ones_like(scale))
    return sample, distribution.log_prob(sample), distribution.entropy(), kl_divergence(distribution, prior)


def categorical(logits: torch.Tensor) -> Any:
    distribution = Categorical(logits=logits)
    action = distribution.sample()
    return action, distribution.log_prob(action), distribution.entropy()


def bernoulli(p: torch.Tensor) -> Any:
    distribution = Bernoulli(probs=p)
    return distribution.sample(), distribution.log_prob(torch.ones_like(p))


def independent(mean: torch.Tensor, scale: torch.Tensor) -> Any:
    return Independent(Normal(mean, scale), 1).log_prob(mean + 1)


@pytest.mark.parametrize(
    ("function", "good", "bad"),
    [
        (normal, (GOOD, GOOD + 1), (GOOD, BAD)),
        (categorical, (GOOD,), (GOOD / 0,)),
        (bernoulli, (GOOD,), (GOOD + 1,)),
        (independent, (GOOD, GOOD + 1), (GOOD, BAD)),
    ],
)
def test_distributions(function: Any, good: Any, bad: Any) -> None:
    check(function, *good, changed=[bad, good])


def gaussian(x: torch.Tensor, target: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gaussian_nll_loss(x, target, variance)


def test_functions_that_check_their_arguments() -> None:
    check(gaussian, GOOD, GOOD, GOOD + 1, changed=[(GOOD, GOOD, BAD)])


def handed_on(x: torch.Tensor) -> bool:
    return bool((x >= 0).all())


def raises_elsewhere(x: torch.Tensor) -> torch.Tensor:
    if not handed_on(x):
        raise ValueError("not all are zero or more")
    return x + 1


@pytest.mark.parametrize(
    "function",
    [
        raises_elsewhere,
        lambda x: (x + 1, handed_on(x)),
        lambda x: (x + 1, bool(x.sum())),
        lambda x: (x + 1, bool(x.sum().long().item())),
        lambda x: [x + 1, bool((x[0] > 0).sum()), {"a": bool(x[:1, :1])}],
    ],
)
def test_truth_that_is_asked_for_before_the_branch(function: Any) -> None:
    check(function, GOOD, changed=[(BAD,), (GOOD,), (GOOD * 0,)])


def test_truth_of_several_numbers_is_an_error() -> None:
    check(lambda x: x + bool(x), GOOD, expect_breaks=None, expect_ops=0)
