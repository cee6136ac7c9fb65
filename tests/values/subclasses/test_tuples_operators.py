"""Subclasses of tuple with operators of their own: named tuples as vectors."""

from __future__ import annotations

import math
import operator
from collections import namedtuple
from typing import NamedTuple

import pytest

from tests.helpers import check
from tests.values.programs import Programs, follow, x

programs = Programs()


class Vector(NamedTuple):
    x: float
    y: float = 0

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y) if isinstance(other, Vector) else NotImplemented

    def __radd__(self, other):
        return Vector(other + self.x, self.y) if isinstance(other, int) else NotImplemented

    def __sub__(self, other):
        return Vector(self.x - other.x, self.y - other.y)

    def __rsub__(self, other):
        return Vector(other - self.x, other - self.y)

    def __mul__(self, factor):
        return Vector(self.x * factor, self.y * factor)

    __rmul__ = __mul__

    def __isub__(self, other):
        return "in place"

    def __neg__(self):
        return Vector(-self.x, -self.y)

    def __abs__(self):
        return math.hypot(self.x, self.y)

    def __round__(self, digits=None):
        return "rounded", digits

    def __floor__(self):
        return "floor"

    def __divmod__(self, other):
        return "divmod", other

    def __rand__(self, other):
        return "and", other

    def __matmul__(self, other):
        return self.x * other.x + self.y * other.y

    def __format__(self, spec):
        return f"<{self.x:{spec}}|{self.y:{spec}}>"


USES = {
    "add": lambda v: v + Vector(1, 2),
    "add_on_the_right": lambda v: 3 + v,
    "add_to_a_tuple": lambda v: (1, 2) + v,
    "sum": lambda v: sum([v, v, Vector(1, 1)]),
    "subtract": lambda v: v - Vector(1, 2),
    "subtract_on_the_right": lambda v: 10 - v,
    "in_place": lambda v: operator.isub(v, 1),
    "multiply": lambda v: (v * 2, 2 * v, v * 0.5),
    "negate": lambda v: -v,
    "abs": abs,
    "round": lambda v: (round(v), round(v, 2)),
    "floor": math.floor,
    "divmod": lambda v: divmod(v, 2),
    "and": lambda v: 1 & v,
    "matmul": lambda v: v @ v,
    "format": lambda v: f"{v:.1f} {v:+.2f}",
    "compare": lambda v: (v == (3, 4), v < Vector(9), max(v, Vector(1)), sorted([v, Vector(0, 1)])),
    "as_a_tuple": lambda v: (v[0], len(v), list(v), 3 in v, v[::-1], hash(v) == hash((3, 4)), v._replace(y=1)),
}


@pytest.mark.parametrize("use", USES)
def test_operators(use):
    use = USES[use]

    def fn(x, given):
        try:
            return x + 1, use(given), use(Vector(5, 6))
        except TypeError as error:
            return x - 1, str(error)

    check(fn, x(), Vector(3, 4), fullgraph=True, changed=[(x(), Vector(-1, 2.5))])


@programs
def with_tensors(x):
    sums = Vector(x, x + 1) + Vector(x * 2, x)
    return (sums * 2).x, (1 + sums).x, -sums.y


@programs
def of_a_class_made_there(x):
    class Local(namedtuple("Local", "a b")):
        def __new__(cls, a, b=1):
            return super().__new__(cls, a, b)

        def __add__(self, other):
            return Local(self.a + other.a, self.b + other.b)

    made = Local(2) + Local(3, 4)
    return x * made.a, tuple(made), repr(made)


def test_operators_that_come_later_are_seen():
    class Pair(namedtuple("Pair", "a b")):
        pass

    pair = Pair(1, 2)

    def fn(x):
        return x * len(pair + (3,)), len(pair * 2)

    follow(
        fn,
        (x(),),
        lambda: setattr(Pair, "__add__", lambda self, other: "four"),
        lambda: setattr(Pair, "__mul__", lambda self, other: "a"),
    )


test_programs = programs.test()
