"""Which calls are captured again: a number that was seen with a second value is symbolic from then on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch

import framelift
from tests.helpers import assert_same, transcript
from tests.helpers.record import Record

BACKENDS = ("eager", "aot_eager")


def captures(fn: Callable[..., Any], calls: Iterable[tuple[Any, ...]], **options: Any) -> list[int]:
    """How often each call was captured; the results must be eager's."""
    lifted = framelift.compile(fn, **{"backend": "eager", **options})
    counts = []
    for args in calls:
        record = Record()
        with record.listening():
            actual = lifted(*args)
        assert_same(fn(*args), actual)
        assert not record.failures
        counts.append(record.captures)
    return counts


def rows(*sizes: int) -> list[tuple[torch.Tensor]]:
    return [(torch.arange(n * 4.0).reshape(n, 4),) for n in sizes]


@pytest.mark.parametrize("backend", BACKENDS)
class TestSizes:
    def test_the_second_size_is_symbolic(self, backend: str) -> None:
        def fn(x):
            return x.sin() * x.shape[0]

        assert captures(fn, rows(3, 4, 5, 6), backend=backend) == [1, 1, 0, 0]

    def test_one_is_a_case_of_its_own(self, backend: str) -> None:
        def fn(x):
            return x.sin() + x.size(0)

        assert captures(fn, rows(3, 4, 5, 1, 1, 0, 0, 2), backend=backend) == [1, 1, 0, 1, 0, 1, 0, 0]

    def test_tensors_that_grow_together(self, backend: str) -> None:
        def fn(x, y):
            return x + y * len(y)

        calls = [(torch.ones(n), torch.ones(n)) for n in (3, 4, 5, 6)]
        assert captures(fn, calls, backend=backend) == [1, 1, 0, 0]

    def test_a_branch_on_a_size_is_one_entry_each(self, backend: str) -> None:
        def fn(x):
            return x.sin() if x.shape[0] > 10 else x.cos()

        assert captures(fn, rows(3, 4, 5, 20, 30, 9), backend=backend) == [1, 1, 0, 1, 0, 0]

    def test_sizes_in_views(self, backend: str) -> None:
        def fn(x):
            b, c = x.shape
            return x.reshape(b * c // 2, 2).sum(0), x.view(-1), x[: b // 2], x.flatten().view(b, 2, c // 2)

        assert captures(fn, rows(4, 6, 8, 10), backend=backend) == [1, 1, 0, 0]

    def test_an_assumption_of_an_operation_is_guarded(self, backend: str) -> None:
        def fn(x):
            return x.view(-1, 8)

        assert captures(fn, rows(4, 6, 8), backend=backend) == [1, 1, 0]
        lifted = framelift.compile(fn, backend=backend)
        with pytest.raises(RuntimeError, match="invalid for input of size"):
            lifted(torch.ones(7, 4))

    def test_two_layouts_are_two_entries(self, backend: str) -> None:
        def fn(x):
            return x.sin()

        square = torch.arange(9.0).reshape(3, 3)
        assert captures(fn, [(square,), (square.t(),), (square,)], backend=backend) == [1, 1, 0]

    def test_layouts_of_symbolic_sizes(self, backend: str) -> None:
        def fn(x):
            return x.t().reshape(-1)

        calls = [*rows(3, 5, 6), *[(x.t().contiguous().t(),) for (x,) in rows(5, 6, 7)]]
        assert captures(fn, calls, backend=backend) == [1, 1, 0, 1, 0, 0]

    def test_parts_of_larger_tensors(self, backend: str) -> None:
        large = torch.arange(64.0).reshape(8, 8)

        def fn(x):
            return x.sin() + x.shape[1]

        assert captures(fn, [(large[:, :n],) for n in (3, 4, 5, 6)], backend=backend) == [1, 1, 0, 0]

    def test_a_rank_is_a_case_of_its_own(self, backend: str) -> None:
        def fn(x):
            return x.sin()

        calls = [(torch.ones(3),), (torch.ones(3, 3),), (torch.ones(4, 4),), (torch.ones(5, 6),), (torch.ones(4),)]
        assert captures(fn, calls, backend=backend)[:4] == [1, 1, 1, 0]

    def test_inputs_that_share_memory(self, backend: str) -> None:
        """They have symbolic sizes, unless one of them is written to."""

        def fn(x, y):
            return x + y.sum()

        def writes(x, y):
            return x.mul_(1) + y.sum()

        def call(n):
            whole = torch.arange(float(n))
            return whole, whole[1:]

        assert captures(fn, [call(n) for n in (3, 4, 5, 6)], backend=backend) == [1, 1, 0, 0]
        assert captures(writes, [call(n) for n in (3, 4, 5)], backend=backend) == [1, 1, 1]

    def test_what_is_written_to(self, backend: str) -> None:
        def fn(x, y):
            x.add_(y)
            return x.shape[0]

        lifted = framelift.compile(fn, backend=backend)
        for n in (3, 4, 5):
            x, y = torch.zeros(n), torch.ones(n)
            assert lifted(x, y) == n
            assert x.sum() == n

    def test_gradients(self, backend: str) -> None:
        weight = torch.randn(4, 4, requires_grad=True)

        def fn(x):
            return (x @ weight).relu().sum() * x.shape[0]

        lifted = framelift.compile(fn, backend=backend)
        for (x,) in rows(3, 4, 5):
            (expected,) = torch.autograd.grad(fn(x), weight)
            (actual,) = torch.autograd.grad(lifted(x), weight)
            assert_same(expected, actual)


@pytest.mark.parametrize("backend", BACKENDS)
class TestNumbers:
    def test_int_argument(self, backend: str) -> None:
        def fn(x, n):
            return x * n + n // 2 - n % 3

        calls = [(torch.ones(3), n) for n in (3, 4, 5, 1, 0, -1)]
        assert captures(fn, calls, backend=backend) == [1, 1, 0, 0, 0, 0]

    def test_large_ints_are_no_symbols(self, backend: str) -> None:
        def fn(x, n):
            return x + (n > 0), n + 1

        calls = [(torch.ones(3), n) for n in (3, 4, 2**70, 5)]
        assert captures(fn, calls, backend=backend)[3] == 0

    def test_float_argument(self, backend: str) -> None:
        def fn(x, n):
            return x * n

        calls = [(torch.ones(3), n) for n in (1.5, 2.5, 3.5)]
        assert captures(fn, calls, backend=backend) == [1, 1, 0]

    def test_floats_leave_dtypes_alone(self, backend: str) -> None:
        def fn(x, n):
            return x * n, x + n / 2

        for dtype in (torch.int64, torch.float16, torch.float64, torch.bool):
            calls = [(torch.ones(3, dtype=dtype), n) for n in (1.5, 2.5, 3.5)]
            captures(fn, calls, backend=backend)

    def test_nan_and_infinity(self, backend: str) -> None:
        def fn(x, n):
            return x * n, n > 2.0

        calls = [(torch.ones(3), n) for n in (1.5, 2.5, 3.5, float("nan"), float("inf"), 4.5)]
        captures(fn, calls, backend=backend)

    def test_a_decision_is_guarded(self, backend: str) -> None:
        def fn(x, n):
            return x * n if 2 * n + 1 > 20 else x + n

        calls = [(torch.ones(3), n) for n in (3, 4, 5, 11, 12, 9)]
        assert captures(fn, calls, backend=backend) == [1, 1, 0, 1, 0, 0]

    def test_a_number_that_is_needed_is_guarded(self, backend: str) -> None:
        def fn(x, n):
            for _ in range(n):
                x = x + 1
            return x

        assert captures(fn, [(torch.ones(3), n) for n in (3, 4, 5, 4)], backend=backend) == [1, 1, 1, 0]

    def test_division_by_zero(self, backend: str) -> None:
        def fn(x, n):
            return x + 12 // n

        lifted = framelift.compile(fn, backend=backend)
        for n in (3, 4, 5):
            assert_same(fn(torch.ones(2), n), lifted(torch.ones(2), n))
        with pytest.raises(ZeroDivisionError):
            lifted(torch.ones(2), 0)

    def test_true_is_no_int(self, backend: str) -> None:
        def fn(x, n):
            return x * n, n

        captures(fn, [(torch.ones(3), n) for n in (3, 4, True, 5, 2.0)], backend=backend)

    def test_length_of_a_list(self, backend: str) -> None:
        def fn(x, items):
            return x + len(items)

        calls = [(torch.ones(3), list(range(n))) for n in range(1, 13)]
        assert captures(fn, calls, backend=backend) == [1, 1, *[0] * 10]

    def test_length_of_a_list_whose_items_are_used(self, backend: str) -> None:
        def fn(x, items):
            return x + len(items) + sum(items)

        calls = [(torch.ones(3), list(range(n))) for n in (1, 2, 3)]
        assert captures(fn, calls, backend=backend) == [1, 1, 1]


COUNTER = 0
TEN = [1, 1, *[0] * 8]


def count(call: Callable[[], Any]) -> list[int]:
    counts = []
    for _ in range(10):
        record = Record()
        with record.listening():
            call()
        assert not record.failures
        counts.append(record.captures)
    return counts


class TestCounters:
    def test_on_a_module(self) -> None:
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.step = 3
                self.linear = torch.nn.Linear(2, 2)

            def forward(self, x):
                self.step += 1
                return self.linear(x) * self.step

        model = Model()
        lifted = framelift.compile(model, backend="eager")
        assert count(lambda: lifted(torch.ones(2))) == TEN
        assert model.step == 13

    def test_on_an_object(self) -> None:
        class Clock:
            step = 0

        clock = Clock()
        clock.step = 5

        @framelift.compile(backend="eager")
        def fn(x, clock):
            clock.step += 1
            return x * clock.step

        assert count(lambda: fn(torch.ones(2), clock)) == TEN
        assert clock.step == 15

    def test_a_global(self) -> None:
        global COUNTER
        COUNTER = 2

        @framelift.compile(backend="eager")
        def fn(x):
            global COUNTER
            COUNTER += 1
            return x * COUNTER

        assert count(lambda: fn(torch.ones(2))) == TEN
        assert COUNTER == 12

    def test_in_a_dict(self) -> None:
        state = {"step": 7}

        @framelift.compile(backend="eager")
        def fn(x, state):
            state["step"] += 1
            return x * state["step"]

        assert count(lambda: fn(torch.ones(2), state)) == TEN
        assert state["step"] == 17

    def test_in_a_closure(self) -> None:
        step = 3

        def fn(x):
            nonlocal step
            step += 1
            return x * step

        lifted = framelift.compile(fn, backend="eager")
        assert count(lambda: lifted(torch.ones(2))) == TEN
        assert step == 13


class TestSharing:
    def test_modules_of_one_shape_share_an_entry(self) -> None:
        @framelift.compile(backend="eager")
        def fn(layer, x):
            return layer(x)

        layers = [torch.nn.Linear(3, 3) for _ in range(12)]
        record = Record()
        with record.listening():
            for layer in layers:
                fn(layer, torch.ones(3))
        assert record.captures == 1

    def test_closures_of_one_code_share_an_entry(self) -> None:
        def make():
            def fn(x):
                return x.sin()

            return framelift.compile(fn, backend="eager")

        record = Record()
        with record.listening():
            for _ in range(12):
                make()(torch.ones(3))
        assert record.captures == 1

    def test_blocks_that_only_test_a_number_share_an_entry(self) -> None:
        class Block(torch.nn.Module):
            def __init__(self, index):
                super().__init__()
                self.index = index

            def forward(self, x):
                return x.sin() if self.index >= 0 else x.cos()

        blocks = [framelift.compile(Block(i), backend="eager") for i in range(12)]
        record = Record()
        with record.listening():
            for block in blocks:
                block(torch.ones(3))
        assert record.captures == 1

    def test_models_do_not_share_their_history(self) -> None:
        def fn(model, x):
            return model(x)

        first, second = torch.nn.Linear(4, 4), torch.nn.ReLU()
        lifted = [framelift.compile(model, backend="eager") for model in (first, second)]
        record = Record()
        with record.listening():
            lifted[0](torch.ones(3, 4))
            lifted[1](torch.ones(5, 4))
        (graph,) = [g for g in record.graphs if "relu" in str(g.graph)]
        assert all(type(size) is int for node in graph.graph.nodes for size in getattr(_value(node), "shape", ()))


def _value(node: Any) -> Any:
    return node.meta.get("example_value")


class TestWords:
    def test_what_became_symbolic(self) -> None:
        def fn(x):
            return x.sin()

        assert transcript(fn, rows(3, 4, 5, 1)) == (
            "miss miss(L['x'].size()[0] was 3, now 4) hit "
            "miss(L['x'].size()[0] >= 2 was true, now L['x'].size()[0] is 1)"
        )

    def test_an_expression(self) -> None:
        def fn(x):
            return x.sin() if x.shape[0] % 2 == 0 else x.cos()

        assert transcript(fn, rows(3, 5, 7, 6)) == (
            "miss miss(L['x'].size()[0] was 3, now 5) hit "
            "miss((L['x'].size()[0] % 2) != 0 was true, now L['x'].size()[0] is 6)"
        )


class TestDynamicFalse:
    def test_every_size_is_an_entry(self) -> None:
        def fn(x, n):
            return x.sin() * n

        calls = [(x, n) for n, (x,) in enumerate(rows(3, 4, 5, 6))]
        assert captures(fn, calls, dynamic=False) == [1, 1, 1, 1]


def test_zeros_of_either_sign() -> None:
    """A number that changed is symbolic; but for zero, whose sign facts about symbols do not tell."""

    def fn(x, scale, number):
        product = scale * number
        framelift.graph_break()
        return x + 1, product, float.fromhex(float.hex(product)), str(number), math.copysign(1, product)

    lifted, x = framelift.compile(fn, backend="eager"), torch.ones(2)
    for scale in (1.0, -1.0, 2.0, -2.0, 3.0):
        for number in (0.0, -0.0, 1.0, -1.0, 0.5):
            assert repr(lifted(x, scale, number)) == repr(fn(x, scale, number))
