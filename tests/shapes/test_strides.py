"""Strides and offsets that change from call to call: symbolic where sizes do not say what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import framelift
from tests.helpers import assert_same, check, transcript
from tests.shapes.test_sequences import BACKENDS, captures

WIDTHS = (5, 6, 7, 9)
# Captured once for numbers, once with a symbol, and then no more.
TWICE = [1, 1, 0, 0]


def part(width: int) -> Tensor:
    """Three columns of a wider tensor."""
    return torch.arange(4.0 * width).reshape(4, width)[:, :3]


LAYOUTS: dict[str, Callable[[int], Tensor]] = {
    "columns": part,
    "columns at the end": lambda n: torch.arange(4.0 * n).reshape(4, n)[:, -3:],
    "transposed": lambda n: part(n).t(),
    "permuted": lambda n: torch.arange(8.0 * n).reshape(2, 4, n)[:, :3, :3].permute(1, 2, 0),
    "two dimensions": lambda n: torch.arange(8.0 * n).reshape(2, 4, n)[:, :3, :3],
    "steps": lambda n: torch.arange(4.0 * n)[::n],
    "expanded": lambda n: part(n)[:, :1].expand(4, 5),
    "expanded in front": lambda n: part(n).expand(2, 4, 3),
    "one row": lambda n: part(n)[:1],
    "sizes as well": lambda n: torch.arange(4.0 * n).reshape(4, n)[:, : n - 2],
    "channels last": lambda n: (
        torch.arange(30.0 * n).reshape(2, 3, 5, n).contiguous(memory_format=torch.channels_last)[..., :3]
    ),
    "diagonal": lambda n: torch.arange(1.0 * n * n).reshape(n, n).diagonal()[:4],
    "complex": lambda n: torch.complex(part(n), part(n)),
    "real part": lambda n: torch.view_as_real(torch.ones(4, n, dtype=torch.cfloat))[:, :3, 0],
    "bool": lambda n: (part(n) > 3)[:, :2],
}

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "pointwise": lambda x: x + 1,
    "sum": lambda x: x.sum(0, keepdim=True) * 2,
    "stride()": lambda x: (x * 2, x.stride(), x.stride(0), x.stride(-1)),
    "stride as a factor": lambda x: x * x.stride(0),
    "contiguous": lambda x: x.contiguous() * 2,
    "is_contiguous": lambda x: (x * 2, x.is_contiguous(), x.t().is_contiguous()),
    "reshape": lambda x: x.reshape(-1) * 2,
    "flatten of the transposed": lambda x: x.t().flatten() * 2,
    "view": lambda x: x.view(2, 2, 3) * 2,
    "clone": lambda x: x.clone(),
    "preserved": lambda x: (torch.zeros_like(x), torch.empty_like(x).stride(), x.clone().stride()),
    "matmul": lambda x: x @ x.t(),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 2)) * 2,
    "as_strided by its own strides": lambda x: x.as_strided((2, 3), x.stride()) * 2,
    "empty_strided": lambda x: torch.empty_strided(x.shape, x.stride()).fill_(1.0).stride(),
    "unfold": lambda x: x.unfold(0, 2, 1) * 2,
    "views": lambda x: (x[1:], x[:, 1], x.t(), x.unsqueeze(0), x.split(2)),
    "a copy written to": lambda x: x.clone().add_(1).mul_(x),
    "cat": lambda x: torch.cat([x, x], 1),
    "where": lambda x: torch.where(x > 3, x, 0.0),
    "sort": lambda x: x.sort(0),
    "dot": lambda x: torch.dot(x[0], x[1]),
    "conv": lambda x: torch.nn.functional.conv1d(x[None], torch.ones(2, 4, 2)),
    "branch on a stride": lambda x: x + 1 if x.stride(0) > 3 else x - 1,
    "a copy no pass knows to be like it": lambda x: (
        x.clone(memory_format=torch.contiguous_format),
        x.t().contiguous(),
    ),
    "expanded copies": lambda x: (x.unsqueeze(0).expand(2, *x.shape), (x * 1).t().stride(), x.t() * 1),
    "arithmetic with strides": lambda x: x + x.stride(0) // 2 * x.shape[1] + x.stride(1),
}


@pytest.mark.parametrize("backend", BACKENDS)
class TestStrides:
    @pytest.mark.parametrize("name", LAYOUTS)
    def test_layouts(self, name: str, backend: str) -> None:
        calls = [(LAYOUTS[name](n),) for n in WIDTHS]
        counts = captures(lambda x: x * 2, calls, backend=backend)
        assert counts in (TWICE, [1, 0, 0, 0]) and (counts == TWICE) == (calls[0][0].stride() != calls[1][0].stride())

    @pytest.mark.parametrize("name", PROGRAMS)
    def test_programs(self, name: str, backend: str) -> None:
        assert captures(PROGRAMS[name], [(part(n),) for n in WIDTHS], backend=backend) == TWICE

    def test_what_is_written_to(self, backend: str) -> None:
        def fn(x, y):
            x.add_(y)
            return x.stride(0)

        lifted = framelift.compile(fn, backend=backend)
        for n in WIDTHS:
            whole = torch.zeros(4, n)
            assert lifted(whole[:, :3], torch.ones(3)) == n
            assert whole.sum() == 12 and whole[:, :3].sum() == 12

    def test_gradients(self, backend: str) -> None:
        weight = torch.randn(3, 3, requires_grad=True)

        def fn(x):
            return (x @ weight).relu().sum() * x.stride(0)

        lifted = framelift.compile(fn, backend=backend)
        for n in WIDTHS:
            for given in (part(n), part(n).requires_grad_(), torch.randn(4, n, requires_grad=True)[:, :3]):
                asked = [weight] + [given] * given.requires_grad
                expected = torch.autograd.grad(fn(given), asked)
                assert_same(expected, torch.autograd.grad(lifted(given), asked))

    def test_a_parameter_that_is_not_contiguous(self, backend: str) -> None:
        """Parameters are part of a model: an entry for each layout, all of them right."""
        calls = [(torch.nn.Parameter(part(n)), torch.ones(3)) for n in (*WIDTHS, *WIDTHS)]
        assert captures(lambda w, x: (w @ x).detach(), calls, backend=backend) == [1, 1, 1, 1, 0, 0, 0, 0]


class TestWhatIsGuarded:
    def test_contiguity_that_the_program_asked_about(self) -> None:
        def fn(x):
            return x * 2 if x.is_contiguous() else x * 3

        calls = [*[(part(n),) for n in WIDTHS], (torch.ones(4, 3),), (part(11),), (torch.ones(4, 3),)]
        assert captures(fn, calls) == [1, 1, 0, 0, 1, 0, 0]

    def test_a_memory_format(self) -> None:
        def fn(x):
            return x * 2 if x.is_contiguous(memory_format=torch.channels_last) else x * 3

        whole = torch.ones(2, 3, 5, 5)
        last = torch.ones(2, 3, 5, 3).contiguous(memory_format=torch.channels_last)
        calls = [(whole[..., :n],) for n in (3, 4)] + [(torch.ones(2, 3, 5, n)[..., :3],) for n in (6, 7, 8)]
        assert captures(fn, [*calls, (last,), (last,)])[-3:] == [0, 1, 0]

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_a_view_that_only_some_strides_allow(self, backend: str) -> None:
        def fn(x):
            return x.view(12) * 2

        lifted = framelift.compile(fn, backend=backend)
        for _ in range(2):
            assert lifted(torch.ones(4, 3)).sum() == 24
            for n in WIDTHS:
                with pytest.raises(RuntimeError, match="view size is not compatible"):
                    lifted(part(n))

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_strides_of_results_follow(self, backend: str) -> None:
        """A pointwise result keeps the order of its argument's dimensions, whatever comes next."""
        first = [part(n) for n in WIDTHS]
        calls = [*first, *[x.t().contiguous().t() for x in first], *[torch.ones(3, n).t()[:4] for n in (8, 9, 10)]]
        lifted = framelift.compile(lambda x: x + 1, backend=backend)
        for x in [*calls, *calls]:
            assert_same(x + 1, lifted(x))
            assert lifted(x).stride() == (x + 1).stride()

    def test_passes_assume_nothing(self) -> None:
        """Whether a product with one is a copy that lies as its operand does."""

        def fn(x, y):
            return x.stride(0) * y, x.t().stride()

        def columns(*strides):
            return torch.arange(80.0).as_strided((3, 4), strides)

        pairs = [((8, 2), (4, 1)), ((1, 0), (7, 1)), ((8, 2), (1, 0)), ((1, 3), (1, 4)), ((1, 5), (1, 6))]
        lifted = framelift.compile(fn, backend="eager")
        for x, y in [(columns(*one), columns(*other)) for one, other in pairs]:
            assert_same(fn(x, y), lifted(x, y))

    def test_strides_of_zero_and_one(self) -> None:
        calls = [(torch.arange(40.0)[::n][:4],) for n in (1, 2, 3, 4, 1)] + [(torch.ones(1).expand(4),)] * 2
        assert captures(lambda x: x + 1, calls) == [1, 1, 0, 0, 0, 1, 0]

    def test_overlapping_memory_written_to(self) -> None:
        def fn(x):
            return x.add_(1)

        lifted = framelift.compile(fn, backend="eager")
        for n in WIDTHS:
            assert_same(part(n).add_(1), lifted(part(n)))
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            lifted(torch.ones(3).expand(4, 3))


