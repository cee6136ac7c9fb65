"""`operator`: every function, in one graph."""

from __future__ import annotations

import operator

from tests.library.outcomes import outcomes
from tests.values.programs import Programs

programs = Programs()


class A:
    pass


IG = operator.itemgetter("a", "b")

AG = operator.attrgetter("shape", "dtype")

MC = operator.methodcaller("add", 1)


@programs(fullgraph=True)
def on_tensors_and_numbers(x):
    o = operator
    L = [1, 2, 3]
    return [
        o.add(x, 1),
        o.sub(x, 1),
        o.mul(x, 2),
        o.truediv(x, 2),
        o.floordiv(7, 2),
        o.mod(x, 2),
        o.pow(x, 2),
        o.neg(x),
        o.pos(x),
        o.abs(x),
        o.inv(5),
        o.invert(x > 0),
        o.matmul(x, x.T),
        o.and_(6, 3),
        o.or_(x > 0, x < 0),
        o.xor(1, 3),
        o.lshift(1, 3),
        o.rshift(8, 1),
        o.not_(L),
        o.truth([]),
        o.is_(L, L),
        o.is_not(1, None),
        o.lt(x, 0),
        o.le(1, 1),
        o.eq(x, x),
        o.ne(1, 2),
        o.ge(2, 1),
        o.gt(x, 0),
        o.concat([1], [2]),
        o.contains(L, 2),
        o.countOf([1, 1], 1),
        o.indexOf(L, 3),
        o.getitem(x, 0),
        o.index(True),
        o.length_hint(L),
        o.length_hint(3, 7),
        o.call(lambda a, k=0: a + k, 1, k=2),
    ]


@programs(fullgraph=True)
def in_place(x):
    o = operator
    L = [1, 2, 3]
    y = x.clone()
    d = {}
    o.setitem(L, 0, 9)
    o.delitem(L, 1)
    o.setitem(d, "a", x)
    a = o.iadd(L, [4])
    b = o.iadd(y, 1)
    o.imul(y, 2)
    o.isub(y, 1)
    o.itruediv(y, 2)
    o.setitem(y, 0, 5.0)
    return (
        y,
        L,
        a is L,
        b is y,
        d,
        o.ior({1}, {2}),
        o.iand(6, 3),
        o.ixor(6, 3),
        o.ilshift(1, 2),
        o.irshift(4, 1),
        o.ifloordiv(7, 2),
        o.imod(7, 4),
        o.ipow(2, 3),
        o.imatmul(x, x.T),
        o.iconcat([1], [2]),
    )


@programs(fullgraph=True)
def callables_from_outside(x):
    return (
        MC(x),
        IG({"a": x, "b": 2}),
        AG(x),
        list(map(operator.itemgetter(0), [[1], [2]])),
        outcomes(
            lambda: operator.index(1.5),
            lambda: operator.indexOf([1], 2),
            lambda: operator.concat(1, 2),
            lambda: operator.length_hint([], "a"),
            lambda: operator.add(1, "a"),
            lambda: operator.getitem([1], "a"),
            lambda: operator.contains(3, 1),
            lambda: operator.setitem((1,), 0, 1),
            lambda: operator.countOf(3, 1),
            lambda: operator.add(1),
            lambda: operator.not_(),
        ),
    )


test_programs = programs.test()
