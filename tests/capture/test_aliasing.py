"""Which tensors are one object, and which share memory: kept in results, and a reason for another entry."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift.capture.aliasing import those_that_share
from framelift.native import _core
from framelift.values.tensors.tensors import TensorValue
from tests.helpers import check
from tests.helpers.record import Record

X = torch.arange(6.0) + 1


def view_returned(x: Any) -> Any:
    return x.view(2, 3), x + 1


def input_returned(x: Any) -> Any:
    return x, x * 2, x


def intermediate_twice(x: Any) -> Any:
    y = x * 2
    return y, [y, {"y": y}]


def view_of_intermediate(x: Any) -> Any:
    y = x * 2
    return y, y.view(2, 3), y[1:]


def slice_of_input(x: Any) -> Any:
    y = x + 1
    return x[2:], y


def no_op(x: Any) -> Any:
    return x.contiguous(), x.to(torch.float32), x * 1, x.float()


def detached(x: Any) -> Any:
    return x.detach(), x.data, x + 1


def inplace_result_is_input(x: Any) -> Any:
    y = x.add_(1)
    return y is x, y


def written_view(x: Any) -> Any:
    y = x.view(2, 3)
    y[0].mul_(2)
    return x.sum()


def write_then_read(x: Any) -> Any:
    y = x[:3]
    z = y * 2
    x.add_(1)
    return y + z


def write_through_chain(x: Any) -> Any:
    x.view(2, 3).t()[0].zero_()
    return x.clone()


def write_to_intermediate_view(x: Any) -> Any:
    y = x * 1
    y[2:].zero_()
    y.view(-1)[0] = 5
    return y


def unsqueeze_in_place(x: Any) -> Any:
    y = x * 2
    y.unsqueeze_(0)
    return y, y.shape


def swap(x: Any) -> Any:
    a, b = x[:3].clone(), x[3:]
    x[:3] = b
    x[3:] = a
    return x


def expand_returned(x: Any) -> Any:
    return (x + 1)[:1].expand(4)


def identity(x: Any) -> Any:
    y = x * 2
    return y is x, y is y, x is x, y is not None, y


def as_keys(x: Any) -> Any:
    y = x * 2
    table = {x: 1, y: 2}
    return table[x] + table[y], y, x in table


def dict_with_tensor_keys(x: Any) -> Any:
    return {x: x * 2}


def in_a_set(x: Any) -> Any:
    seen = {x}
    seen.add(x)
    return len(seen), x + 1


def membership(x: Any) -> Any:
    items = [x, x * 2]
    return x in items[:1], items[1]


PROGRAMS = [
    view_returned,
    input_returned,
    intermediate_twice,
    view_of_intermediate,
    slice_of_input,
    no_op,
    detached,
    inplace_result_is_input,
    written_view,
    write_then_read,
    write_through_chain,
    write_to_intermediate_view,
    unsqueeze_in_place,
    swap,
    expand_returned,
    identity,
    as_keys,
    in_a_set,
    membership,
]


@pytest.mark.parametrize("function", PROGRAMS)
def test_programs(function: Callable[[Any], Any]) -> None:
    check(function, X, expect_breaks=None)


@pytest.mark.parametrize("function", [written_view, write_then_read, swap])
def test_programs_with_aot_eager(function: Callable[[Any], Any]) -> None:
    check(function, X, backend="aot_eager")


def shares_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_results_share_memory_as_in_eager(backend: str) -> None:
    def function(x: torch.Tensor) -> Any:
        y = x * 2
        return x.view(2, 3), x[1:], y, y.view(-1), x

    lifted = framelift.compile(function, backend=backend)
    x = X.clone()
    for _ in range(2):
        view, part, y, flat, same = lifted(x)
        assert shares_memory(view, x) and shares_memory(part, x) and same is x
        assert shares_memory(y, flat) and not shares_memory(y, x)
        assert view._base is x


def write_then_derive(a: Any, b: Any) -> Any:
    a.mul_(2)
    return (b.sin() * a).sum()


def derive_then_write(a: Any, b: Any) -> Any:
    c = b.sin()
    a.mul_(2)
    return (c * a).sum()


def write_unseen(a: Any, b: Any) -> Any:
    with torch.no_grad():
        a.add_(1)
    return (b * b * a).sum()


def write_both(a: Any, b: Any) -> Any:
    a.add_(1)
    b.mul_(3)
    return (a * b).sum()


TWO_VIEWS = {
    "beside": lambda t: (t[:3], t[3:]),
    "same": lambda t: (t[:3], t[:3]),
    "overlapping": lambda t: (t[:3], t[1:4]),
    "between": lambda t: (t[::2], t[1::2]),
    "whole": lambda t: (t, t[:1]),
    "detached": lambda t: (t.detach()[:3], t[3:]),
}


def derivatives(function: Callable[..., Any], views: Callable[[Any], Any]) -> Any:
    leaf = torch.arange(1.0, 7.0).requires_grad_()
    base = leaf * 1
    result = function(*views(base))
    try:
        result.backward()
    except RuntimeError:
        return result.item(), base.tolist(), "written since"
    assert leaf.grad is not None
    return result.item(), base.tolist(), leaf.grad.tolist()


@pytest.mark.parametrize("function", [write_then_derive, derive_then_write, write_unseen, write_both])
@pytest.mark.parametrize("views", TWO_VIEWS.values(), ids=TWO_VIEWS)
def test_derivatives_of_two_views_of_what_is_written(function: Callable[..., Any], views: Callable[[Any], Any]) -> None:
    lifted, record = framelift.compile(function, backend="aot_eager"), Record()
    with record.listening():
        for _ in range(2):
            assert derivatives(lifted, views) == derivatives(function, views)
    assert record.graphs and not record.failures


def add_into(a: Any, b: Any) -> Any:
    a.add_(1)
    b.mul_(2)
    return a + b


def add_both(a: Any, b: Any) -> Any:
    return a + b, a is b


def count(function: Callable[..., Any], calls: list[Callable[[], tuple[Any, ...]]]) -> list[int]:
    """Captures after each call; each result compared with eager's."""
    lifted = framelift.compile(function, backend="eager")
    record = Record()
    counts = []
    for make in calls:
        mine, theirs = make(), make()
        expected = function(*theirs)
        with record.listening():
            actual = lifted(*mine)
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)
        for one, other in zip(mine, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0)
        counts.append(record.captures)
    return counts


