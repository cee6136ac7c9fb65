"""`mark_unbacked`: sizes of inputs that capture does not know, as if they depended on data."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

import framelift
from framelift.report.events import GraphBroke, RanEagerly
from tests.helpers import assert_same
from tests.helpers.record import Record
from tests.shapes.test_sequences import BACKENDS, captures, rows
from tests.tolerances import tolerance


def marked(*sizes: int, **bounds: int) -> list[tuple[torch.Tensor]]:
    calls = rows(*sizes)
    for (x,) in calls:
        framelift.mark_unbacked(x, 0, **bounds)
    return calls


def run(fn: Callable[..., Any], calls: list[tuple[Any, ...]], **options: Any) -> Record:
    """Call the lifted function; results must be eager's."""
    lifted = framelift.compile(fn, **{"backend": "eager", **options})
    record = Record()
    with record.listening():
        for args in calls:
            assert_same(fn(*args), lifted(*args), partial(tolerance, options.get("backend", "eager")))
    assert not record.failures
    return record


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * x.shape[0] + torch.ones(x.shape[0], 1)


@pytest.mark.parametrize("backend", BACKENDS)
class TestOneEntry:
    def test_whatever_the_size(self, backend: str) -> None:
        assert captures(scaled, marked(3, 4, 5, 6), backend=backend) == [1, 0, 0, 0]

    def test_sizes_0_and_1_are_cases_of_their_own(self, backend: str) -> None:
        assert captures(scaled, marked(3, 1, 0, 7, 1, 0), backend=backend) == [1, 1, 1, 0, 0, 0]

    def test_captured_with_size_1_first(self, backend: str) -> None:
        assert captures(scaled, marked(1, 3, 4, 1), backend=backend) == [1, 1, 0, 0]

    def test_bounds_are_guarded(self, backend: str) -> None:
        (first,), *others = marked(4, min=3, max=8) + rows(5, 9, 8)
        assert captures(scaled, [(first,), *others], backend=backend) == [1, 0, 1, 0]

    def test_two_tensors_of_one_size(self, backend: str) -> None:
        def fn(x, y):
            return x + y

        calls = [(marked(n)[0][0], marked(n)[0][0]) for n in (3, 4, 5)]
        record = run(fn, calls, backend=backend)
        assert record.captures == 1 and not record.of(RanEagerly)

    def test_a_reshape(self, backend: str) -> None:
        def fn(x):
            return x.reshape(-1, 2).sum(1), x.T.contiguous(), torch.cat([x, x]).mean(0)

        record = run(fn, marked(3, 6, 9), backend=backend)
        assert record.captures == 1 and not record.of(RanEagerly)

    def test_gradients(self, backend: str) -> None:
        def fn(x):
            return (x * x.shape[0]).tanh().sum()

        lifted = framelift.compile(fn, backend=backend)
        for (x,) in marked(3, 5):
            expected = torch.autograd.grad(fn(y := x.detach().clone().requires_grad_()), y)
            z = x.detach().clone().requires_grad_()
            framelift.mark_unbacked(z, 0)
            assert_same(expected, torch.autograd.grad(lifted(z), z))


def test_a_branch_is_a_break_that_names_the_size() -> None:
    def fn(x):
        y = x.sin()
        return y + 1 if x.shape[0] > 4 else y - 1

    record = run(fn, marked(3, 9))
    (first, *_) = record.of(GraphBroke)
    assert "L['x'].size()[0]" in first.reason


def test_what_the_program_checks_is_known() -> None:
    def fn(x):
        torch._check(x.shape[0] > 4)
        return x.sin() if x.shape[0] > 2 else x.cos()

    record = run(fn, marked(6, 9))
    assert record.captures == 1 and not record.of(GraphBroke)


def test_a_check_of_the_program_that_fails_raises() -> None:
    def fn(x):
        torch._check(x.shape[0] > 4, lambda: "too few rows")
        return x.sin()

    lifted = framelift.compile(fn, backend="eager")
    lifted(*marked(6)[0])
    for _ in range(2):
        with pytest.raises(RuntimeError, match="too few rows"):
            lifted(*marked(3)[0])


def test_a_guess_that_is_wrong_is_no_presumption() -> None:
    """torch's rules say that a size of 7 is not that of the other operand; here it is."""

    def fn(x, y):
        return torch.ops.aten.expand(x, y.shape) if x.shape[0] is y.shape[0] else x + y

    def same(x, y):
        return x + y

    for function in (fn, same):
        for sizes in ((3, 3), (4, 4), (1, 4), (4, 1)):
            x, y = (marked(size)[0][0] for size in sizes)
            run(function, [(x, y)])


def test_a_number_and_a_size() -> None:
    """What speaks of data as well is checked by the graph."""

    def fn(x, n):
        return x[: n.item()] * x.shape[0]

    calls = [(marked(6)[0][0], torch.tensor(n)) for n in (3, 5, 2, 1, 0, 9, -2)]
    record = run(fn, calls)
    assert not record.of(GraphBroke)


def test_the_layout_is_guarded() -> None:
    calls = [(torch.ones(3, 4),), (torch.ones(4, 5).t()[:, :4],), (torch.ones(6, 4),)]
    for (x,) in calls:
        framelift.mark_unbacked(x, 0)
    assert captures(scaled, calls) == [1, 1, 0]


def test_marks_of_torch() -> None:
    (first,), *others = rows(3, 4, 5)
    first._dynamo_unbacked_indices = {0}
    first._dynamo_unbacked_bounds = {0: (2, 4)}
    assert captures(scaled, [(first,), *others]) == [1, 0, 1]


def test_without_data_in_graphs_they_are_symbols() -> None:
    with framelift.config.patch(data_dependent=False):
        assert captures(scaled, marked(3, 4, 1)) == [1, 0, 1]


@pytest.mark.parametrize("strict", [False, True])
def test_torchs_function(strict: bool) -> None:
    script = pytest.importorskip("torch._dynamo.decorators")
    calls = rows(3, 4)
    for (x,) in calls:
        script.mark_unbacked(x, 0, strict=strict)
    assert captures(scaled, calls) == [1, 0]


@pytest.mark.slow
def test_with_inductor() -> None:
    def fn(x):
        return x.squeeze(0) * 2, scaled(x), x.expand(3, *x.shape)

    record = run(fn, marked(3, 5, 1, 0), backend="inductor")
    assert record.captures == 3 and not record.of(RanEagerly)