class TestTold:
    def test_the_stride_that_changed(self) -> None:
        words = transcript(lambda x: x + 1, [(part(n),) for n in (5, 6, 7)] + [(torch.ones(4, 1).expand(4, 3),)])
        assert words.startswith("miss miss(L['x'].stride()[0] was 5, now 6) hit miss(L['x'].stride()[1] was 1, now 0)")

    def test_dynamic(self) -> None:
        calls = [(part(n),) for n in WIDTHS]
        assert captures(lambda x: x + 1, calls, dynamic=True) == [1, 0, 0, 0]
        assert captures(lambda x: x + 1, calls, dynamic={"x": True}) == [1, 0, 0, 0]
        assert captures(lambda x: x + 1, calls, dynamic=False) == [1, 1, 1, 1]
        assert captures(lambda x: x + 1, calls, dynamic={"x": False}) == [1, 1, 1, 1]

    def test_a_call_that_was_not_captured_counts(self) -> None:
        with framelift.set_stance("eager_then_compile"):
            words = transcript(lambda x: x + 1, [(part(n),) for n in WIDTHS])
        assert words == "eager miss hit hit"


@pytest.mark.parametrize("backend", BACKENDS)
class TestOffsets:
    def test_an_offset_nobody_asks_for(self, backend: str) -> None:
        large = torch.arange(80.0).reshape(4, 20)
        assert captures(lambda x: x + 1, [(large[:, n : n + 3],) for n in WIDTHS], backend=backend) == [1, 0, 0, 0]

    def test_an_offset_in_a_sum(self, backend: str) -> None:
        large = torch.arange(80.0).reshape(4, 20)
        calls = [(large[:, n : n + 3],) for n in WIDTHS]
        assert captures(lambda x: x * x.storage_offset(), calls, backend=backend) == TWICE
        assert captures(lambda x: x + x.as_strided((4, 3), x.stride(), x.storage_offset()), calls) == TWICE

    def test_a_branch_on_an_offset(self, backend: str) -> None:
        large = torch.arange(80.0).reshape(4, 20)
        calls = [(large[:, n : n + 3],) for n in (5, 6, 7, 12, 13, 5)]
        fn = lambda x: x + 1 if x.storage_offset() < 10 else x - 1  # noqa: E731
        assert captures(fn, calls, backend=backend) == [1, 0, 0, 1, 0, 0]

    def test_the_offset_of_a_view(self, backend: str) -> None:
        large = torch.arange(80.0).reshape(4, 20)
        calls = [(large[:, n : n + 3],) for n in WIDTHS]
        assert captures(lambda x: x[1:] * x[1:, 1:].storage_offset(), calls[:1] * 2, backend=backend) == [1, 0]
        lifted = framelift.compile(lambda x: x[1:] * x[1:, 1:].storage_offset(), backend=backend)
        for (x,) in calls:
            assert_same(lifted(x), x[1:] * x[1:, 1:].storage_offset())


