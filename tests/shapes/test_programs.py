"""Programs over sizes and numbers that change: whatever is done with them, results are eager's."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import framelift
from tests.helpers import assert_same
from tests.helpers.record import Record

PROGRAMS: list[Any] = []


def program(fn: Any) -> Any:
    PROGRAMS.append(fn)
    return fn


@program
def creates(x, n):
    return torch.zeros(n), torch.arange(n), torch.full((n, 2), 2.0), torch.ones(x.shape[0] + n), x.new_zeros(n, 1)


@program
def makes_tensors(x, n):
    return x + torch.tensor(n), torch.tensor([n, 2]), torch.as_tensor(n), torch.tensor(x.shape[0])


@program
def shapes(x, n):
    return x.expand(n, *x.shape), x.repeat(n, 1), F.pad(x, (0, n)), x.unsqueeze(0).expand(n, -1, -1).reshape(-1, 3)


@program
def indexes(x, n):
    return x[n - 3], x[: n - 2], x[-1:], x.narrow(0, 0, n - 2), x[x.shape[0] - 1], x[..., :2]


@program
def builtin_functions(x, n):
    numbers = abs(-n), min(n, 100), max(n, 2), int(n), float(n), round(n), divmod(n, 2), pow(n, 2), sum([n, 1]), bool(n)
    return x * n, numbers, str(n), f"{n:3d} {n}", repr(n), hash(n), n.bit_length(), isinstance(n, int), type(n)


@program
def numbers_of_many_digits(x, n):
    many = 10**5000 + 1
    return x + pow(n, many, 97), pow(many, n, 89), many % n


@program
def mathematics(x, n):
    return (
        x * math.sqrt(n),
        math.floor(n / 2),
        math.ceil(n / 3),
        math.log(n),
        n**2,
        2**n,
        n << 1,
        n & 1,
        n ^ 3,
        ~n,
        -n,
        +n,
    )


@program
def sizes(x, n):
    shape = x.shape
    return shape + (n,), (1,) + tuple(shape), shape[1:], shape[-1], shape.numel(), len(shape), list(shape), x.numel()


@program
def more_sizes(x, n):
    return (
        x.size(),
        x.size(0),
        x.size(-1),
        x.stride(),
        x.dim(),
        x.ndim,
        x.nbytes,
        x.shape == (5, 3),
        x.shape[0] in (4, 5),
    )


@program
def size_as_key(x, n):
    table = {x.shape[0]: 1}
    return x * table.get(n + 1, 7), table


@program
def comparisons(x, n):
    return n > 4, n == x.shape[0], n != 4, 3 < n < 5, n is None, n > float("inf"), n < float("nan"), n == "a", n > 2**70


@program
def large_numbers(x, n):
    return x + n, n + 2**70, n * 2**62 * 4


@program
def mixed_arithmetic(x, n):
    return (
        x * (n + 1.5),
        n / 2,
        n // 2 * 2.0,
        n % 3 + True,
        n * x.shape[0],
        (n + x.shape[0]) // 2,
        7 - n,
        7 // n,
        7.0 / n,
    )


@program
def loops(x, n):
    count = 0
    while count < n:
        x = x + count
        count += 1
    return x, count


@program
def changes_a_list(x, n):
    items = [n, n + 1]
    items.append(x.shape[0])
    return x * sum(items), items


@program
def unpacks(x, n):
    rows, columns = x.shape
    return x.view(rows * columns), torch.stack([x, x]).view(2, rows, columns), x.reshape(-1, rows)


@program
def matrices(x, n):
    return x @ x.t(), torch.einsum("ij,kj->ik", x, x), F.softmax(x, -1), F.layer_norm(x, (3,)), x.sum(0), x.mean()


@program
def concatenates(x, n):
    return torch.cat([x, x[:2]]), torch.stack([x, x]).shape, torch.cat([x] * 2, 1), x.chunk(2), x.split(2)


@program
def in_place(x, n):
    y = x.clone()
    y[:2] = n
    y.mul_(n).add_(x.shape[0])
    return y


@program
def triangles(x, n):
    size = x.shape[0]
    mask = torch.triu(torch.full((size, size), float("-inf")), diagonal=1)
    return mask + x @ x.t(), torch.ones(size, size).tril()


@program
def formatted(x, n):
    return x + 1, f"{x.shape[0]}x{n}", "%d" % n, "{}".format(n)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", PROGRAMS, ids=[fn.__name__ for fn in PROGRAMS])
def test_program(fn: Any, backend: str) -> None:
    lifted = framelift.compile(fn, backend=backend)
    for size, n in ((4, 3), (5, 4), (6, 5), (7, 6), (5, 4)):
        x = torch.arange(size * 3.0).reshape(size, 3) / 7
        record = Record()
        with record.listening():
            actual = lifted(x.clone(), n)
        assert_same(fn(x.clone(), n), actual)
        assert not record.failures


def test_a_list_whose_length_was_used_grows() -> None:
    def fn(x, items):
        count = len(items)
        items.append(count)
        return x + count, count

    lifted = framelift.compile(fn, backend="eager")
    for size in (1, 2, 3, 4):
        mine, theirs = list(range(size)), list(range(size))
        assert_same(fn(torch.ones(2), mine), lifted(torch.ones(2), theirs))
        assert mine == theirs


def test_a_tensor_that_changes_its_shape() -> None:
    def fn(x):
        before = x.shape[0]
        x.unsqueeze_(0)
        return x.shape, before, x.sum() * before

    lifted = framelift.compile(fn, backend="eager")
    for size in (3, 4, 5):
        assert_same(fn(torch.ones(size, 2)), lifted(torch.ones(size, 2)))


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_a_tensor_that_gets_the_shape_of_another() -> None:
    def grown(x, y):
        before = y + 1
        x.add_(1)
        torch.mul(x, 2, out=y)
        return y.view(-1).view(x.shape), y.shape, before

    def asked_before(x, y):
        before = x.shape[0], y.shape[0]
        y.add_(1)
        torch.mul(y, 2, out=x)
        return x.view(-1).view(y.shape) * before[0], before, x.shape, x.new_ones(before[0] * 2)

    def asked_of_both(x, y):
        sums = y.sum() * y.shape[0] + x.shape[0]
        torch.mul(x, 2, out=y)
        return sums, y.sum() * y.shape[0] + x.shape[0], y.view(-1, x.shape[0])

    for fn in (grown, asked_before, asked_of_both):
        for y_first in (False, True):
            program = (lambda y, x, fn=fn: fn(x, y)) if y_first else fn
            for sizes in ([(2, 2), (3, 2), (4, 2)], [(2, 3), (2, 4), (2, 5)], [(2, 3), (3, 4), (5, 3), (6, 9)]):
                lifted = framelift.compile(program, backend="eager")
                for given in sizes:
                    ours, theirs = [[torch.ones(size, 3) for size in given] for _ in range(2)]
                    assert_same(program(*theirs), lifted(*ours))
                    assert_same(theirs, ours)


def test_a_long_loop_over_a_number_is_one_fact() -> None:
    def fn(x, n):
        while n > 0:
            n -= 1
        return x + n

    lifted = framelift.compile(fn, backend="eager")
    record = Record()
    with record.listening():
        for n in (100, 150, 200):
            assert_same(fn(torch.ones(2), n), lifted(torch.ones(2), n))
    assert record.captures == 3
    assert len(record.guards[-1]) < 10_000
