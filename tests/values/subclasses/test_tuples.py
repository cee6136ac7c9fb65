"""Named tuples and subclasses of tuple."""

from __future__ import annotations

import collections
from typing import NamedTuple

import torch

import framelift
from tests.helpers import check, transcript
from tests.values.cases import Cases, vector

cases = Cases()
X = vector()
Pair = collections.namedtuple("Pair", "left right", defaults=[7])


class Point(NamedTuple):
    x: torch.Tensor
    scale: float = 2.0

    def scaled(self):
        return self.x * self.scale

    @property
    def double(self):
        return self.scale * 2


class Labelled(collections.namedtuple("Base", "a b")):
    def total(self):
        return self.a + self.b


class Vector(tuple):
    """A tuple with a method."""

    def first(self):
        return self[0]


class Odd(tuple):
    def __getitem__(self, index):
        return 99


@cases(X)
def created(x):
    return Pair(x + 1, 2), Pair(right=1, left=x), Pair(x), Point(x), Point(x, scale=3.0), Labelled(1, x)


@cases(X, Point(X, 3.0), changed=[(X, Point(X, 4.0)), (X, Point(X, 3.0))])
def given(x, p):
    a, b = p
    return p.x + p.scale, p[0] * p[-1], a + b, len(p), p.scaled(), p.double, p


@cases(X, Pair(1, 2))
def methods(x, p):
    q = p._replace(left=x + 1)
    return (
        q,
        p._asdict(),
        p._fields,
        Pair._make([1, x]),
        Pair._fields,
        q._replace(right=3),
        p == (1, 2),
        p + (3,),
        p[:1],
    )


@cases(X, Pair(1, 2))
def representations(x, p):
    return x + 1, repr(p), str(p), f"{p}", repr(Pair("a", None))


@cases(X, Labelled(1, 2))
def subclassed(x, p):
    return x + p.total(), p.a, type(p) is Labelled, isinstance(p, tuple), isinstance(p, Labelled)


@cases(X, Vector([1, 2]))
def plain_subclass(x, v):
    made = Vector([x + 1, 2])
    return x + v.first(), v[1:], list(v), made, made.first(), len(made), type(v) is Vector, v == (1, 2)


@cases(X, Odd([1, 2]), expect_breaks=None)
def subclass_with_its_own_items(x, v):
    y = x + 1
    return y * v[0]


@cases(X, [Pair(1, 2), Pair(3, 4)])
def in_containers(x, pairs):
    return x + sum(p.left for p in pairs), {p.left: p for p in pairs}, sorted(pairs, key=lambda p: -p.right), max(pairs)


@cases(X, Pair(1, 2))
def errors(x, p):
    y = x + 1
    found = []
    for n in range(4):
        try:
            if n == 0:
                p.nope
            elif n == 1:
                Pair()
            elif n == 2:
                p[5]
            elif n == 3:
                p._replace(zz=1)
        except (AttributeError, TypeError, IndexError, ValueError) as error:
            found.append((type(error), str(error)))
    return y, found


@cases(torch.tensor([[1.0, 5.0], [7.0, 2.0]]))
def torch_results(x):
    values, indices = x.max(dim=1)
    both = x.max(dim=0)
    return values + 1, indices, both.values, both.indices, both, both[0], len(both)


test = cases.test


def test_type_is_guarded():
    def f(x, p):
        return x + p[0]

    x = vector()
    assert transcript(f, [(x, Pair(1, 2)), (x, Pair(1, 3)), (x, (1, 2)), (x, Labelled(1, 2))]).startswith(
        "miss hit miss("
    )


def test_identity_kept():
    def f(x, p):
        return p, x + 1

    lifted, p = framelift.compile(f, backend="eager"), Pair(1, 2)
    assert lifted(vector(), p)[0] is p
    framelift.reset()
    check(f, vector(), p)