def distinct() -> tuple[Any, ...]:
    return X.clone(), X.clone()


def one_twice() -> tuple[Any, ...]:
    x = X.clone()
    return x, x


def overlapping() -> tuple[Any, ...]:
    base = torch.arange(8.0)
    return base[:6], base[2:]


def neighbours() -> tuple[Any, ...]:
    base = torch.arange(12.0)
    return base[:6], base[6:]


def test_writes_depend_on_aliasing() -> None:
    assert count(add_into, [distinct, distinct, one_twice, overlapping, distinct]) == [1, 1, 2, 3, 3]


def test_views_that_do_not_overlap() -> None:
    counts = count(add_into, [neighbours, neighbours, overlapping, one_twice, distinct])
    assert counts[:4] == [1, 1, 2, 3]


def test_same_tensor_first() -> None:
    assert count(add_into, [one_twice, distinct, overlapping, one_twice]) == [1, 2, 3, 3]


def test_identity_is_a_fact() -> None:
    assert count(add_both, [one_twice, distinct, one_twice, distinct]) == [1, 2, 2, 2]


def test_reading_needs_no_overlap_guard() -> None:
    assert count(lambda a, b: a * b, [distinct, overlapping, neighbours]) == [1, 1, 1]


def test_parameter_passed_twice() -> None:
    def function(w: Any, v: Any) -> Any:
        return (w * v).sum(), w is v

    w = torch.nn.Parameter(X.clone())
    v = torch.nn.Parameter(X.clone())
    lifted = framelift.compile(function, backend="eager")
    assert lifted(w, v)[1] is False
    loss, same = lifted(w, w)
    assert same
    loss.backward()
    assert torch.equal(w.grad, 2 * w.detach())


def test_input_in_containers_is_one_object() -> None:
    def function(pair: Any, table: Any) -> Any:
        return pair[0] is table["x"], pair[0] + table["x"], pair

    check(function, (X, X * 2), {"x": X}, changed=[((X, X), {"x": X})])


def test_those_that_share_memory_are_found() -> None:
    """As by comparing each with each."""
    generator = random.Random(0)
    memory = torch.zeros(60)
    for _ in range(300):
        parts = []
        for _ in range(generator.randint(1, 8)):
            start, length = generator.randint(0, 59), generator.randint(0, 6)
            parts.append(torch.zeros(3) if length == 6 else memory[start : start + length])
        parts.append(torch.zeros(2).to_sparse())
        values = [TensorValue(None, None, part) for part in parts]
        found = those_that_share(values, values)
        expected = [
            value
            for value in values
            if any(other is not value and _core.tensors_overlap(value.concrete, other.concrete) for other in values)
        ]
        assert [id(value) for value in found] == [id(value) for value in expected]
