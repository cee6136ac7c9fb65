"""Generators of torch, and the default ones: the same numbers as eager, in one graph; what stays a break is one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import framelift
from tests.helpers import check, transcript

X = torch.arange(12.0).reshape(3, 4) / 5 - 1


def given() -> tuple[Any, ...]:
    return X.clone().requires_grad_(), torch.Generator().manual_seed(7)


def draws(x: Any, g: Any) -> Any:
    return x + torch.rand(4, generator=g), torch.randint(0, 9, (3,), generator=g), g.get_state(), g.device


def draws_in_place(x: Any, g: Any) -> Any:
    y = torch.empty(4)
    same = y.uniform_(generator=g) is y
    y.mul_(2).normal_(1, 2, generator=g)
    return x + y, same, torch.bernoulli(torch.full((3,), 0.5), generator=g), g.get_state()


def draws_by_weight(x: Any, g: Any) -> Any:
    chosen = torch.multinomial((x + 1).abs(), 2, generator=g)
    return chosen, torch.normal(x, x.abs(), generator=g), torch.randperm(5, generator=g), g.get_state()


def initialises(x: Any, g: Any) -> Any:
    weight = torch.nn.init.uniform_(torch.empty(4, 4), generator=g)
    return x @ torch.nn.init.xavier_normal_(weight, generator=g), g.get_state()


def seeds(x: Any, g: Any) -> Any:
    same = g.manual_seed(2) is g
    return x + torch.rand(4, generator=g), same, g.get_state()


def sets_back(x: Any, g: Any) -> Any:
    state = g.get_state()
    first = torch.rand(4, generator=g)
    g.set_state(state)
    return x + first - torch.rand(4, generator=g), state, g.get_state()


def clones(x: Any, g: Any) -> Any:
    other = g.clone_state()
    first = torch.rand(4, generator=g)
    return x + first - torch.rand(4, generator=other), other.get_state(), g.get_state()


def draws_gradient(x: Any, g: Any) -> Any:
    y = x * 2
    y[0].uniform_(generator=g)
    return y * torch.bernoulli(torch.sigmoid(x), generator=g), g.get_state()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "program",
    [draws, draws_in_place, draws_by_weight, initialises, seeds, sets_back, clones, draws_gradient],
    ids=lambda program: program.__name__,
)
def test_given_generator(program: Any, backend: str) -> None:
    check(program, inputs=given, backend=backend, fullgraph=True)


def made(x: Any) -> Any:
    g = torch.Generator()
    first = torch.rand(4, generator=g)
    return x + first + torch.rand(4, generator=torch.Generator("cpu").manual_seed(5)), g.get_state()


def default_generator_given(x: Any) -> Any:
    return x + torch.rand(4, generator=torch.default_generator) + torch.rand(4), torch.default_generator.device


def seeded(x: Any) -> Any:
    g = torch.manual_seed(3)
    first = torch.rand(4, generator=g)
    torch.manual_seed(-3)
    return x + first, torch.randn(4), torch.nn.Linear(4, 2)(x)


def seeded_for_cuda(x: Any) -> Any:
    torch.cuda.manual_seed(1)
    torch.cuda.manual_seed_all(2)
    torch.default_generator.manual_seed(3)
    return x + torch.rand(4)


def state_set_back(x: Any) -> Any:
    state = torch.get_rng_state()
    first = torch.nn.functional.dropout(x)
    torch.set_rng_state(state)
    return first - torch.nn.functional.dropout(x), torch.random.get_rng_state()


def forked(x: Any) -> Any:
    with torch.random.fork_rng():
        first = torch.rand(4)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        second = torch.rand(4)
    return x + first - torch.rand(4), second


def forked_and_raised(x: Any) -> Any:
    try:
        with torch.random.fork_rng():
            first = torch.rand(4)
            raise ValueError
    except ValueError:
        return x + first - torch.rand(4)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "program",
    [made, default_generator_given, seeded, seeded_for_cuda, state_set_back, forked, forked_and_raised],
    ids=lambda program: program.__name__,
)
def test_default_generator(program: Any, backend: str) -> None:
    check(program, X, backend=backend, fullgraph=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_default_generator_of_a_gpu(backend: str) -> None:
    def f(x: Any) -> Any:
        state = torch.cuda.get_rng_state()
        with torch.random.fork_rng():
            first = torch.rand(4, device="cuda")
        second = torch.rand(4, device="cuda")
        torch.cuda.set_rng_state(state)
        return x + first - second, second - torch.rand(4, device="cuda"), torch.cuda.get_rng_state()

    x = X.cuda()
    lifted = framelift.compile(f, backend=backend, fullgraph=True)
    for seed in (1, 2):
        torch.manual_seed(seed)
        expected = (*f(x), torch.rand(2, device="cuda"))
        torch.manual_seed(seed)
        assert all(map(torch.equal, (*lifted(x), torch.rand(2, device="cuda")), expected))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_states_and_draws_keep_their_order_in_training(backend: str) -> None:
    def f(x: Any) -> Any:
        state = torch.get_rng_state()
        first = torch.nn.functional.dropout(x * 2)
        torch.set_rng_state(state)
        second = torch.nn.functional.dropout(x * 2)
        torch.manual_seed(1)
        return first, second, torch.nn.functional.dropout(x)

    check(f, X.clone().requires_grad_(), backend=backend, fullgraph=True)


def test_generator_that_is_returned() -> None:
    def f(x: Any) -> Any:
        g = torch.Generator().manual_seed(4)
        return x + torch.rand(4, generator=g), g

    lifted = framelift.compile(f, fullgraph=True)
    for _ in range(2):
        (y, g), (expected, wanted) = lifted(X), f(X)
        assert torch.equal(y, expected) and torch.equal(torch.rand(2, generator=g), torch.rand(2, generator=wanted))


def test_generator_across_a_break() -> None:
    def f(x: Any, g: Any) -> Any:
        torch.manual_seed(3)
        made = torch.Generator().manual_seed(9)
        first = torch.rand(4, generator=g) + torch.rand(4, generator=made) + torch.rand(4)
        n = x.sum().item()
        if n > 100:
            first = first + 1
        again = torch.rand(4, generator=g) + torch.rand(4, generator=made) + torch.rand(4)
        return x + first + again, g.get_state()

    check(f, inputs=given, expect_breaks=1)


def test_error_leaves_what_was_drawn() -> None:
    def f(x: Any, g: Any) -> Any:
        torch.manual_seed(3)
        y = torch.rand(4, generator=g) + torch.rand(4)
        index = torch.tensor([0, 7])
        return y[index] + x

    check(f, inputs=given, expect_breaks=None, expect_ops=0)


def test_a_default_generator_in_place_of_another_is_seen() -> None:
    def f(x: Any, g: Any) -> Any:
        return x + torch.rand(4, generator=g)

    def calls() -> Any:
        own = torch.Generator().manual_seed(1)
        return [(X, own), (X, torch.Generator()), (X, torch.default_generator), (X, None)]

    words = transcript(f, calls()).split()
    assert words[0].startswith("miss"), words
    assert words[1] == "hit", words
    assert words[2].startswith("miss"), words
    check(f, X, torch.default_generator, inputs=lambda: (X, torch.default_generator), fullgraph=True)


def test_wrong_seed_raises() -> None:
    def f(x: Any) -> Any:
        y = x + 1
        torch.manual_seed(1 << 70)
        return y

    check(f, X, expect_breaks=None, expect_ops=0)


@pytest.mark.parametrize("wrong", ["short", "dtype"])
def test_what_is_no_state(wrong: str) -> None:
    def f(x: Any, g: Any) -> Any:
        y = x + torch.rand(4, generator=g)
        state = torch.zeros(4, dtype=torch.uint8) if wrong == "short" else torch.zeros(5056)
        g.set_state(state)
        return y

    check(f, inputs=given, expect_breaks=None)


def test_checkpoint_of_a_function_that_draws_from_a_generator_is_a_break() -> None:
    def f(x: Any, g: Any) -> Any:
        return checkpoint(lambda y: y * torch.rand(4, generator=g), x * 2, use_reentrant=False), g.get_state()

    check(f, inputs=given, expect_breaks=None)
