"""`random`: in one graph, the same numbers as eager, and generators left in eager's state."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import framelift
from tests.helpers import check

X = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_numbers_of_the_hidden_generator_are_in_the_graph(backend: str) -> None:
    def f(x: torch.Tensor) -> Any:
        scale = random.uniform(0.5, 2) + random.random()
        return x * scale + random.randint(3, 9), random.gauss(0, 1), random.randrange(4)

    check(f, X, fullgraph=True, expect_hit=True, backend=backend)


def test_numbers_that_nobody_uses_are_drawn() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        random.random()
        random.gauss(0, 1)
        return x + 1

    check(f, X, fullgraph=True)


def test_draws_keep_their_order_where_effects_use_a_later_one_first() -> None:
    def f(x: torch.Tensor, log: list[Any]) -> torch.Tensor:
        log.append(None)
        first = random.random()
        log[0] = random.random()
        return x * first

    check(f, X, [], fullgraph=True)


def test_a_generator_of_a_module() -> None:
    class Noise(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.random = random.Random(3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.random.random()

    eager, lifted = Noise(), Noise()
    compiled = framelift.compile(lifted, backend="eager", fullgraph=True)
    for _ in range(4):
        assert torch.equal(eager(X), compiled(X))
    assert eager.random.getstate() == lifted.random.getstate()


def test_a_branch_on_a_number_is_one_break() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return y * 2 if random.random() < 0.5 else y - 1

    check(f, X, expect_breaks=1, expect_hit=False)


@pytest.mark.parametrize("bad", [True, False])
def test_a_graph_that_raises_takes_draws_back(bad: bool) -> None:
    def f(x: torch.Tensor, index: torch.Tensor) -> Any:
        scale = random.random()
        try:
            return x.index_select(0, index) * scale
        except IndexError:
            return x * random.random(), scale

    good = torch.tensor([0])
    check(f, X, good, changed=[(X, torch.tensor([9]) if bad else good), (X, good)], expect_breaks=None)


def test_a_generator_that_the_program_makes() -> None:
    def f(x: torch.Tensor) -> Any:
        own = random.Random(42)
        order = [1, 2, 3, 4]
        own.shuffle(order)
        parts = own.sample("abcdef", 3), own.choices("xyz", weights=[1, 2, 3], k=4), own.choice([x, x + 1])
        return x * own.random() + own.randint(0, 5) + own.gauss(0, 1), order, parts, own.getrandbits(80), own.random()

    check(f, X, fullgraph=True)


def test_a_generator_that_the_program_makes_and_returns() -> None:
    def f(x: torch.Tensor) -> Any:
        own = random.Random("seed")
        own.gauss(0, 1)
        return x + 1, own

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    assert lifted(X)[1].getstate() == f(X)[1].getstate()


def test_a_seed_makes_numbers_known() -> None:
    def f(x: torch.Tensor) -> Any:
        before = random.random()
        random.seed(5)
        state = random.getstate()
        first = random.choice([2, 3, 5])
        random.setstate(state)
        return x * before, first == random.choice([2, 3, 5]), random.gauss(0, 1)

    check(f, X, fullgraph=True)


def test_an_argument_that_has_its_state() -> None:
    def f(x: torch.Tensor, own: random.Random) -> torch.Tensor:
        return x * own.random() + own.randint(0, 1 << 40)

    check(f, X, random.Random(1), fullgraph=True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_chosen_numbers_are_in_the_graph(backend: str) -> None:
    def f(x: torch.Tensor) -> Any:
        scale, offset = random.choice([0.5, 1.5, -0.0]), random.choice((1, 2, 3))
        picked = random.choices([10.0, 20.0], weights=[1, 3], k=3)
        return x * scale + offset + sum(picked), picked, random.sample(range(100), 3), random.choice(range(5))

    check(f, X, fullgraph=True, expect_hit=True, backend=backend)


def test_chosen_rows() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x[random.randrange(2)] + x[:, random.choice([0, 2])][0]

    check(f, X, fullgraph=True)


def test_shuffled_numbers() -> None:
    def f(x: torch.Tensor, given: list[int]) -> Any:
        order = [0, 1, 2]
        random.shuffle(order)
        random.shuffle(given)
        random.shuffle([7])
        return torch.stack([x[:, column] for column in order]), order

    check(f, X, [4, 5, 6, 7], fullgraph=True)


@pytest.mark.parametrize(
    "choose",
    [
        lambda x: (x + 1, random.choice(["a", "b"])),
        lambda x: random.choice([x, x + 1]),
        lambda x: (x + 1, random.choice([1, 2.5])),
        lambda x: (x + 1, random.choice([1, 1 << 70])),
        lambda x: (x + 1, random.sample("abc", 2)),
        lambda x: (x + 1, random.choices([True, False], k=2)),
    ],
)
def test_choices_among_other_things_are_left_to_python(choose: Any) -> None:
    check(choose, X, expect_breaks=1, expect_hit=False)


def test_wrong_choices_raise_what_they_raise() -> None:
    def f(x: torch.Tensor) -> Any:
        try:
            return random.sample([1, 2], 3)
        except ValueError as error:
            return x + 1, str(error)

    check(f, X, expect_breaks=None)


def test_what_does_not_fit_a_tensor_is_a_break() -> None:
    check(lambda x: (x + 1, random.getrandbits(100)), X, expect_breaks=1)
    check(lambda x: (x + 1, random.randint(0, 1 << 70)), X, expect_breaks=1)


def test_wrong_arguments_raise_what_they_raise() -> None:
    def f(x: torch.Tensor) -> Any:
        try:
            return random.randint(5, 1)
        except ValueError as error:
            return x + 1, str(error)

    check(f, X, expect_breaks=None)


def test_a_class_of_its_own_is_no_known_generator() -> None:
    class Loaded(random.Random):
        def random(self) -> float:
            return 0.5

    own = Loaded()
    check(lambda x: x * own.random() + own.uniform(1, 2), X, expect_breaks=None, expect_ops=0)


def test_very_many_numbers_are_left_to_python() -> None:
    def f(x: torch.Tensor) -> Any:
        x = x + 1
        numbers = list(range(2000))
        random.shuffle(numbers)
        return x, numbers

    breaks = check(f, X, expect_breaks=None).record.breaks
    assert any("too many random numbers" in broke.reason for broke in breaks)


def test_a_method_that_is_replaced(monkeypatch):
    class Counted:
        def __init__(self):
            self.calls = 0

        def __call__(self):
            self.calls += 1
            return 0.25

    def f(x):
        return x * random.gammavariate(1.0, 2.0) + random.uniform(0, 4)

    lifted = framelift.compile(f, backend="eager")
    random.seed(3)
    expected = f(torch.ones(2))
    random.seed(3)
    assert torch.equal(lifted(torch.ones(2)), expected)
    own = Counted()
    monkeypatch.setattr(random.Random, "random", own)
    assert torch.equal(f(torch.ones(2)), lifted(torch.ones(2))) and own.calls == 4
    assert torch.equal(f(torch.ones(2)), lifted(torch.ones(2))) and own.calls == 8
    monkeypatch.undo()
    random.seed(3)
    assert torch.equal(lifted(torch.ones(2)), expected)
