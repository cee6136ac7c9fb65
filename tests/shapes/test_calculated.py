"""Functions of numbers that change: Python calculates them in each call, and one entry serves all."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framelift
from tests.helpers import assert_same, check
from tests.helpers.record import Record
from tests.shapes.test_sequences import captures

BACKENDS = ("eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow))

OF_NUMBERS: dict[str, Callable[..., Any]] = {
    "power": lambda x, n: x * n**2 + 0.9**n,
    "high power": lambda x, n: x * n**7,
    "functions": lambda x, n: x * math.sqrt(n) + math.cos(n) * math.log(n) - math.exp(-n),
    "schedule": lambda x, n: x * 0.5 * (1 + math.cos(math.pi * n / 100)),
    "rounded": lambda x, n: x * round(n / 3, 2) + round(n / 3) + abs(n - 5),
    "whole": lambda x, n: x + math.ceil(n / 4) + math.floor(n / 4) + int(n / 2) + int(n) + float(n),
    "parts": lambda x, n: (x + divmod(n, 4)[0], n // 0.5, n % 3),
    "returned": lambda x, n: (x + 1, math.sin(n), n**2, [round(n, 1)]),
    "of another": lambda x, n: x * math.sin(math.cos(n) + 1) ** 2,
    "tensor": lambda x, n: (torch.tensor(n) + x, torch.tensor([n, 2]), torch.tensor(n, dtype=torch.float16)),
    "options": lambda x, n: (torch.full((2,), n), torch.lerp(x, x + 1, n / 100), x.addcdiv(x, x + 1, value=-n)),
}
OF_INTS: dict[str, Callable[..., Any]] = {
    "bits": lambda x, n: x + (n << 1) + (n & ~1) + (n | 8) + (n ^ 3) + (n >> 1) + (-n) + ~n,
    "index": lambda x, n: x + operator.index(n) + math.gcd(n, 4) + math.isqrt(n),
}
OF_SIZES: dict[str, Callable[..., Any]] = {
    "scale": lambda x: x * x.shape[0] ** -0.5 / math.sqrt(x.shape[0]),
    "product": lambda x: x + math.prod(x.shape) + int(x.shape[0]),
    "a size again": lambda x: (x[: math.ceil(x.shape[0] / 4)], torch.ones(x.shape[0] ** 2), x[: int(x.shape[0]) // 2]),
    "tensor": lambda x: torch.tensor(x.shape) + torch.tensor([x.shape[0]]),
}


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    framelift.reset()
    yield


@pytest.mark.parametrize("backend", BACKENDS)
class TestOneEntry:
    @pytest.mark.parametrize("name", OF_NUMBERS)
    def test_of_floats(self, name: str, backend: str) -> None:
        _check(OF_NUMBERS[name], [(torch.ones(3), n) for n in (1.5, 2.75, 3.25, 7.5, 9.0)], backend)

    @pytest.mark.parametrize("name", [*OF_NUMBERS, *OF_INTS])
    def test_of_ints(self, name: str, backend: str) -> None:
        function = {**OF_NUMBERS, **OF_INTS}[name]
        _check(function, [(torch.ones(3), n) for n in (6, 8, 9, 12, 20)], backend)

    @pytest.mark.parametrize("name", OF_SIZES)
    def test_of_sizes(self, name: str, backend: str) -> None:
        _check(OF_SIZES[name], [(torch.arange(2.0 * n).reshape(n, 2),) for n in (6, 8, 9, 12, 20)], backend)


def _check(function: Callable[..., Any], calls: list[tuple[Any, ...]], backend: str) -> None:
    if backend == "inductor":
        lifted = framelift.compile(function, backend=backend)
        record = Record()
        with record.listening():
            for args in calls:
                torch.testing.assert_close(lifted(*args), function(*args))
        # Inductor needs some options of operations as constants: then each is an entry, and right.
        assert record.captures == 2 or function is OF_NUMBERS["options"]
    else:
        assert captures(function, calls, backend=backend) == [1, 1, 0, 0, 0]


def test_a_step_that_is_counted() -> None:
    """Adam's corrections: the step is in the exponent."""

    class Corrected(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.step = 0

        def forward(self, x):
            self.step += 1
            return x / (1 - 0.9**self.step) / math.sqrt(1 - 0.999**self.step)

    models = Corrected(), Corrected()
    lifted = framelift.compile(models[0], backend="eager")
    record = Record()
    with record.listening():
        for _ in range(10):
            assert_same(models[1](torch.ones(2)), lifted(torch.ones(2)))
    assert record.captures == 2 and models[0].step == 10


class TestWhatIsDecided:
    def test_the_numbers_are_guarded(self) -> None:
        def fn(x, n):
            return x + 1 if math.cos(n) > 0 else x - 1

        assert captures(fn, [(torch.ones(2), n) for n in (3, 4, 5, 6, 5, 3)]) == [1, 1, 1, 1, 0, 0]

    def test_a_size(self) -> None:
        def fn(x, f):
            return torch.zeros(round(f)) + x[: int(f)].sum()

        captures(fn, [(torch.arange(9.0), f) for f in (2.5, 3.75, 4.0, 2.5, 0.5, 1.0)])


class TestWhatRaises:
    """What the function raises, and when, is Python's."""

    def test_out_of_its_domain(self) -> None:
        def fn(x, n, seen):
            seen.append(n)
            print("before")
            return x * math.sqrt(n)

        calls = [(torch.ones(2), n, []) for n in (4, 9, 16, -1, 25)]
        check(fn, *calls[0], changed=calls[1:])

    def test_handled(self) -> None:
        def fn(x, n):
            try:
                return x * (2.0 / n) ** n * math.log(n)
            except (ValueError, ZeroDivisionError, OverflowError) as error:
                return x, str(error)

        calls = [(torch.ones(2), n) for n in (4, 9, 16, 0, -3, 25)]
        check(fn, *calls[0], changed=calls[1:])

    def test_without_a_graph(self) -> None:
        def fn(n, seen):
            seen.append(n)
            return math.sqrt(n)

        calls = [(n, []) for n in (4, 9, 16, -1, 25)]
        check(fn, *calls[0], changed=calls[1:], expect_ops=0)

    def test_another_kind_of_number(self) -> None:
        def fn(x, n, f):
            return x * 2**n, 2**n, f**0.5

        calls = [(torch.ones(2), n, f) for n, f in ((4, 4.0), (9, 9.0), (16, 2.0), (-1, 3.0), (3, -1.0), (2000, 1.0))]
        check(fn, *calls[0], changed=calls[1:])

    def test_what_nobody_needs(self) -> None:
        def fn(x, n):
            math.sqrt(n)
            return x + 1 if isinstance(2**n, int) else x - 1

        calls = [(torch.ones(2), n) for n in (4, 9, 16, 0, -1, 3)]
        check(fn, *calls[0], changed=calls[1:])

    def test_not_finite(self) -> None:
        def fn(x, f):
            return x * f**2, f * 1e300

        calls = [(torch.ones(2), f) for f in (2.0, 3.0, 1e200, float("inf"), float("nan"), 4.0)]
        check(fn, *calls[0], changed=calls[1:])


def test_across_a_break() -> None:
    def fn(x, n):
        scale = 0.5**n
        x = x * scale
        framelift.graph_break()
        return x + scale, scale

    calls = [(torch.ones(2), n) for n in (3, 4, 5, 6)]
    check(fn, *calls[0], changed=calls[1:], expect_breaks=None)


def test_what_is_changed_afterwards() -> None:
    """The numbers are those the frame was entered with."""

    def fn(x, state):
        scale = 0.5 ** state["n"]
        state["n"] += 1
        x.add_(0.5 ** state["n"])
        return x * scale, math.sin(state["n"])

    calls = [(torch.ones(2), {"n": n}) for n in (3, 4, 5, 6)]
    check(fn, *calls[0], changed=calls[1:])


def test_a_float_that_no_operation_takes() -> None:
    def fn(x, f):
        return x + 1, f * 2

    for backend in ("eager", "aot_eager"):
        framelift.reset()
        assert captures(fn, [(torch.ones(2), f) for f in (1.5, 2.5, 3.5)], backend=backend) == [1, 1, 0]


def test_gradients() -> None:
    def fn(x, n):
        return (x.sin() * 0.9**n).sum() * math.sqrt(n)

    lifted = framelift.compile(fn, backend="aot_eager")
    for n in (2, 3, 4, 5):
        x = torch.linspace(0, 1, 5).requires_grad_()
        expected, actual = [torch.autograd.grad(f(x, n), x)[0] for f in (fn, lifted)]
        assert_same(expected, actual)


def test_exported_graphs_take_arguments_only() -> None:
    module, _ = framelift.export(lambda x: x * math.sqrt(x.shape[0]), torch.ones(4))
    assert_same(torch.ones(4) * 2, module(torch.ones(4)))
