"""`functools`, in one graph."""

from __future__ import annotations

import operator
from functools import cache, lru_cache, partial, reduce, total_ordering

import torch

from tests.library.outcomes import outcomes
from tests.values.programs import Programs, x

programs = Programs()


@total_ordering
class TO:
    def __init__(s, v):
        s.v = v

    def __eq__(s, o):
        return s.v == o.v if isinstance(o, TO) else NotImplemented

    def __gt__(s, o):
        return s.v > o.v if isinstance(o, TO) else NotImplemented


@lru_cache(maxsize=4)
def lc(n, k=2):
    return n * k


@cache
def ct(n):
    return torch.ones(n)


@programs(fullgraph=True)
def partials(x):
    f = partial(lambda *a, **k: (a, k), 1, z=2)
    f.note = "n"
    f.keywords["y"] = 3
    return (
        x + 1,
        f(2, z=5),
        f.note,
        f.__dict__,
        f.__doc__ == partial.__doc__,
        isinstance(f, partial),
        partial(f, 7)(8),
    )


@programs(fullgraph=True)
def reductions(x):
    return (
        reduce(lambda a, b: a * b, [x, 2, 3]),
        reduce(operator.or_, [{1}, {2}], set()),
        outcomes(lambda: reduce(operator.add, []), lambda: reduce(operator.add, 3), lambda: reduce(None, [1, 2])),
        reduce(operator.add, [5]),
        reduce(lambda a, b: a + [b], "ab", []),
        reduce(max, (3, 9, 2)),
        reduce(lambda f, g: lambda v: g(f(v)), [torch.sin, torch.cos])(x),
    )


@programs(args=(x(), TO(2)), fullgraph=True)
def orderings(x, o):
    return (
        x + 1,
        o < TO(3),
        o <= TO(2),
        o >= TO(1),
        sorted([TO(3), o])[0] is o,
        outcomes(lambda: o < 3, lambda: total_ordering(type("E", (), {}))),
        max(o, TO(9)).v,
    )


@programs(fullgraph=True)
def a_cache_of_the_program(x):

    @lru_cache
    def g(n):
        return n + 1

    return (x * g(1), g(1), g(2), g.cache_info(), g.cache_clear(), g.cache_info(), g.cache_parameters())


test_programs = programs.test()