@pytest.mark.parametrize("backend", BACKENDS)
class TestSharedMemory:
    """Parts of one tensor: as long as nobody writes to it, each has its own sizes and strides."""

    def test_parts_of_one_tensor(self, backend: str) -> None:
        def attend(q, k, v):
            return (q @ k.transpose(-1, -2)).softmax(-1) @ v

        calls = [tuple(torch.randn(2, n, 12).chunk(3, -1)) for n in WIDTHS]
        assert captures(attend, calls, backend=backend) == TWICE

    def test_strides_only(self, backend: str) -> None:
        calls = [(whole[:, :3], whole[:, 2:5]) for whole in [torch.randn(4, n) for n in WIDTHS]]
        assert captures(lambda x, y: x * y.sum(), calls, backend=backend) == TWICE

    def test_some_have_symbols(self, backend: str) -> None:
        calls = [(whole[:4], whole[:n], whole[1:3]) for whole in [torch.randn(20)] for n in WIDTHS]
        fn = lambda x, y, z: (x * y.sum(), z + x[:2], y.view(-1))  # noqa: E731
        assert captures(fn, calls, backend=backend) == TWICE

    def test_one_is_written_to(self, backend: str) -> None:
        def fn(x, y):
            before = y.sum()
            x.add_(1)
            return before, y.sum()

        def call(function, n):
            whole = torch.zeros(n)
            return function(whole, whole[1:]), whole, function(whole[1:], whole), whole, function(whole, whole[:1])

        lifted = framelift.compile(fn, backend=backend)
        for n in WIDTHS:
            assert_same(call(fn, n), call(lifted, n))

    def test_one_comes_after_the_write(self, backend: str) -> None:
        def fn(x, ys):
            x.add_(1)
            return ys[0] * 2

        def call(function, n):
            whole = torch.zeros(n)
            return function(whole, [whole[1:]]), whole

        lifted = framelift.compile(fn, backend=backend)
        for n in WIDTHS:
            assert_same(call(fn, n), call(lifted, n))

    def test_one_is_changed_by_its_data(self, backend: str) -> None:
        def fn(x, y):
            doubled = y * 2
            x.data.fill_(7)
            return doubled, y + 1

        def call(function, n):
            whole = torch.zeros(n)
            return function(whole[:-1], whole[1:]), whole

        lifted = framelift.compile(fn, backend=backend)
        for n in WIDTHS:
            assert_same(call(fn, n), call(lifted, n))

    def test_gradients(self, backend: str) -> None:
        lifted = framelift.compile(lambda x, y: (x * y.sin()).sum(), backend=backend)
        for n in WIDTHS:
            whole = torch.randn(n, requires_grad=True)
            x, y = whole[1:] * 1, whole[:-1] * 1
            for one, other in ((whole[1:], whole[:-1]), (x, y), (whole[1:], x), (x[1:], x[:-1])):
                (expected,) = torch.autograd.grad((one * other.sin()).sum(), whole, retain_graph=True)
                (actual,) = torch.autograd.grad(lifted(one, other), whole, retain_graph=True)
                assert_same(expected, actual)


def test_a_break_and_what_follows() -> None:
    def fn(x):
        y = x.t()
        framelift.graph_break()
        return y + y.stride(1)

    check(fn, part(5), changed=[(part(6),), (part(7),), (torch.ones(4, 3),)], expect_breaks=2)  # with symbols again


def test_inductor() -> None:
    def fn(x):
        return (x * 2 + x.stride(0)).sum(1)

    assert captures(fn, [(part(n),) for n in (*WIDTHS, 16, 17)], backend="inductor") == [*TWICE, 0, 0]
